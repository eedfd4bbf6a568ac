"""The model of a config is asked beside the export, in a process of its own; its answers go into the golden data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from posenc.encoding import Encoding, Tolerance, eps
from posenc.hf.asking.model import CannotAsk, Question
from posenc.hf.asking.process import Answers, Asking, AskingFailed
from posenc.hf.encodings.parts import CLASS
from posenc.parameters import Parameter
from posenc.ports import Array, Feeds
from posenc.scheme import SCHEMES, build
from posenc.spec import Spec
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.bundle.manifest import AskedModel
from posenc_export.exporter.near import calls_of, near_rows
from posenc_export.targets import Target
from posenc_export.validation.judging.compare import judge, measure
from posenc_export.validation.recording.record import at_rows

NEAR = 512
"""Positions from here on are held against float64 alone: the model's own float32 angles hide errors there."""
FARTHEST = 2**17
"""Both sides of a switch are asked up to here."""
ROUNDINGS = 4
"""Roundings of float32, of its position, that an angle of a model may be off by, and those of a rotation after it."""


@dataclass(frozen=True)
class Asked:
    """What a model answered: what the manifest says of it, and the cases with its outputs."""

    model: AskedModel | None
    cases: list[GoldenCase]


def start(question: Question | None) -> Asking | AskedModel | None:
    """Begin to ask a model, if there is one; return why not where it cannot be asked."""
    if question is None:
        return None
    try:
        return Asking(question, "diffusers") if CLASS in question.content else Asking(question)
    except CannotAsk as error:
        return AskedModel(unasked=str(error))


def collect(asking: Asking | AskedModel | None, target: Target, cases: list[GoldenCase], seed: int) -> Asked:
    """Return the cases with what the model gives in those that it is asked."""
    if not isinstance(asking, Asking):
        return Asked(asking, cases)
    wanted = [golden for golden in cases if _is_near(golden.case, target.encoding)]
    calls = calls_of(target, wanted, seed)
    if not calls.feeds:
        return Asked(AskedModel(unasked=calls.note or f"no call is tried whose positions are below {NEAR}"), cases)
    try:
        answers = near_rows(asking.answers(calls.feeds), target.encoding, NEAR)
    except CannotAsk as error:
        return Asked(AskedModel(unasked=str(error)), cases)
    except AskingFailed as error:
        return Asked(AskedModel(unasked=str(error), crashed=True), cases)
    note = "; ".join(filter(None, (answers.note, calls.note)))
    words = AskedModel(answers.words, answers.library, answers.permutation, note)
    unlike = next((line for golden in cases if (line := _shape_off(golden, answers, target.encoding))), "")
    if unlike:
        return Asked(replace(words, difference=unlike), cases)
    answered = [_with_answers(golden, answers, target.encoding) for golden in cases]
    return Asked(replace(words, difference=_difference(target, answered, calls.feeds)), answered)


def _is_near(case: Case, encoding: Encoding) -> bool:
    """Return whether a model is asked in a case: near the first position, and on both sides of every switch.

    Where nothing goes in, there is one case, whatever is in it.
    """
    if case.refused or not encoding.inputs:
        return not case.refused
    length = case.max_position + 1
    return length <= NEAR or (length <= FARTHEST and any(abs(length - n) <= 1 for n in encoding.probes.lengths))


def _shape_off(golden: GoldenCase, answers: Answers, encoding: Encoding) -> str:
    """Return in words where an output of the model has another shape than ours, or no number in it; else nothing."""
    outputs = answers.outputs.get(golden.case.name, {})
    for port in encoding.outputs:
        ours = golden.eager[port.name].shape if port.name in outputs else ()
        other = at_rows(port, outputs[port.name], golden.rows).shape if port.name in outputs else ()
        if ours != other:
            return f"{port.name} of the model is {_shape(other)} in {golden.case.name}, not {_shape(ours)}"
        if 0 not in other and port.name in outputs and np.isnan(outputs[port.name]).all():
            return f"{port.name} of the model holds no number in {golden.case.name}"
    return ""


