"""What rows of sinusoids cost in ONNX Runtime, beside a stored table, a plain export and a copy: a script.

    python runtime_tests/scripts/bench_rows.py            # prints the tables of docs/reference/measured/figures.md

x of (1, rows, 512) in float32, to which rows of positions 0, 1, ... are added. All write into memory that is there, by
turns, one call each, in one thread; what is measured is the CPU time of the process. A ratio is the median of the
ratios of rounds, so that what else the machine does weighs on both sides.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from posenc.spec import Positions, Spec
from posenc_export.common.machine import processor, versions
from posenc_export.common.markdown import table
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.write.targets.scheme import scheme_target

WIDTH, ROWS, ROUNDS = 512, (128, 512, 2048, 8192), 41
STORED = 2**14
"""Rows of the stored table."""
TABLES = (64, 256, 1024, 2048, 4096, 8192)
"""Rows of the first positions that files store."""
PLAIN, COPY, BAKED = "a plain export of Sin and Cos", "a copy of x", "a stored table's file"
Feeds = Mapping[str, NDArray[Any]]
Call = Callable[[], object]


class Plain(nn.Module):
    """Rows as most people compute them in a graph."""

    inv_freq: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("inv_freq", 10000.0 ** (-torch.arange(0, WIDTH, 2) / WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """Return x + rows: (batch, seq, 512) -> the same."""
        angles = torch.arange(x.shape[1], dtype=torch.float32).unsqueeze(1) * self.inv_freq
        return x + torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


def plain(path: Path) -> Path:
    """Export that module as most people do."""
    free = torch.export.Dim.DYNAMIC
    shapes = ({0: free, 1: free},)
    torch.onnx.export(
        Plain(), (torch.zeros(3, 11, WIDTH),), str(path), dynamo=True, dynamic_shapes=shapes, verbose=False
    )
    return path


def ours(folder: Path, spec: Spec) -> Path:
    """Export sinusoidal."""
    options = ExportOptions(("onnx",), validate=False)
    return (
        export_target(lambda: scheme_target("sinusoidal", spec, {"d_model": WIDTH}, 0), options, folder).folder
        / "model.onnx"
    )


def call_of(path: Path, feeds: Feeds) -> Call:
    """Return a call in a session of one thread."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for taken in session.get_inputs():
        binding.bind_cpu_input(taken.name, feeds[taken.name])
    result = np.empty_like(feeds["x"])
    binding.bind_output("y", "cpu", 0, np.float32, result.shape, result.ctypes.data)
    # the session holds no reference to what it reads and writes
    memory = (feeds, result)
    return lambda: session.run_with_iobinding(binding) if memory else None


def plain_call_of(path: Path, x: NDArray[Any]) -> Call:
    """Return a call of a file whose output has another name."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input(session.get_inputs()[0].name, x)
    result = np.empty_like(x)
    binding.bind_output(session.get_outputs()[0].name, "cpu", 0, np.float32, result.shape, result.ctypes.data)
    memory = (x, result)
    return lambda: session.run_with_iobinding(binding) if memory else None


def copy_of(x: NDArray[Any]) -> Call:
    """Return a copy of x."""
    target = np.empty_like(x)
    return lambda: np.copyto(target, x)


def times_of(calls: Mapping[str, Call], repeated: int) -> dict[str, list[float]]:
    """Return the CPU time of a call of each contender in each round, by turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.process_time()
            for _ in range(repeated):
                call()
            times[name].append((time.process_time() - start) / repeated)
    return times


def ratio(times: Mapping[str, list[float]], above: str, below: str) -> str:
    """Return the median of the ratios of rounds."""
    pairs = zip(times[above], times[below], strict=True)
    return f"{statistics.median(first / second for first, second in pairs):.2f}"


def counted(folder: Path) -> str:
    """Return the table of calls that count from 0."""
    names = {f"--table-rows {rows}": rows for rows in TABLES}
    files = {name: ours(folder / str(rows), Spec("dynamic", table_rows=rows)) for name, rows in names.items()}
    files[BAKED] = ours(folder / "baked", Spec(max_len=STORED))
    plainly, lines = plain(folder / "plain.onnx"), []
    for rows in ROWS:
        x = np.random.default_rng(0).standard_normal((1, rows, WIDTH), np.float32)
        calls = {name: call_of(path, {"x": x}) for name, path in files.items()}
        calls |= {PLAIN: plain_call_of(plainly, x), COPY: copy_of(x)}
        times = times_of(calls, max(1, 4096 // rows))
        for name in (*names, BAKED):
            least = f"{1e6 * min(times[name]):,.0f} us"
            of_plain = ratio(times, PLAIN, name)
            lines.append([str(rows), name, least, ratio(times, name, BAKED), ratio(times, name, COPY), of_plain])
    sizes = [[name, f"{path.stat().st_size:,}"] for name, path in files.items()]
    heads = ["rows", "file", "least", "x a stored table's file", "x a copy", "x faster than a plain export"]
    return table(heads, lines) + "\n" + table(["file", "bytes"], sizes)


def given(folder: Path) -> str:
    """Return the table of calls whose positions are given, or follow a start."""
    lines = []
    ways: tuple[Positions, ...] = ("offset", "explicit")
    for way in ways:
        files = {
            rows: ours(folder / f"{way}{rows}", Spec("dynamic", positions=way, table_rows=rows)) for rows in (64, 2048)
        }
        for rows in (1, *ROWS[:3]):
            x = np.zeros((1, rows, WIDTH), np.float32)
            feeds = {"x": x, "start": np.array([700]), "positions": 700 + np.arange(rows)[None]}
            calls = {str(stored): call_of(path, feeds) for stored, path in files.items()} | {COPY: copy_of(x)}
            times = times_of(calls, max(1, 4096 // rows))
            least = [f"{1e6 * min(times[name]):,.0f} us" for name in ("64", "2048")]
            lines.append([way, str(rows), *least, ratio(times, "2048", "64")])
    return table(["positions", "rows", "64 stored", "2048 stored", "ratio"], lines)


def main() -> None:
    """Export, time and print."""
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(f"{processor()}, {versions()}\n\n{counted(Path(folder))}\n{given(Path(folder))}")


if __name__ == "__main__":
    main()
