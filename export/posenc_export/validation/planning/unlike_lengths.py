"""Cases in which inputs that share a length have different ones: a user's module is asked whether it refuses them."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.encoding import Encoding
from posenc_export.bundle.case import Case
from posenc_export.bundle.rules import rules_of
from posenc_export.validation.planning.answering import answers


def refused_by_eager(encoding: Encoding, cases: Sequence[Case], seed: int) -> list[Case]:
    """Return the cases without those of unlike lengths that a user's module answers: it may broadcast on purpose."""
    tried = [case for case in cases if case.unlike]
    if rules_of(encoding.family).known_refusals or not tried:
        return list(cases)
    called = encoding.uncalled().module
    answered = {case.name for case in tried if answers(called, encoding.inputs, case, seed)}
    return [case for case in cases if case.name not in answered]
