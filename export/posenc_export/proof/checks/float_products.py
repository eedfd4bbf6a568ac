"""A check of files whose products round what goes in: computed in floats, they are as near as any other file."""

from __future__ import annotations

from dataclasses import replace

from posenc_export.bundle.golden import read_golden
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
    in_floats = replace(
        context, manifest=manifest, runtime=RUNTIMES["ort-cpu"], runner=_in_floats(context), tell=lambda _: None
    )
    wrong: list[str] = []
    tried = 0
    for golden in read_golden(context.folder, manifest):
        if not golden.case.refused:
            tried += 1
            found = compare_case(in_floats, golden, ValidateOptions())
            wrong += [
                f"{c.output} against {c.against} in {c.case}: {c.reason}"
                for c in (output.comparison for output in found)
                if not c.passed
            ]
    words = f"{tried} cases"
    if manifest.generations:
        written = generation(in_floats)
        assert isinstance(written, CheckResult)
        wrong += written.problems
        words += f", {written.measured}"
    more = [f"and {len(wrong) - NAMED} more"] if len(wrong) > NAMED else []
    return CheckResult([*wrong[:NAMED], *more], words)


def _in_floats(context: Context) -> Runner:
    """Return the file on ONNX Runtime's CPU, its products at accuracy level 1."""
    from posenc_export.proof.runtimes.onnx_runtime import part_runner

    model = read_onnx(context.path)
    compute_in(model, 1)
    runner = part_runner(model, context.path.parent, context.manifest.inputs)
    return replace(runner, outputs=context.manifest.outputs, limit=context.timeout)
