"""`posenc compat`: what it says of runtimes is what was measured, and a stranger's file is read, not run."""

import json
import re
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

import posenc
from helpers.shared import ROOT, Cli, Once, one_of_each, sample_bundle
from posenc.scheme import SCHEMES
from posenc_export.write.formats import OPSETS
from posenc_export.write.formats.onnx import loading, read_onnx
from posenc_export.write.formats.onnx.browsers import RUNS_IN
from posenc_export.write.formats.onnx.compatibility import LoadClaim, claims, external_files, operators_used, refused
from posenc_export.write.formats.onnx.loading import installed_release, why_refused
from posenc_export.write.formats.onnx.phones import phone_claims
from scripts.compat_table import PHONES, Cell, cells
from scripts.old_runtimes import export, files, spec_of
from scripts.phones import samples

MEASURED = list(cells())
ON_PHONES = list(cells(PHONES))
RELEASES = ("1.15", "1.17", "1.18", "1.20", "1.22", "1.24")


def order(version: str) -> tuple[int, ...]:
    """Return a release by its first two numbers: of each the last patch was measured."""
    return tuple(map(int, version.split(".")[:2]))


def contradictions(found: tuple[LoadClaim, ...], file: str, measured: list[Cell]) -> list[str]:
    """Return every cell of a file that says otherwise than the claims do."""
    claimed = {claim.runtime: claim for claim in found}
    wrong = []
    for cell in (one for one in measured if one.file == file):
        claim = claimed[cell.runtime]
        old = cell.runtime == "ONNX Runtime" and claim.since != "" and order(cell.version) < order(claim.since)
        expected = claim.loads == "yes" and not old
        if expected != cell.good:
            wrong.append(f"{file} on {cell.runtime} {cell.version}: {cell.words}; claimed: {claim}")
    return wrong


@pytest.mark.parametrize(
    "name", one_of_each(list(files()), lambda name: name in ("rope", "rope, --rotary-op microsoft"))
)
def test_what_is_claimed_is_what_was_measured(tmp_path: Path, name: str) -> None:
    one, options = files()[name]
    export(one, tmp_path / "bundle", **options)
    assert contradictions(claims(read_onnx(tmp_path / "bundle" / "model.onnx")), name, MEASURED) == []


def test_a_claim_that_is_wrong_is_seen() -> None:
    wrong = tuple(LoadClaim(runtime, "yes", "1.15", ()) for runtime in ("ONNX Runtime", "OpenVINO", "onnxruntime-web"))
    late = tuple(LoadClaim(runtime, "yes", "1.99", ()) for runtime in ("ONNX Runtime", "OpenVINO", "onnxruntime-web"))
    assert any("1.17" in line for line in contradictions(wrong, "rope, --rotary-op onnx", MEASURED))
    assert contradictions(late, "rope", MEASURED)


def family_of(file: str) -> str:
    one, _ = files()[file]
    return posenc.build(one[0], spec_of(one), **one[1]).family


def test_the_table_has_files_of_every_scheme_and_is_of_every_family_and_release() -> None:
    assert {one[0] for one, _ in files().values()} == set(SCHEMES.names())
    rows = {cell.file for cell in MEASURED}
    assert rows <= set(files())
    # A scheme that is added takes the operators of its family: a row of its own waits until all are measured again.
    assert {family_of(file) for file in files()} == {family_of(file) for file in rows}
    columns = {(cell.runtime, cell.version) for cell in MEASURED}
    tried = [version for runtime, version in columns if runtime == "ONNX Runtime"]
    assert {order(version) for version in tried} >= {order(version) for version in RELEASES}
    assert max(map(order, tried)) > order(RELEASES[-1])
    assert {runtime for runtime, _ in columns} == {"ONNX Runtime", "OpenVINO", "onnxruntime-web"}
    assert all(cell.good or len(cell.words) > 5 for cell in MEASURED), "a hole without its reason"


@pytest.mark.parametrize(
    "name", one_of_each(list(samples()), lambda name: name in ("sincos_2d dynamic", "swin_bias baked"))
)
def test_what_is_claimed_of_phones_is_what_was_measured(once: Once, name: str) -> None:
    known = tuple(
        one for one in phone_claims(read_onnx(sample_bundle(once, name) / "model.onnx")) if one.loads != "not known"
    )
    of_those = [cell for cell in ON_PHONES if cell.runtime in {claim.runtime for claim in known}]
    assert contradictions(known, name, of_those) == []


