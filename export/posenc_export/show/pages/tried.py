"""What was tried: the length of each call, the positions in it, and how it came out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from posenc.ports import Positions, Start, carrying
from posenc_export.bundle.carries import kind_of
from posenc_export.bundle.case import Case
from posenc_export.bundle.manifest import Manifest
from posenc_export.common.markdown import count_of
from posenc_export.proof.judging.verdict import AGREES, Comparison, Verdict, worst
from posenc_export.show.pages.scales import short

Outcome = Literal["pass", "fail", "refused", "skip"]
WORDS: dict[Outcome, str] = {
    "pass": "agrees",
    "fail": "FAIL",
    "refused": "refused, as it must be",
    "skip": "not run",
}
TRIED, TO_TRY = "What was tried", "What would be tried"
"""The title of the calls: where a runtime has run them, and where none has."""


@dataclass(frozen=True)
class Tried:
    """A call: its sizes and positions, whether it must be refused, how it came out, its largest error in float64.

    Args:
        number: The number for which it must be refused; None where its positions or sizes are the reason.
    """

    name: str
    sizes: str
    length: int
    first: int
    last: int
    is_refusal: bool
    outcome: Outcome
    error: str
    number: int | None = None

    @property
    def positions(self) -> str:
        """Its positions in words."""
        return f"{self.first:,} to {self.last:,}"

    @property
    def fed(self) -> str:
        """Its sizes in words, and the number for which it must be refused."""
        return self.sizes + ("" if self.number is None else f", every number {self.number:,}")

    @property
    def words(self) -> str:
        """The call in words."""
        return f"{self.name}: {self.fed}, positions {self.positions}, {WORDS[self.outcome]}"


def tried_of(manifest: Manifest, verdicts: Sequence[Verdict]) -> list[Tried]:
    """Return the calls of a manifest, by length."""
    by_case: dict[str, list[Comparison]] = {}
    for comparison in (c for verdict in verdicts for c in verdict.comparisons):
        by_case.setdefault(comparison.case, []).append(comparison)
    refusals = [verdict for verdict in verdicts if verdict.check == "refusal"]
    lengths = {axis.name for port in manifest.inputs for axis in port.dynamic.values() if axis.is_length}
    numbers = _refused_numbers(manifest)
    calls = [_tried(case, lengths, numbers, by_case.get(case.name, []), refusals) for case in manifest.cases]
    return sorted(calls, key=lambda call: (call.length, call.first, call.name))


def _refused_numbers(manifest: Manifest) -> set[int]:
    """Return the numbers that calls must be refused for; none where positions go in, which are refused as positions."""
    if carrying(manifest.inputs, Positions, Start):
        return set()
    return {number for port in manifest.inputs for number, _ in kind_of(port.carries).refused(port.carries)}


def _tried(
    case: Case, lengths: set[str], numbers: set[int], compared: Sequence[Comparison], refusals: Sequence[Verdict]
) -> Tried:
    largest = worst(compared, "reference")
    sizes = ", ".join(f"{name} {size:,}" for name, size in case.sizes.items()) or "fixed sizes"
    length = max((size for name, size in case.sizes.items() if name in lengths), default=1)
    number = case.first if case.refused and case.first in numbers else None
    first = case.first if number is None else 0
    # calls that must be refused may begin far out, or below 0: there the largest position is not the last one
    follows = case.max_position >= case.first >= 0 and number is None
    last = case.max_position if follows else first + length - 1
    outcome = _of_refused(case, refusals) if case.refused else _outcome(compared)
    error = "" if largest is None else short(largest.max_abs)
    return Tried(case.name, sizes, length, first, last, case.refused, outcome, error, number)


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


def runtimes_of(verdicts: Sequence[Verdict]) -> int:
    """Return how many runtimes have run calls."""
    return sum(verdict.check == AGREES and verdict.status != "skip" for verdict in verdicts)


def has_grid(manifest: Manifest) -> bool:
    """Whether the places of a call lie along several sides, as in an image, and not in one row."""
    return any(axis.kind == "grid" for port in manifest.inputs for axis in port.dynamic.values())


def longest(calls: Sequence[Tried], manifest: Manifest) -> str:
    """Return the length of the longest call that need not be refused, and that with the tokens of a cache."""
    length = max((call.length for call in calls if not call.is_refusal), default=0)
    sums = {
        (axis.size_in(case.sizes), str(axis))
        for port in manifest.inputs
        for axis in port.axes
        for case in manifest.cases
        if axis.is_length and axis.is_formula and not case.refused and {*axis.names} <= {*case.sizes}
    }
    whole, name = max(sums, default=(0, ""))
    return f"{length:,}" + (f" ({whole:,} along {name})" if whole > length else "")


def summary(calls: Sequence[Tried], verdicts: Sequence[Verdict], manifest: Manifest) -> str:
    """Return in words how many calls there are, up to which length and position."""
    if not calls:
        return "no call was recorded"
    inside = [call for call in calls if not call.is_refusal]
    refused = len(calls) - len(inside)
    far = f", positions up to {max((call.last for call in inside), default=0):,}"
    unit = "places along a side" if has_grid(manifest) else f"tokens{far}"
    parts = [f"{count_of('call', len(inside))} of up to {longest(calls, manifest)} {unit}"]
    parts += [f"{count_of('call', refused)} that must be refused"] if refused else []
    count = runtimes_of(verdicts)
    return ", ".join(parts) + (f"; on {count_of('runtime', count)}" if count else "")