def _shape(sizes: tuple[int, ...]) -> str:
    return " x ".join(map(str, sizes))


def _with_answers(golden: GoldenCase, answers: Answers, encoding: Encoding) -> GoldenCase:
    """Return a case with the outputs of the model, at the rows that are kept."""
    outputs = answers.outputs.get(golden.case.name)
    if outputs is None:
        return golden
    fit = {port.name: np.asarray(outputs[port.name], np.float64) for port in encoding.outputs}
    rows = {port.name: at_rows(port, fit[port.name], golden.rows) for port in encoding.outputs}
    rows = {name: np.where(np.isnan(values), golden.reference[name], values) for name, values in rows.items()}
    tolerance = model_tolerance(golden.case, encoding, answers.amplitude, answers.atol)
    return replace(golden, model=rows, case=replace(golden.case, model_tolerance=tolerance))


def model_tolerance(case: Case, encoding: Encoding, amplitude: float, atol: float = 0.0) -> Tolerance:
    """Return how far a graph may be from a model: each side by what is allowed from float64, the model by its angles.

    A float32 angle is off by ROUNDINGS roundings of its position, and cosines and sines by as much, times what they
    are multiplied by; a feature of a rotated pair by the sum over both, which is at most twice the largest of the head.

    atol: what else the model's own float32 may be off by.
    """
    both = case.tolerance.plus(case.tolerance)
    if atol:
        both = both.plus(Tolerance(atol=atol))
    if not amplitude:
        return both
    last = case.max_position if encoding.inputs else min(case.max_position, NEAR - 1)
    angle = ROUNDINGS * eps("float32") * max(last, 1)
    if encoding.family == "rotary":
        return both.plus(Tolerance(vector=2 * angle))
    return both.plus(Tolerance(atol=angle * amplitude))


def _difference(target: Target, cases: Sequence[GoldenCase], feeds: Mapping[str, Feeds]) -> str:
    """Return which other choice of a parameter agrees with the model where the reading does not; nothing where none."""
    answered = [golden for golden in cases if golden.model]
    if not answered or all(_agrees(golden, golden.reference) for golden in answered):
        return ""
    for name, value in _choices(target):
        if all(_agrees(golden, other) for golden, other in _otherwise(target, name, value, answered, feeds)):
            return f"the model agrees with -p {name}={value}"
    return ""


def _choices(target: Target) -> Iterator[tuple[str, object]]:
    """Yield other values of the parameters that are a choice among few words."""
    parameters: Mapping[str, Parameter] = SCHEMES[target.name].parameters
    for name in ("layout", "section_layout"):
        if name in parameters:
            choices = getattr(parameters[name].type, "__args__", ())
            yield from ((name, value) for value in choices if value != target.params[name])


def _otherwise(
    target: Target, name: str, value: object, cases: Sequence[GoldenCase], feeds: Mapping[str, Feeds]
) -> Iterator[tuple[GoldenCase, Mapping[str, Array]]]:
    """Yield cases with the float64 reference of the scheme with another value of a parameter."""
    spec: Spec = target.spec
    try:
        encoding = build(target.name, spec, **{**target.params, name: value})
    except ValueError:
        yield cases[0], {}
        return
    for golden in cases:
        whole = encoding.reference(feeds[golden.case.name], None)
        yield golden, {port.name: at_rows(port, whole[port.name], golden.rows) for port in encoding.outputs}


def _agrees(golden: GoldenCase, outputs: Mapping[str, Array]) -> bool:
    tolerance = golden.case.model_tolerance
    assert tolerance is not None
    return all(
        name in outputs and judge(measure(np.asarray(outputs[name], np.float64), value), tolerance).passed
        for name, value in golden.model.items()
    )
