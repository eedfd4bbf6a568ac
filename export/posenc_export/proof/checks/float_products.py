"""A check of files whose products round what goes in: computed in floats, they are as near as any other file.

Calls with hard rows keep the room that they have, which is counted element by element.
"""

from __future__ import annotations

from dataclasses import replace

from posenc_export.bundle.golden import read_golden
from posenc_export.common.names import first_few
from posenc_export.proof.checks import CheckResult, Context, Words, check
from posenc_export.proof.checks.generation import generation
from posenc_export.proof.judging.call import compare_case
from posenc_export.proof.judging.verdict import ValidateOptions
from posenc_export.proof.runtimes import RUNTIMES, Runner
from posenc_export.write.formats.onnx import read_onnx
from posenc_export.write.formats.onnx.quantized import compute_in

NAMED = 3
"""Differences that are named."""


@check(
    "float-products",
    stage="artifact",
    subjects=("onnx",),
    applies=lambda context: context.manifest.accuracy_level != 1,
    words=Words(
        code="PE119",
        asks="Is a file at accuracy level 4 right where its products are computed in floats, as at level 1?",
        failure="Something beside the rounding of what goes into products is wrong, and the room for that hid it",
        remedy="Export with --accuracy-level 1, and look at what fails there.",
        example="a norm with another epsilon, in a file of int4 weights at accuracy level 4",
    ),
)
def float_products(context: Context) -> CheckResult:
    """With its products in floats, the file agrees as a file at level 1 does, and writes the same tokens."""
    manifest = replace(
        context.manifest, accuracy_level=1, cases=tuple(case.in_floats for case in context.manifest.cases)
    )
    twin = replace(context, manifest=manifest, runtime=RUNTIMES["ort-cpu"], runner=_twin(context))
    wrong: list[str] = []
    tried = 0
    for golden in read_golden(context.folder, manifest):
        if not golden.case.refused:
            tried += 1
            found = compare_case(twin, golden, ValidateOptions())
            wrong += [
                f"{c.output} against {c.against} in {c.case}: {c.reason}"
                for c in (output.comparison for output in found)
                if not c.passed
            ]
    words = f"{tried} cases"
    if manifest.generations:
        written = generation(twin)
        assert isinstance(written, CheckResult)
        wrong += written.problems
        words += f", {written.measured}"
    return CheckResult(first_few(wrong, NAMED), words)


def _twin(context: Context) -> Runner:
    """Return the file on ONNX Runtime's CPU, its products at accuracy level 1."""
    from posenc_export.proof.runtimes.onnx_runtime import part_runner

    model = read_onnx(context.path)
    compute_in(model, 1)
    runner = part_runner(model, context.path.parent, context.manifest.inputs)
    return replace(runner, outputs=context.manifest.outputs, limit=context.timeout)
