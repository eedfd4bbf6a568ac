"""Whether `posenc validate` refuses a file that is wrong in one thing, with every digest put right."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import resource
import select
import signal
import traceback
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnxruntime
from onnx import ModelProto

from helpers.mutants.equivalent import equivalent
from helpers.mutants.mutations import Mutant, Mutation
from posenc_export.bundle.case import GoldenCase
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.apart.parent import in_process
from posenc_export.proof.checks import CHECKS, Context
from posenc_export.proof.judging.call import compare_case
from posenc_export.proof.judging.verdict import ValidateOptions, Verdict
from posenc_export.proof.running.refusals import refusal
from posenc_export.proof.runtimes import RUNTIMES, RunFailed
from posenc_export.write.formats.onnx.operators import REQUIRED_OPERATORS, required_operators

MODEL, LIMIT, ROOM = "model.onnx", 240, 12 * 2**30
"""Seconds and bytes that an answer may take: a mutant may ask for more of both than there is."""
QUICK = ("structure", "static-axis", "lost-input", "tables")
"""Checks of a file that are asked before all others."""
OPTIONS = ValidateOptions(runtimes=("ort-cpu",), timeout=60.0)


@dataclass(frozen=True)
class Outcome:
    """What a mutant became: "refused", "equivalent", "survived", or "not loaded", which does not count.

    words: what refused it, or the rule by which it is equivalent.
    """

    mutation: Mutation
    became: str
    words: str = ""

    def __str__(self) -> str:
        return f"{self.became}: {self.mutation}" + (f" ({self.words})" if self.words else "")


def sign(folder: Path, model: ModelProto) -> None:
    """Write a model into a bundle, with what its other files say of it."""
    (folder / MODEL).write_bytes(model.SerializeToString())
    beside = folder / REQUIRED_OPERATORS
    if beside.is_file():
        beside.write_text(required_operators(model), encoding="utf-8")
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    for listed in (*manifest["artifacts"], *manifest["files"]):
        content = (folder / listed["file"]).read_bytes()
        listed.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


@dataclass(frozen=True)
class Subject:
    """A bundle that mutants of its file are tried in, with the file as it was, and what was recorded of it."""

    folder: Path
    model: ModelProto
    golden: tuple[GoldenCase, ...]


def subject(folder: Path) -> Subject:
    """Return what mutants are made of."""
    model = ModelProto.FromString((folder / MODEL).read_bytes())
    golden = sorted(Bundle.open(folder).golden(), key=lambda one: sum(a.size for a in one.eager.values()))
    return Subject(folder, model, tuple(golden))


def tried(whole: Subject, mutant: Mutant) -> Outcome:
    """Try a mutant in a process of its own: one may end it, as a division by zero does."""
    answer = in_a_child(lambda: _tried(whole, mutant))
    if answer is None:
        can_be_loaded = in_a_child(lambda: loads(mutant.model))
        answer = ("refused", "ends the process") if can_be_loaded else ("not loaded", "")
    return Outcome(mutant.mutation, *answer)


def _tried(whole: Subject, mutant: Mutant) -> tuple[str, str]:
    if not loads(mutant.model):
        return "not loaded", ""
    sign(whole.folder, mutant.model)
    if refused := _refused_at_once(whole):
        return "refused", refused
    rule = equivalent(whole.model, mutant.model, mutant.mutation, Bundle.open(whole.folder).manifest)
    if rule:
        return "equivalent", rule
    refused = _refused(whole.folder)
    return ("refused", refused) if refused else ("survived", "")


def loads(model: ModelProto) -> bool:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:
        return False
    return True


def _refused_at_once(whole: Subject) -> str:
    """Return which case fails, the small ones first: validation would say the same, after all of them."""
    bundle = Bundle.open(whole.folder)
    artifact = next(one for one in bundle.manifest.artifacts if one.format == "onnx")
    runtime = RUNTIMES["ort-cpu"]
    try:
        runner = replace(runtime.open(bundle.path(artifact), bundle.manifest), limit=OPTIONS.timeout)
    except RunFailed as error:
        return str(error)
    context = Context(bundle.manifest, artifact, bundle.path(artifact), runtime=runtime, runner=runner)
    for golden in whole.golden:
        if golden.case.refused:
            verdict = refusal(runtime, runner, golden)
            if verdict.status == "fail":
                return verdict.detail
        elif wrong := [m.comparison for m in compare_case(context, golden, OPTIONS) if not m.comparison.passed]:
            return f"{wrong[0].case}: {wrong[0].reason}"
    return failures(CHECKS[name].verdict("onnx", context) for name in QUICK)


def _refused(folder: Path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a mutant may divide by zero, and say so
        with in_process(folder, OPTIONS, trust=False) as validate:  # this process has limits of its own
            verdicts = validate(Bundle.open(folder))
    return failures(verdicts)


def failures(verdicts: Iterable[Verdict]) -> str:
    """Return what failed, in words."""
    return "; ".join(f"{one.check}: {one.detail}" for one in verdicts if one.status == "fail")


@dataclass(frozen=True)
class Broken:
    """An error in a child, in words."""

    words: str


def in_a_child(work: Callable[[], Any]) -> Any:
    """Return what work returns in a process of its own; None where that ends without a word."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _work_and_leave(work, writing)
    os.close(writing)
    try:
        answer = _answer(reading)
        if isinstance(answer, Broken):
            raise RuntimeError(answer.words)
        return answer
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _work_and_leave(work: Callable[[], Any], writing: int) -> None:
    import torch

    try:
        torch.set_num_threads(1)
        resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(pickle.dumps(_answered(work)))
    finally:
        os._exit(0)


def _answered(work: Callable[[], Any]) -> Any:
    """Return what work returns, or an error of ours: that one is no refusal."""
    try:
        return work()
    except Exception:
        return Broken(traceback.format_exc())


def _answer(reading: int) -> Any:
    content = b""
    while select.select([reading], [], [], LIMIT)[0]:
        part = os.read(reading, 2**16)
        if not part:
            return pickle.loads(content) if content else None
        content += part
    raise TimeoutError(f"no answer in {LIMIT} seconds: that is no refusal")
