"""One call of a loaded graph, compared with the outputs that eager, the reference and a model gave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from posenc.encoding import Tolerance
from posenc.ports import Array, Integers, Port
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.bundle.rules import rules_of
from posenc_export.bundle.sampling import long_axis, sample
from posenc_export.proof.judging.by_position import JudgedOutput, bins_of, positions_of_rows
from posenc_export.proof.judging.compare import Difference, compare_names, held_part, judge, measure
from posenc_export.proof.judging.context import Context
from posenc_export.proof.judging.scores import compare_scores
from posenc_export.proof.judging.verdict import Against, Comparison, ValidateOptions
from posenc_export.proof.planning.padding import free_elements, padding_of
from posenc_export.proof.runtimes import RunFailed, Runner, Runtime


def compare_case(context: Context, golden: GoldenCase, options: ValidateOptions) -> list[JudgedOutput]:
    """Run one case, and compare each output with eager's, the reference's and, where there is one, the model's."""
    runner, runtime = context.loaded
    name = golden.case.name
    try:
        produced = runner.run(golden.feeds)
    except RunFailed as failure:
        return [JudgedOutput(Comparison(name, "", "eager", 0.0, 0.0, None, False, str(failure)))]
    names = compare_names(set(produced), set(golden.eager))
    if not names.passed:
        return [JudgedOutput(Comparison(name, "", "eager", 0.0, 0.0, None, False, names.reason))]
    # tolerances depend on the file and on the device that ran it
    golden = replace(golden, case=_allowed(golden.case, context, runtime, options))
    outputs = {port.name: _sampled(port, produced[port.name], golden.rows.get(port.name)) for port in runner.outputs}
    if context.manifest.foreign and not rules_of(context.manifest.family).derived_tolerances:
        outputs = _with_eager_padding(runner, golden, outputs)
    elif context.manifest.attention_op == "microsoft":
        outputs = _with_eager_padding(runner, golden, outputs, finite=True)
    measured = [m for port in runner.outputs for m in _compare_output(golden, runner.inputs, port, outputs[port.name])]
    if golden.model and context.manifest.family == "rotary":
        measured += map(JudgedOutput, compare_scores(golden, runner.outputs, outputs))
    return measured


def _with_eager_padding(
    runner: Runner, golden: GoldenCase, outputs: Mapping[str, Array], finite: bool = False
) -> dict[str, Array]:
    """Return outputs with eager's numbers in rows of masked tokens, which nobody reads.

    Another program, or a fused operator, need not write the garbage that eager gives where every key of a query is
    masked. Where `finite` is asked for, NaN and infinities stay.
    """
    padding = padding_of(runner.inputs, runner.outputs, golden, golden.feeds)
    if finite:
        padding = free_elements(runner.inputs, runner.outputs, golden, golden.feeds)
        padding = {
            name: places & np.isfinite(outputs[name]) if outputs[name].shape == places.shape else places
            for name, places in padding.items()
        }
    alike = {name for name in padding if outputs[name].shape == golden.eager[name].shape}
    return {
        name: np.where(padding[name], golden.eager[name], array).astype(array.dtype) if name in alike else array
        for name, array in outputs.items()
    }


def _allowed(case: Case, context: Context, runtime: Runtime, options: ValidateOptions) -> Case:
    """Return a case with the tolerances of a file on a device, or those that the user gave in their place."""
    case = replace(case, eager_tolerance=case.eager_tolerance.plus(context.artifact.eager_tolerance))
    # the bits of eager are promised of what was captured from it, on a CPU
    is_foreign = bool(context.manifest.foreign)
    same_bits = runtime.same_bits and not is_foreign
    if is_foreign and rules_of(context.manifest.family).derived_tolerances:
        # another program may round angles otherwise: both may be off from the reference, in opposite directions
        case = replace(case, eager_tolerance=case.tolerance.plus(case.tolerance))
    return replace(
        case,
        eager_tolerance=options.tolerance(case.eager_tolerance_where(same_bits)),
        tolerance=options.tolerance(case.tolerance),
        model_tolerance=case.model_tolerance and options.tolerance(case.model_tolerance),
        masked_atol=0.0 if options.gives_tolerance else case.masked_atol,
    )


def _compare_output(golden: GoldenCase, inputs: tuple[Port, ...], port: Port, actual: Array) -> Iterator[JudgedOutput]:
    expected: dict[Against, Mapping[str, Array]]
    expected = {"eager": golden.eager, "reference": golden.reference, "model": golden.model}
    for against, outputs in expected.items():
        if against == "eager" or port.name in outputs:
            difference = measure(actual, outputs[port.name])
            if port.name in golden.allowed:
                difference = held_part(difference, golden.allowed[port.name])
            yield _measured(golden, port, against, difference, _rows(golden, inputs, port, difference))


def _sampled(port: Port, array: Array, rows: Array | None) -> Array:
    """Return the rows of an output that were recorded, or all of an output too short for that, which then fails."""
    if rows is None or array.ndim != len(port.axes):
        return array
    axis = long_axis(port, array.shape)
    return array if array.shape[axis] <= int(rows.max()) else sample(array, rows, axis)


def _measured(
    golden: GoldenCase, port: Port, against: Against, difference: Difference, rows: PositionedRows | None
) -> JudgedOutput:
    more = golden.case.masked_atol * golden.masked.get(port.name, np.zeros(()))
    if port.name in golden.allowed:
        more = more + np.where(np.isinf(golden.allowed[port.name]), 0.0, golden.allowed[port.name])
    judgement = judge(difference, tolerance_against(golden.case, against), more)
    comparison = Comparison(
        golden.case.name,
        port.name,
        against,
        difference.max_abs,
        difference.max_ulp,
        None if rows is None else int(rows.positions[difference.worst[rows.axis]]),
        judgement.passed,
        judgement.reason,
        difference.peak,
        bool(golden.case.hard),
    )
    if rows is None or difference.error is None:
        return JudgedOutput(comparison)
    allowed = np.zeros(()) if judgement.allowed is None else judgement.allowed
    return JudgedOutput(comparison, bins_of(difference.error, allowed, rows.axis, rows.positions, judgement.passed))


def tolerance_against(case: Case, against: Against) -> Tolerance:
    """Return how far an output of a case may be from eager, the reference or the model."""
    if against == "model":
        assert case.model_tolerance is not None
        return case.model_tolerance
    return case.eager_tolerance if against == "eager" else case.tolerance


@dataclass(frozen=True)
class PositionedRows:
    """The axis of an output along which positions run, and the position of each row."""

    axis: int
    positions: Integers


def _rows(golden: GoldenCase, inputs: tuple[Port, ...], port: Port, difference: Difference) -> PositionedRows | None:
    """Return where the rows of an output are that differ; None without an error, or without such an axis."""
    error = difference.error
    if error is None or error.ndim < 2 or not difference.max_abs > 0:
        return None
    # without a dynamic length, tokens are the last axis but one
    lengths = [axis for axis in port.dynamic.values() if axis.is_length]
    axis = long_axis(port, error.shape) if lengths else error.ndim - 2
    indices = golden.rows.get(port.name, np.arange(error.shape[axis]))
    if error.shape[axis] != len(indices):
        return None
    along = port.axes[axis].name if error.ndim == len(port.axes) else ""
    return PositionedRows(axis, positions_of_rows(inputs, golden.feeds, along, indices, golden.case.first))
