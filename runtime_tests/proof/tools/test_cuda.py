"""The command that proves CUDA: its plan and its table, rehearsed on the CPU; that nothing runs is no success."""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from helpers.made_parts import part_of
from helpers.shared import Cli, need, why_missing
from posenc import build
from posenc.parameters import Value
from posenc.scheme import SCHEMES, Scheme
from posenc.spec import Mode, Positions, Spec, UnsupportedSpec
from posenc_export.common.machine import facts
from posenc_export.proof.checks import CHECKS, Context
from posenc_export.proof.checks.placement import Placed
from posenc_export.proof.cuda.place import CudaPlacement, place
from posenc_export.proof.cuda.plan import MAX_LEN, BundlePlan, placements, plans, runtimes_of
from posenc_export.proof.cuda.prove import EMBEDDED, TIMED, CudaProof, exported, judged, prove, prove_class
from posenc_export.proof.cuda.table import (
    PLACED_COLUMNS,
    headline,
    markdown,
    placed_headline,
    placed_rows,
    rows,
    status_of,
)
from posenc_export.proof.judging.verdict import Verdict
from posenc_export.proof.runtimes import NOT_RUN, RUNTIMES, Missing
from posenc_export.proof.runtimes.onnx_runtime import load_ort_cpu
from posenc_export.write.formats import OPSETS, RotaryOp
from scripts.compat_table import PAGE, PLACED


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


@pytest.mark.exhaustive
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
    monkeypatch.setattr("posenc_export.proof.cuda.prove.exported", lambda *_: pytest.fail("it exported"))
    result = cli("cuda", "--save", "table.md")
    assert (result.exit_code, result.output.count("\n"), Path("table.md").exists()) == (3, 1, False), result.output
    assert result.output.startswith("Error: nothing can run on cuda here: ort-cuda, ")
    assert cli("cuda", "--scheme", "nope").exit_code == 2


def proof(bundle_plan: BundlePlan, status: str, detail: str = "") -> CudaProof:
    return CudaProof(bundle_plan, Verdict("ort-cuda", "agrees", status, detail))  # type: ignore[arg-type]


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


# ---- placed without a GPU --------------------------------------------------------------------------------------------


def test_every_form_of_every_scheme_is_planned_to_be_placed() -> None:
    planned = placements()
    assert len(planned) == len({str(one) for one in planned}) >= 400
    assert {one.rotary_op for one in planned} == set(get_args(RotaryOp))
    for scheme in SCHEMES.values():
        own = [one for one in planned if one.scheme == scheme.name]
        assert [sample for sample in scheme.samples if sample not in [dict(one.params) for one in own]] == []
        for mode in set(get_args(Mode)) - scheme.unsupported.modes.keys():
            ways = {
                (one.spec.positions, one.spec.dtype)
                for one in own
                if (one.spec.mode, one.rotary_op, one.opset) == (mode, "decomposed", None)
            }
            there = {ways_to for ways_to in get_args(Positions) if can_be(scheme, mode, ways_to)}
            assert ways == {(positions, dtype) for positions in there for dtype in ("fp32", "fp16", "bf16")}
            assert {one.opset for one in own if one.spec.mode == mode} == {None, *list(OPSETS)[1:]}


def can_be(scheme: Scheme, mode: Mode, positions: Positions) -> bool:
    """Return whether the smallest sample has a form of a mode, and a way to give positions."""
    try:
        build(scheme.name, Spec(mode, positions=positions, max_len=MAX_LEN), **scheme.samples[0])
    except UnsupportedSpec:
        return False
    return True


def usual(schemes: list[str]) -> list[BundlePlan]:
    """Return what is placed of schemes in float32 by default: a file for each mode and method."""
    return [
        one
        for one in placements(schemes)
        if one.spec.positions == SCHEMES[one.scheme].positions
        and (one.spec.dtype, one.rotary_op, one.opset) == ("fp32", "decomposed", None)
        and dict(one.params) == dict(SCHEMES[one.scheme].samples[0])
    ]


