"""How far a graph in half precision is from the float32 graph, in roundings of the half dtype."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from posenc.encoding import eps
from posenc.ports import Array, Bools, Feeds
from posenc_export.bundle.case import GoldenCase
from posenc_export.common.arrays import FLOATS, numpy_dtype
from posenc_export.common.errors import check_machine, first_line
from posenc_export.proof.judging.compare import MASK, scale_of
from posenc_export.proof.planning.padding import Padding, of_tokens

ROUNDINGS = 2
"""Allowed roundings. One is eps of the half dtype times the peak of an output, which is at least 1 if x is added."""
CONVERTED_MASK = 1e4
"""ONNX Runtime's converter replaces the lowest float32 by minus this."""
Call = Callable[[Feeds], Mapping[str, Array]]


@dataclass(frozen=True)
class Half:
    """A graph in a half dtype; `narrow` says whether its inputs have that dtype, or are float32."""

    name: str
    dtype: str
    call: Call
    narrow: bool = True


SHOWN = 120
"""Characters of what a runtime says of a file that it does not run: some list every tensor."""


@dataclass(frozen=True)
class Off:
    """How far a half is off, in roundings and in numbers, and in which case; or why it failed there."""

    name: str
    roundings: float = 0.0
    error: float = 0.0
    case: str = ""
    failure: str = ""

    def __str__(self) -> str:
        """Return it in words."""
        if self.failure:
            why = self.failure if len(self.failure) <= SHOWN else f"{self.failure[:SHOWN]} ..."
            return f"{self.name} (does not run in {self.case}: {why})"
        where = f" in {self.case}" if self.case else ""
        return f"{self.name} {self.error:.2g}, {self.roundings:.3g} roundings{where}"


def measured(
    half: Half, single: Call, golden: GoldenCase, *, added: bool = False, padding: Padding = MappingProxyType({})
) -> Off:
    """Measure a case against float32; both get inputs that the half dtype holds exactly.

    Args:
        half: The graph in half precision.
        single: The graph in float32.
        golden: The case.
        added: Whether outputs are sums with an input: their scale is then at least 1.
        padding: Elements of outputs that belong to masked tokens, which are left out.
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
        pairs = [[_of_tokens(outputs[name], padding.get(name)) for outputs in (actual, expected)] for name in expected]
        roundings, error = max(_off(narrow, wide, half.dtype, float(added)) for narrow, wide in pairs)
    return Off(half.name, roundings, error, golden.case.name)


def _of_tokens(array: Array, padding: Bools | None) -> Array:
    """Return the elements of unmasked tokens; all elements, where padding is known at some rows only."""
    return array if padding is None or array.shape != padding.shape else of_tokens(array, padding)


def _to(dtype: str, array: Array) -> Array:
    return array.astype(numpy_dtype(dtype)) if array.dtype.name in FLOATS else array


def _off(actual: Array, expected: Array, dtype: str, least: float) -> tuple[float, float]:
    """Return by how many roundings an output is off, and by how much; both are infinite where it cannot be compared.

    Masks are compared by their sign, and do not count in the peak. Integers and flags must be equal, and an output that
    is all zero must stay so. `least` is the least scale.
    """
    if actual.shape != expected.shape:
        return np.inf, np.inf
    if expected.dtype.name not in FLOATS:
        return (0.0, 0.0) if np.array_equal(actual, expected) else (np.inf, np.inf)
    narrow, wide = actual.astype(np.float64), expected.astype(np.float64)
    # -1e9 becomes -inf in float16, which is still a mask
    masks = (np.abs(wide) >= MASK) & (np.abs(narrow) >= CONVERTED_MASK) & (np.sign(wide) == np.sign(narrow))
    error = float(np.max(np.nan_to_num(np.where(masks, 0.0, np.abs(narrow - wide)), nan=np.inf), initial=0.0))
    scale = max(least, scale_of(expected, "float32"))
    return error / (eps(dtype) * scale) if scale else np.inf if error else 0.0, error