def test_phones_compute_most_samples_and_the_rest_has_its_reason() -> None:
    assert {cell.file for cell in ON_PHONES} <= set(samples())  # a new scheme is measured with the next table
    for runtime in ("tract", "MNN"):
        good = [cell.good for cell in ON_PHONES if cell.runtime == runtime]
        assert sum(good) >= 0.8 * len(good)
    assert all(cell.good or len(cell.words) > 5 for cell in ON_PHONES), "a hole without its reason"


# ---- strangers -------------------------------------------------------------------------------------------------------


def model(*names: str, opset: int = 18, ir: int = 8, domain: str = "") -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
    nodes = [helper.make_node(name, ["x"], ["y"], domain=domain) for name in names]
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=opsets, ir_version=ir)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (model("Sin", opset=25, ir=11), "opset 25: no ONNX Runtime that was tried has it"),
        (model("Sin", opset=2**62), f"opset {2**62}: no ONNX Runtime"),
        (model("Sin", opset=-5), "opset -5: no ONNX Runtime"),
        (model("Sin", ir=99), "IR version 99: no ONNX Runtime"),
        (model("Gelu", domain="com.microsoft"), "com.microsoft Gelu: no ONNX Runtime"),
        (model("Mine", domain="com.example"), "com.example Mine: no ONNX Runtime"),
        (model("NoSuchOperator"), "ai.onnx NoSuchOperator: no ONNX Runtime"),
    ],
)
def test_of_what_was_not_measured_nothing_is_claimed(made: onnx.ModelProto, words: str) -> None:
    runtime, _, web = claims(made)
    assert (runtime.loads, runtime.since) == ("not known", "")
    assert any(reason.startswith(words) for reason in runtime.reasons)
    assert web.loads == "not known"


def test_of_phones_nothing_is_claimed_but_what_was_tried() -> None:
    untried = phone_claims(model("Sin"))
    assert [(claim.loads, claim.reasons[0]) for claim in untried] == [
        ("not known", "ai.onnx Sin was not tried there")
    ] * 2
    assert untried[0].reasons[1] == "posenc validate --runtime tract BUNDLE tries it"
    assert [claim.loads for claim in phone_claims(model("Abs"))] == ["yes", "yes"]
    assert [claim.loads for claim in phone_claims(model())] == ["yes", "no"]
    double = model("Abs")
    double.graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    assert [claim.loads for claim in phone_claims(double)] == ["not known", "no"]
    double.graph.output[0].type.tensor_type.elem_type = TensorProto.BFLOAT16
    assert [claim.loads for claim in phone_claims(double)] == ["no", "not known"]


def test_an_old_opset_loads_in_the_oldest_and_operators_say_since_when() -> None:
    made = model("Sin", opset=11, ir=6)
    assert claims(made)[0].since == OPSETS[18].onnx_runtime
    (used,) = operators_used(made)
    assert (used.since, used.release) == (7, "1.15")
    assert operators_used(model("Gelu", opset=20))[0].release == "1.17"


def test_weights_beside_a_file_are_named() -> None:
    made = model("Sin")
    tensor = made.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="model.onnx.data")
    assert external_files(made) == ["model.onnx.data"]
    runtime, _, web = claims(made)
    assert "model.onnx.data" in runtime.reasons[-1]
    assert web.loads == "no"


def test_what_the_installed_runtime_refuses_loads_nowhere(cli: Cli, bundle: Path) -> None:
    made = onnx.load(bundle / "model.onnx")
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    onnx.save(made, bundle / "model.onnx")
    done = cli("compat", str(bundle))
    assert done.exit_code == 0
    assert f"ONNX Runtime: no; ONNX Runtime {installed_release()}, which is installed here, refuses it: " in done.output
    assert "1.15 and newer" not in done.output
    assert "OpenVINO: not known; ONNX Runtime" in done.output
    data: Any = json.loads(cli("compat", str(bundle), "--json").output)
    assert data["runtimes"][0]["loads"] == "no"


