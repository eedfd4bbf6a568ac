"""The table of all proofs: the machine, and a row for each scheme on each runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from posenc_export.common.markdown import count_of, table
from posenc_export.proof.cuda.place import CudaPlacement
from posenc_export.proof.cuda.prove import CudaProof
from posenc_export.proof.judging.verdict import Status, worst
from posenc_export.proof.report.rows import MARKS, figure
from posenc_export.proof.runtimes import NOT_RUN

COLUMNS = ("scheme", "by", "verdict", "bundles", "checks", "against eager", "against float64", "detail")
"""Errors are those of fp32: half precision rounds by far more."""


def rows(proofs: Iterable[CudaProof]) -> list[tuple[str, ...]]:
    """Return a row of COLUMNS for each scheme and runtime, in the order of their first proofs."""
    groups = _grouped(proofs)
    return [_row(scheme, by, group) for (scheme, by), group in groups.items()]


def status_of(group: Iterable[CudaProof]) -> Status:
    """Return "fail" where anything failed, "skip" where nothing ran, else "pass"."""
    statuses = {proof.verdict.status for proof in group}
    return "fail" if "fail" in statuses else "pass" if "pass" in statuses else "skip"


def markdown(facts: Mapping[str, str], headline: str, proofs: Sequence[CudaProof]) -> str:
    """Return the table as Markdown, below the machine and the versions."""
    machine = (f"* {name}: {value}" for name, value in facts.items())
    return "\n".join([headline, "", *machine, "", table(COLUMNS, rows(proofs)), ""])


def is_table(file: Path) -> bool:
    """Return whether a file holds what `markdown` or `placed_markdown` wrote: a headline, the machine, a table."""
    lines = [line for line in file.read_text(encoding="utf-8", errors="replace").splitlines() if line]
    return not lines or (any(line.startswith("* posenc-export: ") for line in lines[1:]) and lines[-1].startswith("|"))


def headline(proofs: Sequence[CudaProof]) -> str:
    """Return one line with the outcome of all proofs."""
    count = {status: sum(proof.verdict.status == status for proof in proofs) for status in MARKS}
    bundles = len({str(proof.plan) for proof in proofs})
    skipped = f", {count['skip']} not run" if count["skip"] else ""
    if count["fail"]:
        return f"FAILED: {count['fail']} of {len(proofs)} checks of {bundles} bundles{skipped}"
    if not count["pass"]:
        return f"nothing ran: {count['skip']} checks of {bundles} bundles not run"
    return f"all {count['pass']} checks of {bundles} bundles passed{skipped}"


PLACED_COLUMNS = ("scheme", "form", "files", "nodes on CUDA", "sizes on the CPU", "copied sizes", "rows on the CPU")
"""Counts are of all files of a row."""


def placed_rows(placements: Iterable[CudaPlacement]) -> list[tuple[str, ...]]:
    """Return a row of PLACED_COLUMNS for each form of each scheme, in the order of their first files."""
    groups: dict[tuple[str, str], list[CudaPlacement]] = {}
    for one in placements:
        groups.setdefault((one.plan.scheme, one.plan.form), []).append(one)
    return [(*names, *_placed_cells(group)) for names, group in groups.items()]


def _placed_cells(group: Sequence[CudaPlacement]) -> tuple[str, ...]:
    counts = (
        len(group),
        sum(one.placed.on_cuda for one in group),
        sum(len(one.placed.sizes) for one in group),
        sum(len(one.placed.copies) for one in group),
    )
    operators = Counter(op for one in group for op in one.placed.operators)
    stray = ", ".join(f"{count} {op}" for op, count in operators.most_common())
    return (*(f"{count:,}" for count in counts), stray or "none")


def placed_headline(placements: Sequence[CudaPlacement]) -> str:
    """Return one line with the outcome of all placements, and that nothing ran."""
    failures = [one for one in placements if one.failed]
    named = dict.fromkeys(one.plan.scheme for one in placements if one.placed.rows and not one.failed)
    words = []
    if failures:
        problems = "; ".join(failures[0].placed.problems)
        words += [f"FAILED: {len(failures)} of {count_of('file', len(placements))}: {failures[0].plan}: {problems}"]
    words += [f"{count_of('file', len(placements))} placed on CUDA", NOT_RUN]
    words += [f"rows on the CPU, for which CUDA has no kernel: {', '.join(named)}"] if named else []
    return "; ".join(words)


def placed_markdown(facts: Mapping[str, str], placements: Sequence[CudaPlacement]) -> str:
    """Return the table of placements as Markdown, below the machine and the versions."""
    machine = (f"* {name}: {value}" for name, value in facts.items())
    rows = table(PLACED_COLUMNS, placed_rows(placements))
    return "\n".join([placed_headline(placements), "", *machine, "", rows, ""])


def _grouped(proofs: Iterable[CudaProof]) -> dict[tuple[str, str], list[CudaProof]]:
    groups: dict[tuple[str, str], list[CudaProof]] = {}
    for proof in proofs:
        groups.setdefault((proof.plan.scheme, proof.verdict.subject), []).append(proof)
    return groups


def _row(scheme: str, by: str, group: Sequence[CudaProof]) -> tuple[str, ...]:
    comparisons = [c for proof in group if proof.plan.spec.dtype == "fp32" for c in proof.verdict.comparisons]
    # names in the order of their first proofs, each once
    checks = dict.fromkeys(p.verdict.check for p in group if p.verdict.status == "pass")
    eager, reference = worst(comparisons, "eager"), worst(comparisons, "reference")
    bundles = len({str(proof.plan) for proof in group})
    status = status_of(group)
    return scheme, by, MARKS[status], str(bundles), ", ".join(checks), figure(eager), figure(reference), _detail(group)


def _detail(group: Sequence[CudaProof]) -> str:
    """Return the first failure with its bundle, or why something did not run, or what was measured."""
    failed = [proof for proof in group if proof.verdict.status == "fail"]
    if failed:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        return f"{failed[0].plan}: {failed[0].verdict.check}: {failed[0].verdict.detail}{more}"
    skipped = next((proof.verdict for proof in group if proof.verdict.status == "skip"), None)
    if skipped is not None:
        return skipped.detail if status_of(group) == "skip" else f"{skipped.check} not run: {skipped.detail}"
    return "" if group[0].verdict.comparisons else group[0].verdict.detail
