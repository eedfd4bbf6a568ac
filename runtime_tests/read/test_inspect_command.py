"""`posenc inspect`: what is printed, when it fails, and how it ends where a file cannot be read."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import posenc_export
from helpers.graph_files import added_row
from helpers.inspections import CURVE, FULL, inspection, rotary, table
from helpers.shared import ROOT, Cli
from posenc_export.common.errors import BadInput
from posenc_export.read import inspect as parent
from posenc_export.read.comparing.against import compare_files
from posenc_export.read.examine import Examining, examine
from posenc_export.read.facts import facts_of
from posenc_export.read.findings import finding
from posenc_export.read.graph.read import read_graph
from posenc_export.read.inspection import GraphInput, Inspection, NotJudged
from posenc_export.read.report import schema
from posenc_export.read.report.text import body_lines


@pytest.fixture
def onnx_file(tmp_path: Path) -> Path:
    """A file that adds a stored row to an input of a fixed length."""
    return added_row(tmp_path)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, onnx_file: Path) -> Callable[[Inspection], str]:
    """Have the file that is returned read as an inspection."""

    def as_read(made: Inspection) -> str:
        def give(path: Path, options: parent.InspectOptions) -> Inspection:
            options.begun(made)
            return made

        monkeypatch.setattr(parent, "_read", give)
        return str(onnx_file)

    return as_read


def test_what_people_read(cli: Cli, read: Callable[[Inspection], str]) -> None:
    result = cli("inspect", read(FULL))
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "model.onnx: failed: 1 error, 1 note; posenc explain PE207 says what to do",
        "PE207 error  shared-table: cos_cache: one table for two bases",
        "PE201 note  ends: /Gather: right up to 512 along seq",
        "",
        "rotary (default): theta 10000, of heads of 16, width 16, layout halves",
        "  computed in the graph, float32; positions from position_ids",
        "  4 layers: 4 nodes: /layers.0/Mul, /layers.1/Mul, /layers.2/Mul and 1 more",
        "  made of: inv_freq",
        "  error against float64: at most 0.003, at position 99; above 0.001 from position 10 on",
        "  in half precision: float16 noise from position 50 on; bfloat16 off by at most 0.01",
        "learned (table): rows 512, width 64",
        "  512 rows stored, float32; positions from range",
        "  1 node: /Gather",
        "  made of: wpe.weight",
        "ends at 512 along seq: longer calls are refused (/Gather: index 512 of 512 rows)",
        "file: 10 nodes; opset ai.onnx 20",
        "inputs: input_ids int64[batch, ?, 3]",
    ]


def test_the_first_line_says_what_fails(cli: Cli, read: Callable[[Inspection], str]) -> None:
    file = read(FULL)
    for words, verdict in (
        (["--fail-on", "PE201"], "failed by PE201: 1 error, 1 note; posenc explain PE201 says what to do"),
        (["--fail-on", "PE203"], "passed, as --fail-on asks: 1 error, 1 note; posenc explain PE207 says what to do"),
    ):
        assert cli("inspect", file, *words).stdout.splitlines()[0] == f"model.onnx: {verdict}"


def test_more_is_said_with_v(cli: Cli, read: Callable[[Inspection], str]) -> None:
    lines = cli("inspect", read(FULL), "-v").stdout.splitlines()
    assert (
        "  it means: The positions end there: a longer call is refused, with the error of the node that is named"
        in lines
    )
    assert any(line.startswith("  what to do: Cut calls to that length") for line in lines)
    assert "  4 layers: 4 nodes: /layers.0/Mul, /layers.1/Mul, /layers.2/Mul, /layers.3/Mul" in lines
    places = tuple(NotJudged(name, f"why {name}") for name in ("a", "b"))
    file = read(replace(FULL, not_judged=places))
    assert "not judged: 2 places: a, b" in cli("inspect", file).stdout.splitlines()
    assert {"not judged: a: why a", "not judged: b: why b"} <= {*cli("inspect", file, "-v").stdout.splitlines()}


def test_what_is_written_is_named(cli: Cli, read: Callable[[Inspection], str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert cli("inspect", read(FULL), "--html", str(page)).stdout.splitlines()[-1] == f"written: {page}"
    assert cli("inspect", read(FULL), "--html", str(page), "--force", "-q").stdout == ""


def test_what_programs_read_is_what_the_schema_says(cli: Cli, read: Callable[[Inspection], str]) -> None:
    data = json.loads(cli("inspect", read(FULL), "--json").stdout)
    assert [entry["code"] for entry in data["findings"]] == ["PE207", "PE201"]
    assert schema.inspection_read(json.dumps(data)) == FULL


def test_an_error_that_is_no_number_is_null() -> None:
    made = inspection(replace(rotary([0]), errors=replace(CURVE, errors=(0.0, 1.0, 2.0, float("inf")))))
    data = json.dumps(schema.inspection_json(made), allow_nan=False)
    assert schema.inspection_read(data) == made


def test_the_published_schema_is_that_of_the_code() -> None:
    text = (ROOT / "docs" / "reference" / "inspection.schema.json").read_text(encoding="utf-8")
    assert text == schema.json_schema(), (
        "run: python -m posenc_export.read.report.schema > docs/reference/inspection.schema.json"
    )


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ([], 1),
        (["--fail-on", "PE201"], 1),
        (["--fail-on", "PE203"], 0),
        (["--fail-on", "PE203,PE207"], 1),
        (["--fail-on", "PE203", "--fail-on", "PE201"], 1),
        (["--fail-above", "1"], 1),  # a shared table stays an error, whatever the bound
        (["--fail-on", "PE203", "--fail-above", "1"], 0),
    ],
)
def test_what_fails(cli: Cli, read: Callable[[Inspection], str], words: list[str], status: int) -> None:
    assert cli("inspect", read(FULL), *words).exit_code == status


def test_annotations_for_github(cli: Cli, read: Callable[[Inspection], str]) -> None:
    printed = cli("inspect", read(FULL), "-q", "--github").stdout
    assert printed == (
        "::error title=PE207 shared-table::cos_cache: one table for two bases\n"
        "::notice title=PE201 ends::/Gather: right up to 512 along seq\n"
    )


def test_names_of_a_stranger_steer_no_terminal(cli: Cli, read: Callable[[Inspection], str]) -> None:
    evil = replace(FULL, findings=(finding("ends", "\x1b[2Jnode\n::error::", "words"),))
    printed = cli("inspect", read(evil)).stdout
    assert "\x1b" not in printed
    assert "\n::" not in printed


def test_a_picture_of_errors(cli: Cli, read: Callable[[Inspection], str], tmp_path: Path) -> None:
    assert cli("inspect", read(FULL), "--plot", str(tmp_path / "errors.svg")).exit_code == 1
    assert (tmp_path / "errors.svg").read_text().startswith("<?xml")
    result = cli("inspect", read(inspection(table(4))), "--plot", str(tmp_path / "none.svg"))
    assert (result.exit_code, "no encoding of this file has one" in result.output) == (2, True)


def test_a_file_is_read_in_another_process(cli: Cli, onnx_file: Path) -> None:
    result = cli("inspect", str(onnx_file))
    assert result.exit_code == 0, result.output
    first, *_, file, inputs = result.stdout.splitlines()
    assert first.startswith(f"{onnx_file}: passed: ")
    assert (file, inputs) == ("file: 1 node; opset ai.onnx 20, com.microsoft 1", "inputs: x float32[batch, 7, 4]")


def test_from_python(onnx_file: Path) -> None:
    made = posenc_export.inspect(onnx_file, timeout=60.0)
    assert (made.passed, made.nodes, made.inputs) == (True, 1, (GraphInput("x", ("batch", 7, 4), "float32"),))
    with pytest.raises(BadInput, match="does not exist: give an ONNX file"):
        posenc_export.inspect("nothing.onnx")


def test_no_torch_is_imported(onnx_file: Path) -> None:
    program = "import sys, posenc_export as p; p.inspect(sys.argv[1]); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program, str(onnx_file)], check=False).returncode == 0
    child = "import sys, posenc_export.read.examine; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", child], check=False).returncode == 0


def test_another_file_and_a_config_are_held_against_it(
    cli: Cli, read: Callable[[Inspection], str], tmp_path: Path
) -> None:
    made = replace(FULL, findings=())
    file = read(made)
    assert compare_files(made, made) == ()
    result = cli("inspect", file, "--against", file)
    assert (result.exit_code, result.stdout.splitlines()[1]) == (0, f"agrees with {file}: 2 encodings compared")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "hidden_size": 64, **HEADS}))
    result = cli("inspect", file, "--config", str(tmp_path))
    assert (result.exit_code, "rows 512, expected 128 by the config" in result.output) == (1, True)
    assert "agrees with" not in result.output
    same = {"model_type": "bert", "hidden_size": 64, **HEADS, "max_position_embeddings": 512}
    (tmp_path / "config.json").write_text(json.dumps(same))
    result = cli("inspect", file, "--config", str(tmp_path))
    assert (result.exit_code, result.stdout.splitlines()[1]) == (0, f"agrees with {tmp_path}: 1 encoding compared")


@pytest.mark.parametrize(("layers", "words"), [(2, ""), (32, ", in 2 layers: by it, 32 rotate")])
def test_a_file_with_fewer_layers_than_its_config_says_so(
    cli: Cli, read: Callable[[Inspection], str], tmp_path: Path, layers: int, words: str
) -> None:
    """It may be a part of the model; or attentions of it may not have been recognised."""
    rope = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "rope_theta": 10000.0}
    (tmp_path / "config.json").write_text(json.dumps({**rope, "num_hidden_layers": layers}))
    result = cli("inspect", read(inspection(rotary(range(2)))), "--config", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1] == f"agrees with {tmp_path}: 1 encoding compared{words}"


HEADS = {"num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": 128}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\x00" * 64, "ONNX"),
        (b"PK\x03\x04" + bytes(64), "is a zip archive"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer"),
    ],
    ids=["empty", "zeros", "archive", "pointer"],
)
def test_what_is_no_onnx_file_is_one_line(cli: Cli, tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    result = cli("inspect", str(path))
    assert (result.exit_code, result.output.count("\n"), words in result.output) == (2, 1, True), result.output
    assert result.output.startswith(f"Error: {path}: "), "the path as it was given, once"
    assert result.output.count(str(path)) == 1


def test_too_little_time_says_that_what_follows_is_not_known(onnx_file: Path) -> None:
    graph = read_graph(onnx_file)
    how = Examining("model.onnx", None, 1e-9, lambda _: None)
    lines = list(body_lines(examine(graph, facts_of(graph, "model.onnx"), how)))
    assert "no positional encoding was recognised before reading stopped" in lines
    assert lines[-1].endswith("s were spent: give more with --timeout")


@pytest.mark.parametrize(
    ("place", "words"),
    [("", "is a folder without a file that ends in .onnx"), ("nothing.onnx", "does not exist: give an ONNX file")],
)
def test_what_is_not_there_is_one_line(cli: Cli, tmp_path: Path, place: str, words: str) -> None:
    result = cli("inspect", str(tmp_path / place))
    assert (result.exit_code, result.output.count("\n"), words in result.output) == (2, 1, True), result.output


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--config", "missing.json", "missing.json does not exist: give a config.json"),
        ("--plot", "errors.txt", "the picture must be one of"),
        (
            "--plot",
            "missing/errors.svg",
            "missing is no folder that is there: make it",
        ),
    ],
)
def test_what_cannot_be_read_or_written_is_said_before_the_file_is_read(
    cli: Cli, onnx_file: Path, option: str, value: str, words: str
) -> None:
    result = cli("inspect", str(onnx_file), option, str(onnx_file.parent / value))
    assert result.exit_code == 2
    assert words in result.output
    assert "nodes" not in result.output
