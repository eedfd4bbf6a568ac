"""What a rotation by three axes costs in ONNX Runtime, beside the plain export of Flux's own code: a script.

    python runtime_tests/scripts/bench_rope_nd.py            # prints the rows of docs/reference/measured/figures.md

Queries and keys (1, 4096, 24, 128) in float32, 4096 places of a grid of 1 x 64 x 64, as Flux calls it: `FluxPosEmbed`
and `apply_rotary_emb` of diffusers, exported as they are, `rope_nd` that counts its grid, by products and sums or one
operator, and at given positions, and a copy of q and k. All write into memory that is there, one after the other in
each round: a ratio is the median of the ratios of rounds, so that what else the machine does weighs on both.
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
from posenc_export.write.formats import RotaryOp
from posenc_export.write.targets.scheme import scheme_target

HEADS, DIM, SIZES, ROUNDS = 24, 128, (1, 64, 64), 7
TOKENS = SIZES[0] * SIZES[1] * SIZES[2]
PLAIN, COPY = "diffusers' code, exported", "a copy of q and k"
Feeds = Mapping[str, NDArray[Any]]


class Plain(nn.Module):
    """Flux's rotation, by the functions of diffusers."""

    def __init__(self) -> None:
        super().__init__()
        from diffusers.models.transformers.transformer_flux import FluxPosEmbed

        self.embed: Any = FluxPosEmbed(10000, [16, 56, 56])

    def forward(self, q: Tensor, k: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return q and k rotated: (batch, seq, head, dim), by places (seq, 3)."""
        from diffusers.models.embeddings import apply_rotary_emb

        rotate: Any = apply_rotary_emb
        angles = self.embed(ids)
        return rotate(q, angles, sequence_dim=1), rotate(k, angles, sequence_dim=1)


def plain(path: Path) -> Path:
    """Export diffusers' code as most people do."""
    free = torch.export.Dim.DYNAMIC
    args = (torch.zeros(2, 11, HEADS, DIM), torch.zeros(2, 11, HEADS, DIM), torch.zeros(11, 3))
    shapes = ({0: free, 1: free}, {0: free, 1: free}, {0: free})
    torch.onnx.export(Plain(), args, str(path), dynamo=True, dynamic_shapes=shapes, verbose=False)
    return path


def ours(folder: Path, positions: Positions, operator: RotaryOp = "decomposed") -> Path:
    """Export rope_nd."""
    spec, params = Spec("dynamic", positions=positions), {"tensor_layout": "bshd"}
    options = ExportOptions(("onnx",), validate=False, rotary_op=operator)
    made = export_target(lambda: scheme_target("rope_nd", spec, params, 0), options, folder / f"{positions}-{operator}")
    return made.folder / "model.onnx"


def call_of(path: Path, feeds: Feeds, threads: int) -> Callable[[], None]:
    """Return a call in a session of so many threads that do not spin after it."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for taken in session.get_inputs():
        binding.bind_cpu_input(taken.name, feeds[taken.name])
    results = [np.empty_like(feeds[name]) for name in ("q", "k")]
    for output, result in zip(session.get_outputs(), results, strict=True):
        binding.bind_output(output.name, "cpu", 0, np.float32, result.shape, result.ctypes.data)
    # the session holds no reference to what it reads and writes
    memory = (feeds, results)
    return lambda: session.run_with_iobinding(binding) if memory else None


def copy_of(feeds: Feeds) -> Callable[[], None]:
    """Return a copy of queries and keys."""
    pairs = [(np.empty_like(feeds[name]), feeds[name]) for name in ("q", "k")]

    def copy() -> None:
        for target, source in pairs:
            np.copyto(target, source)

    return copy


def seconds(call: Callable[[], None]) -> float:
    """Return the least time of two calls."""
    times = []
    for _ in range(2):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def feeds_of() -> tuple[Feeds, Feeds, Feeds]:
    """Return what diffusers' code is fed, a grid, and tokens with positions."""
    generator = np.random.default_rng(0)
    q, k = (generator.standard_normal((1, TOKENS, HEADS, DIM), np.float32) for _ in "qk")
    places = np.indices(SIZES).reshape(3, TOKENS)
    on_grid = {"q": q.reshape(1, *SIZES, HEADS, DIM), "k": k.reshape(1, *SIZES, HEADS, DIM)}
    tokens = {"q": q, "k": k}
    return {**tokens, "ids": places.T.astype(np.float32)}, on_grid, {**tokens, "positions": places[:, None].copy()}


def rows(files: Mapping[str, tuple[Path, Feeds]], threads: int) -> list[list[str]]:
    """Return what each contender takes, and the medians of ratios within a round."""
    calls = {name: call_of(path, feeds, threads) for name, (path, feeds) in files.items()}
    calls[COPY] = copy_of(files[PLAIN][1])
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name].append(seconds(call))

    def ratio(above: str, below: str) -> str:
        pairs = zip(times[above], times[below], strict=True)
        return f"{statistics.median(first / second for first, second in pairs):.2f}"

    return [
        [str(threads), name, f"{1e3 * min(took):.1f} ms", ratio(PLAIN, name), ratio(name, COPY)]
        for name, took in times.items()
    ]


def main() -> None:
    """Export, time and print."""
    plain_feeds, on_grid, explicit = feeds_of()
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        files = {PLAIN: (plain(at / "plain.onnx"), plain_feeds)}
        files["rope_nd, its own grid"] = (ours(at, "implicit"), on_grid)
        files["rope_nd, positions given"] = (ours(at, "explicit"), explicit)
        files["rope_nd, its own grid, --rotary-op microsoft"] = (ours(at, "implicit", "microsoft"), on_grid)
        lines = [line for threads in (1, 2) for line in rows(files, threads)]
    sys.stdout.write(f"{processor()}, {versions()}\n\n")
    sys.stdout.write(table(["threads", "graph", "least", "x faster than diffusers'", "x a copy"], lines))


if __name__ == "__main__":
    main()
