"""The meaning of names of axes and inputs in -i: as the text says, else the usual one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, get_args

from posenc.ports import ANYTHING, Axis, Carries, Indices, Kind
from posenc_export.bundle.carries import Word, port_kinds
from posenc_export.common.arrays import FLOATS, INTEGERS

KINDS: tuple[Kind, ...] = get_args(Kind)
AXIS_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("batch", "batch_size", "b", "B", "bs"), "batch"),
    **dict.fromkeys(("heads", "head", "head_kv", "num_heads"), "heads"),
    **dict.fromkeys(("seq", "T", "t", "n", "length", "seq_len", "seq_k", "past", "total"), "length"),
    **dict.fromkeys(("height", "h", "H", "width", "w", "W"), "grid"),
    **dict.fromkeys(("dim", "d_model", "features", "C", "channels"), "features"),
}
"""Usual kinds of axes, by their names; `name:kind` is stronger, and any other name is a length."""

LARGEST = {**dict.fromkeys(FLOATS, 3e38), "float16": 65504.0, "int64": 2**63 - 1, "int32": 2**31 - 1}
"""The largest number of a range, by dtype; the lowest is its negative."""
DIGITS = 20
"""Characters of the longest integer of 64 bits."""


def words() -> dict[str, Word]:
    """Return the words after the axes that say what an input carries."""
    return {word.text: word for kind in port_kinds().values() for word in kind.words}


def usual_names() -> dict[str, str]:
    """Return the names of inputs that say what they usually carry, with the kinds; a word in the text is stronger."""
    return {name: carried for carried, kind in port_kinds().items() for name in kind.usual_names}


def usual(name: str, dtype: str, end: int | None) -> tuple[Carries, str]:
    """Return what an input of this name carries if no word says it, and the report's word for that, if any."""
    for kind in port_kinds().values():
        carried = kind.by_name(dtype, end) if name in kind.usual_names else None
        if carried is not None:
            return carried
    # integers without a word are look-ups: most are ids of tokens
    return Indices(end) if dtype in INTEGERS else ANYTHING, ""


def number(text: str, dtype: str) -> tuple[float, str]:
    """Return the number that a text says, and what is expected in its place if a dtype cannot hold it."""
    is_integer = dtype in INTEGERS
    if is_integer and "." in text:
        return 0, f"a whole number, as {dtype} holds"
    # a longer text would take int() quadratic time, and float() says that it is too large
    value = int(text) if is_integer and len(text) <= DIGITS else float(text)
    return value, "" if abs(value) <= LARGEST[dtype] else f"a number that {dtype} holds"


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
                two = {
                    "kind": "two kinds",
                    "least": "two least sizes",
                    "multiple": "two multiples",
                    "without": "two lists of sizes that never come",
                }[key]
                return f"axis {axis.name!r} has {two}: {first} in {where}, {value} in {source}"
        return ""

    def axis(self, name: str) -> Axis:
        """Return the dynamic axis of this name."""
        said = {key: value for key, (value, _) in self._said.get(name, {}).items()}
        return Axis(name, **{"kind": AXIS_KINDS.get(name, "length"), **said})

    def has_kind(self, name: str) -> bool:
        """Whether an input says the kind of an axis, or its name is a usual one."""
        return name in AXIS_KINDS or "kind" in self._said.get(name, {})
