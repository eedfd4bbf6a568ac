"""The -i grammar: a name, a dtype, axes, and what the input carries.

x: float32[batch, seq, 512]               names are dynamic axes, numbers fixed ones
x: float32[B:batch, T >= 4, height % 14]  name:kind, a least size, a multiple
x: float32[batch, height != 24]           a size that never comes
mask: int64[batch, past+seq] mask         a sum of axes; 1 for tokens and 0 for padding
m: float32[seq, seq] additive mask        added to scores of queries and keys: 0 and minus infinity
t: float32[batch] in 0..1000              a range of values
ids: int64[batch, seq] in 2..98           of integers, too, both ends among them
mask: int64[batch, seq] in 1..1           an integer that is the same in every call
ids: int64[batch, seq] < 256              indices below a bound, with or without the word `indices`
bbox: int64[batch, seq, 4] boxes < 1024   left, top, right and bottom on a page, below a bound
positions: int64[batch, seq] positions    positions, below a bound with `< 512`
start: int64[1] start                     the first position, below a bound with `< 512`
n: int64[1] size of seq                   the size of an axis as a number
sizes: int64[batch, 2] extents of seq     rows and columns of each image, of at most `seq` places
sizes: int64[n, 2] frames of rows*columns rows and columns of each image, padded to these; `% 14` of each side
grids: int64[images, 3] grids of patches  steps, rows and columns of each, which add up to `patches`; `% 2` of each side
m: bool[sounds, rows % 3] blocks of frames  which rows of each sound are there: a block of `% 15` frames makes 3 of them
n: int64[1] values                        nothing special, whatever the name is
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from posenc.ports import Carries, Port, fixed
from posenc_export.bundle.carries import Word, kind_of, named_axes
from posenc_export.bundle.port_names import DOTTED, NAME
from posenc_export.common.arrays import DTYPES, INTEGERS
from posenc_export.write.inputs import axis_names
from posenc_export.write.inputs.axis_names import KINDS, AxesSaid, AxisText
from posenc_export.write.inputs.port_text import REST, SIGN, PortError, PortText


@dataclass(frozen=True)
class _PortText:
    """A port as it is written, its name at `at`; assumed: the sentence on what it carries by its name."""

    text: str
    at: int
    name: str
    dtype: str
    axes: tuple[AxisText, ...]
    carries: Carries
    assumed: str

    @property
    def names(self) -> list[str]:
        """The names of its dynamic axes, and the terms of sums."""
        return [name for axis in self.axes if axis.size is None for name in axis.name.split("+")]

    def port(self, said: AxesSaid) -> Port:
        """Return the port, its axes as all inputs describe them."""
        axes = tuple(said.axis(axis.name) if axis.size is None else fixed(axis.size) for axis in self.axes)
        return Port(self.name, axes, self.dtype, kind_of(self.carries).settled(self.carries, axes))


def parse_port(text: str) -> Port:
    """Read one port; raise PortError with a caret under the first thing that does not fit."""
    port = _read(text)
    return port.port(_said_of_axes((port,)))


def parse_ports(texts: tuple[str, ...]) -> tuple[Port, ...]:
    """Read every port; an axis is the same wherever its name stands. Raises PortError where they contradict."""
    ports = tuple(_read(text) for text in texts)
    _check_names(ports)
    said = _said_of_axes(ports)
    return tuple(port.port(said) for port in ports)


def assumptions(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return what parse_ports assumes by names or by default, a sentence each."""
    ports = tuple(_read(text) for text in texts)
    carried = [port.assumed for port in ports if port.assumed]
    said = _said_of_axes(ports)
    # reversed, so that the first input with an axis stays
    first = {name: port.name for port in reversed(ports) for name in port.names}
    unknown = [name for port in ports for name in port.names if not said.has_kind(name)]
    return (*carried, *(f"axis {name!r} of {first[name]}: a length, by default" for name in dict.fromkeys(unknown)))


def _said_of_axes(ports: tuple[_PortText, ...]) -> AxesSaid:
    said = AxesSaid()
    for port in ports:
        for axis in port.axes:
            if contradiction := said.add(axis, port.name):
                # the caret points at the later statement: the earlier one may be meant
                raise PortError(port.text, axis.at, contradiction)
    return said


def _check_names(ports: tuple[_PortText, ...]) -> None:
    """Raise PortError where two ports have one name, or where the axis of a size or of extents is missing."""
    axes = {name for port in ports for name in port.names}
    for i, port in enumerate(ports):
        if port.name in [earlier.name for earlier in ports[:i]]:
            raise PortError(port.text, port.at, f"two inputs are named {port.name!r}")
        for _, axis in named_axes(port.carries):
            if axis not in axes:
                raise PortError(port.text, port.text.rindex(axis), f"no input has a dynamic axis {axis!r}")


