"""The model of a config is asked beside the export, in a process of its own; its answers go into the golden data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from posenc.encoding import Encoding, Tolerance, eps
from posenc.parameters import Parameter
from posenc.ports import Array, Feeds, Port
from posenc.scheme import SCHEMES, build
from posenc.spec import Spec
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.bundle.manifest import AskedModel
from posenc_export.common.limit import ASK_TIMEOUT
from posenc_export.proof.exporter.draft import Draft
from posenc_export.proof.exporter.near import NEAR, calls_of, near_rows, reference_of
from posenc_export.proof.judging.compare import judge, measure
from posenc_export.proof.recording.record import at_rows
from posenc_export.write.targets import Target
from posenc_models.asking.model import CannotAsk, Question
from posenc_models.asking.process import Answers, Asking, AskingFailed
from posenc_models.config.encodings.parts import CLASS

Variants = Iterator[tuple[str, Encoding]]
"""Encodings with another value of a parameter, and which value in words."""
ROUNDINGS = 4
"""Roundings of float32, of its position, that an angle of a model may be off by, and those of a rotation after it."""


def start(question: Question | None, timeout: float = ASK_TIMEOUT) -> Asking | AskedModel | None:
    """Begin to ask a model, if there is one; return why not where it cannot be asked.

    Args:
        question: What it is asked.
        timeout: Seconds of computing that it may take; 0 for any.
    """
    if question is None:
        return None
    try:
        return Asking(question, "diffusers" if CLASS in question.content else "transformers", timeout)
    except CannotAsk as error:
        return AskedModel(unasked=str(error))


def collect(asking: Asking | AskedModel | None, target: Target, draft: Draft, seed: int) -> Draft:
    """Return the draft with what the model gives in those cases that it is asked."""
    if not isinstance(asking, Asking):
        return replace(draft, model=asking)
    encoding = target.encoding
    # the child has been at work since the export began
    feeds, near_note = calls_of(target, draft.cases, seed)
    if not feeds:
        unasked = near_note or f"no call is tried whose positions are below {NEAR}"
        return replace(draft, model=AskedModel(unasked=unasked))
    try:
        answers = asking.answers(feeds)
    except (CannotAsk, AskingFailed) as error:
        return replace(draft, model=AskedModel(unasked=str(error), crashed=isinstance(error, AskingFailed)))
    answers = answers if encoding.inputs else near_rows(answers)
    note = "; ".join(filter(None, (answers.note, near_note)))
    model = AskedModel(answers.words, answers.library, answers.permutation, note)
    unlike = next((line for golden in draft.cases if (line := _shape_off(golden, answers, encoding.outputs))), "")
    if unlike:
        return replace(draft, model=replace(model, difference=unlike))
    cases = tuple(_with_answers(golden, answers, encoding) for golden in draft.cases)
    variants = _variants(target.name, target.spec, target.params)
    return replace(draft, cases=cases, model=replace(model, difference=_difference(variants, cases, feeds)))


def _shape_off(golden: GoldenCase, answers: Answers, ports: Sequence[Port]) -> str:
    """Return in words where an output of the model has another shape than ours, or no number in it; else nothing."""
    outputs = answers.outputs.get(golden.case.name, {})
    for port in (port for port in ports if port.name in outputs):
        ours = golden.eager[port.name].shape
        theirs = at_rows(port, outputs[port.name], golden.rows).shape
        if ours != theirs:
            return f"{port.name} of the model is {_shape(theirs)} in {golden.case.name}, not {_shape(ours)}"
        if 0 not in theirs and np.isnan(outputs[port.name]).all():
            return f"{port.name} of the model holds no number in {golden.case.name}"
    return ""


def _shape(sizes: tuple[int, ...]) -> str:
    return " x ".join(map(str, sizes))


def _with_answers(golden: GoldenCase, answers: Answers, encoding: Encoding) -> GoldenCase:
    """Return a case with the outputs of the model, at the rows that are kept."""
    outputs, case = answers.outputs.get(golden.case.name), golden.case
    if outputs is None:
        return golden
    rows = {p.name: at_rows(p, np.asarray(outputs[p.name], np.float64), golden.rows) for p in encoding.outputs}
    rows = {name: np.where(np.isnan(values), golden.reference[name], values) for name, values in rows.items()}
    last = case.max_position if encoding.inputs else min(case.max_position, NEAR - 1)  # a table is asked up to there
    tolerance = model_tolerance(case, answers, last, encoding.family)
    return replace(golden, model=rows, case=replace(case, model_tolerance=tolerance))


def model_tolerance(case: Case, answers: Answers, last: int, family: str) -> Tolerance:
    """Return how far a graph may be from a model: each side by what is allowed from float64, the model by its angles.

    A float32 angle is off by ROUNDINGS roundings of its position, and cosines and sines by as much, times what they
    are multiplied by. A feature of a rotated pair is off by the sum over both, at most twice the largest of the head.

    Args:
        case: The call, whose own tolerance is from float64.
        answers: They say what cosines are multiplied by, and what else the model's float32 may be off by.
        last: The largest position that was asked.
        family: That of the encoding.
    """
    from_float64 = case.tolerance.plus(case.tolerance)
    if answers.atol:
        from_float64 = from_float64.plus(Tolerance(atol=answers.atol))
    if not answers.amplitude:
        return from_float64
    angle = ROUNDINGS * eps("float32") * max(last, 1)
    rotated = Tolerance(vector=2 * angle)
    return from_float64.plus(rotated if family == "rotary" else Tolerance(atol=angle * answers.amplitude))


def _difference(variants: Variants, cases: Sequence[GoldenCase], feeds: Mapping[str, Feeds]) -> str:
    """Return which other choice of a parameter agrees with the model where the reading does not; nothing where none."""
    answered = [golden for golden in cases if golden.model]
    # only where the reading itself disagrees
    if not answered or all(_agrees(golden, golden.reference) for golden in answered):
        return ""
    for words, encoding in variants:
        if all(_agrees(golden, reference_of(encoding, golden, feeds[golden.case.name])) for golden in answered):
            return f"the model agrees with {words}"
    return ""


def _variants(name: str, spec: Spec, params: Mapping[str, object]) -> Variants:
    """Yield a scheme with other values of the parameters that are a choice among few words, and which those are."""
    parameters: Mapping[str, Parameter] = SCHEMES[name].parameters
    for key in ("layout", "section_layout", "direction"):
        for value in getattr(parameters[key].type, "__args__", ()) if key in parameters else ():
            if value != params[key]:
                with suppress(ValueError):
                    yield f"-p {key}={value}", build(name, spec, **{**params, key: value})


def _agrees(golden: GoldenCase, outputs: Mapping[str, Array]) -> bool:
    tolerance = golden.case.model_tolerance
    assert tolerance is not None
    return all(
        name in outputs and judge(measure(np.asarray(outputs[name], np.float64), value), tolerance).passed
        for name, value in golden.model.items()
    )
