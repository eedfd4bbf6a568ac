"""A file that another program wrote is proved as our own are: by plan, tolerances and checks of its target."""

import json
import os
from itertools import islice
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import posenc_export
from helpers.foreign_files import ROWS, Embedding, changed, embedding_file
from helpers.mutants.mutations import mutants
from helpers.shared import Cli
from posenc.spec import Positions, Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.common.errors import BadInput
from posenc_export.proof.foreign.renaming import rename
from posenc_export.proof.judging.verdict import AGREES, Verdict
from posenc_export.proof.report.result import ValidateResult

IDS, SAME = "ids: int64[batch, seq] < 16", "input_ids=ids"
NAMED = "helpers.foreign_files:Embedding"


def proved(path: Path, *inputs: str) -> ValidateResult:
    return posenc_export.prove(path, Embedding, inputs=inputs or (IDS, SAME), max_len=ROWS, runtimes="ort-cpu")


def row(result: ValidateResult, check: str) -> Verdict:
    return next(verdict for verdict in result.verdicts if verdict.check == check)


def test_a_right_file_of_other_names_passes_every_case_of_its_target(tmp_path: Path) -> None:
    result = proved(embedding_file(tmp_path / "theirs.onnx"))
    assert result.passed, str(result)
    assert result.manifest.foreign == "theirs.onnx, written by by hand"
    assert "names of the file: input_ids is ids, last_hidden_state is y" in result.manifest.notes
    assert {case.sizes["seq"] for case in result.manifest.cases} >= {1, 2, ROWS}
    assert row(result, "determinism").detail.startswith("two copies of the module; captures: not held")
    assert "not held" in row(result, "structure").detail
    assert "not held" in row(result, "static-axis").detail


def test_where_no_runtime_is_named_those_that_are_here_run_it(tmp_path: Path, cli: Cli) -> None:
    file = embedding_file(tmp_path / "theirs.onnx")
    shown = cli("prove", str(file), "--against", NAMED, "-i", IDS, "-i", SAME, "--max-len", str(ROWS))
    assert shown.exit_code == 0, shown.output
    result = posenc_export.prove(file, Embedding, inputs=(IDS, SAME), max_len=ROWS)
    assert {verdict.subject for verdict in result.verdicts if verdict.check == AGREES} == {"ort-cpu", "ort-cuda"}


def test_what_a_row_that_is_wrong_says_is_its_case(tmp_path: Path) -> None:
    result = proved(changed(embedding_file(tmp_path / "theirs.onnx"), "table", ROWS - 1))
    assert [verdict.check for verdict in result.verdicts if verdict.status == "fail"] == [AGREES]
    wrong = {c.case for c in row(result, AGREES).comparisons if not c.passed}
    assert wrong
    assert all(case.startswith(("batch1-seq24", "batch3-seq24")) for case in wrong)


def test_a_file_of_one_length_fails_at_every_other_one(tmp_path: Path) -> None:
    result = proved(embedding_file(tmp_path / "static.onnx", length=5))
    assert "axis 'seq' of ids is 5 in the graph" in row(result, "static-axis").detail
    wrong = {c.case for c in row(result, AGREES).comparisons if not c.passed}
    assert wrong == {case.name for case in result.manifest.cases if case.sizes["seq"] != 5}


def test_a_file_that_ends_early_fails_from_there_on(tmp_path: Path) -> None:
    result = proved(embedding_file(tmp_path / "ended.onnx", rows=9))
    sizes = {case.name: case.sizes["seq"] for case in result.manifest.cases}
    wrong = {sizes[c.case] for c in row(result, AGREES).comparisons if not c.passed}
    assert wrong == {size for size in sizes.values() if size > 9}


def test_ids_of_32_bits_are_converted_and_said(tmp_path: Path) -> None:
    result = proved(embedding_file(tmp_path / "narrow.onnx", dtype=TensorProto.INT32))
    assert result.passed, str(result)
    assert "ids: int32 in the file, converted to int64" in result.manifest.notes