def _read(text: str) -> _PortText:
    reader = PortText(text)
    name = reader.need(DOTTED, "a name")
    at = reader.start
    reader.need(":", "':' after the name")
    dtype = reader.one_of(DTYPES, f"a dtype, one of {', '.join(DTYPES)}")
    reader.need("[", "'[' and the axes")
    # errors on the whole shape point at '['
    shape_at = reader.start
    axes = _axes(reader)
    stated = _in_words(reader, dtype)
    # a word in the text is stronger than the name of the input
    carries, called = (stated, "") if stated else axis_names.usual(name, dtype, _end(reader, dtype))
    if reader.take(REST):
        raise reader.expected("nothing more")
    if wrong := kind_of(carries).misshapen(carries, [axis.size for axis in axes]):
        why = "" if stated else f" (by its name, {name!r}; 'values' after the axes says that it is none)"
        raise reader.expected(wrong + why, shape_at)
    return _PortText(text, at, name, dtype, axes, carries, called and f"{name}: carries {called}, by its name")


def _axes(reader: PortText) -> tuple[AxisText, ...]:
    if reader.take("]"):
        return ()
    axes = [_axis(reader)]
    while not reader.take("]"):
        reader.need(",", "',' or ']'")
        axes.append(_axis(reader))
    return tuple(axes)


def _axis(reader: PortText) -> AxisText:
    name = reader.take(NAME)
    at = reader.start
    if name is None:
        size = reader.count("a size of at least 1", "an axis: a name for a dynamic one, a number for a fixed one")
        if reader.take("+"):
            raise reader.expected("names alone in a sum", at)
        return AxisText("", at, size)
    # past+seq has its kind and its sizes from its terms
    terms = _terms(reader, name)
    if len(terms) > 1:
        return AxisText("+".join(terms), at)
    kind = {"kind": reader.one_of(KINDS, f"a kind, one of {', '.join(KINDS)}")} if reader.take(":") else {}
    return AxisText(name, at, says={**kind, **_limits(reader)})


def _terms(reader: PortText, first: str) -> list[str]:
    """Read the rest of a sum, if it is one."""
    terms = [first]
    while reader.take("+"):
        name = reader.need(NAME, "a name: names alone in a sum")
        if name in terms:
            raise reader.expected("another name: each once in a sum")
        terms.append(name)
    return terms


def _limits(reader: PortText) -> dict[str, Any]:
    # `>= 4` and `% 14` may stand in any order, each once; `!= 24` as often as there are such sizes
    limits: dict[str, Any] = {}
    while sign := reader.take(SIGN):
        if sign == "!=":
            limits["without"] = (*limits.get("without", ()), reader.count("a size of at least 1"))
            continue
        key, expected = ("multiple", "a number above 0") if sign == "%" else ("least", "a size of at least 1")
        if key in limits:
            raise reader.expected(f"one number after {sign}")
        limits[key] = reader.count(expected)
    return limits


def _in_words(reader: PortText, dtype: str) -> Carries | None:
    """Read the word that says what a port carries, and the rest of its phrase; return None without a word."""
    if (word := reader.take(NAME)) is None:
        return None
    known = axis_names.words()
    if word not in known:
        raise reader.expected(f"nothing more, or one of {', '.join(sorted(known))}")
    if dtype not in known[word].dtypes:
        raise reader.expected(known[word].refusal or f"no {word}: only of integers")
    return _taken(reader, known[word], dtype)


def _taken(reader: PortText, word: Word, dtype: str) -> Carries:
    """Read what belongs to a word; return what the port carries."""
    if word.then:
        an_axis = " and an axis" if "ax" in word.takes else ""
        reader.one_of((word.then,), f"{word.then!r}{an_axis} after {word.text}")
    if word.takes == "end":
        return word.make(_end(reader, dtype))
    if "ax" in word.takes:
        axes = [reader.need(NAME, "the name of an axis")]
        if word.takes.startswith("two"):
            reader.need("*", "'*' and another axis")
            axes.append(reader.need(NAME, "the name of an axis"))
        has_multiple = word.takes.endswith("multiple") and reader.take("%")
        return word.make(*axes, reader.count("a number above 0")) if has_multiple else word.make(*axes)
    return word.make(*_range(reader, dtype)) if word.takes == "range" else word.make()


def _range(reader: PortText, dtype: str) -> tuple[float, float]:
    low = reader.decimal(dtype)
    reader.need("..", "'..' and a number")
    high = reader.decimal(dtype)
    # an integer may be the same in every call, as a mask of ones
    constant = dtype in INTEGERS and low == high
    if not (low < high or constant):
        raise reader.expected(f"a number above {low:g}")
    return low, high


def _end(reader: PortText, dtype: str) -> int | None:
    if not reader.take("<"):
        return None
    if dtype not in INTEGERS:
        raise reader.expected("no bound: only integers have one")
    return reader.count("a number above 0", "a number above every value")
