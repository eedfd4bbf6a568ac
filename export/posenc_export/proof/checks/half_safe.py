"""A check of what a conversion to half precision costs a float32 file.

If no float of a graph holds a position, or an angle beyond a circle, it costs a few roundings. The file is converted
by usual tools, and evaluated in true half precision by the onnx package: runtimes on CPUs compute float16 in float32,
which hides what a GPU shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from posenc.ports import Array, Feeds
from posenc_export.bundle.case import Case
from posenc_export.bundle.golden import read_golden
from posenc_export.bundle.rules import rules_of
from posenc_export.common.arrays import free
from posenc_export.common.errors import first_line
from posenc_export.common.limit import stop_python, within
from posenc_export.proof.checks import CheckResult, Context, Words, check
from posenc_export.proof.judging.half import ROUNDINGS, Call, Half, Off, measured
from posenc_export.proof.planning.padding import padding_of
from posenc_export.proof.runtimes import TAKES_LONGER, Missing
from posenc_export.proof.runtimes.onnx_reference import check_operators, evaluator
from posenc_export.proof.runtimes.openvino import compiled_model, outputs_of
from posenc_export.write.formats.onnx import read_onnx
from posenc_export.write.formats.onnx.dtypes import HALVES
from posenc_export.write.targets.sizes import elements

if TYPE_CHECKING:
    from onnx import ModelProto

ELEMENTS, PRODUCTS, BYTES = (2**21, 2**25), (2**26, 2**32), (2**26, 2**31 - 2**20)
"""What is evaluated, without and with --prove: elements of the largest array, weights times tokens, bytes of a file."""
FEW = 8
"""Calls of a user's module that are evaluated without --prove."""
NO_PROMISE = "measured only, as two roundings are not promised here: "
"""How a row begins that no cost makes fail."""
OPENVINO = {"float16": "f16", "bfloat16": "bf16"}


def _is_float32(context: Context) -> bool:
    return context.manifest.dtype == "float32"


@check(
    "half-safe",
    stage="artifact",
    subjects=("onnx",),
    applies=_is_float32,
    words=Words(
        code="PE112",
        asks="What does a conversion to float16 or bfloat16 cost, and is it two roundings at most where that is "
        "promised?",
        failure="A scheme breaks its promise, which is all that fails here: a float holds a position, or an angle "
        "beyond a circle, and positions turn to noise",
        remedy="Take positions apart in integers, and keep angles in tables that were made in float64.",
        example="an angle that is position * inv_freq in float32, off by radians in float16 from position 2048 on",
    ),
)
def half_safe(context: Context) -> CheckResult:
    """Converted to float16 and bfloat16, the file is off by two roundings at most, where that is promised."""
    check_operators(read_onnx(context.path))  # the onnx package evaluates no operators of other domains
    cases = _cases(context)
    if not cases:
        raise Missing(TAKES_LONGER)
    try:
        halves, left_out = _on_openvino(context) if context.prove else ([], [])
        worst = _worst(context, [*_halves(context), *halves], cases)
        return _judged(context, worst, [*left_out, f"{len(cases)} cases"])
    except Exception as error:
        if rules_of(context.manifest.family).promises_half_safe and not context.manifest.foreign:
            raise
        return CheckResult(note=f"in half precision it could not be evaluated: {first_line(error)}")
    finally:
        free(context.artifact.bytes)  # the evaluators keep themselves, and copies of the table, in cycles


def _cases(context: Context) -> list[Case]:
    """Return the cases that are evaluated: all but large ones, and a few of a user's module without --prove."""
    manifest, prove = context.manifest, int(context.prove)
    if sum(a.bytes for a in manifest.artifacts if a.format in ("onnx", "onnx.data")) > BYTES[prove]:
        return []
    own, weights = not rules_of(manifest.family).promises_half_safe, context.artifact.bytes // 4
    ports = (*manifest.inputs, *manifest.outputs)
    cases = [
        case
        for case in manifest.cases
        if not case.refused
        and not case.hard
        and elements(ports, case.sizes) <= ELEMENTS[prove]
        and not (own and weights * prod(case.sizes.values()) > PRODUCTS[prove])
    ]
    step = 1 if context.prove or not own else -(-len(cases) // FEW) or 1
    return sorted(cases, key=lambda case: case.max_position)[::-step]  # the farthest positions among them


def _halves(context: Context) -> Iterator[Half]:
    """Yield the file in each half precision, evaluated in NumPy."""
    import onnx

    for dtype, convert in HALVES.items():
        yield Half(dtype, dtype, _evaluator(context, convert(onnx.load(context.path))))


def _evaluator(context: Context, model: str | ModelProto) -> Call:
    """Return a function that evaluates a model in NumPy, within the time that a call may take."""
    call = evaluator(model)

    def quietly(feeds: Feeds) -> Mapping[str, Array]:
        with np.errstate(all="ignore"):  # set inside the call, which may run in another thread
            return call(feeds)

    return lambda feeds: within(context.timeout, partial(quietly, feeds), stop_python)


def _on_openvino(context: Context) -> tuple[list[Half], list[str]]:
    """Return the file in half precision on OpenVINO, and in words why a dtype does not run here."""
    halves, left_out = [], []
    for dtype, precision in OPENVINO.items():
        try:
            call = partial(outputs_of, compiled_model(context.path, precision))
            halves.append(Half(f"{dtype} on OpenVINO", dtype, call, narrow=False))
        except Missing as missing:
            left_out.append(f"{dtype} on OpenVINO not run: {missing}")
    return halves, left_out


def _worst(context: Context, halves: Sequence[Half], cases: Sequence[Case]) -> list[Off]:
    """Return the largest error of each half."""
    manifest, single = context.manifest, _evaluator(context, str(context.path))
    worst = {half.name: Off(half.name) for half in halves}
    for golden in read_golden(context.folder, replace(manifest, cases=tuple(cases))):
        derived = rules_of(manifest.family).derived_tolerances
        padding = {} if derived else padding_of(manifest.inputs, manifest.outputs, golden, golden.feeds)
        for half in halves:
            off = measured(half, single, golden, added=manifest.added, padding=padding)
            worst[half.name] = max(worst[half.name], off, key=lambda off: off.roundings)
    return list(worst.values())


def _judged(context: Context, worst: Sequence[Off], more: Sequence[str]) -> CheckResult:
    """Return problems, or a note for an encoding that says why it is not half-safe, and for a user's module."""
    over = [off for off in worst if off.roundings > ROUNDINGS]
    words, figures = "; ".join(map(str, worst)), "; ".join([*map(str, worst), *more])
    reason = context.manifest.half_safe
    cost = f"converted to half precision it is off by {words}"
    if reason:
        return CheckResult((), f"{NO_PROMISE}{figures}", f"{cost}: {reason}")
    if not rules_of(context.manifest.family).promises_half_safe or context.manifest.foreign:
        return CheckResult((), f"{NO_PROMISE}{figures}", cost if over else "")
    rule = f"at most {ROUNDINGS} are allowed, where no float holds a position or an angle"
    return CheckResult([f"converted to {off}: {rule}" for off in over], figures)
