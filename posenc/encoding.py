"""A built encoding: its module, its ports, its float64 reference, its tolerances and the tables that it stores."""

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
    """How far an output may be from what is expected: `atol + rtol * |expected| + ulps * (one ulp of expected)`.

    Args:
        ulps: In ulps of the output's own dtype: one half allows for one correct rounding.
        vector: Relative to the largest |expected| along the last axis. A rotation mixes two features, so that its
            result is off relative to both.
        bits: The output must have the bits that are expected; all else is 0.
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: float = 0.0
    vector: float = 0.0
    bits: bool = False

    def plus(self, term: Tolerance | None) -> Tolerance:
        """Return the sum of two tolerances; None is zero, and SAME_BITS + t is t."""
        if term is None or self.bits:
            return term or self
        return Tolerance(self.atol + term.atol, self.rtol + term.rtol, self.ulps + term.ulps, self.vector + term.vector)

    def both_rounded(self, rounding: Tolerance) -> Tolerance:
        """Return this tolerance between two results after each was rounded; equal results stay equal."""
        return self if self.bits else replace(self, rtol=2 * rounding.rtol, ulps=2 * rounding.ulps)


SAME_BITS = Tolerance(bits=True)


class CaseLike(Protocol):
    """A call, as far as a tolerance may depend on it: the sizes of its dynamic axes, and its largest position."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes of the dynamic axes."""

    @property
    def max_position(self) -> int:
        """The largest position in the call."""


ToleranceOf = Callable[[CaseLike], Tolerance]
"""A call -> how far an output may be off."""
Reference = Callable[[Feeds, Integers | None], dict[str, Array]]
Pair = Literal["1,1", "1,n", "n,1", "n,n", "n,m", "n,past+n"]
"""How two lengths meet; n and m are unlike."""


@dataclass(frozen=True)
class Probes:
    """What must be tried of an encoding, beside what is tried of all.

    Args:
        lengths: Lengths of calls around which the formula changes, or beyond which nothing would be tried.
        positions: Positions of one call that together read every stored row.
        values: Numbers of one call that do.
        masks: How many places of an image's columns count, in calls that do.
        pairs: How two lengths may meet, the first with the second.
    """

    lengths: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    masks: tuple[int, ...] = ()
    pairs: tuple[Pair, ...] = ("1,1", "1,n", "n,1", "n,n", "n,m", "n,past+n")


class NoTables(ValueError):
    """An encoding is not stored tables alone; the text says why, in one line."""


def no_tables(reason: str) -> Callable[[], Tables]:
    """Return the `tables` of an encoding without tables: a function that raises NoTables with the reason."""

    def tables() -> Tables:
        raise NoTables(reason)

    return tables


@dataclass(frozen=True)
class Tables:
    """The stored tables of an encoding that needs nothing else, and how to make a row of them.

    Args:
        kind: "rows" for a table of rows, "digits" for cosines and sines of the first positions, and of each digit of
            the number of a block of others.
        arrays: The tables by name: (rows, columns) each.
        axes: By which axis of a position each column of a row, or each pair of digits, is read.
        width: Numbers of a row.
        layout: "interleaved" s0 c0 s1 c1, "halves" s0 s1 c0 c1, or None for rows without pairs.
        end: Positions from here on have no row.
        digits: How many positions a block has, and how many blocks the middle digit counts.
        zero_row: The position whose row is zeros, whatever the tables hold; None where no row is.
        scale_x: What multiplies x before a row is added to it.
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
    """Return why numbers up to `largest` are not half-safe, or an empty text; see Encoding."""
    if not 0 < largest < LEAST_FLOAT16:
        return ""
    return f"float16 has fewer digits below {LEAST_FLOAT16:.2g}, and no number of these is above {largest:.2g}"


class Bounded(Protocol):
    """A source of numbers that says how far off they may be."""

    @property
    def half_safe(self) -> str:
        """Why its numbers are not, or an empty text; see Encoding."""

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far its numbers may be from the float64 reference, at positions up to `max_position`."""

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph's numbers may be from the eager module's."""


class Source(Bounded, Protocol):
    """A source of rows, of angles or of biases: what it says of itself."""

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
        """Return the stored tables; raise NoTables where rows are made of more."""


@dataclass(frozen=True)
class Encoding:
    """A built encoding: an eager module, its ports, the mathematics that it approximates, and how well it must.

    Args:
        family: How its outputs come about ("additive", "rotary", "bias", "grid", ...), or "module" for a user's own;
            exporters, headers and plots look up by it.
        reference: Inputs -> float64 outputs, from the paper's formula; a second argument, if not None, picks indices
            along the longest output axis.
        tolerance: How far an output of a call may be from the reference.
        eager_tolerance: How far a graph on the CPU may be from the eager module in a call.
        tables: What a header or a cache stores; it raises NoTables where an encoding needs more.
        end: Positions from here on must be refused, as its ports say; None where all are taken.
        shape: Constants of the family: head_dim, rotary_dim, interleaved, width.
        half_safe: Why a float32 graph, converted to half precision, is off by more than a few roundings, or an empty
            text.
        not_on_cuda: Operators of an ONNX graph that compute rows, and for which ONNX Runtime has no kernel on CUDA.
        added: Whether rows, or a bias, are added to a value that comes in: rounding beside that value is its cost.
        fresh: Makes a copy of the module that was never called; None where calls change nothing.
        learned: The tables that a file or chance gave, in the order in which the scheme takes them, before it makes its
            stored tables of them.
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
    not_on_cuda: tuple[str, ...] = ()
    added: bool = False
    fresh: Callable[[], nn.Module] | None = None
    learned: tuple[Tensor, ...] = ()

    def uncalled(self) -> Encoding:
        """Return this encoding with a module that was never called."""
        return self if self.fresh is None else replace(self, module=self.fresh())


def rounding(spec: Spec, add: bool) -> Tolerance:
    """Return what the roundings after the rows may cost: the sum with x, and a cast to a narrower dtype."""
    # A cast rounds twice: the sum in the dtype of angles, then the result to that of the output.
    if spec.torch_dtype != spec.angle_dtype:
        return Tolerance(rtol=eps(spec.angle_dtype) / 2, ulps=0.5)
    return Tolerance(ulps=0.5 if add else 0.0)
