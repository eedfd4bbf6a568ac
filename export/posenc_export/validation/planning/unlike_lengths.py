"""Cases in which inputs that share a length have different ones: a user's module is asked whether it refuses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from posenc.encoding import Encoding
from posenc.ports import Port
from posenc_export.arrays import call_on_arrays
from posenc_export.bundle.case import Case
from posenc_export.bundle.rules import rules_of
from posenc_export.errors import check_machine
from posenc_export.validation.planning.feeds import feeds_for

if TYPE_CHECKING:
    from torch import nn


def refused_by_eager(encoding: Encoding, cases: Sequence[Case], seed: int) -> list[Case]:
    """Return the cases without those of unlike lengths that a user's module answers: it may broadcast on purpose."""
    tried = [case for case in cases if case.unlike]
    if rules_of(encoding.family).known_refusals or not tried:
        return list(cases)
    called = encoding.uncalled().module
    answered = {case.name for case in tried if _answers(called, encoding.inputs, case, seed)}
    return [case for case in cases if case.name not in answered]


def _answers(called: nn.Module, ports: tuple[Port, ...], case: Case, seed: int) -> bool:
    feeds = feeds_for(ports, case, seed)
    try:
        call_on_arrays(called, [feeds[port.name] for port in ports])
    except Exception as error:
        check_machine(error)
        return False
    return True
