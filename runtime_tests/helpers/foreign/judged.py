"""A file run by ONNX Runtime at many lengths, and compared with what the eager model gave there."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import onnxruntime

from helpers.foreign.built import TRACED
from helpers.foreign.truth import End

Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
CLOSE = {"float32": 1e-3, "float16": 3e-2, "bfloat16": 0.2, "int8": float("inf")}
"""Share of the largest value by which numbers of a type may differ, where positions are right: rows that stand at the
wrong place differ by far more, as weights are large. Errors of quantized weights are as large themselves: such a file
ends where the one that was quantized does, or where it refuses."""
SCALARS = {
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(float16)": np.float16,
    "tensor(bool)": np.bool_,
}


@dataclass(frozen=True)
class Eager:
    """What went into an eager model, and came out, at each length.

    Args:
        path: the file of arrays that a worker wrote.
        head_dim: features of a head, of a cache that goes in empty.
    """

    path: Path
    head_dim: int = 16

    @cached_property
    def arrays(self) -> Mapping[str, Array]:
        """All arrays by their names there."""
        try:
            with np.load(self.path) as file:
                return dict(file)
        except zipfile.BadZipFile as error:
            raise ValueError(f"{self.path} is no file of arrays: run the worker of its model again") from error

    @property
    def lengths(self) -> list[int]:
        """The lengths, from the least."""
        return sorted({int(name.partition("/")[0]) for name in self.arrays})

    def feeds(self, length: int) -> dict[str, Array]:
        """Return what went in at a length."""
        start = f"{length}/input "
        return {name.removeprefix(start): array for name, array in self.arrays.items() if name.startswith(start)}

    def out(self, length: int) -> Array | None:
        """Return what came out; None where the model itself refuses the length."""
        return self.arrays.get(f"{length}/out")


def open_file(path: Path, plain: bool = False) -> onnxruntime.InferenceSession:
    """Open a file on one core."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # sums in one order, whatever the machine
    options.intra_op_num_threads = 1
    if plain:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _made(port: onnxruntime.NodeArg, feeds: Mapping[str, Array], head_dim: int) -> Array:
    """Return what goes into an input that the model has not: positions from 0, an empty cache, zeros."""
    rows, length = next(iter(feeds.values())).shape[:2]
    if "position_ids" in port.name:
        return np.broadcast_to(np.arange(length, dtype=np.int64), (rows, length)).copy()
    dtype = SCALARS.get(port.type, np.float32)
    if port.name.startswith("past"):
        unknown = (rows, 2, 0, head_dim)
        sizes = [size if isinstance(size, int) else unknown[axis] for axis, size in enumerate(port.shape)]
        return np.zeros(sizes, dtype)
    return np.zeros((rows, length), dtype)


def run(session: onnxruntime.InferenceSession, eager: Eager, length: int) -> Array | None:
    """Run a file; return its output of the shape that the model's has, or its first; None where it refuses."""
    values: dict[str, Array] = {}
    feeds, expected = eager.feeds(length), eager.out(length)
    for port in session.get_inputs():
        value = feeds[port.name] if port.name in feeds else _made(port, feeds, eager.head_dim)
        values[port.name] = value.astype(SCALARS[port.type]) if port.type in SCALARS else value
    try:
        outputs = session.run(None, values)
    except Exception:  # ONNX Runtime has many kinds of errors, and each of them is a refusal
        return None
    # some files give their caches too, in an order of their own
    alike = [array for array in outputs if expected is None or array.shape == expected.shape]
    return np.asarray((alike or outputs)[0])


def error_of(session: onnxruntime.InferenceSession, eager: Eager, length: int) -> float | str:
    """Return the error at a length as a share of the largest value, or "refuses", or "runs" where the model refuses."""
    expected = eager.out(length)
    came = run(session, eager, length)
    if came is None:
        return "refuses"
    if expected is None:
        return "runs"
    numbers, exact = came.astype(np.float64), expected.astype(np.float64)
    if numbers.shape != exact.shape or not np.isfinite(numbers).all():
        return float("inf")
    return float(np.abs(numbers - exact).max() / np.abs(exact).max())


def end_of(path: Path, eager: Eager, dtype: str, unit: str, known: int | None = None) -> End:
    """Return where a file ends: the lengths around the traced one at which it is right.

    Args:
        path: the file.
        eager: what the model gives.
        dtype: of its numbers; "int8" where weights are quantized.
        unit: what a length counts.
        known: the last right length of the file that was quantized.
    """
    session, tried = open_file(path), eager.lengths[-1]
    came = {length: error_of(session, eager, length) for length in eager.lengths}
    close = CLOSE[dtype]
    right = {length: isinstance(error, float) and error <= close for length, error in came.items()}
    right |= dict.fromkeys((length for length in came if known is not None and length > known), False)
    if not right[TRACED]:
        return End(None, None, _word(came[TRACED]), tried, None, unit)
    low = max((length for length in came if length < TRACED and not right[length]), default=0)
    high = min((length for length in came if length > TRACED and not right[length]), default=tried + 1)
    good = [length for length in came if low < length < high]
    error = max(float(came[length]) for length in good)
    ends = high <= tried
    return End(good[0], good[-1] if ends else None, _word(came[high]) if ends else "", tried, error, unit)


def _word(error: float | str) -> str:
    """Return what happens at a length that is not right."""
    return error if isinstance(error, str) else "wrong"
