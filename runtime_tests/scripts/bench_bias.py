"""What a bias costs at a decode step, in ONNX Runtime, beside what most people export: a script, run by hand.

    python runtime_tests/scripts/bench_bias.py            # prints the rows of docs/reference/measured/figures.md

Of one query: the bias of T5, ALiBi and clipped distances; T5's and the clipped one as a module that makes the square
and slices its last row, and as one that makes the row; a copy of the output. By turns in one process, the least of all
calls; each writes into memory that is there. The squares take 8 GiB.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from posenc.schemes.t5_bias import buckets
from posenc.spec import Mode, Spec
from posenc_export.common.machine import processor, versions
from posenc_export.common.markdown import table
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.write.targets.scheme import scheme_target

HEADS, HEAD_DIM, FAR, ROUNDS, SECONDS = 32, 64, 128, 5, 0.3
LEFT, RIGHT = 64, 8
SQUARE, CLIPPED_SQUARE = "T5's, the square", "clipped distances, the square"
SQUARES = (SQUARE, CLIPPED_SQUARE)
SQUARE_UP_TO = 4096
"""The square of 32 heads takes 2 GiB there, and as much again on the way."""


class Row(nn.Module):
    """T5's bias as it is mostly written: buckets are looked up, then weights, then heads come first."""

    past: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(32, HEADS))
        self.register_buffer("past", torch.from_numpy(buckets(np.arange(FAR + 1), 8, 8, FAR)))

    def bias(self, query: Tensor, key: Tensor) -> Tensor:
        """Return the bias: (seq,), (seq_k,) -> (1, heads, seq, seq_k)."""
        relative = key - query.unsqueeze(1)
        bucket = self.past[relative.abs().clamp(max=FAR)] + 16 * (relative > 0)
        return nn.functional.embedding(bucket, self.weight).permute(2, 0, 1).unsqueeze(0)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the bias of the last keys, as queries."""
        seq, seq_k = q.shape[2], k.shape[2]
        return self.bias(torch.arange(seq) + (seq_k - seq), torch.arange(seq_k))


class Square(Row):
    """The same of all keys, of which the last rows are taken, as models with a cache have it."""

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the bias of the last keys, as queries."""
        places = torch.arange(k.shape[2])
        return self.bias(places, places)[:, :, -q.shape[2] :]


class ClippedRow(nn.Module):
    """Clipped distances as they are mostly written (wav2vec2-BERT): a row of features for each pair, times queries."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(LEFT + 1 + RIGHT, HEAD_DIM)

    def bias(self, q: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Return the bias: q, (seq,), (seq_k,) -> (batch, heads, seq, seq_k)."""
        distance = (key - query.unsqueeze(1)).clamp(-LEFT, RIGHT)
        return self.scaled(q, self.rows(distance + LEFT))

    def scaled(self, q: Tensor, rows: Tensor) -> Tensor:
        """Return the products of queries with rows of their own: q, (seq, seq_k, dim) -> (batch, heads, seq, seq_k)."""
        bias: Tensor = torch.einsum("bhld,lrd->bhlr", q, rows) * HEAD_DIM**-0.5
        return bias

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the bias of the last keys, as queries."""
        seq, seq_k = q.shape[2], k.shape[2]
        return self.bias(q, torch.arange(seq) + (seq_k - seq), torch.arange(seq_k))


class ClippedSquare(ClippedRow):
    """The same with the table of distances of all keys, of which the last rows are taken."""

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the bias of the last keys, as queries."""
        places = torch.arange(k.shape[2])
        distance = (places - places.unsqueeze(1)).clamp(-LEFT, RIGHT)
        return self.scaled(q, self.rows(distance + LEFT)[-q.shape[2] :])


def plain(module: nn.Module, path: Path) -> Path:
    """Export a module as most people do."""
    dynamic = {0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC}
    args = tuple(torch.zeros(2, HEADS, length, HEAD_DIM) for length in (11, 12))
    torch.onnx.export(module, args, str(path), dynamo=True, dynamic_shapes=(dynamic, dynamic), verbose=False)
    return path


