"""What the module of an export gives: the golden cases, and what captures after its calls show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from posenc.encoding import Encoding
from posenc_export.bundle.case import GoldenCase
from posenc_export.bundle.rules import rules_of
from posenc_export.common.errors import BadInput
from posenc_export.proof.checks.capture import changes, fingerprint
from posenc_export.proof.exporter.capturing import captured_again, notes_on_calls, notes_on_writes, unread_inputs
from posenc_export.proof.exporter.draft import Draft
from posenc_export.proof.exporter.options import ExportOptions
from posenc_export.proof.judging.context import Behaviour, Capture
from posenc_export.proof.planning.contract import by_contract
from posenc_export.proof.planning.eager_refusals import refused_by_eager
from posenc_export.proof.planning.hard import hard_cases
from posenc_export.proof.planning.plan import Plan, plan
from posenc_export.proof.planning.quick import absent_reference, quick_plan, shortest
from posenc_export.proof.planning.scope import Scope
from posenc_export.proof.recording.record import RECORDING, record
from posenc_export.proof.recording.unread import unread
from posenc_export.write.formats import WriteRequest

if TYPE_CHECKING:
    from torch import nn


def record_cases(encoding: Encoding, draft: Draft, options: ExportOptions) -> tuple[Draft, dict[str, Capture]]:
    """Call the module in every planned case, and capture it again; return the draft with the cases, and the captures.

    A user's module is also called in all cases one after the other, to see whether a call depends on earlier ones.
    """
    draft, seen, called = call_in_cases(encoding, draft, options)
    if options.validate:
        options.validation.progress(f"{RECORDING}: the module is captured again, after its calls")
    captures = {
        name: captured_again(seen, encoding, called, draft.request, (name, digests))
        for name, digests in draft.digests.items()
        if options.validate
    }
    of_calls = () if called.fresh is None else notes_on_calls(captures, seen)
    return replace(draft, notes=tuple(dict.fromkeys((*draft.notes, *of_calls)))), captures


def call_in_cases(
    encoding: Encoding, draft: Draft, options: ExportOptions, *, all_masked: bool = True
) -> tuple[Draft, Capture, Encoding]:
    """Call the module in every planned case; return the draft with the cases, what calls showed, and the called copy.

    What calls showed is completed by the captures of each format, where there are any. `all_masked` says
    whether a text is tried of which all tokens are masked.
    """
    request = draft.request
    scope = Scope(encoding, request.sizes, request.max_len, options.budget, draft.breaking)
    planned = _plan(scope)
    if draft.proof == "quick":
        planned = quick_plan(planned, encoding.inputs)
    elif draft.proof == "one":
        planned = shortest(planned, encoding.inputs)
        encoding = replace(encoding, reference=absent_reference)
    if draft.proof != "one":
        planned = replace(planned, cases=(*planned.cases, *hard_cases(scope, all_masked=all_masked)))
    called = encoding.uncalled()
    # this copy is called in every case, one after the other
    before = _state(called.module)
    asked = refused_by_eager(encoding, planned.cases, options.seed, is_declared=not draft.is_whole)
    tried = by_contract(asked.cases, encoding.inputs) if request.attention_op == "microsoft" else asked.cases
    golden = record(encoding, tried, options.seed, options.validation.progress)
    cases, behaviour = _measured(encoding, called, golden.cases, options)
    if request.attention_op == "microsoft":
        from posenc_export.proof.recording.own_module import with_free_padding

        cases = tuple(with_free_padding(encoding, case, options.seed) for case in cases)
    seen = Capture(True, True, changes(before, _state(called.module)), behaviour, stored=draft.stored)
    ignored: tuple[str, ...] = ()
    if draft.proof != "one":  # one token alone may not show what an input is for
        options.validation.progress(f"{RECORDING}: which inputs are read")
        ignored = unread(encoding, [golden for golden in cases if not golden.case.hard], options.seed)
    of_guards = (note for written in draft.written.values() for note in written.findings.notes)
    of_inputs = unread_inputs(ignored) if rules_of(encoding.family).notes_unread else ()
    return (
        replace(
            draft,
            cases=cases,
            not_tried=(*planned.not_tried, *golden.dropped),
            reference=golden.reference(draft.reference),
            notes=tuple(dict.fromkeys((*of_guards, *asked.notes, *notes_on_writes(golden.written), *of_inputs))),
            unread=ignored,
        ),
        seen,
        called,
    )


def check_budget(encoding: Encoding, request: WriteRequest, options: ExportOptions) -> None:
    """Raise BadInput where the budget leaves no call to try: before a graph is written, which may take minutes."""
    _plan(Scope(encoding, request.sizes, request.max_len, options.budget))


def _plan(scope: Scope) -> Plan:
    planned = plan(scope)
    if all(case.refused for case in planned.cases):
        raise BadInput(f"--budget {scope.budget:,} leaves no call that could be tried: give a larger one")
    return planned


def _state(module: nn.Module) -> dict[str, object]:
    """Return what a call could change of a user's module, under the names that the user knows."""
    from posenc_export.write.targets.calling import unwrapped

    return fingerprint(unwrapped(module))


def _measured(
    encoding: Encoding, called: Encoding, cases: Sequence[GoldenCase], options: ExportOptions
) -> tuple[tuple[GoldenCase, ...], Behaviour]:
    """Return the cases with measured tolerances where none are derived, and how the module behaves when called."""
    if rules_of(encoding.family).derived_tolerances:
        return tuple(cases), Behaviour()
    from posenc_export.proof.recording.hard import hard_case
    from posenc_export.proof.recording.own_module import behaviour, of_rounding, own_case
    from posenc_export.proof.recording.rounded_inputs import with_room, with_rounded_inputs

    own, hard = [], []
    rounding = with_rounded_inputs(encoding) if options.accuracy_level != 1 else None
    for number, golden in enumerate(cases, 1):
        options.validation.progress(f"{RECORDING}: what rounding does, call {number} of {len(cases)}")
        if golden.case.hard:
            hard.append(hard_case(encoding, golden, options.seed, rounding))
        else:
            own.append(own_case(encoding, golden, options.seed))
    usual = tuple(case.golden for case in own)
    own_cases = usual if rounding is None else [with_room(rounding, golden, options.seed) for golden in usual]
    measured = (*own_cases, *hard)
    if not options.validate:
        return measured, Behaviour()
    options.validation.progress(f"{RECORDING}: whether a copy remembers its calls")
    shown = behaviour(encoding, called, usual, options.seed)
    return measured, of_rounding(shown, encoding.inputs, encoding.outputs, own)