def test_a_refusal_of_an_old_release_is_no_news_of_a_file_that_needs_a_newer_one() -> None:
    known = (LoadClaim("ONNX Runtime", "yes", "1.23", ()), LoadClaim("OpenVINO", "no", "", ("why",)))
    assert refused(known, "1.22.0.dev3", "opset") == known
    assert [claim.loads for claim in refused(known, "1.23.1", "opset")] == ["no", "no"]


def test_what_ends_the_process_or_never_ends_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "LOAD", "import os; os.abort()")
    assert why_refused(tmp_path) == "loading it ends the process (SIGABRT)"
    monkeypatch.setattr(loading, "LOAD", "import time; time.sleep(60)")
    assert why_refused(tmp_path, 0.2) == "it was not loaded in 0.2 s"


@pytest.mark.parametrize("name", ["model.onnx", "manifest.json"])
def test_a_damaged_bundle_is_refused_in_one_line(cli: Cli, bundle: Path, name: str) -> None:
    (bundle / name).write_bytes(b"\xff\xfe not one")
    done = cli("compat", str(bundle))
    assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output


def test_a_bundle_without_onnx_is_refused_in_one_line(cli: Cli, bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    manifest["artifacts"] = [one for one in manifest["artifacts"] if one["format"] != "onnx"]
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    done = cli("compat", str(bundle))
    assert done.exit_code == 2
    assert "has no ONNX file" in done.output


def test_a_stranger_steers_no_terminal_and_no_code_is_run(cli: Cli, bundle: Path, called: list[str]) -> None:
    made = onnx.load(bundle / "model.onnx")
    made.graph.node.add(op_type="Evil\x1b[2J\nONNX Runtime: 1.0", domain="x\x1b]0;")
    onnx.save(made, bundle / "model.onnx")
    done = cli("compat", str(bundle))
    assert done.exit_code == 0
    assert "\x1b" not in done.output
    assert not any(line.startswith("ONNX Runtime: 1.0") for line in done.output.splitlines())
    assert called == []


def test_lines_and_json_say_the_same(cli: Cli, bundle: Path) -> None:
    lines = cli("compat", str(bundle), "-v").output
    data: Any = json.loads(cli("compat", str(bundle), "--json").output)
    assert lines.startswith(
        "model.onnx runs in all 8 runtimes that were tried\nmodel.onnx: opset ai.onnx 18; IR version 8\n"
    )
    assert "ONNX Runtime: 1.15 and newer; IR version 8: since 1.15" in lines
    assert "OpenVINO: yes, tried with 2026.4.1; a position out of range gives zeros" in lines
    assert [(one["runtime"], one["loads"]) for one in data["runtimes"]] == [
        *(("ONNX Runtime", "yes"), ("OpenVINO", "yes"), ("onnxruntime-web", "yes")),
        *((name, "yes") for name in RUNS_IN),
        *(("tract", "yes"), ("MNN", "yes")),
    ]
    assert {one["name"] for one in data["operators"]} >= {"Gather", "Add"}
    assert all(one["release"] == "1.15" for one in data["operators"])


def test_the_first_line_says_what_it_means_and_the_next_who_does_not_take_it(
    cli: Cli, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, runs, providers, more = cli("compat", str(bundle)).output.splitlines()
    assert first == "model.onnx runs in all 8 runtimes that were tried"
    assert runs.startswith("runs in: ONNX Runtime 1.15 and newer, OpenVINO 2026.4.1, ")
    assert re.match(r"execution providers that take all \d+ nodes, by their own lists: CPU, CUDA, ", providers)
    assert more.startswith("-v says why")
    known = (LoadClaim("MNN", "no", "", ("why",)), LoadClaim("tract", "not known", "", ("untried",)))
    monkeypatch.setattr("posenc_export.write.formats.onnx.phones.phone_claims", lambda _: known)
    lines = cli("compat", str(bundle)).output.splitlines()
    assert lines[:3] == [
        "model.onnx: of 8 runtimes, 1 does not take it, 1 is not known to take it",
        "MNN: no; why",
        "tract: not known; untried",
    ]


def test_the_page_on_runtimes_names_what_answers_with_zeros() -> None:
    text = (ROOT / "docs" / "reference" / "runtimes.md").read_text(encoding="utf-8")
    cuda = next(part for part in text.split("\n* ") if "On CUDA a look-up cannot report" in part)
    assert "OpenVINO" in cuda
    assert "MNN" in cuda