@pytest.mark.parametrize("scheme", ["alibi", pytest.param("rope", marks=pytest.mark.exhaustive)])
def test_what_computes_rows_stays_on_cuda(scheme: str) -> None:
    need("cuda-placement")
    placed = list(place(usual([scheme]), quiet))
    assert {one.plan.form for one in placed} >= {"baked", "dynamic"}
    assert [f"{one.plan}: {one.placed.problems}" for one in placed if one.placed.problems] == []
    assert all(one.placed.on_cuda and len(one.placed.copies) <= len(one.placed.sizes) for one in placed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("scheme", [name for name in SCHEMES if name not in ("alibi", "rope", "hash_grid")])
def test_what_computes_rows_of_any_scheme_stays_on_cuda(scheme: str) -> None:
    need("cuda-placement")
    placed = list(place(usual([scheme]), quiet))
    assert [f"{one.plan}: {one.placed.problems}" for one in placed if one.placed.problems] == []
    assert any(one.placed.on_cuda for one in placed)
    assert [str(one.plan) for one in placed if len(one.placed.copies) > len(one.placed.sizes)] == []


def test_the_page_has_every_form_and_names_what_cuda_lacks() -> None:
    lines = [line.strip("| ").split(" | ") for line in part_of(PAGE, PLACED).splitlines() if line.startswith("| ")]
    columns, _, *table = lines
    assert tuple(columns) == PLACED_COLUMNS
    planned = Counter((one.scheme, one.form) for one in placements())
    assert {(scheme, form): int(files) for scheme, form, files, *_ in table} == planned
    left = {scheme: rows for scheme, *_, rows in table if rows != "none"}
    assert set(left) == {scheme.name for scheme in SCHEMES.values() if names_operators(scheme)}


def names_operators(scheme: Scheme) -> bool:
    """Return whether the encoding of a scheme says that CUDA has no kernel for some of its operators."""
    mode = next(mode for mode in get_args(Mode) if mode not in scheme.unsupported.modes)
    return bool(build(scheme.name, Spec(mode, max_len=MAX_LEN), **scheme.samples[0]).not_on_cuda)


def test_operators_without_a_kernel_are_those_that_the_encoding_names() -> None:
    need("cuda-placement")
    (one,) = place(usual(["hash_grid"]), quiet)
    assert set(one.placed.operators) == set(one.not_on_cuda) == {"BitwiseXor", "BitwiseAnd"}
    assert not one.failed
    assert placed_headline([one]) == (
        f"1 file placed on CUDA; {NOT_RUN}; rows on the CPU, for which CUDA has no kernel: hash_grid"
    )
    assert replace(one, not_on_cuda=("BitwiseXor",)).failed


def test_a_table_of_placements_counts_what_runs_where() -> None:
    one, other = plans(["learned"])[:2]
    good = Placed(9, ("Shape", "Gather"), (), (), ("size",), ())
    bad = Placed(7, (), ("Cos node_1",), ("Made node_2",), (), ("angles",))
    placed = [CudaPlacement(one, good), CudaPlacement(other, bad)]
    (row,) = placed_rows(placed)
    assert row == ("learned", "baked", "2", "16", "2", "1", "1 Cos, 1 Made")
    assert placed_headline(placed) == (
        f"FAILED: 1 of 2 files: {other}: on the CPU: Cos node_1; on the CPU, size not known: Made node_2; "
        f"copied between CPU and GPU in each call: angles; 2 files placed on CUDA; {NOT_RUN}"
    )
    assert placed_headline(placed[:1]) == f"1 file placed on CUDA; {NOT_RUN}"
    assert not placed[0].failed


def test_the_command_places_and_says_that_nothing_ran(cli: Cli) -> None:
    need("cuda-placement")
    result = cli("cuda", "--placement", "--scheme", "learned_2d", "--save", "placed.md")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1] == f"9 files placed on CUDA; {NOT_RUN}"
    text = Path("placed.md").read_text(encoding="utf-8")
    assert text.startswith(f"9 files placed on CUDA; {NOT_RUN}\n")
    assert "| learned_2d | baked | 9 |" in text


def test_where_nothing_can_be_placed_that_is_said(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking() -> None:
        raise Missing("no C compiler")

    without = replace(RUNTIMES["cuda-placement"], check=lacking)
    monkeypatch.setattr("posenc_export.proof.cuda.place.RUNTIMES", {"cuda-placement": without})
    result = cli("cuda", "--placement", "--scheme", "learned_2d")
    assert (result.exit_code, result.output) == (3, "Error: nothing can be placed here: no C compiler\n")
