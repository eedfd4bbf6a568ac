"""One call of a loaded graph, compared with the outputs that eager, the reference and a model gave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from posenc.encoding import Tolerance
from posenc.ports import Array, Port
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.bundle.rules import rules_of
from posenc_export.bundle.sampling import long_axis, sample
from posenc_export.runtimes import RunFailed, Runner, Runtime
from posenc_export.validation.judging.compare import Difference, compare_names, judge, measure
from posenc_export.validation.judging.context import Context
from posenc_export.validation.judging.scores import compare_scores
from posenc_export.validation.judging.verdict import Against, Comparison, ValidateOptions
from posenc_export.validation.planning.padding import padding_of


def compare_case(context: Context, golden: GoldenCase, options: ValidateOptions) -> list[Comparison]:
    """Run one case, and compare each output with eager's, the reference's and, where there is one, the model's."""
    runner, runtime = context.loaded
    name = golden.case.name
    try:
        produced = runner.run(golden.feeds)
    except RunFailed as failure:
        return [Comparison(name, "", "eager", 0.0, 0.0, None, False, str(failure))]
    names = compare_names(set(produced), set(golden.eager))
    if not names.passed:
        return [Comparison(name, "", "eager", 0.0, 0.0, None, False, names.reason)]
    # tolerances depend on the file and on the device that ran it
    golden = replace(golden, case=_allowed(golden.case, context, runtime, options))
    outputs = {port.name: _sampled(port, produced[port.name], golden.rows.get(port.name)) for port in runner.outputs}
    if context.manifest.foreign and not rules_of(context.manifest.family).derived_tolerances:
        outputs = _with_eager_padding(runner, golden, outputs)
    comparisons = [c for port in runner.outputs for c in _compare_output(golden, port, outputs[port.name])]
    if golden.model and context.manifest.family == "rotary":
        comparisons += compare_scores(golden, runner.outputs, outputs)
    return comparisons


def _with_eager_padding(runner: Runner, golden: GoldenCase, outputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return outputs with eager's numbers in rows of masked tokens, which nobody reads.

    Another program need not write the garbage that eager gives where every key of a query is masked.
    """
    padding = padding_of(runner.inputs, runner.outputs, golden, golden.feeds)
    alike = {name for name in padding if outputs[name].shape == golden.eager[name].shape}
    return {
        name: np.where(padding[name], golden.eager[name], array).astype(array.dtype) if name in alike else array
        for name, array in outputs.items()
    }


def _allowed(case: Case, context: Context, runtime: Runtime, options: ValidateOptions) -> Case:
    """Return a case with the tolerances of a file on a device, or those that the user gave in their place."""
    case = replace(case, eager_tolerance=case.eager_tolerance.plus(context.artifact.eager_tolerance))
    # the bits of eager are promised of what was captured from it, on a CPU
    same_bits = runtime.same_bits and not context.manifest.foreign
    return replace(
        case,
        eager_tolerance=options.tolerance(case.eager_tolerance_where(same_bits)),
        tolerance=options.tolerance(case.tolerance),
        model_tolerance=case.model_tolerance and options.tolerance(case.model_tolerance),
    )


def _compare_output(golden: GoldenCase, port: Port, actual: Array) -> Iterator[Comparison]:
    expected: dict[Against, Mapping[str, Array]]
    expected = {"eager": golden.eager, "reference": golden.reference, "model": golden.model}
    for against, outputs in expected.items():
        if against == "eager" or port.name in outputs:
            yield _comparison(golden, port, against, measure(actual, outputs[port.name]))


def _sampled(port: Port, array: Array, rows: Array | None) -> Array:
    """Return the rows of an output that were recorded, or all of an output too short for that, which then fails."""
    if rows is None or array.ndim != len(port.axes):
        return array
    axis = long_axis(port, array.shape)
    return array if array.shape[axis] <= int(rows.max()) else sample(array, rows, axis)


def _comparison(golden: GoldenCase, port: Port, against: Against, difference: Difference) -> Comparison:
    case = golden.case
    judgement = judge(difference, tolerance_against(case, against))
    index = _worst_index(port, difference, golden.rows.get(port.name))
    return Comparison(
        case.name,
        port.name,
        against,
        difference.max_abs,
        difference.max_ulp,
        None if index is None else case.first + index,
        judgement.passed,
        judgement.reason,
        difference.peak,
    )


def tolerance_against(case: Case, against: Against) -> Tolerance:
    """Return how far an output of a case may be from eager, the reference or the model."""
    if against == "model":
        assert case.model_tolerance is not None
        return case.model_tolerance
    return case.eager_tolerance if against == "eager" else case.tolerance


def _worst_index(port: Port, difference: Difference, rows: Array | None) -> int | None:
    """Return where along its long axis an output has its largest error; None without an error, or such an axis."""
    error = difference.error
    if error is None or error.ndim < 2 or not difference.max_abs > 0:
        return None
    # without a dynamic length, tokens are the last axis but one
    lengths = [axis for axis in port.dynamic.values() if axis.is_length]
    axis = long_axis(port, error.shape) if lengths else error.ndim - 2
    index = difference.worst[axis]
    if rows is None:
        return index
    return int(rows[index]) if error.shape[axis] == len(rows) else None
