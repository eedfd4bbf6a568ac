"""`posenc extend` as users have it: files in their places, the same tokens as before, and refusals of one line."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import posenc_export
from helpers.foreign.built import TRACED
from helpers.graph_files import written
from helpers.longer import ROWS, buffered, foreign_file, session
from helpers.shared import Cli
from posenc_export.common.errors import BadInput
from posenc_export.read.extend import extend as parent
from posenc_export.read.extend.lines import extension_lines
from posenc_export.read.extend.request import ExtendRequest
from posenc_export.read.extend.result import CommonRun, Extended, Swap
from posenc_export.read.graph.read import read_graph
from posenc_export.read.interpret.run import interpret
from posenc_export.read.interpret.sizes import default_sizes
from posenc_export.read.interpret.state import shape_of
from posenc_export.read.values import Array, Position

LONG = 131072
TOKENS = 12
DECODERS = (
    ("llama.mobius.onnx", False),
    ("llama.onnxruntime-genai.onnx", False),
    ("qwen2.mobius.onnx", False),
    ("gptj.plain-old.onnx", False),
    ("llama.plain-old.onnx", True),
    ("llama.transformers.exporters.onnx", True),
)
"""Files whose tables grow, and files whose chains are swapped."""


def generated(path: Path, ids: Array) -> list[int]:
    """Return the tokens that are the likeliest, one after another, each by a call of the whole text."""
    loaded, graph = session(path), read_graph(path)
    tokens = ids
    for _ in range(TOKENS):
        length = tokens.shape[1]
        sizes = {"length": length, "total": length, "kv_cache_dim": 32, "past": 0}
        values = interpret(graph, default_sizes(graph, sizes)).values
        feeds = {
            entry.name: value.array if isinstance(value, Position) else np.zeros(shape_of(value) or (), np.float32)
            for entry in graph.inputs
            if (value := values[entry.name])
        }
        feeds["input_ids"] = tokens
        logits = loaded.run(None, feeds)[0]
        tokens = np.concatenate([tokens, logits[:1, -1:].argmax(-1)], 1)
    return [int(token) for token in tokens[0, ids.shape[1] :]]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "exact"), DECODERS)
def test_greedy_tokens_at_old_lengths_are_those_of_before(name: str, exact: bool, tmp_path: Path) -> None:
    ids = np.random.default_rng(3).integers(3, 64, (1, TRACED))
    with foreign_file(name) as path:
        result = posenc_export.extend(path, tmp_path / "out.onnx", **({"exact": True} if exact else {"max_len": LONG}))
        before = generated(path, ids)
    assert result.passed
    assert [run.passed for run in result.runs] == [True, True]
    assert generated(tmp_path / "out.onnx", ids) == before
    assert len(set(before)) > 1


@pytest.mark.exhaustive
def test_the_new_file_holds_every_position_in_onnx_runtime(tmp_path: Path) -> None:
    with foreign_file("two-thetas.fault-three-inputs.onnx") as path:
        result = posenc_export.extend(path, tmp_path / "out.onnx", max_len=LONG)
        assert (result.reached, result.walls) == (LONG, ())
        assert {table.steps <= 0.5 + 1e-6 for table in result.tables} == {True}
    inspected = posenc_export.inspect(tmp_path / "out.onnx")
    assert inspected.encodings[0].rows == LONG
    assert (inspected.encodings[0].error or 0) < 3e-7


@pytest.mark.exhaustive
def test_files_are_put_in_their_places_whole(tmp_path: Path) -> None:
    model = onnx.load(str(buffered(tmp_path)))
    model.metadata_props.add(key="who", value="me")
    source, there = tmp_path / "source", tmp_path / "there"
    source.mkdir()
    there.mkdir()
    onnx.save(model, str(source / "model.onnx"), save_as_external_data=True, location="weights.bin", size_threshold=99)
    config = {"model": {"context_length": ROWS, "decoder": {"filename": "model.onnx"}}, "search": {"max_length": ROWS}}
    (source / "genai_config.json").write_text(json.dumps(config))
    before = {path.name: path.read_bytes() for path in source.iterdir()}
    result = posenc_export.extend(source / "model.onnx", there / "longer.onnx", max_len=300)
    assert result.passed
    assert {path.name: path.read_bytes() for path in source.iterdir()} == before
    assert {path.name for path in there.iterdir()} == {"longer.onnx", "longer.onnx.weights", "genai_config.json"}
    changed = json.loads((there / "genai_config.json").read_text())
    assert changed == {
        "model": {"context_length": 300, "decoder": {"filename": "longer.onnx"}},
        "search": {"max_length": 300},
    }
    made = onnx.load(str(there / "longer.onnx"), load_external_data=False)
    assert [(entry.key, entry.value) for entry in made.metadata_props] == [("who", "me")]
    assert list(made.opset_import) == list(model.opset_import)
    (hidden,) = session(there / "longer.onnx").run(None, {"input_ids": np.zeros((2, 300), np.int64)})
    assert hidden.shape == (2, 300, 16)


@pytest.mark.exhaustive
def test_data_beside_both_files_are_shared(tmp_path: Path) -> None:
    model = onnx.load(str(buffered(tmp_path)))
    onnx.save(model, str(tmp_path / "m.onnx"), save_as_external_data=True, location="w.bin", size_threshold=99)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert posenc_export.extend(tmp_path / "m.onnx", tmp_path / "longer.onnx", max_len=300).passed
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert after.keys() - before.keys() == {"longer.onnx"}
    assert {name: after[name] for name in before} == before
    assert posenc_export.inspect(tmp_path / "longer.onnx").encodings[0].rows == 300


@pytest.mark.exhaustive
def test_the_file_that_is_read_is_never_replaced(tmp_path: Path) -> None:
    path = buffered(tmp_path)
    before = path.read_bytes()
    (tmp_path / "link.onnx").symlink_to(path)
    for place in (path, tmp_path / "link.onnx"):
        for force in (False, True):
            with pytest.raises(BadInput, match="is what this command reads: give another with"):
                posenc_export.extend(path, place, max_len=300, force=force)
    (tmp_path / "link.onnx").unlink()
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.exhaustive
def test_a_file_whose_outputs_differ_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, honest = buffered(tmp_path), parent._done

    def differing(step: str, request: ExtendRequest) -> object:
        said = honest(step, request)
        if isinstance(said, dict) and step == "call":
            said["runs"][0]["difference"] = 1.0
        return said

    monkeypatch.setattr(parent, "_done", differing)
    assert not posenc_export.extend(path, tmp_path / "out.onnx", max_len=300).passed
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_call_that_moves_outputs_more_than_its_tables_does_not_pass() -> None:
    assert CommonRun("5 positions", 1e-6, 2e-6, "").passed
    assert not CommonRun("5 positions", 3e-6, 2e-6, "").passed
    result = Extended("a", "b", 9, (), (), (), (), 9, (CommonRun("5 positions", 3e-6, 2e-6, ""),))
    assert not result.passed


def missing(folder: Path) -> Path:
    model = onnx.load(str(buffered(folder)))
    onnx.save(model, str(folder / "m.onnx"), save_as_external_data=True, location="w.bin", size_threshold=0)
    (folder / "w.bin").unlink()
    return folder / "m.onnx"


def without(folder: Path) -> Path:
    return written(folder, "g (float[b, s, 4] x) => (float[b, s, 4] y) { y = Neg (x) }")


def rotary(folder: Path) -> Path:
    with foreign_file("two-thetas.fault-one-table.onnx") as path:
        return Path(shutil.copy(path, folder))


def damaged(folder: Path) -> Path:
    (folder / "d.onnx").write_bytes(b"not a model")
    return folder / "d.onnx"


REFUSED: dict[str, tuple[Callable[[Path], Path], dict[str, object], str]] = {
    "nothing is asked for": (buffered, {}, "say what the file is to be"),
    "no encoding": (without, {"max_len": 300}, "no positional encoding was recognised"),
    "fewer positions than now": (buffered, {"max_len": 30}, "has 48 rows now: max_len=30 would make it shorter"),
    "an unknown rope type": (rotary, {"rope_type": "yarnn"}, "did you mean 'yarn'"),
    "a scaling of sinusoids": (buffered, {"rope_type": "linear"}, "is for a rotary encoding with a known theta"),
    "parameters of no type": (buffered, {"max_len": 300, "parameters": {"factor": 4.0}}, "gives parameters of"),
    "an encoding that is not there": (buffered, {"max_len": 300, "encoding": "q"}, "q names none of them: sinusoidal"),
    "missing external data": (missing, {"max_len": 300}, "external data are missing: w.bin"),
    "a file of another kind": (damaged, {"max_len": 300}, "is damaged or no ONNX file"),
    "a file that is not there": (lambda folder: folder / "none.onnx", {"max_len": 300}, "does not exist"),
    "a folder": (lambda folder: folder, {"max_len": 300}, "is a folder: give the ONNX file in it"),
    "too little time": (buffered, {"max_len": 300, "timeout": 0.01}, "longer than 0.01 s: give more with timeout"),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_said_in_one_line(name: str, tmp_path: Path) -> None:
    make, settings, words = REFUSED[name]
    path = make(tmp_path)
    before = {entry.name for entry in tmp_path.iterdir()}
    with pytest.raises(BadInput) as raised:
        posenc_export.extend(path, tmp_path / "out.onnx", **settings)  # type: ignore[arg-type]
    message = raised.value.in_python or raised.value.message
    assert message.count(f"{path}: ") <= 1, message
    assert words in message
    assert "\n" not in message
    assert {entry.name for entry in tmp_path.iterdir()} == before


@pytest.mark.exhaustive
def test_the_command_prints_what_became_of_a_file(tmp_path: Path, cli: Cli) -> None:
    path, out = buffered(tmp_path), tmp_path / "out.onnx"
    done = cli("extend", str(path), "--max-len", "300", "-o", str(out))
    assert done.exit_code == 0, done.output
    assert "table: 48 -> 300 rows, float32" in done.output
    assert "position_ids: 48 -> 300 places" in done.output
    assert done.output.splitlines()[0] == f"passed: {out} is written, correct for every length up to 300"
    shutil.copy(out, tmp_path / "again.onnx")
    said = json.loads(cli("extend", str(path), "--max-len", "300", "-o", str(out), "--force", "--json").output)
    assert said["passed"] is True
    assert [table["new_rows"] for table in said["tables"]] == [300]
    assert out.read_bytes() == (tmp_path / "again.onnx").read_bytes()
    assert "give another with -o, or --force" in cli("extend", str(path), "--max-len", "300", "-o", str(out)).output


def test_more_is_said_with_v() -> None:
    swap = Swap("rotary", ("cos",), 6e-4, 128821, 2e-7, 75439, 131072, old_error_near=1e-7, in_graph=3e-7)
    runs = (CommonRun("5 positions", 1e-7, 2e-5, "4 x what the old error does"),)
    result = Extended("a.onnx", "b.onnx", 0, (), (swap,), (), (), 1024, runs)
    short, whole = [*extension_lines(result)], [*extension_lines(result, whole=True)]
    assert short[0] == whole[0] == "passed: b.onnx is written, correct for every length up to 1,024"
    assert [line for line in whole if line not in short] == [
        "  before, at the positions of the calls below: off by up to 1e-07",
        "  where it meets data in the new graph, far out: at most 3e-07",
        "at 5 positions: outputs moved by at most 1e-07 (allowed: 2e-05): 4 x what the old error does",
    ]


@pytest.mark.exhaustive
def test_the_command_proves_the_new_file_against_a_target(tmp_path: Path, cli: Cli) -> None:
    path, out = buffered(tmp_path), tmp_path / "out.onnx"
    ports = ("--against", str(path), "-i", "input_ids: int64[batch, sequence] < 97")
    done = cli("extend", str(path), "--max-len", "48", "-o", str(out), *ports)
    assert done.exit_code == 0, done.output
    assert "ort-cpu" in done.output
    refused = cli("extend", str(path), "--max-len", "48", "-o", str(out), "--force", *ports, "-p", "head_dim=8")
    assert (refused.exit_code, "is an ONNX file" in refused.output) == (2, True)


def test_parameters_are_those_of_the_target_without_another_scaling(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[object] = []

    def take(*_: object, **settings: object) -> Extended:
        given.append(settings["parameters"])
        return Extended("a.onnx", "b.onnx", 0, (), (), (), (), 1024)

    monkeypatch.setattr(posenc_export, "extend", take)
    monkeypatch.setattr(posenc_export, "prove", take)
    monkeypatch.setattr("posenc_export.cli.output.ending.print_result", lambda *_: None)
    monkeypatch.setattr("posenc_export.cli.output.ending.end", lambda *_: None)
    words = ("extend", "a.onnx", "--exact", "-o", "b.onnx", "--against", "rope")
    assert cli(*words, "-p", "head_dim=64").exit_code == 0
    assert cli(*words, "--rope-type", "yarn", "-p", "factor=4").exit_code == 0
    assert given == [{}, {"head_dim": 64}, {"factor": 4.0}, {}]
    assert "did you mean 'head_dim'" in cli(*words, "-p", "haed_dim=64").output
