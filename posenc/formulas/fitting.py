"""Formulas asked backward: from numbers that somebody's graph holds to the scheme, and the parameters, that make them.

    @fits("rows", family="grid")
    def fit(seen: Observation) -> Iterator[Guess]:
        for base in bases_of(seen):
            yield Guess({"dim": 16, "base": base}, rows_of(seen.sizes, dim=16, base=base))

A fit may search as it likes, and guess. A guess brings the numbers that its parameters give, by the formula. What makes
it true is here, for all: these are the numbers that were seen, within what their dtype can tell apart. Tables that
follow no formula are the fit's own to judge: it brings the numbers that were seen. A fit that guesses nothing says that
the numbers are not its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeVar, cast

import numpy as np

from posenc.call import Call
from posenc.formulas.families import FAMILIES, Family, Traits, grows, is_trained
from posenc.parameters import Value
from posenc.ports import BATCH, SEQ, Array, Axis, Floats, Integers, Port, Positions
from posenc.registry import Registry

T = TypeVar("T")
AXES = ("a", "b", "c", "d")
"""Names of axes of places, in the call that was seen."""
NEAR_ROWS = 64
"""Places of a rotation that must be finite: later ones of half precision may be noise."""
OF_ANGLES = 2.0**-22
"""What an angle computed in float32 loses with each radian, as many as places at most."""
Kind = Literal["rows", "rotation", "bias", "index", "lookup", "distances", "taken", "features", "coordinates", "factor"]


@dataclass(frozen=True)
class Meets:
    """A kind of observation: how numbers of positions meet data, and with that their axes.

    Args:
        how: in words, behind "numbers that".
        axes: of `Observation.numbers`; places are those of a sequence (n,) or of a grid (h, w), (f, h, w).
        in_order: whether the first axis is that of places, the nearest first: later ones may be noise.
        exact: whether numbers are whole, and have to be the same.
    """

    how: str
    axes: str
    in_order: bool = False
    exact: bool = False


KINDS: Mapping[Kind, Meets] = {
    "rows": Meets("are added to data", "(*places, features)", in_order=True),
    "rotation": Meets("turn pairs of features, cos + i sin times a factor", "(*places, [heads,] pairs)", in_order=True),
    "bias": Meets("are added to scores, NaN where a mask leaves a key out", "(heads, queries, keys)"),
    "index": Meets("choose among scores", "(queries, keys)", exact=True),
    "lookup": Meets("choose among the rows of a table", "(queries, keys)", exact=True),
    "distances": Meets("are multiplied with queries, a row for each distance", "(distances, features)"),
    "taken": Meets("go into a weight", "(n, features)", in_order=True),
    "features": Meets("are made of numbers that come in, and go into a weight", "(numbers, features)", in_order=True),
    "coordinates": Meets("are differences in a window, and go into a weight", "(rows, columns, 2)"),
    "factor": Meets("multiply queries", "(n,)"),
}
"""What a fit may be asked about: a line for each kind."""
Parameter = bool | int | float | str | tuple[int, ...] | tuple[float, ...]
Exact = Callable[[Integers], Floats]


@dataclass(frozen=True)
class Observation:
    """Numbers that depend on positions, as they meet data.

    Args:
        kind: How they do, and with that the axes of `numbers`: a line of `KINDS`.
        numbers: In the dtype of the graph.
        spacing: The distance from 1 to the next number, in the dtype that they were rounded to.
        layout: Which features of a head are a pair, of a rotation: "halves", "interleaved", "axis_halves".
        head_dim: Features of a head, of a rotation; 0 where that is not known.
        stored: What the file stores of which the numbers were made: tables, and then single numbers, of shape ().
        rows: How many rows the table has that a lookup chooses among.
        at: The numbers whose features were seen.
        positions: Of the places of a rotation; None where they are counted from 0 on.
    """

    kind: Kind
    numbers: Array
    spacing: float
    layout: str = ""
    head_dim: int = 0
    stored: tuple[Array, ...] = ()
    rows: int = 0
    at: Floats | None = None
    positions: Integers | None = None
    _measured: dict[object, object] = field(default_factory=dict, init=False, repr=False, compare=False)

    def measured(self, measure: Callable[[Observation], T]) -> T:
        """Return what a function measures of it, which several formulas may ask for."""
        if measure not in self._measured:
            self._measured[measure] = measure(self)
        return cast(T, self._measured[measure])

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
        return 2 * self.spacing + OF_ANGLES * max(self.places, default=1)

    @cached_property
    def is_whole(self) -> bool:
        """Whether no mask leaves a key out."""
        return not np.isnan(self.numbers).any()

    @property
    def tables(self) -> tuple[Array, ...]:
        """Stored tensors that have axes."""
        return tuple(array for array in self.stored if array.ndim)

    @property
    def singles(self) -> tuple[float, ...]:
        """Stored single numbers, each value once."""
        return tuple(dict.fromkeys(float(array) for array in self.stored if not array.ndim))

    def agrees(self, guess: Guess) -> bool:
        """Return whether these numbers are those of a guess, within what their dtype can tell apart."""
        apart = self.apart(guess)
        return apart is not None and bool(apart.max() <= self.allowed(guess))

    def apart(self, guess: Guess) -> Floats | None:
        """Return the absolute differences from the numbers of a guess, of any size; None where shapes differ.

        Of kinds with places: the largest at each place, (*places,) or (*places, heads). Of other kinds: the largest.
        """
        # a guess of rows may leave out those that half precision made noise
        seen = self.numbers[: len(guess.numbers)] if KINDS[self.kind].in_order else self.numbers
        if guess.numbers.shape != seen.shape or not seen.size:
            return None
        wide = seen if np.iscomplexobj(seen) else seen.astype(np.float64)
        apart = np.abs(wide - guess.numbers)
        if not self.is_whole:
            apart = np.where(np.isnan(apart), 0.0, apart)
        return np.asarray(apart.max(axis=-1 if KINDS[self.kind].in_order else None), np.float64)

    def allowed(self, guess: Guess) -> float:
        """Return how far numbers may be from those of a guess."""
        if KINDS[self.kind].exact:
            return 0.0
        scale = max(1.0, float(np.abs(guess.numbers).max(initial=0.0)))
        return max(self.tolerance, guess.tolerance) * scale


@dataclass(frozen=True)
class Guess:
    """Parameters that may explain an observation, and the numbers that the formula gives for them, in its form.

    Args:
        parameters: By the names of the scheme, and what else was read.
        numbers: In the form of the observation, or those of the first places alone, where later ones are noise.
        name: The form within the scheme, in words; empty for the scheme itself.
        typed: The parameters as they are typed, where these are not all; empty where no scheme has such a form.
        exact: Positions, or distances, to numbers in float64.
        also: Other parameters that give the same numbers, in words.
        moved: Distances whose row is not the formula's: they lie on an edge that floats miss.
        tolerance: How far numbers may be off, where a graph rounds more than the result.
    """

    parameters: Mapping[str, Value]
    numbers: Array
    name: str = ""
    typed: Mapping[str, Value] | None = None
    exact: Exact | None = None
    also: tuple[str, ...] = ()
    moved: tuple[int, ...] = ()
    tolerance: float = 0.0


@dataclass(frozen=True)
class Form:
    """What numbers are: a scheme with its parameters, or what inspections say of numbers that no scheme has.

    Args:
        family: The kind of encoding.
        name: The form within it: a rope type, a layout, "table" where there is no closed form.
        parameters: By the names that schemes give them, and what else was read: rows, offset and others.
        exact: The numbers in float64 at given positions; None where they follow no formula.
        also: Other forms that fit as well, in words.
        moved: Distances whose row is not the form's, or is up to how a runtime rounds half precision.
        scheme: The scheme whose formula gives the numbers; empty where none does.
        typed: The parameters of the scheme.
        differences: How far off the numbers were that were seen, as `Observation.apart` returns it.
    """

    family: Family
    name: str
    parameters: Mapping[str, Parameter]
    exact: Exact | None = field(default=None, compare=False)
    also: tuple[str, ...] = ()
    moved: tuple[int, ...] = ()
    scheme: str = ""
    typed: Mapping[str, Parameter] = field(default_factory=dict)
    differences: Floats | None = field(default=None, compare=False, repr=False)

    @property
    def traits(self) -> Traits:
        """What is true of all encodings of its family."""
        return FAMILIES[self.family]

    @property
    def is_trained(self) -> bool:
        """Whether its numbers follow no formula: whatever is stored is right."""
        return is_trained(self.family, self.name)

    @property
    def grows(self) -> bool:
        """Whether its numbers grow with the distance from a query to a key."""
        return grows(self.family, self.name)

    @property
    def distances(self) -> Integers | None:
        """The distance of each row, from query to key; None where rows are not those of distances."""
        first, last = self.parameters.get("first_distance"), self.parameters.get("last_distance")
        if not isinstance(first, int) or not isinstance(last, int):
            return None
        return np.linspace(first, last, abs(last - first) + 1).round().astype(np.int64)

    @property
    def error(self) -> float | None:
        """The largest absolute difference of the numbers that were seen; None where nobody measured it."""
        return None if self.differences is None else float(self.differences.max(initial=0.0))

    @property
    def line(self) -> str:
        """The scheme as it is typed, `sincos_3d -p dim=16 -p base=10000`; empty where there is none."""
        if not self.scheme:
            return ""
        return " ".join([self.scheme, *(f"-p {name}={_typed(value)}" for name, value in self.typed.items())])

    def beside(self, **parameters: Parameter) -> Form:
        """Return the form with more parameters, which its place in a graph tells, before those of its numbers."""
        typed = {**parameters, **self.typed} if self.scheme else self.typed
        return replace(self, parameters={**parameters, **self.parameters}, typed=typed)


def spacing_of_dtype(dtype: np.dtype[np.generic]) -> float:
    """Return the distance from 1 to the next number: of bfloat16 too, which NumPy does not know."""
    bits = {"float64": 23, "float32": 23, "float16": 10, "bfloat16": 7}.get(dtype.name, 23)
    return float(2.0**-bits)


def call_of(seen: Observation) -> Call:
    """Return the call whose rows, or rotations, at all places were seen: by their sizes alone, without x."""
    axes = [Axis(name, "grid" if len(seen.places) > 1 else "length") for name in AXES[: len(seen.places)]]
    x = Port("x", (Axis("batch", "batch"), *axes, Axis("dim", "features")), "float32")
    return Call((x,), {"x": np.zeros((1, *seen.places, seen.width), np.float32)}, None, max(seen.places))


def call_of_scores(seen: Observation) -> Call:
    """Return the call whose bias, or indices, of all queries and keys were seen: by their positions alone."""
    queries, keys = seen.numbers.shape[-2:]
    at = np.arange(queries) + keys - queries, np.arange(keys)
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
    family: Family
    fit: FitFunction
    last: bool = False


FITS: Registry[FormulaFit] = Registry("formula", "posenc.formulas")


def fits(*kinds: Kind, family: Family, last: bool = False) -> Callable[[FitFunction], FitFunction]:
    """Register a fit for observations of some kinds; its file has the name of the scheme.

    Args:
        kinds: What it explains.
        family: What inspections call encodings of this kind: rotary, grid, window, relative, ...
        last: It explains some numbers of other formulas, too, which are asked before it.
    """

    def register(fit: FitFunction) -> FitFunction:
        scheme = fit.__module__.rpartition(".")[2]
        FITS.add(scheme, FormulaFit(scheme, kinds, family, fit, last), fit.__module__)
        return fit

    return register


WITHOUT_FIT: Mapping[str, Family] = {"learned": "learned", "mrope": "rotary", "rope_layers": "rotary"}
"""Schemes whose numbers follow no formula, or that of another scheme, by their families."""


def family_of(scheme: str) -> Family | None:
    """Return what inspections call encodings of a scheme; None where no file shows its numbers."""
    return FITS[scheme].family if scheme in FITS.names() else WITHOUT_FIT.get(scheme)


def find_scheme(seen: Observation) -> Form | None:
    """Return what the first scheme whose formula gives an observation says of it; None where none does."""
    asked = Asked(seen)
    note(asked)
    for backward in _asked_of(seen):
        answer = Answer(backward.scheme)
        asked.answers.append(answer)
        for guess in backward.fit(seen):
            differences = answer.take(seen, guess)
            if differences is not None:
                return _form(backward, guess, differences)
    return None


def _asked_of(seen: Observation) -> Iterator[FormulaFit]:
    """Yield the fits that are asked about an observation, in order."""
    if _tells(seen):
        yield from (fit for fit in sorted(FITS.values(), key=lambda formula: formula.last) if seen.kind in fit.kinds)


@dataclass
class Answer:
    """What a fit says of an observation: the nearest of its guesses.

    Args:
        scheme: whose formula it is.
        guesses: how many guesses it made.
        nearest: the guess that is the least off; None where it made none whose numbers have the shape of those seen.
        off: by how much that is, at most.
        allowed: how far off it may be.
    """

    scheme: str
    guesses: int = 0
    nearest: Guess | None = None
    off: float = float("inf")
    allowed: float = 0.0

    def take(self, seen: Observation, guess: Guess) -> Floats | None:
        """Count a guess; return its differences, or None where they are larger than allowed."""
        self.guesses += 1
        apart = seen.apart(guess)
        if apart is None:
            return None
        off, allowed = float(apart.max()), seen.allowed(guess)
        if self.nearest is None or off < self.off:
            self.nearest, self.off, self.allowed = guess, off, allowed
        return apart if off <= allowed else None

    @property
    def agrees(self) -> bool:
        """Whether the numbers are those of the nearest guess."""
        return self.nearest is not None and self.off <= self.allowed


@dataclass
class Asked:
    """An observation that fits were asked about, with their answers up to the first that agrees.

    Args:
        seen: the observation.
        answers: in the order in which fits were asked; none where all numbers are alike, or not finite.
        places: the tensors of a graph that it was made of, as `looked_at` was told.
    """

    seen: Observation
    answers: list[Answer] = field(default_factory=list)
    places: frozenset[str] = frozenset()


_heard: ContextVar[list[Asked] | None] = ContextVar("_heard", default=None)
_places: ContextVar[frozenset[str]] = ContextVar("_places", default=frozenset())


@contextmanager
def heard() -> Iterator[list[Asked]]:
    """Give a list of all that fits are asked meanwhile: for whoever wants to know why nothing was named."""
    asked: list[Asked] = []
    token = _heard.set(asked)
    try:
        yield asked
    finally:
        _heard.reset(token)


@contextmanager
def looked_at(*tensors: str) -> Iterator[None]:
    """Say of which tensors of a graph the observations are that are made meanwhile."""
    token = _places.set(_places.get().union(tensors))
    try:
        yield
    finally:
        _places.reset(token)


def note(asked: Asked) -> None:
    """Add what fits are asked to the list of whoever listens."""
    listener = _heard.get()
    if listener is not None:
        asked.places = _places.get()
        listener.append(asked)


def _tells(seen: Observation) -> bool:
    """Return whether numbers are finite, but where masks leave keys out and far along in a table, and not all alike."""
    if seen.kind == "rotation":
        # what turns nothing has a name as well
        return bool(np.isfinite(seen.numbers[:NEAR_ROWS]).all())
    numbers = seen.numbers if seen.is_whole or seen.kind != "bias" else np.nan_to_num(seen.numbers)
    return bool(np.isfinite(numbers).all() and np.ptp(np.abs(numbers)))


def _form(backward: FormulaFit, guess: Guess, differences: Floats) -> Form:
    typed = _plain(guess.parameters if guess.typed is None else guess.typed)
    return Form(
        backward.family,
        guess.name or backward.scheme,
        _plain(guess.parameters),
        guess.exact,
        guess.also,
        guess.moved,
        backward.scheme if typed else "",
        typed,
        differences,
    )


def _plain(parameters: Mapping[str, Value]) -> dict[str, Parameter]:
    """Return parameters as an inspection has them: those that say something."""
    return {name: cast(Parameter, value) for name, value in parameters.items() if value is not None}


def _typed(value: Value) -> str:
    if isinstance(value, (tuple, list)):
        return ",".join(map(_typed, value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)
