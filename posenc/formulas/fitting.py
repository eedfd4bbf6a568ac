"""Formulas asked backward: from numbers that somebody's graph holds to the scheme, and the parameters, that make them.

    @fits("rows")
    def fit(seen: Observation) -> Iterator[Guess]:
        for base in bases_of(seen):
            yield Guess({"dim": 16, "base": base}, rows_of(seen.sizes, dim=16, base=base))

A fit may search as it likes, and guess. What makes a guess true is here, for all: the numbers that the formula itself
gives for the guessed parameters are those that were seen, within what their dtype can tell apart. A fit that guesses
nothing says that the numbers are not its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from posenc.call import Call
from posenc.parameters import Value
from posenc.ports import BATCH, SEQ, Array, Axis, Integers, Port, Positions
from posenc.registry import Registry

AXES = ("a", "b", "c", "d")
"""Names of axes of places, in the call that was seen."""
OF_ANGLES = 2.0**-22
"""What an angle computed in float32 loses with each radian, as many as places at most."""
Kind = Literal["rows", "rotation", "bias", "index", "factor"]


@dataclass(frozen=True)
class Observation:
    """Numbers that depend on positions, as they meet data.

    Args:
        kind: How they do, and with that their axes; places are those of a sequence (n,) or of a grid (h, w), (f, h, w):
            "rows" are added to data, (*places, features); "rotation" turns pairs of features, cos + i sin times a
            factor, (*places, pairs), or (*places, heads, pairs) where heads turn apart; "bias" is added to scores,
            (heads, queries, keys); "index" chooses among scores, integers (queries, keys); a "factor" multiplies
            queries, (n,).
        numbers: In the dtype of the graph.
        spacing: The distance from 1 to the next number, in the dtype that they were rounded to.
        first: The position of the first place, where a graph is given positions.
        layout: Which features of a head are a pair, of a rotation: "halves", "interleaved", "axis_halves".
        head_dim: Features of a head, of a rotation; 0 where that is not known.
        stored: The tables that the numbers were made of.
        positions: Of queries and of keys, of a bias; None where queries are the last of the keys.
    """

    kind: Kind
    numbers: Array
    spacing: float
    first: int = 0
    layout: str = ""
    head_dim: int = 0
    stored: tuple[Array, ...] = ()
    positions: tuple[Integers, Integers] | None = None

    @property
    def places(self) -> tuple[int, ...]:
        """The sizes of the axes of places."""
        return self.numbers.shape[:-1]

    @property
    def width(self) -> int:
        """Features of a row, or pairs of a rotation."""
        return int(self.numbers.shape[-1])

    @property
    def tolerance(self) -> float:
        """How far numbers may be from the formula's: they were rounded, and angles of float32 lose with the place."""
        return 2 * self.spacing + OF_ANGLES * (self.first + max(self.places, default=1))

    def agrees(self, expected: Array) -> bool:
        """Return whether these numbers are the expected ones, within what their dtype can tell apart."""
        if expected.shape != self.numbers.shape:
            return False
        if self.kind == "index":
            return bool(np.array_equal(expected, self.numbers))
        scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
        wide = self.numbers if np.iscomplexobj(self.numbers) else self.numbers.astype(np.float64)
        return bool(np.abs(wide - expected).max(initial=0.0) <= self.tolerance * scale)


@dataclass(frozen=True)
class Guess:
    """Parameters that may explain an observation, and the numbers that the formula gives for them, in its form."""

    parameters: Mapping[str, Value]
    numbers: Array


@dataclass(frozen=True)
class SchemeMatch:
    """The scheme that an observation is of, with its parameters, and the word of inspections for its kind."""

    family: str
    scheme: str
    parameters: Mapping[str, Value]

    @property
    def words(self) -> str:
        """The scheme as it is typed: `sincos_3d -p dim=16 -p base=10000`."""
        return " ".join([self.scheme, *(f"-p {name}={_typed(value)}" for name, value in self.parameters.items())])


def call_of(seen: Observation) -> Call:
    """Return the call whose rows, or rotations, at all places were seen: by their sizes alone, without x."""
    axes = [Axis(name, "grid" if len(seen.places) > 1 else "length") for name in AXES[: len(seen.places)]]
    x = Port("x", (Axis("batch", "batch"), *axes, Axis("dim", "features")), "float32")
    return Call((x,), {"x": np.zeros((1, *seen.places, seen.width), np.float32)}, None, max(seen.places))


def call_of_scores(seen: Observation) -> Call:
    """Return the call whose bias, or indices, of all queries and keys were seen: by their positions alone."""
    queries, keys = seen.numbers.shape[-2:]
    at = seen.positions or (np.arange(queries) + keys - queries, np.arange(keys))
    names = ("positions_q", "positions_k")
    axes = (SEQ, Axis("seq_k", "length"))
    ports = tuple(Port(name, (BATCH, axis), "int64", Positions()) for name, axis in zip(names, axes, strict=True))
    feeds = {name: positions[None] for name, positions in zip(names, at, strict=True)}
    return Call(ports, feeds, None, keys)


FitFunction = Callable[[Observation], Iterator[Guess]]


@dataclass(frozen=True)
class FormulaFit:
    """A formula asked backward: the scheme, what it explains, the word of inspections for its kind, and how."""

    scheme: str
    kinds: tuple[Kind, ...]
    family: str
    fit: FitFunction


FITS: Registry[FormulaFit] = Registry("formula", "posenc.formulas")


def fits(*kinds: Kind, family: str) -> Callable[[FitFunction], FitFunction]:
    """Register a fit for observations of some kinds; its file has the name of the scheme.

    Args:
        kinds: What it explains.
        family: What inspections call encodings of this kind: rotary, grid, window, relative, ...
    """

    def register(fit: FitFunction) -> FitFunction:
        scheme = fit.__module__.rpartition(".")[2]
        FITS.add(scheme, FormulaFit(scheme, kinds, family, fit), fit.__module__)
        return fit

    return register


def find_scheme(seen: Observation) -> SchemeMatch | None:
    """Return the first scheme whose formula gives an observation; None where none does."""
    if not np.isfinite(seen.numbers).all() or not np.ptp(np.abs(seen.numbers)):
        return None
    for backward in FITS.values():
        for guess in backward.fit(seen) if seen.kind in backward.kinds else ():
            if seen.agrees(guess.numbers):
                return SchemeMatch(backward.family, backward.scheme, guess.parameters)
    return None


def _typed(value: Value) -> str:
    if isinstance(value, (tuple, list)):
        return ",".join(map(_typed, value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)
