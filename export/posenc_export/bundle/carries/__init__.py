"""What ports carry: a file for each kind of port, found by itself, with what the product knows of the kind.

A new kind is a dataclass in `posenc/ports.py`, and a file here of the same name with its `KIND`: what a port of it is
fed, what must be refused, how it is drawn, its words in `-i`, its fields in the manifest, its limits in C++.

Rules that concern one kind by its mathematics stay where they are used: how positions are counted (`posenc/call.py`)
and planned (`proof/planning`), which tokens masks leave out (`padding.py` there), the two readings of a mask
(`write/targets/mask_readings.py`), the arguments of headers and of usual modules (`proof/runtimes/header.py`,
`proof/benchmarks`).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np

from posenc.ports import Array, Axis, Carries, Port

C = TypeVar("C", bound=Carries)
Sizes = Mapping[str, int]
Shape = tuple[int, ...]
Random: TypeAlias = "np.random.Generator"
"""In quotes: the command line imports this package, and numpy loads its generators when they are asked for."""


class PlannedCall(Protocol):
    """What a feed is made from: a call that is planned, as `bundle/case.py` describes it."""

    @property
    def sizes(self) -> Sizes:
        """The sizes of the dynamic axes."""

    @property
    def first(self) -> int:
        """The first position, or the number that must be refused."""

    @property
    def refused(self) -> bool:
        """Whether the call must be refused."""

    @property
    def padding(self) -> str:
        """Where sequences of a batch are padded."""

    @property
    def draw(self) -> int:
        """The turn of a single number: at random, then an end of its range."""

    @property
    def probe_positions(self) -> tuple[int, ...]:
        """Every position, where they do not follow one another."""

    @property
    def probe_values(self) -> tuple[float, ...]:
        """Every number of a call that reads stored rows by numbers."""

    @property
    def probe_masks(self) -> tuple[int, ...]:
        """How many places of each column of an image are no padding."""


@dataclass(frozen=True)
class Limits:
    """Which elements of an input must be refused, and how many tokens it has room for.

    Args:
        end: Integers must be below it.
        ends: Where a token has several positions: the end of each, if they differ.
        bounds: The least and the largest number.
        among: The axis of keys, counted from 0, among which all tokens that follow the input must be.
        tokens: The largest number of tokens in a call whose positions begin at 0.

    """

    end: int | None = None
    ends: tuple[int, ...] = ()
    bounds: tuple[float, float] | None = None
    among: str | None = None
    tokens: int | None = None


@dataclass(frozen=True)
class Word:
    """A word after the axes of `-i`, which says what the input carries.

    Args:
        text: The word.
        make: Makes what is carried from what the word takes.
        dtypes: The dtypes that it is for.
        takes: What stands behind it: an upper bound that may be left out, an axis, one or two with a multiple that may
            be left out, or a range.
        then: The word that must follow at once.
        refusal: What is expected instead of the word where the dtype is another, if it is not for integers alone.

    """

    text: str
    make: Callable[..., Carries]
    dtypes: tuple[str, ...]
    takes: Literal["nothing", "end", "axis", "axis and multiple", "two axes and multiple", "range"] = "nothing"
    then: str = ""
    refusal: str = ""

    @property
    def usage(self) -> str:
        """How it is written, for the help of `-i`."""
        behind = {
            "nothing": "",
            "end": "[< N]",
            "axis": "AXIS",
            "axis and multiple": "AXIS [% N]",
            "two axes and multiple": "AXIS*AXIS [% N]",
            "range": "A..B",
        }[self.takes]
        return " ".join(filter(None, (self.text, self.then, behind)))


@dataclass(frozen=True)
class PortKind(Generic[C]):
    """A kind of port. Functions take what the port carries first; what most kinds share is the default.

    Args:
        carries: Its dataclass.
        fields: Its fields in the manifest: names of types in `bundle/kinds.py`, with `?` where a field may be missing.
        feed: Makes an input of a planned call: carries, port, shape, call, generator.
        draw: Makes an input of a call that is plotted: carries, shape, least, fill. By default the least everywhere.
        least: The least integer that a call may hold at some sizes; None where nothing is declared.
        limits: What must be refused.
        refused: Calls that must be refused: what the input holds, and how long the call is.
        looked_up: Whether a look-up refuses what is wrong: its table has no such row.
        in_part: Whether large arrays of floats are fed on the rows alone that golden data keep.
        gives_positions: Whether positions follow from it.
        is_first: Whether it holds the position of the first token.
        is_size: Whether the call's shape determines it: no other value is possible.
        other_values: Other values to try, to see if outputs depend on the input; None for the usual ones.
        misfits: How a manifest contradicts itself: the place behind `carries`, and what must be.
        words: Its words in `-i`.
        usual_names: The names of inputs that usually carry it.
        by_name: What an input of such a name carries, by its dtype and its bound, and how a report calls that, if
            it says so; None if such an input carries something else.
        settled: What is carried once the axes are known.
        misshapen: The shape that is expected where the sizes of the axes are wrong.
        documented: What the C++ class says of the elements, behind the port.
        cpp_vector: The template that declares the vector of integers in example.cpp, if the least is not enough.

    """

    carries: type[C]
    fields: Mapping[str, str]
    feed: Callable[[C, Port, Shape, PlannedCall, Random], Array]
    draw: Callable[[C, Shape, int, int], Array] = lambda _, shape, least, fill: np.full(shape, least)
    least: Callable[[C, Port, Sizes], int | None] = lambda *_: None
    limits: Callable[[C], Limits] = lambda _: Limits()
    refused: Callable[[C], Iterable[tuple[int, int]]] = lambda _: ()
    looked_up: bool = False
    in_part: bool = False
    gives_positions: bool = False
    is_first: bool = False
    is_size: bool = False
    other_values: Callable[[Array], Iterable[Array]] | None = None
    misfits: Callable[[C, Port], Iterable[str]] = lambda *_: ()
    words: tuple[Word, ...] = ()
    usual_names: tuple[str, ...] = ()
    by_name: Callable[[str, int | None], tuple[C, str] | None] = lambda *_: None
    settled: Callable[[C, tuple[Axis, ...]], C] = lambda carries, _: carries
    misshapen: Callable[[C, list[int | None]], str] = lambda *_: ""
    documented: Callable[[C, Port], str] = lambda carries, port: below(limits_of(port).end)
    cpp_vector: str = ""


AnyPortKind = PortKind[Any]


@cache
def port_kinds() -> Mapping[str, AnyPortKind]:
    """Return the kinds of ports by their names: those of the files here, and what the manifest calls them."""
    # When they are first asked for: each of these modules imports this package.
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    return {name: importlib.import_module(f"{__name__}.{name}").KIND for name in names}


def name_of(carries: Carries) -> str:
    """Return the name of the kind of the ports that carry this: that of the dataclass in lower case."""
    return type(carries).__name__.lower()


def kind_of(carries: Carries) -> AnyPortKind:
    """Return the kind of the ports that carry this."""
    return port_kinds()[name_of(carries)]


def limits_of(port: Port) -> Limits:
    """Return what an input must refuse."""
    return kind_of(port.carries).limits(port.carries)


def bounds_of(port: Port) -> tuple[float, float] | None:
    """Return the range beyond which the numbers of a port must be refused; None where they need not be."""
    return limits_of(port).bounds


def keys_axis(ports: Iterable[Port]) -> str | None:
    """Return the axis of keys among which the tokens that follow a start must be; None where there is none."""
    return next((among for port in ports if (among := limits_of(port).among)), None)


def are_looked_up(ports: Iterable[Port]) -> bool:
    """Whether a look-up refuses what an input must not hold."""
    return any(kind_of(port.carries).looked_up for port in ports)


def named_axes(carries: Carries) -> Iterator[tuple[str, str]]:
    """Yield the fields of what a port carries that name an axis, with the names."""
    for name, type_ in kind_of(carries).fields.items():
        if type_ in ("Name", "NoName?") and (axis := getattr(carries, name)):
            yield name, axis


def below(end: int | None) -> str:
    """Return the words for integers below an end; nothing where there is none."""
    return f" < {end}" if end else ""