def ours(name: str, mode: Mode, folder: Path, **params: Any) -> Path:
    """Export a scheme."""
    options = ExportOptions(("onnx",), validate=False)
    spec = Spec(mode, max_len=2**15)
    made = export_target(lambda: scheme_target(name, spec, params, 0), options, folder / f"{name}-{mode}")
    return made.folder / "model.onnx"


def call_of(path: Path, seq_k: int, threads: int) -> Callable[[], None]:
    """Return a call of one query, in a session of so many threads that do not spin after it."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    shapes = ((1, HEADS, 1, HEAD_DIM), (1, HEADS, seq_k, HEAD_DIM))
    feeds = [np.zeros(shape, np.float32) for shape in shapes]
    binding, output = session.io_binding(), np.empty((1, HEADS, 1, seq_k), np.float32)
    for taken, feed in zip(session.get_inputs(), feeds, strict=True):
        binding.bind_cpu_input(taken.name, feed)
    name = session.get_outputs()[0].name
    binding.bind_output(name, "cpu", 0, np.float32, output.shape, output.ctypes.data)
    kept = (feeds, output)
    return lambda: session.run_with_iobinding(binding) if kept else None


def copy_of(seq_k: int) -> Callable[[], None]:
    """Return a copy of as many bytes as a call writes."""
    source = np.ones((1, HEADS, 1, seq_k), np.float32)
    target = np.empty_like(source)
    return lambda: np.copyto(target, source)


def seconds(call: Callable[[], None], most: int) -> float:
    """Return the least time of the calls that fit into a while, of a number at most."""
    call()
    least = float("inf")
    end = time.perf_counter() + SECONDS
    for _ in range(most):
        start = time.perf_counter()
        call()
        now = time.perf_counter()
        least = min(least, now - start)
        if now > end:
            break
    return least


def rows(files: dict[str, Path], seq_k: int, threads: int) -> Iterator[list[str]]:
    """Yield what each contender takes, in rounds by turns."""
    calls = {name: call_of(files[name], seq_k, threads) for name in files if name not in SQUARES}
    calls["a copy of the output"] = copy_of(seq_k)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name].append(seconds(call, 10**6))
    if seq_k <= SQUARE_UP_TO:
        times |= {name: [seconds(call_of(files[name], seq_k, threads), 1)] for name in SQUARES}
    least = {name: min(each) for name, each in times.items()}
    for name, time_of in least.items():
        copies = time_of / least["a copy of the output"]
        yield [str(seq_k), str(threads), name, f"{1e3 * time_of:.3f} ms", f"{copies:.3g}"]


def main() -> None:
    """Export, time and print."""
    params = {"num_buckets": 32, "max_distance": FAR, "heads": HEADS}
    clipped = {"head_dim": HEAD_DIM, "left": LEFT, "right": RIGHT}
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        files = {
            "t5_bias, dynamic": ours("t5_bias", "dynamic", at, **params),
            "t5_bias, baked": ours("t5_bias", "baked", at, **params),
            "alibi, output bias, dynamic": ours("alibi", "dynamic", at, heads=HEADS, output="bias"),
            "alibi, output bias, baked": ours("alibi", "baked", at, heads=HEADS, output="bias"),
            "clipped_relative, dynamic": ours("clipped_relative", "dynamic", at, **clipped),
            "clipped_relative, baked": ours("clipped_relative", "baked", at, **clipped),
            "clipped distances, a row": plain(ClippedRow(), at / "clipped.onnx"),
            CLIPPED_SQUARE: plain(ClippedSquare(), at / "clipped_square.onnx"),
            "T5's, a row": plain(Row(), at / "row.onnx"),
            SQUARE: plain(Square(), at / "square.onnx"),
        }
        found = [row for threads in (1, 2) for seq_k in (4096, 32768) for row in rows(files, seq_k, threads)]
    sys.stdout.write(f"{processor()}, {versions()}\n\n")
    sys.stdout.write(table(["keys", "threads", "graph", "time", "copies of the output"], found))


if __name__ == "__main__":
    main()
