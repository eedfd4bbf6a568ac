"""Calls on a map: a bar from the first position of each to its last, at the height of its length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import log2

from posenc_export.show.pages.scales import NARROW, WIDE, Box, PositionScale, Tick, amount, thinned
from posenc_export.show.pages.tried import Tried

MOST = 200
"""Calls that are drawn."""
REACH = 5.0
"""Units from the middle of a sign to its edges."""
LETTER = 8.0, 12.0
"""Units that a digit takes, across and down."""
STEP = 4.0
"""Units by which each attempt to place the numbers joins signs that are farther apart."""


@dataclass(frozen=True)
class Extent:
    """A rectangle of a map, in units of the picture."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Extent) -> bool:
        """Whether two rectangles have a place in common."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def lies_in(self, box: Box) -> bool:
        """Whether nothing of it leaves what is drawn."""
        return box.x[0] <= self.left and self.right <= box.width and box.top - 4 <= self.top and self.bottom <= box.y[1]


@dataclass(frozen=True)
class Mark:
    """Calls of one kind that lie on each other: their bar, and a sign at its end.

    Args:
        begin: Where the first of their positions is.
        x: Where the sign is, at their last position.
        y: The height of their length.
        calls: The calls.
        count: Where their number is, which stands beside the sign of more than one call.
    """

    begin: float
    x: float
    y: float
    calls: tuple[Tried, ...]
    count: Extent | None = None

    @property
    def names(self) -> str:
        """The names of the calls, with a space between them."""
        return " ".join(call.name for call in self.calls)

    @property
    def words(self) -> str:
        """The calls in words."""
        return "; ".join(call.words for call in self.calls)

    @property
    def is_refusal(self) -> bool:
        """Whether the calls must be refused."""
        return self.calls[0].is_refusal

    @property
    def sign(self) -> Extent:
        """The place of the sign."""
        return Extent(self.x - REACH, self.y - REACH, self.x + REACH, self.y + REACH)


@dataclass(frozen=True)
class Map:
    """The map at one size."""

    box: Box
    marks: tuple[Mark, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


def maps_of(calls: Sequence[Tried]) -> tuple[Map, ...]:
    """Return the map for screens, and for phones."""
    return tuple(_map(calls[:MOST], box) for box in (WIDE, NARROW)) if calls else ()


def _map(calls: Sequence[Tried], box: Box) -> Map:
    ends = [position for call in calls for position in (call.first, call.last)]
    across = PositionScale(max(ends), box.x, min(0, *ends))
    tallest = max(call.length for call in calls)
    up = PositionScale(tallest, (box.y[1] - 8, box.y[0] + 4))
    single = [Mark(across.at(call.first), across.at(call.last), up.at(call.length), (call,)) for call in calls]
    doublings = thinned(range(int(log2(tallest)) + 1))
    ticks = tuple(Tick(up.at(2**k), amount(2**k)) for k in doublings)
    return Map(box, _counted(single, box), tuple(across.ticks()), ticks)


def _counted(single: Sequence[Mark], box: Box) -> tuple[Mark, ...]:
    """Return marks that do not lie on each other, with numbers that lie on nothing."""
    apart = 2 * REACH
    while True:
        marks = _with_counts(_joined(single, apart), box)
        # fewer signs leave more room for numbers; of one sign a kind there is always enough
        if marks is not None or apart > box.width:
            return tuple(marks or _joined(single, apart))
        apart += STEP


def _joined(single: Sequence[Mark], apart: float) -> list[Mark]:
    """Return marks of which those of one kind are one whose signs are close; calls to be refused come last, on top."""
    joined: list[Mark] = []
    for mark in sorted(single, key=lambda mark: (mark.is_refusal, mark.calls[0].outcome, -mark.y, mark.x)):
        near = next((i for i, other in enumerate(joined) if _are_near(mark, other, apart)), None)
        if near is None:
            joined.append(mark)
            continue
        own = joined[near]
        joined[near] = replace(own, begin=min(own.begin, mark.begin), calls=(*own.calls, *mark.calls))
    return joined


def _are_near(mark: Mark, other: Mark, apart: float) -> bool:
    kinds = [(one.is_refusal, one.calls[0].outcome) for one in (mark, other)]
    return kinds[0] == kinds[1] and abs(mark.x - other.x) < apart and abs(mark.y - other.y) < apart


def _with_counts(marks: Sequence[Mark], box: Box) -> list[Mark] | None:
    """Return marks with the places of their numbers; None where a number has no free place beside its sign."""
    taken = [mark.sign for mark in marks]
    counted: list[Mark] = []
    for mark in marks:
        if len(mark.calls) == 1:
            counted.append(mark)
            continue
        places = (place for place in _beside(mark) if place.lies_in(box) and not any(map(place.meets, taken)))
        place = next(places, None)
        if place is None:
            return None
        taken.append(place)
        counted.append(replace(mark, count=place))
    return counted


def _beside(mark: Mark) -> Iterator[Extent]:
    """Yield the places for the number of a mark: above it, below it, and on either side."""
    width, height = LETTER[0] * len(str(len(mark.calls))), LETTER[1]
    lefts = (mark.x + REACH - 1, mark.x - width / 2, mark.x - REACH - width + 1)
    tops = (mark.y - REACH - height, mark.y + REACH, mark.y - height / 2)
    for top, left in product(tops, lefts):
        place = Extent(left, top, left + width, top + height)
        if not place.meets(mark.sign):
            yield place
