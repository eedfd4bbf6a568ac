"""Ways to capture a user's module, in the order in which they are tried: some modules can be traced in one way alone.

The first way whose program passes the checks is taken; the checks are the same for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posenc.libraries import replaced
from posenc_export.write.formats import WriteRequest
from posenc_export.write.formats.linspace import dynamic_linspace
from posenc_export.write.formats.resizing import dynamic_interpolate

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

Shapes = dict[str, object] | None


@dataclass(frozen=True)
class Way:
    """A way to capture.

    Attributes:
        name: In reports.
        strict: Whether the code of the module is read (TorchDynamo), rather than run on symbols. A module that fills a
            buffer which was None, or computes with lengths as numbers of Python, is captured so.
        long: Whether lengths are traced near the largest: a table that grows is in the graph only where it grows.
    """

    name: str
    strict: bool
    long: bool = False

    def capture(self, module: nn.Module, inputs: tuple[Tensor, ...], shapes: Shapes) -> torch.export.ExportedProgram:
        """Return the program of a module."""
        import torch

        with without_a_look_for_causal_masks(), dynamic_linspace(), dynamic_interpolate():
            return torch.export.export(module, inputs, dynamic_shapes=shapes, strict=self.strict)

    def inputs(self, request: WriteRequest) -> tuple[Tensor, ...]:
        """Return tensors to trace with."""
        # long is empty where such inputs would be huge
        return request.at(request.long) if self.long and request.at and request.long else request.trace


WAYS = (
    Way("torch.export(strict=False)", False),
    Way("torch.export(strict=True)", True),
    Way("torch.export(strict=False) of long inputs", False, True),
    Way("torch.export(strict=True) of long inputs", True, True),
)


@contextmanager
def without_a_look_for_causal_masks() -> Iterator[None]:
    """Keep nn.TransformerEncoder and nn.TransformerDecoder from asking whether a mask is the causal one.

    The question branches on data. Its answer is only a hint, by which attention may skip the mask: without the hint it
    adds the mask.
    """
    from torch.nn.modules import transformer

    def look(mask: object, is_causal: bool | None = None, size: int | None = None) -> bool:
        return is_causal is True

    with replaced(transformer, "_detect_is_causal_mask", look):
        yield
