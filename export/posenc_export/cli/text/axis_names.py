"""The meaning of names of axes and inputs in -i: as the text says, else the usual one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from posenc.ports import ANYTHING, Axis, Carries, Extents, Indices, Kind, Mask, Positions, Size, Start
from posenc_export.arrays import DTYPES, FLOATS

KINDS: tuple[Kind, ...] = get_args(Kind)
AXIS_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("batch", "b", "B", "bs"), "batch"),
    **dict.fromkeys(("heads", "head", "head_kv", "num_heads"), "heads"),
    **dict.fromkeys(("seq", "T", "t", "n", "length", "seq_len", "seq_k", "past", "total"), "length"),
    **dict.fromkeys(("height", "h", "H", "width", "w", "W"), "grid"),
    **dict.fromkeys(("dim", "d_model", "features", "C", "channels"), "features"),
}
"""Usual kinds of axes, by their names; `name:kind` is stronger, and any other name is a length."""

PORT_WORDS = {
    **dict.fromkeys(("positions", "position_ids"), "positions"),
    **dict.fromkeys(("start", "past_length"), "start"),
    **dict.fromkeys(("attention_mask", "mask"), "mask"),
}
"""The word for what an input of a usual name carries; a word in the text is stronger.

Positions and starts are integers, below the bound if there is one; masks are of any dtype, and with a bound indices.
"""

INTEGERS = ("int64", "int32")
BOUNDED: dict[str, Callable[[int | None], Carries]] = {"positions": Positions, "start": Start, "indices": Indices}
"""Words that take a bound."""
OF_AXES: dict[str, Callable[[str], Carries]] = {"size": Size, "extents": Extents}
"""Words that take the name of a dynamic axis."""
WORDS = {"in": (*FLOATS, *INTEGERS), **dict.fromkeys((*BOUNDED, "size"), INTEGERS), "extents": ("int64",)}
WORDS |= {"mask": DTYPES, "values": DTYPES, "additive": FLOATS}
"""The words after the axes, with the dtypes that they go with."""
LARGEST = {**dict.fromkeys(FLOATS, 3e38), "float16": 65504.0, "int64": 2**63 - 1, "int32": 2**31 - 1}
"""The largest number of a range, by dtype; the lowest is its negative."""
DIGITS = 20
"""Characters of the longest integer of 64 bits."""


def usual(name: str, dtype: str, end: int | None) -> Carries:
    """Return what an input of this name carries if no word says it."""
    word = PORT_WORDS.get(name, "indices")
    if word == "mask" and end is None:
        return Mask(additive=None, causal=True) if dtype in FLOATS else Mask()
    return BOUNDED.get(word, Indices)(end) if dtype in INTEGERS else ANYTHING


def assumed(name: str, carries: Carries) -> str:
    """Return the sentence "NAME: carries ..., by its name"; an empty text for indices and values."""
    words = {Positions: "positions", Start: "the first position", Mask: "a mask of 1 and 0"}.get(type(carries), "")
    if isinstance(carries, Mask) and carries.additive is None:  # the module decides, and says so
        return ""
    return words and f"{name}: carries {words}, by its name"


def of_axes(carries: Carries, axes: tuple[Axis, ...]) -> Carries:
    """Return what an input carries, now that the kinds of its axes are known: a causal mask has an axis of queries."""
    if not isinstance(carries, Mask) or not carries.causal:
        return carries
    queries = axes[-2] if len(axes) > 1 else None
    return replace(carries, causal=queries is not None and queries.size != 1 and queries.kind not in ("batch", "heads"))


def number(text: str, dtype: str) -> tuple[float, str]:
    """Return the number that a text says, and what is expected in its place if a dtype cannot hold it."""
    is_integer = dtype in INTEGERS
    if is_integer and "." in text:
        return 0, f"a whole number, as {dtype} holds"
    value = int(text) if is_integer and len(text) <= DIGITS else float(text)
    return value, "" if abs(value) <= LARGEST[dtype] else f"a number that {dtype} holds"


def unfitting(word: str) -> str:
    """Return what is expected in the place of a word that does not go with the dtype."""
    special = {
        "in": "no range: only numbers have one",
        "additive": "no additive mask: only floats are added",
        "extents": "no extents: only of int64",
    }
    return special.get(word) or f"no {word}: only of integers"


def misshapen(carries: Carries, sizes: list[int | None]) -> str:
    """Return the shape that is expected of a port that carries this; an empty text where it has it."""
    if isinstance(carries, Start) and sizes != [1]:
        return "[1], the shape of a first position"
    if isinstance(carries, Size) and sizes not in ([], [1]):
        return "[] or [1], the shape of a size"
    if isinstance(carries, Extents) and (len(sizes) != 2 or sizes[1] != 2):
        return "[batch, 2], the rows and columns of each image"
    if isinstance(carries, Mask) and carries.additive and len(sizes) < 2:
        return "two axes at least, the last that of keys"
    return "an axis along which tokens are" if isinstance(carries, Positions | Mask) and not sizes else ""


@dataclass(frozen=True)
class AxisText:
    """An axis as it is written at `at`; `says` has its kind, least and multiple, if the text says them."""

    name: str
    at: int
    size: int | None = None
    says: dict[str, Any] = field(default_factory=dict)


class AxesSaid:
    """The statements of all inputs about each axis: a name is the same axis everywhere."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._said: dict[str, dict[str, tuple[Any, str]]] = {}

    def add(self, axis: AxisText, source: str) -> str:
        """Add the statement of an input about an axis; return the contradiction to an earlier one, if any."""
        for key, value in axis.says.items():
            first, where = self._said.setdefault(axis.name, {}).setdefault(key, (value, source))
            if first != value:
                two = {"kind": "two kinds", "least": "two least sizes", "multiple": "two multiples"}[key]
                return f"axis {axis.name!r} has {two}: {first} in {where}, {value} in {source}"
        return ""

    def axis(self, name: str) -> Axis:
        """Return the dynamic axis of this name."""
        said = {key: value for key, (value, _) in self._said.get(name, {}).items()}
        return Axis(name, **{"kind": AXIS_KINDS.get(name, "length"), **said})

    def has_kind(self, name: str) -> bool:
        """Whether an input says the kind of an axis, or its name is a usual one."""
        return name in AXIS_KINDS or "kind" in self._said.get(name, {})
