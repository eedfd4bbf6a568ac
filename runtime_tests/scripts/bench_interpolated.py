"""A learned grid 37 x 37 of 768 features, resampled to 64 x 48: weight matrices beside the plain export, by turns.

Prints a Markdown table of the least times in ONNX Runtime on the CPU, and how far each file is from torch's own
interpolate in float64. The plain export is that of `torch.nn.functional.interpolate` and a sum: Resize.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from posenc.spec import Spec
from posenc_export.proof.exporter import ExportOptions, write_bundle
from posenc_export.write.targets.scheme import scheme_target

GRID, SIZE, WIDTH, ROUNDS = (37, 37), (64, 48), 768, 15
DYNAMIC = torch.export.Dim.DYNAMIC


class Plain(nn.Module):
    """The table as images keep it, resampled by torch and added to x."""

    def __init__(self, weight: Tensor, mode: str, antialias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.permute(2, 0, 1)[None].contiguous())
        self.mode = mode
        self.antialias = antialias

    def forward(self, x: Tensor) -> Tensor:
        """Return x + rows: (batch, height, width, features) -> the same."""
        rows = interpolate(self.weight, size=x.shape[1:3], mode=self.mode, antialias=self.antialias)
        return x + rows.permute(0, 2, 3, 1)


def written(mode: str, antialias: bool, folder: Path) -> Iterator[tuple[str, Path, Plain]]:
    """Yield the files to compare, with the module in float64 that says what is right."""
    weight = torch.randn(*GRID, WIDTH, generator=torch.Generator().manual_seed(0))
    np.save(folder / "table.npy", weight.numpy())
    params = {"mode": mode, "antialias": antialias, "prefix": 0, "weights": str(folder / "table.npy")}
    (folder / "own").mkdir()
    target = scheme_target("interpolated", Spec("dynamic", max_len=64), params, 0)
    write_bundle(target, ExportOptions(("onnx",), validate=False), folder / "own")
    plain = Plain(weight, mode, antialias).requires_grad_(False)
    axes = {"x": {0: DYNAMIC, 1: DYNAMIC, 2: DYNAMIC}}
    program = torch.export.export(plain, (torch.zeros(2, 11, 13, WIDTH),), dynamic_shapes=axes)
    exported = torch.onnx.export(program, dynamo=True, opset_version=18, verbose=False)
    assert exported is not None
    exported.save(folder / "plain.onnx")
    exact = Plain(weight.double(), mode, antialias).requires_grad_(False)
    yield "weights", folder / "own" / "model.onnx", exact
    yield "Resize", folder / "plain.onnx", exact


def timed(files: dict[str, Path], x: np.ndarray, threads: int) -> dict[str, float]:
    """Return the least time of each file's calls, which take turns, in seconds."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    sessions = {name: onnxruntime.InferenceSession(path, options) for name, path in files.items()}
    times: dict[str, list[float]] = {name: [] for name in files}
    for turn in range(ROUNDS + 2):
        for name, session in sessions.items():
            began = time.perf_counter()
            session.run(None, {"x": x})
            times[name] += [time.perf_counter() - began] if turn > 1 else []
    return {name: min(each) for name, each in times.items()}


def main() -> None:
    """Print the table."""
    x = np.random.default_rng(0).standard_normal((1, *SIZE, WIDTH), np.float32)
    print("| mode | threads | weights, ms | Resize, ms | faster | weights off by | Resize off by |")
    print("|---|---|---|---|---|---|---|")
    for mode, antialias in (("bicubic", False), ("bilinear", False), ("bicubic", True), ("bilinear", True)):
        with TemporaryDirectory() as folder:
            files, off = {}, {}
            for name, path, exact in written(mode, antialias, Path(folder)):
                files[name] = path
                (y,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
                off[name] = float(np.abs(y - exact(torch.from_numpy(x).double()).numpy()).max())
            for threads in (1, 2):
                ms = {name: 1000 * each for name, each in timed(files, x, threads).items()}
                word = f"{mode}{', antialiased' if antialias else ''}"
                ratio = ms["Resize"] / ms["weights"]
                figures = f"{ms['weights']:.3g} | {ms['Resize']:.3g} | {ratio:.1f}x"
                print(f"| {word} | {threads} | {figures} | {off['weights']:.2g} | {off['Resize']:.2g} |", flush=True)


if __name__ == "__main__":
    main()
