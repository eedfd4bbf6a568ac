"""What a built encoding is: a module, its ports, the float64 reference, how near to that it must be, what it stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from posenc.ports import Array, Feeds, Integers, Port
from posenc.spec import Positions, Spec

if TYPE_CHECKING:
    from torch import Tensor, nn

FRACTION_BITS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}


def eps(dtype: str) -> float:
    """Return the distance from 1.0 to the next number of a dtype by torch's name."""
    return float(np.ldexp(1.0, -FRACTION_BITS[dtype]))


@dataclass(frozen=True)
class Tolerance:
    """What an output may be off by: `atol + rtol * |expected| + ulps * (one ulp of expected)`, or no bit at all.

    The ulp is of the output's own dtype, so that one half ulp allows for one correct rounding. `vector` adds so much of
    the largest |expected| along the last axis: what a rotation mixes is off relative to all that it mixes.
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: float = 0.0
    vector: float = 0.0
    bits: bool = False

    def plus(self, other: Tolerance | None) -> Tolerance:
        """Return what two causes may add up to; None adds nothing, and where no bit was allowed the other is all."""
        if other is None or self.bits:
            return other or self
        return Tolerance(
            self.atol + other.atol, self.rtol + other.rtol, self.ulps + other.ulps, self.vector + other.vector
        )

    def both_rounded(self, rounded: Tolerance) -> Tolerance:
        """Return what two sides may differ by that differ by this and are then rounded each; no bit where none did."""
        return self if self.bits else replace(self, rtol=2 * rounded.rtol, ulps=2 * rounded.ulps)


SAME_BITS = Tolerance(bits=True)


class CaseLike(Protocol):
    """What a tolerance may depend on: the sizes of a call's dynamic axes, and its largest position."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes of the dynamic axes."""

    @property
    def max_position(self) -> int:
        """The largest position in the call."""


ToleranceOf = Callable[[CaseLike], Tolerance]
"""A call -> what an output may be off by."""
Reference = Callable[[Feeds, Integers | None], dict[str, Array]]
Pair = Literal["1,1", "1,n", "n,1", "n,n", "n,m", "n,past+n"]
"""How two lengths meet; n and m are unlike."""


@dataclass(frozen=True)
class Probes:
    """What must be tried of an encoding, beside what is tried of all.

    lengths: of calls around which the formula changes, or beyond which nothing would be tried.
    positions: of one call, which together read every row of what is stored.
    values: numbers which do.
    masks: of columns of images, how many places count, which do.
    pairs: how two lengths may meet, the first with the second.
    """

    lengths: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    masks: tuple[int, ...] = ()
    pairs: tuple[Pair, ...] = ("1,1", "1,n", "n,1", "n,n", "n,m", "n,past+n")


class NoTables(ValueError):
    """An encoding is not stored tables alone; the text says why, in one line."""


def no_tables(reason: str) -> Callable[[], Tables]:
    """Return the `tables` of an encoding that has none: it raises NoTables with the reason."""

    def tables() -> Tables:
        raise NoTables(reason)

    return tables


@dataclass(frozen=True)
class Tables:
    """What an encoding stores, where that is all it needs, and how a row is made of it.

    kind: "rows", one table of them, or "digits", cosines and sines of each digit of a position.
    arrays: by name, (rows, columns) each.
    axes: the axis of a position that each column of a row, or each pair of digits, is read by.
    width: numbers of a row.
    layout: of a row: "interleaved" s0 c0 s1 c1, "halves" s0 s1 c0 c1, or None where it holds no pairs.
    end: positions from here on are not held.
    digits: how many positions the lowest digit counts, then the middle one.
    zero_row: the position whose row is zeros, though the tables give another; None where there is none.
    scale_x: what x is multiplied by before a row is added to it.
    """

    kind: Literal["rows", "digits"]
    arrays: Mapping[str, Tensor]
    axes: tuple[int, ...]
    width: int
    layout: str | None
    end: int
    digits: tuple[int, int] = (0, 0)
    zero_row: int | None = None
    scale_x: float = 1.0


LEAST_FLOAT16 = 2.0**-14


def too_small(largest: float) -> str:
    """Return why numbers of which the largest is this are not half-safe, or nothing; see Encoding."""
    if not 0 < largest < LEAST_FLOAT16:
        return ""
    return f"float16 has fewer digits below {LEAST_FLOAT16:.2g}, and no number of these is above {largest:.2g}"


class Bounded(Protocol):
    """What gives numbers, and says how far off they may be."""

    @property
    def half_safe(self) -> str:
        """Why it is not, or nothing; see Encoding."""

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far what it gives may be from the float64 reference, at positions up to one."""

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far what a graph gives may be from what the eager module does."""


class Source(Bounded, Protocol):
    """What a source of rows, of angles or of biases says of itself."""

    @property
    def probes(self) -> Probes:
        """What must be tried of it."""


class RowSource(Source, Protocol):
    """Rows of positions, by a module that is called with positions and a width: (...) -> (..., width)."""

    @property
    def end(self) -> int | None:
        """Positions from here on are refused; None where none is."""

    def __call__(self, positions: Tensor, width: int) -> Tensor:
        """Return the rows at int64 positions: (...) -> (..., width)."""

    def arange(self, length: int, width: int) -> Tensor:
        """Return the rows of positions 0..length-1: (1, length, width)."""

    def tables(self) -> Tables:
        """Return what is stored; raise NoTables where that is not all that rows are made of."""


@dataclass(frozen=True)
class Encoding:
    """A built encoding: an eager module, its ports, the mathematics it approximates and how well it must.

    family: how its outputs come about ("additive", "rotary", "bias", "grid", ...), or "module" for somebody's own;
        exporters, headers and plots look up by it.
    reference: inputs to float64 outputs, from the paper's formula; a second argument, if not None, is the indices along
        the longest output axis to return.
    tolerance: how far an output of a call may be from the reference.
    eager_tolerance: how far a graph on the CPU may be from the eager module in a call.
    end: positions from here on must be refused, as its ports say; None where there is no such end.
    tables: what a header or a cache stores; raises NoTables where that is not all it needs.
    shape: constants of the family: head_dim, rotary_dim, interleaved, width.
    half_safe: why a float32 graph, converted to half precision, is off by more than a few roundings, or nothing.
    added: whether rows, or a bias, are added to something that comes in: what is lost beside that is no loss of theirs.
    fresh: makes a copy of the module that was never called; None where calls change nothing, and the module itself is.
    learned: the tables that a file or chance gave, in the order that the scheme takes them in, before it makes of them
        what it stores.
    """

    family: str
    module: nn.Module
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    reference: Reference
    tolerance: ToleranceOf
    eager_tolerance: ToleranceOf
    tables: Callable[[], Tables]
    positions: Positions | None = None
    end: int | None = None
    probes: Probes = Probes()
    shape: Mapping[str, int | bool] | None = None
    half_safe: str = ""
    added: bool = False
    fresh: Callable[[], nn.Module] | None = None
    learned: tuple[Tensor, ...] = ()

    def uncalled(self) -> Encoding:
        """Return it with a module that was never called."""
        return self if self.fresh is None else replace(self, module=self.fresh())


def rounding(spec: Spec, add: bool) -> Tolerance:
    """Return what the roundings after the rows may cost: the sum with x, and a cast to a narrower dtype."""
    if spec.torch_dtype != spec.angle_dtype:
        return Tolerance(rtol=eps(spec.angle_dtype) / 2, ulps=0.5)
    return Tolerance(ulps=0.5 if add else 0.0)