def test_the_only_input_is_taken_for_the_only_one_of_the_target(tmp_path: Path) -> None:
    result = proved(embedding_file(tmp_path / "theirs.onnx"), IDS)
    assert result.passed, str(result)
    assert "names of the file: input_ids is ids, last_hidden_state is y" in result.manifest.notes


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (
            (IDS, "tokens=ids"),
            r"inputs=..tokens=ids..: theirs.onnx has no 'tokens': it has input_ids, last_hidden_state",
        ),
        ((IDS, "input_ids=id"), r"inputs=..input_ids=id..: .* has no 'id': it has ids, y"),
        (("ids: int64[batch, 7] < 16", SAME), "input_ids is int64.b, 5., .* has ids: .*: expected an axis of 5, as"),
        ((IDS, "more: float32[batch]", SAME), "the module itself fails"),
    ],
)
def test_inputs_that_do_not_fit_are_said_in_a_line(tmp_path: Path, inputs: tuple[str, ...], words: str) -> None:
    with pytest.raises(BadInput, match=words) as error:
        proved(embedding_file(tmp_path / "theirs.onnx", length=5), *inputs)
    assert "\n" not in error.value.message


@pytest.mark.parametrize(
    ("positions", "words"),
    [
        ("implicit", r"no input of rope fits input_ids \(int32\): .* lacks q: .*; k: .*\. Is rope the right TARGET\?"),
        # int32 is converted to the int64 of positions, but nothing in the file is q
        ("explicit", r"input_ids: int32.*, which rope has not: .* lacks q: .*; k: .*\. Is rope the right TARGET\?"),
    ],
)
def test_an_input_is_named_for_what_it_can_be(tmp_path: Path, positions: Positions, words: str) -> None:
    file = embedding_file(tmp_path / "narrow.onnx", dtype=TensorProto.INT32)
    with pytest.raises(BadInput, match=words):
        posenc_export.prove(file, "rope", head_dim=8, positions=positions, runtimes="ort-cpu")


def test_a_rename_that_is_advised_works(bundle: Path) -> None:
    path = bundle / "model.onnx"
    model = onnx.load(path)
    rename(model.graph, {"x": "hidden", "start": "begin"})
    onnx.save(model, path)
    with pytest.raises(BadInput, match=r"which sinusoidal has not: .*; say which it is: inputs=..hidden=x"):
        as_exported(path)
    assert as_exported(path, "hidden=x").passed


def test_an_input_that_the_file_has_dropped_is_lost(tmp_path: Path) -> None:
    path = embedding_file(tmp_path / "theirs.onnx")
    model = onnx.load(path)
    model.graph.node[1].CopyFrom(helper.make_node("Shape", ["table"], ["end"], start=0, end=1))
    model.graph.node[0].CopyFrom(helper.make_node("Unsqueeze", ["table", "zero"], ["embedded"]))
    del model.graph.input[:]
    onnx.save(model, path)
    result = proved(path, IDS)
    assert row(result, "lost-input").detail == "input 'ids' is not used"
    assert row(result, AGREES).status == "fail"


def as_exported(path: Path, *inputs: str) -> ValidateResult:
    """Prove a file as what the fixture `bundle` holds."""
    spec = Spec("dynamic", positions="offset", max_len=40)
    return posenc_export.prove(path, "sinusoidal", spec=spec, inputs=inputs, d_model=8, runtimes="ort-cpu")


def test_our_own_file_passes_the_same_cases(bundle: Path) -> None:
    export = Bundle.open(bundle).manifest
    proof = as_exported(bundle / "model.onnx")
    assert proof.passed, str(proof)
    assert [case.name for case in proof.manifest.cases] == [case.name for case in export.cases]
    tried = {comparison.case for comparison in row(proof, AGREES).comparisons}
    assert tried == {case.name for case in export.cases if not case.refused}
    assert row(proof, "refusal").status == "pass"


@pytest.mark.parametrize("number", [0, 1, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in range(2, 9))])
def test_our_own_file_with_a_wrong_row_or_element_fails(bundle: Path, number: int) -> None:
    path = bundle / "model.onnx"
    mutant = next(islice(mutants(onnx.load(path), (0,), ("rows and elements",)), number, None))
    onnx.save(mutant.model, path)
    failed = {verdict.check for verdict in as_exported(path).verdicts if verdict.status == "fail"}
    # rows that only far positions read are in no case, and must be the encoding's
    assert failed & {AGREES, "tables"}, mutant.mutation


@pytest.mark.parametrize("place", ["../secret", "nowhere.data", "link.data"])
def test_weights_from_elsewhere_are_refused(tmp_path: Path, place: str) -> None:
    path = embedding_file(tmp_path / "theirs.onnx")
    model = onnx.load(path)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=place)
    onnx.save(model, path)
    (tmp_path.parent / "secret").write_bytes(b"0" * 256)
    os.symlink(tmp_path.parent / "secret", tmp_path / "link.data")
    with pytest.raises(BadInput, match=f"in '{place}'"):
        proved(path)


