"""Calls of a user's module whose inputs share a length and have it not: they are tried where eager itself refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from posenc.encoding import Encoding
from posenc_export.bundle.case import Case
from posenc_export.bundle.rules import rules_of
from posenc_export.validation.judging.verdict import Verdict
from posenc_export.validation.planning.answering import answers


def refused_by_eager(encoding: Encoding, cases: Sequence[Case], seed: int) -> list[Case]:
    """Return cases without those of unlike lengths that a user's module answers: it may repeat a token on purpose."""
    tried = [case for case in cases if case.unlike]
    if rules_of(encoding.family).known_refusals or not tried:
        return list(cases)
    called = encoding.uncalled().module
    answered = {case.name for case in tried if answers(called, encoding.inputs, case, seed)}
    return [case for case in cases if case.name not in answered]


def answered_all_the_same(runtime: str, case: Case) -> Verdict:
    """Return a row for a call that a graph answers and the module that it was made of refuses."""
    lengths = [f"{port} with {size} of {axis}" for port, own in case.unlike.items() for axis, size in own.items()]
    others = next(case.sizes[axis] for own in case.unlike.values() for axis in own)
    return Verdict(runtime, "refusal", "pass", note=f"{', '.join(lengths)} where the others have {others}")


def fold_notes(verdicts: Sequence[Verdict], folded: Sequence[Verdict]) -> list[Verdict]:
    """Return the rows on refusals of a runtime with a note on what it answers: a row of its own where there is none.

    verdicts: those with a note each. folded: the row of the others, if there are others.
    """
    if not verdicts:
        return list(folded)
    calls = "; ".join(verdict.note for verdict in verdicts)
    note = f"answers where the module refuses inputs of unlike lengths: {calls}: compare lengths before the call"
    if folded:
        return [replace(folded[0], note=note), *folded[1:]]
    return [replace(verdicts[0], status="skip", detail=note, note="")]
