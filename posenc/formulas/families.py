"""The families of encodings, as inspections call them, and what all encodings of a family have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Family = Literal[
    "rotary",
    "sinusoidal",
    "learned",
    "alibi",
    "t5",
    "relative",
    "window",
    "grid",
    "timestep",
    "temperature",
    "not recognised",
]


TRAINED_FORMS = (
    "table",
    "buckets",
    "bucketed",
    "clipped",
    "clipped_relative",
    "deberta_buckets",
    "distances",
    "fire",
    "interpolated",
    "learned rows and columns",
)
"""Names of forms that cannot be off: rows that were trained, whole numbers that choose among such rows, networks."""
GROWING_FORMS = ("kerple log", "kerple power")
"""Names of forms whose numbers grow with the distance, in a family of which others do not."""


@dataclass(frozen=True)
class Traits:
    """What is true of all encodings of a family.

    Args:
        is_turned: Its numbers are cosines, then sines, that turn pairs of queries and keys.
        is_layered: It meets data in layers, before each attention.
        is_compared: A layer has one of its encodings at most: two files are compared layer by layer.
        is_everywhere: It meets data in every attention of a model.
        is_in_each: The encoder and the decoder of a model have one each.
        has_rows: Each position has a row, in order.
        is_absolute: Its rows are of a sequence, and tell where a token is.
        is_trained: All of its encodings were trained, and whatever is stored is right.
        is_evident: Nothing but positions has numbers of its form; trained rows may be those of words.
        is_stepped: Its numbers are those of steps of time that come in.
        grows: Its numbers grow with the distance, by a slope for each head.
    """

    is_turned: bool = False
    is_layered: bool = False
    is_compared: bool = False
    is_everywhere: bool = False
    is_in_each: bool = False
    has_rows: bool = False
    is_absolute: bool = False
    is_trained: bool = False
    is_evident: bool = False
    is_stepped: bool = False
    grows: bool = False

    @property
    def is_learned(self) -> bool:
        """Whether each position has a row that was trained."""
        return self.has_rows and self.is_trained

    @property
    def is_computed(self) -> bool:
        """Whether each position has a row that a formula gives: tables of it can be made longer."""
        return self.has_rows and not self.is_trained


FAMILIES: Mapping[Family, Traits] = {
    "rotary": Traits(is_turned=True, is_layered=True, is_compared=True, has_rows=True, is_evident=True),
    "sinusoidal": Traits(has_rows=True, is_absolute=True, is_evident=True),
    "learned": Traits(has_rows=True, is_absolute=True, is_trained=True),
    "alibi": Traits(is_layered=True, is_compared=True, is_everywhere=True, is_evident=True, grows=True),
    "t5": Traits(is_layered=True, is_compared=True, is_in_each=True, is_trained=True, is_evident=True),
    "relative": Traits(is_layered=True, is_evident=True),
    "window": Traits(is_layered=True, is_everywhere=True, is_trained=True),
    "grid": Traits(is_evident=True),
    "timestep": Traits(is_stepped=True),
    "temperature": Traits(is_layered=True),
    "not recognised": Traits(is_layered=True),
}


def grows(family: Family, form: str) -> bool:
    """Return whether the numbers of a form, in a family, grow with the distance."""
    return FAMILIES[family].grows or form in GROWING_FORMS


def is_trained(family: Family, form: str) -> bool:
    """Return whether the numbers of a form, in a family, follow no formula: whatever is stored is right."""
    return FAMILIES[family].is_trained or form in TRAINED_FORMS
