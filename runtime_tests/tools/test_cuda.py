"""The command that proves CUDA: its plan and its table, rehearsed on the CPU; that nothing runs is no success."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from helpers.shared import Cli, need, why_missing
from posenc import build
from posenc.parameters import Value
from posenc.scheme import SCHEMES, Scheme
from posenc.spec import Mode, Positions, Spec, UnsupportedSpec
from posenc_export.cuda.plan import MAX_LEN, BundlePlan, plans, runtimes_of
from posenc_export.cuda.prove import EMBEDDED, TIMED, Proof, exported, judged, prove, prove_class
from posenc_export.cuda.table import headline, markdown, rows, status_of
from posenc_export.machine import facts
from posenc_export.runtimes import RUNTIMES
from posenc_export.runtimes.onnx_runtime import load_ort_cpu
from posenc_export.validation.checks import CHECKS, Context
from posenc_export.validation.judging.verdict import Verdict


def quiet(_: str) -> None:
    """Say nothing of how far it is."""


def can_be_built(scheme: Scheme, mode: Mode, params: Mapping[str, Value]) -> bool:
    """Return whether a sample has a form of a mode, however positions are given: a size from each call has no table."""
    for positions in get_args(Positions):
        with suppress(UnsupportedSpec):
            build(scheme.name, Spec(mode, positions=positions, max_len=MAX_LEN), **params)
            return True
    return False


def test_the_plan_has_every_sample_of_every_scheme_in_every_mode() -> None:
    planned = plans()
    for scheme in SCHEMES.values():
        for mode in set(get_args(Mode)) - scheme.unsupported.modes.keys():
            of_mode = [one for one in planned if (one.scheme, one.spec.mode) == (scheme.name, mode)]
            missing = [sample for sample in scheme.samples if sample not in [dict(one.params) for one in of_mode]]
            assert [sample for sample in missing if can_be_built(scheme, mode, sample)] == []
            assert {"fp32", "fp16", "bf16"} <= {one.spec.dtype for one in of_mode}
        proved = [dict(one.params) for one in planned if one.scheme == scheme.name]
        assert [sample for sample in scheme.samples if sample not in proved] == []
    assert len({str(one) for one in planned}) == len(planned)
    assert {one.scheme for one in plans(["rope"])} == {"rope"}


def test_every_runtime_of_cuda_that_reads_a_graph_has_a_row() -> None:
    cuda = {runtime.name for runtime in RUNTIMES.values() if runtime.device == "cuda"}
    assert set(runtimes_of("cuda")) == cuda
    assert cuda == {"ort-cuda", "ort-cpp-cuda", "torchscript-cuda", "libtorch-cpp-cuda", "pt2-cuda"}
    assert {"placement", "io-binding", "provider"} <= {c.name for c in CHECKS.values() if "ort-cuda" in c.subjects}


def test_a_bundle_is_proved_on_the_cpu_as_on_cuda() -> None:
    bundle_plan = next(one for one in plans(["learned"]) if one.spec.dtype == "fp32")
    proofs = list(prove([bundle_plan], "cpu", quiet))
    by_runtime = {proof.verdict.subject for proof in proofs if proof.verdict.status == "pass"}
    assert {"ort-cpu", "torchscript-cpu", "pt2-cpu"} <= by_runtime
    assert status_of(proofs) == "pass"
    (row,) = (row for row in rows(proofs) if row[1] == "ort-cpu")
    assert row[:4] == ("learned", "ort-cpu", "pass", "1")
    assert row[5] == "same bits"
    text = markdown(facts(), headline(proofs), proofs)
    assert "* CPU: " in text
    assert text.count("\n| learned |") == len(rows(proofs))


def test_where_nothing_can_run_that_is_said_before_any_work(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    if not why_missing("ort-cuda"):
        pytest.skip("CUDA is here: the command itself runs it")
    monkeypatch.setattr("posenc_export.cuda.prove.exported", lambda *_: pytest.fail("it exported"))
    result = cli("cuda", "--save", "table.md")
    assert (result.exit_code, result.output.count("\n"), Path("table.md").exists()) == (3, 1, False), result.output
    assert result.output.startswith("Error: nothing can run on cuda here: ort-cuda, ")
    assert cli("cuda", "--scheme", "nope").exit_code == 2


def proof(bundle_plan: BundlePlan, status: str, detail: str = "") -> Proof:
    return Proof(bundle_plan, Verdict("ort-cuda", "agrees", status, detail))  # type: ignore[arg-type]


def test_a_failure_is_the_first_thing_that_a_row_says() -> None:
    one, other = plans(["learned"])[:2]
    proofs = [proof(one, "pass"), proof(other, "fail", "off by 3"), proof(one, "skip", "no library")]
    (row,) = rows(proofs)
    assert row[2] == "FAIL"
    assert row[-1] == f"{other}: agrees: off by 3"
    assert headline(proofs).startswith("FAILED: 1 of 3 checks of 2 bundles")
    assert status_of(proofs[::2]) == "pass"
    assert status_of(proofs[2:]) == "skip"
    assert headline(proofs[2:]) == "nothing ran: 1 checks of 1 bundles not run"


@pytest.mark.parametrize(
    ("status", "printed", "errors", "expected"),
    [
        (0, "pass  a\n1 cases, 0 failed\n", "", ("pass", "1 cases, 0 failed")),
        (0, "not run  Memory::device: no libcudart\npass  a\n1 cases, 0 failed\n", "", ("skip", "no libcudart")),
        (1, "FAIL  a  y is off\n1 cases, 1 failed\n", "", ("fail", "a  y is off")),
        (1, "", "error: no device", ("fail", "error: no device")),
    ],
)
def test_what_a_replay_prints_is_a_verdict(status: int, printed: str, errors: str, expected: tuple[str, str]) -> None:
    verdict = judged("posenc::learned::Model", status, printed, errors)
    assert verdict.status == expected[0]
    assert expected[1] in verdict.detail


@pytest.mark.exhaustive
@pytest.mark.parametrize("bundle_plan", EMBEDDED, ids=lambda one: one.scheme)
def test_the_class_is_replayed(bundle_plan: BundlePlan) -> None:
    need("ort-cpp")
    proofs = list(prove_class(bundle_plan, "cpu", quiet))
    assert [p.verdict.status for p in proofs] == ["pass", "pass"], [p.verdict.detail for p in proofs]
    assert all(p.verdict.detail.endswith("0 failed") for p in proofs)


def test_what_is_timed_is_of_a_size_that_models_have() -> None:
    assert {one.scheme for one in TIMED} <= set(SCHEMES)
    assert all(one.spec.max_len > MAX_LEN for one in TIMED)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_bound_call_gives_the_bits_of_a_plain_one_and_another_is_found(tmp_path: Path, dtype: str) -> None:
    bundle_plan = next(one for one in plans(["learned"]) if one.spec.dtype == dtype)
    bundle = exported(bundle_plan, tmp_path)
    artifact = bundle.manifest.artifact("onnx")
    assert artifact is not None
    runner = load_ort_cpu(bundle.path(artifact), bundle.manifest)
    context = Context(bundle.manifest, artifact, bundle.path(artifact), runtime=RUNTIMES["ort-cuda"], runner=runner)
    assert CHECKS["io-binding"].run(context) == []
    other = replace(runner, call=lambda feeds: {k: v + np.ones((), v.dtype) for k, v in runner.call(feeds).items()})
    (problem,) = CHECKS["io-binding"].find(replace(context, runner=other)).problems
    assert problem.startswith("y differs in ")