def test_weights_beside_the_file_are_taken(tmp_path: Path) -> None:
    path = embedding_file(tmp_path / "theirs.onnx")
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="theirs.data", size_threshold=0)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert proved(path).passed
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty: give an ONNX file"),
        (b"\x00" * 99, "is damaged or no ONNX file"),
        (b"not a model", "is damaged or no ONNX file"),
        (None, "does not exist: give an ONNX file"),
    ],
)
def test_what_is_no_onnx_file_is_said_in_a_line(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "model.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInput, match=f"^[^\n]*{words}[^\n]*$"):
        proved(path)


def test_a_folder_is_said_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is a folder: give the ONNX file in it"):
        proved(tmp_path)


def test_a_folder_is_the_file_in_it(cli: Cli, tmp_path: Path) -> None:
    theirs = embedding_file(tmp_path / "theirs.onnx")
    words = ("--against", NAMED, "-i", IDS, "-i", SAME, "--max-len", "8", "--runtime", "ort-cpu")
    assert "theirs.onnx, written by" in cli("prove", str(tmp_path), *words).output
    second = embedding_file(tmp_path / "second.onnx")
    result = cli("prove", str(tmp_path), *words)
    assert (result.exit_code, result.stderr) == (
        2,
        f"Error: {tmp_path} has 2 ONNX files: give one of them, as {second}\n",
    )
    theirs.rename(tmp_path / "model.onnx")
    assert "model.onnx, written by" in cli("prove", str(tmp_path), *words).output


def test_the_command_prints_what_validate_prints(cli: Cli, tmp_path: Path) -> None:
    path = str(changed(embedding_file(tmp_path / "theirs.onnx"), "table", 3))
    said = ("--against", NAMED, "-i", IDS, "-i", SAME, "--max-len", "8", "--runtime", "ort-cpu")
    result = cli("prove", path, *said, "--github", "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout[: result.stdout.rindex("}") + 1])
    assert report["bundle"] == path
    assert not report["passed"]
    assert "::error title=PE104 agrees::ort-cpu: " in result.output
    assert "what the file is to be" in cli("prove", path).output
    assert cli("prove", path).exit_code == 2


def test_a_module_without_inputs_is_told_those_of_the_file(tmp_path: Path) -> None:
    path = embedding_file(tmp_path / "theirs.onnx")
    with pytest.raises(
        BadInput, match=r"say what goes in, as the file has it: inputs=\[\"input_ids: int64\[b, s\]\"\]"
    ):
        posenc_export.prove(path, NAMED)


def plain_rope(path: Path, theta: float = 10000.0) -> Path:
    """Write cosines and sines of position x frequency in float32, ids of any size, as exporters write them."""
    frequencies = (theta ** (-np.arange(0, 8, 2) / 8)).astype(np.float32)
    nodes = [
        helper.make_node("Cast", ["position_ids"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["floats", "axis"], ["column"]),
        helper.make_node("Mul", ["column", "inv_freq"], ["half"]),
        helper.make_node("Concat", ["half", "half"], ["angles"], axis=-1),
        helper.make_node("Cos", ["angles"], ["c"]),
        helper.make_node("Sin", ["angles"], ["s"]),
    ]
    stored = {"axis": np.array([-1]), "inv_freq": frequencies}
    inputs = [helper.make_tensor_value_info("position_ids", TensorProto.INT64, ["b", "s"])]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["b", "s", 8]) for name in ("c", "s")]
    constants = [numpy_helper.from_array(array, name) for name, array in stored.items()]
    graph = helper.make_graph(nodes, "rope", inputs, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def as_rope(path: Path) -> ValidateResult:
    spec = Spec("dynamic", "trig", "explicit", max_len=64)
    parameters = {"head_dim": 8, "output": "cos_sin", "width": "full"}
    return posenc_export.prove(
        path, "rope", inputs="position_ids=positions", spec=spec, parameters=parameters, runtimes="ort-cpu"
    )


def test_a_file_is_held_against_a_scheme_and_its_float64(tmp_path: Path) -> None:
    right = as_rope(plain_rope(tmp_path / "right.onnx"))
    assert row(right, AGREES).status == "pass", str(right)
    assert {c.against for c in row(right, AGREES).comparisons} == {"eager", "reference"}
    assert right.manifest.reference == "the scheme's float64 reference"
    wrong = as_rope(plain_rope(tmp_path / "wrong.onnx", theta=500000.0))
    assert row(wrong, AGREES).status == "fail"
