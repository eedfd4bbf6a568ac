"""What was tried, as a map: the length of each call, the positions in it, and how it came out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2
from typing import Literal

from posenc_export.bundle.case import Case
from posenc_export.bundle.manifest import Manifest
from posenc_export.proof.judging.verdict import AGREES, Comparison, Verdict, worst
from posenc_export.show.pages.scales import NARROW, WIDE, Box, PositionScale, Tick, amount, short, thinned

Outcome = Literal["pass", "fail", "refused", "skip"]
WORDS: dict[Outcome, str] = {
    "pass": "agrees",
    "fail": "FAIL",
    "refused": "refused, as it must be",
    "skip": "not run",
}
MOST = 200
"""Calls that are drawn."""


@dataclass(frozen=True)
class Tried:
    """A call: its sizes and positions, whether it must be refused, how it came out, its largest error in float64."""

    name: str
    sizes: str
    length: int
    first: int
    last: int
    is_refusal: bool
    outcome: Outcome
    error: str

    @property
    def words(self) -> str:
        """The call in words."""
        return f"{self.name}: positions {self.first:,} to {self.last:,}, {WORDS[self.outcome]}"

    @property
    def place(self) -> tuple[int, int, int, Outcome]:
        """What calls share that are drawn on top of each other."""
        return self.length, self.first, self.last, self.outcome


@dataclass(frozen=True)
class Mark:
    """Calls as they are drawn: a bar from their first position to their last at the height of their length."""

    x: float
    end: float
    y: float
    calls: tuple[Tried, ...]

    @property
    def names(self) -> str:
        """The names of the calls, with a space between them."""
        return " ".join(call.name for call in self.calls)

    @property
    def words(self) -> str:
        """The calls in words."""
        return "; ".join(call.words for call in self.calls)


@dataclass(frozen=True)
class Map:
    """The map at one size."""

    box: Box
    marks: tuple[Mark, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


def tried_of(manifest: Manifest, verdicts: Sequence[Verdict]) -> list[Tried]:
    """Return the calls of a manifest, by length."""
    by_case: dict[str, list[Comparison]] = {}
    for comparison in (c for verdict in verdicts for c in verdict.comparisons):
        by_case.setdefault(comparison.case, []).append(comparison)
    refusals = [verdict for verdict in verdicts if verdict.check == "refusal"]
    lengths = {axis.name for port in manifest.inputs for axis in port.dynamic.values() if axis.is_length}
    calls = [_tried(case, lengths, by_case.get(case.name, []), refusals) for case in manifest.cases]
    return sorted(calls, key=lambda call: (call.length, call.first, call.name))


def _tried(case: Case, lengths: set[str], compared: Sequence[Comparison], refusals: Sequence[Verdict]) -> Tried:
    largest = worst(compared, "reference")
    sizes = ", ".join(f"{name} {size:,}" for name, size in case.sizes.items()) or "fixed sizes"
    length = max((size for name, size in case.sizes.items() if name in lengths), default=1)
    # calls that must be refused may begin far out, or below 0: there the largest position is not the last one
    follows = case.max_position >= case.first >= 0
    last = case.max_position if follows else case.first + length - 1
    outcome = _of_refused(case, refusals) if case.refused else _outcome(compared)
    error = "" if largest is None else short(largest.max_abs)
    return Tried(case.name, sizes, length, case.first, last, case.refused, outcome, error)


def _outcome(compared: Sequence[Comparison]) -> Outcome:
    if not compared:
        return "skip"
    return "pass" if all(comparison.passed for comparison in compared) else "fail"


def _of_refused(case: Case, refusals: Sequence[Verdict]) -> Outcome:
    """Return how a call came out that must be refused; a row that failed names the call that was answered."""
    # the rows of all refusals are folded into one, which names the first that was answered
    if any(row.status == "fail" and row.detail.startswith(f"{case.name}:") for row in refusals):
        return "fail"
    return "refused" if any(row.status == "pass" for row in refusals) else "skip"


def maps_of(calls: Sequence[Tried]) -> tuple[Map, ...]:
    """Return the map for screens, and for phones."""
    return tuple(_map(calls[:MOST], box) for box in (WIDE, NARROW)) if calls else ()


def _map(calls: Sequence[Tried], box: Box) -> Map:
    ends = [position for call in calls for position in (call.first, call.last)]
    across = PositionScale(max(ends), box.x, min(0, *ends))
    up = PositionScale(max(call.length for call in calls), (box.y[1] - 8, box.y[0] + 4))
    by_place: dict[tuple[int, int, int, Outcome], list[Tried]] = {}
    for call in calls:
        by_place.setdefault(call.place, []).append(call)
    marks = tuple(
        Mark(across.at(first), across.at(last), up.at(length), tuple(same))
        for (length, first, last, _), same in by_place.items()
    )
    tallest = max(call.length for call in calls)
    doublings = thinned(range(int(log2(tallest)) + 1))
    ticks = tuple(Tick(up.at(2**k), amount(2**k)) for k in doublings)
    return Map(box, marks, tuple(across.ticks()), ticks)


def summary(calls: Sequence[Tried], verdicts: Sequence[Verdict]) -> str:
    """Return in words how many calls were tried, up to which length and position."""
    if not calls:
        return "no call was recorded"
    inside = [call for call in calls if not call.is_refusal]
    runtimes = sum(v.check == AGREES and v.status != "skip" for v in verdicts)
    refused = len(calls) - len(inside)
    parts = [f"{len(inside)} calls of up to {max((c.length for c in inside), default=0):,} tokens"]
    parts += [f"positions up to {max((c.last for c in inside), default=0):,}"]
    parts += [f"{refused} calls that must be refused"] if refused else []
    where = f"; on {runtimes} runtime{'' if runtimes == 1 else 's'}" if verdicts else ""
    return f"{', '.join(parts)}{where}"
