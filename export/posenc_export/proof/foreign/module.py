"""An ONNX file as a module: what records eager outputs of a module then records those of the file."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from posenc_export.common.arrays import to_numpy, to_torch
from posenc_export.proof.runtimes import Runner


class FileModule(nn.Module):
    """A loaded file, which keeps nothing of a call.

    Args:
        runner: The file.
        nudged: The same with nudged weights, which answers where results on the way are to move by one ulp.
        coarse: The same with weights nudged by half an ulp of a half dtype.
        names: The names of its inputs, in order.
    """

    def __init__(self, runner: Runner, nudged: Runner, coarse: Runner, names: Sequence[str]) -> None:
        super().__init__()
        self.runner, self.nudged, self.coarse, self.names = runner, nudged, coarse, tuple(names)

    def in_half(self) -> FileModule:
        """Return the file as half precision moves it."""
        return FileModule(self.coarse, self.coarse, self.coarse, self.names)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Run the file; shapes are those of its inputs and outputs."""
        runner = self.nudged if _moves() else self.runner
        feeds = {name: to_numpy(tensor) for name, tensor in zip(self.names, inputs, strict=True)}
        return tuple(to_torch(array) for array in runner.answer(feeds).values())


def _moves() -> bool:
    """Return whether results of torch move by one ulp now, by a division that rounds."""
    return bool(torch.tensor([1.0]).div(3.0).item() != THIRD)


THIRD = torch.tensor([1.0]).div(3.0).item()
