"""Calls that a graph must refuse: rows for those that it refuses, and for those that it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from posenc.ports import Array
from posenc_export.bundle.carries import are_looked_up, bounds_of
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.proof.judging.verdict import Verdict
from posenc_export.proof.runtimes import Crashed, RunFailed, Runner, Runtime

CUDA_REFUSES_NOTHING = "CUDA reports no position out of range: ONNX Runtime gives zeros, PyTorch stops the device"


IS_NAN = "gives NaN where it cannot refuse, as --check-positions asks"

ONLY_32_BITS = "the runtime reads the last 32 bits of a number: what the graph sees is in range"


def refusal(runtime: Runtime, runner: Runner, golden: GoldenCase, own: bool = False, checked: bool = False) -> Verdict:
    """Demand an error where a position is beyond what the graph holds, or an input is longer than another.

    Args:
        runtime: What the graph was loaded by.
        runner: The loaded graph.
        golden: The call that must be refused.
        own: Whether the graph is of a user's module, or another program wrote it. Unlike lengths are a note then, as
            ONNX and PyTorch repeat a single token.
        checked: Whether the graph gives NaN where a device cannot refuse: see `--check-positions`.
    """
    case = golden.case
    refuses_values = are_looked_up(runner.inputs) or any(map(bounds_of, runner.inputs))
    gives_nan = checked and refuses_values and not case.unlike and runtime.format == "onnx"
    if runtime.device == "cuda" and refuses_values and not case.unlike and not gives_nan:
        return Verdict(runtime.name, "refusal", "skip", CUDA_REFUSES_NOTHING)
    try:
        # `run` itself would refuse inputs of unlike lengths, before the graph sees them
        answer = runner.answer(golden.feeds) if case.unlike else runner.run(golden.feeds)
    except RunFailed as failure:
        # a crash is a refusal only of runtimes that refuse by ending their process
        refuses = runtime.ends_process or not isinstance(failure, Crashed)
        return Verdict(runtime.name, "refusal", "pass" if refuses else "fail", f"{case.name}: {failure}")
    if gives_nan and (runtime.device == "cuda" or runtime.lenient):
        number = _without_nan(answer)
        if number and runtime.lenient and not -(2**31) <= case.first < 2**31:
            return Verdict(runtime.name, "refusal", "skip", f"{case.name}: {ONLY_32_BITS}")
        detail = f"{case.name}: {f'{number} is a number, expected an error or NaN' if number else IS_NAN}"
        return Verdict(runtime.name, "refusal", "fail" if number else "pass", detail)
    if runtime.lenient:
        return Verdict(runtime.name, "refusal", "skip", runtime.lenient)
    if own and case.unlike:
        return unlike_lengths_answered(runtime.name, case)
    # -at-1 in a name reads like position 1
    at = f" at position {case.first}" if case.first < 0 else ""
    return Verdict(runtime.name, "refusal", "fail", f"{case.name}: gave an answer, expected an error{at}")


def _without_nan(answer: Mapping[str, Array]) -> str:
    """Return the outputs that hold no NaN, by name; nothing if each holds one."""
    # NumPy looks for NaN in floats alone, and bfloat16 is none of its own
    return ", ".join(name for name, array in answer.items() if not np.isnan(array.astype(np.float64)).any())


def unlike_lengths_answered(runtime: str, case: Case) -> Verdict:
    """Return a row for a call with inputs of unlike lengths that a graph answers although its own module refuses it."""
    lengths = [f"{port} with {size} of {axis}" for port, own in case.unlike.items() for axis, size in own.items()]
    others = next(case.sizes[axis] for own in case.unlike.values() for axis in own)
    return Verdict(runtime, "refusal", "pass", note=f"{', '.join(lengths)} where the others have {others}")


def folded(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return one row for the refusals of a runtime: the first that failed, else the first not run, else all in one.

    Its note names the calls that the graph answers although the module refuses them.
    """
    answered = [verdict for verdict in verdicts if verdict.note]
    others = [verdict for verdict in verdicts if not verdict.note]
    calls = "; ".join(verdict.note for verdict in answered)
    words = f"answers where the module refuses inputs of unlike lengths: {calls}: compare lengths before the call"
    note = words if answered else ""
    if not others:
        return [replace(verdict, status="skip", detail=note, note="") for verdict in answered[:1]]
    everything = replace(others[0], detail="; ".join(verdict.detail for verdict in others))
    not_passed = [verdict for status in ("fail", "skip") for verdict in others if verdict.status == status]
    return [replace([*not_passed, everything][0], note=note)]
