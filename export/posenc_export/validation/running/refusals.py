"""Calls that a graph must refuse: rows for those that it refuses, and for those that it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.carries import are_looked_up, bounds_of
from posenc_export.runtimes import Crashed, RunFailed, Runner, Runtime
from posenc_export.validation.judging.verdict import Verdict

CUDA_REFUSES_NOTHING = "CUDA reports no position out of range: ONNX Runtime gives zeros, PyTorch stops the device"


def refusal(runtime: Runtime, runner: Runner, golden: GoldenCase, own: bool = False) -> Verdict:
    """Demand an error where a position is beyond what the graph holds, or an input is longer than another.

    Args:
        runtime: What the graph was loaded by.
        runner: The loaded graph.
        golden: The call that must be refused.
        own: Whether the graph is of a user's module, or another program wrote it. Unlike lengths are a note then, as
            ONNX and PyTorch repeat a single token.
    """
    case = golden.case
    refuses_values = are_looked_up(runner.inputs) or any(map(bounds_of, runner.inputs))
    if runtime.device == "cuda" and refuses_values and not case.unlike:
        return Verdict(runtime.name, "refusal", "skip", CUDA_REFUSES_NOTHING)
    try:
        # `run` itself would refuse inputs of unlike lengths, before the graph sees them
        runner.answer(golden.feeds) if case.unlike else runner.run(golden.feeds)
    except RunFailed as failure:
        # a crash is a refusal only of runtimes that refuse by ending their process
        refuses = runtime.ends_process or not isinstance(failure, Crashed)
        return Verdict(runtime.name, "refusal", "pass" if refuses else "fail", f"{case.name}: {failure}")
    if runtime.lenient:
        return Verdict(runtime.name, "refusal", "skip", runtime.lenient)
    if own and case.unlike:
        return unlike_lengths_answered(runtime.name, case)
    # -at-1 in a name reads like position 1
    at = f" at position {case.first}" if case.first < 0 else ""
    return Verdict(runtime.name, "refusal", "fail", f"{case.name}: gave an answer, expected an error{at}")


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
