"""How far a graph in half precision is from the float32 one, in roundings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from posenc.encoding import eps
from posenc.ports import Array, Feeds
from posenc_export.arrays import FLOATS, numpy_dtype
from posenc_export.bundle.case import GoldenCase
from posenc_export.errors import check_machine, first_line
from posenc_export.validation.judging.compare import MASK, scale_of
from posenc_export.validation.planning.padding import Bools, Padding, of_tokens

ROUNDINGS = 2
"""What is allowed: eps of the half dtype times the peak of an output; of a sum with what comes in, of 1 at least."""
CONVERTED_MASK = 1e4
"""What ONNX Runtime's converter makes of the least float32."""
Call = Callable[[Feeds], Mapping[str, Array]]


@dataclass(frozen=True)
class Half:
    """What computes in a half dtype; narrow: whether its inputs are of that dtype too, or of float32."""

    name: str
    dtype: str
    call: Call
    narrow: bool = True


@dataclass(frozen=True)
class Off:
    """How far something is off: in roundings, in numbers, and in which case; why it gave nothing at all there."""

    name: str
    roundings: float = 0.0
    error: float = 0.0
    case: str = ""
    failure: str = ""

    def __str__(self) -> str:
        """Return it in words."""
        if self.failure:
            return f"{self.name} nothing at all in {self.case} ({self.failure})"
        where = f" in {self.case}" if self.case else ""
        return f"{self.name} {self.error:.2g}, {self.roundings:.3g} roundings{where}"


def measured(
    half: Half, single: Call, golden: GoldenCase, *, added: bool = False, padding: Padding = MappingProxyType({})
) -> Off:
    """Measure a case against float32, both given numbers that the half dtype holds: inputs are off by nothing.

    added: whether outputs are sums with something that comes in: their scale is at least 1 then, else their own.
    padding: where outputs are of tokens that a mask leaves out: nobody reads those.
    """
    rounded = {name: _to(half.dtype, array) for name, array in golden.feeds.items()}
    wide = {name: _to("float32", array) for name, array in rounded.items()}
    with np.errstate(all="ignore"):
        expected = single(wide)
        try:
            actual = half.call(rounded if half.narrow else wide)
        except Exception as refusal:
            check_machine(refusal)
            return Off(half.name, np.inf, np.inf, golden.case.name, first_line(refusal))
        actual = {name: _of_tokens(array, padding.get(name)) for name, array in actual.items()}
        expected = {name: _of_tokens(array, padding.get(name)) for name, array in expected.items()}
        errors = [(*_off(actual[name], array, half.dtype, float(added)), name) for name, array in expected.items()]
    roundings, error, _ = max(errors)
    return Off(half.name, roundings, error, golden.case.name)


def _of_tokens(array: Array, padding: Bools | None) -> Array:
    """Return the elements of tokens; all of an output of which only some rows are known."""
    return array if padding is None or array.shape != padding.shape else of_tokens(array, padding)


def _to(dtype: str, array: Array) -> Array:
    return array.astype(numpy_dtype(dtype)) if array.dtype.name in FLOATS else array


def _off(actual: Array, expected: Array, dtype: str, least: float) -> tuple[float, float]:
    """Return by how many roundings an output is off, and by how much: infinite where it is none of such an output.

    What masks are made of is compared by its sign, and is no part of the peak; integers and flags must be equal, and
    what is all zero must stay so. least: what the scale is at least.
    """
    if actual.shape != expected.shape:
        return np.inf, np.inf
    if expected.dtype.name not in FLOATS:
        return (0.0, 0.0) if np.array_equal(actual, expected) else (np.inf, np.inf)
    narrow, wide = actual.astype(np.float64), expected.astype(np.float64)
    masks = (np.abs(wide) >= MASK) & (np.abs(narrow) >= CONVERTED_MASK) & (np.sign(wide) == np.sign(narrow))
    error = float(np.max(np.nan_to_num(np.where(masks, 0.0, np.abs(narrow - wide)), nan=np.inf), initial=0.0))
    scale = max(least, scale_of(expected, "float32"))
    return error / (eps(dtype) * scale) if scale else np.inf if error else 0.0, error
