"""The rows of a report's tables: files and runtimes, with their checks and largest errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from posenc_export.common.markdown import count_of
from posenc_export.proof.judging.verdict import AGREES, MODEL, Against, Comparison, Status, Verdict, worst
from posenc_export.proof.runtimes import NOT_RUN, RUNTIMES

MARKS: Mapping[Status, str] = {"pass": "pass", "fail": "FAIL", "skip": "not run"}
PLACED_MARK = "placed"
"""The mark, instead of "pass", of a runtime that says where nodes would run, and runs nothing."""
FILE_COLUMNS = ("file", "verdict", "checks")
AGAINST_MODEL = "against the model"
RUN_COLUMNS = ("runtime", "verdict", "against eager", "against float64", AGAINST_MODEL, "cases", "other checks")
MEANINGS = {
    "verdict": "pass, or FAIL, with the reason above the tables; what could not run is listed below them",
    "against eager": "the largest difference from the PyTorch module, and how many steps of the dtype (ulp) it is",
    "against float64": "the largest difference from the reference, and the position where it is",
    AGAINST_MODEL: "the largest difference from the model's own code, at positions where its float32 angles are good",
    "cases": "calls that were compared: lengths, positions, batches",
}
"""What each column says."""


@dataclass(frozen=True)
class ReportRow:
    """A file or a runtime with all of its checks: cells in the order of its table's columns."""

    status: Status
    cells: tuple[str, ...]


@dataclass(frozen=True)
class ReportTable:
    """A table of a report."""

    columns: tuple[str, ...]
    rows: tuple[ReportRow, ...]


def tables(verdicts: Sequence[Verdict], counted: bool = False) -> list[ReportTable]:
    """Return the table of files and that of runtimes, unless it is empty; checks that did not run are in neither.

    Args:
        verdicts: The rows of a report.
        counted: Whether checks that passed are counted; they are named otherwise.
    """
    has_model = any(verdict.check == MODEL and verdict.comparisons for verdict in verdicts)
    against: tuple[Against, ...] = ("eager", "reference", "model") if has_model else ("eager", "reference")
    columns = tuple(column for column in RUN_COLUMNS if has_model or column != AGAINST_MODEL)
    file_rows: list[ReportRow] = []
    run_rows: list[ReportRow] = []
    for place, group in _by_place(verdicts).items():
        subject, status, cell = group[0].subject, _gravest(group), _checks(group, counted)
        if subject in RUNTIMES:
            run_rows.append(ReportRow(status, (place, mark(subject, status), *_figures(group, against), cell)))
        else:
            file_rows.append(ReportRow(status, (place, MARKS[status], cell)))
    both_tables = (ReportTable(FILE_COLUMNS, tuple(file_rows)), ReportTable(columns, tuple(run_rows)))
    return [rows for rows in both_tables if rows.rows]


def _by_place(verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    """Return what ran of each file and of each runtime."""
    groups: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.status != "skip":
            groups.setdefault(verdict.place, []).append(verdict)
    return groups


def _gravest(group: Sequence[Verdict]) -> Status:
    return "fail" if any(verdict.status == "fail" for verdict in group) else "pass"


def _checks(group: Sequence[Verdict], counted: bool) -> str:
    """Return the checks of a row beside the comparisons: those that failed by name, then those that passed."""
    beside = [verdict for verdict in group if verdict.check != AGREES]
    wrong = ", ".join(verdict.check for verdict in beside if verdict.status == "fail")
    right = [verdict.check for verdict in beside if verdict.status == "pass"]
    words = f"{count_of('check', len(right))} passed" if counted else ", ".join(right)
    if not wrong:
        return words if right else ""
    # names alone would not say which of them passed
    return "; ".join([f"{wrong} failed", *([words if counted else f"{words} passed"] if right else [])])


def mark(subject: str, status: Status) -> str:
    """Return the word for a status: nothing passes on a runtime that runs no kernel."""
    runs = subject not in RUNTIMES or RUNTIMES[subject].runs
    return MARKS[status] if runs or status != "pass" else PLACED_MARK


def _figures(group: Sequence[Verdict], against: Sequence[Against]) -> tuple[str, ...]:
    """Return the largest errors on a runtime, and how many cases were compared; of one that runs nothing, that."""
    if not RUNTIMES[group[0].subject].runs:
        return (NOT_RUN, *("" for _ in against))
    comparisons = [comparison for verdict in group for comparison in verdict.comparisons]
    cases = len({comparison.case for comparison in comparisons if comparison.output})
    errors = (figure(worst(comparisons, expected)) for expected in against)
    return (*errors, str(cases or ""))


def figure(comparison: Comparison | None) -> str:
    """Return an error in words: its size and its position."""
    if comparison is None:
        return ""
    if not comparison.output:
        return "no answer"
    if comparison.max_abs == 0 and comparison.passed:
        return "same bits" if comparison.against == "eager" else "0"
    where = (
        f" at position {comparison.position:,}"
        if comparison.position is not None and comparison.against != "eager"
        else ""
    )
    # Near zero an ulp is tiny, and an error has thousands of them: there the absolute error says more.
    ulps = f", {comparison.max_ulp:.3g} ulp" if comparison.against == "eager" and comparison.max_ulp < 100 else ""
    if comparison.max_abs > 1 and comparison.peak > comparison.max_abs:  # of large values a share says more
        return f"{100 * comparison.max_abs / comparison.peak:.2g}% of {comparison.peak:.2g}{where}"
    return f"{comparison.max_abs:.2g}{ulps}{where}"
