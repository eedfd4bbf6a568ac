"""`posenc extend` among other people's files: nothing but the file at -o is replaced, and nothing passes unproved."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from filelock import FileLock
from onnx import TensorProto, helper

import posenc_export
from helpers.graph_files import written
from helpers.hostile_onnx import empty_nodes
from helpers.longer import ROWS, buffered, session
from helpers.shared import Cli
from posenc_export.common.errors import BadInput
from posenc_export.read.extend.data import TRAILER

CONFIG = "genai_config.json"


def beside(folder: Path, name: str = "m.onnx", data: str = "w.bin") -> Path:
    """Write the embedding with its tensors in a file beside it."""
    folder.mkdir(exist_ok=True)
    model = onnx.load(str(buffered(folder)))
    (folder / "model.onnx").unlink(missing_ok=True)
    onnx.save(model, str(folder / name), save_as_external_data=True, location=data, size_threshold=99)
    return folder / name


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A model with a configuration, and another model's folder with files of the same names."""
    source, there = (
        beside(tmp_path / "a", data="ext.data").parent,
        beside(tmp_path / "b", "other.onnx", "ext.data").parent,
    )
    mine = {"model": {"context_length": ROWS, "decoder": {"filename": "m.onnx"}}}
    others = {"model": {"bos_token_id": 7, "context_length": 99, "decoder": {"filename": "other.onnx"}}}
    for folder, config in ((source, mine), (there, others)):
        for path in folder.glob("*.onnx"):
            if path.name not in ("m.onnx", "other.onnx"):
                path.unlink()
        (folder / CONFIG).write_text(json.dumps(config))
    return source, there


@pytest.mark.parametrize("force", [False, True])
def test_files_of_another_model_stay(folders: tuple[Path, Path], force: bool) -> None:
    source, there = folders
    before = contents(there)
    result = posenc_export.extend(source / "m.onnx", there / "longer.onnx", max_len=300, force=force)
    assert result.passed
    after = contents(there)
    changed = {name for name in before if after[name] != before[name]}
    assert changed == ({CONFIG} if force else set())
    assert after.keys() - before.keys() == {"longer.onnx", "longer.onnx.weights"}
    config = json.loads(after[CONFIG])["model"]
    assert config["bos_token_id"] == 7
    assert config["context_length"] == (300 if force else 99)
    assert config["decoder"]["filename"] == ("longer.onnx" if force else "other.onnx")
    (hidden,) = session(there / "longer.onnx").run(None, {"input_ids": np.zeros((2, 300), np.int64)})
    assert hidden.shape == (2, 300, 16)


def test_nothing_is_written_through_a_link(folders: tuple[Path, Path], tmp_path: Path) -> None:
    source, there = folders
    precious, nowhere = tmp_path / "bashrc", tmp_path / "nowhere"
    precious.write_text("mine")
    for name in (f".{CONFIG}.partial", "longer.onnx.tables", "longer.onnx.weights"):
        (there / name).symlink_to(nowhere)
    (there / CONFIG).unlink()
    (there / CONFIG).symlink_to(precious)
    result = posenc_export.extend(source / "m.onnx", there / "longer.onnx", max_len=300, force=True)
    assert result.passed
    assert precious.read_text() == "mine"
    assert not nowhere.exists()
    assert any("is a link or no file, and was not changed" in note for note in result.notes)
    assert "longer.onnx.weights1" in contents(there)


@pytest.mark.exhaustive
def test_a_link_at_the_place_itself_is_replaced_and_not_followed(folders: tuple[Path, Path], tmp_path: Path) -> None:
    source, there = folders
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (there / "longer.onnx").symlink_to(precious)
    with pytest.raises(BadInput, match="is there"):
        posenc_export.extend(source / "m.onnx", there / "longer.onnx", max_len=300)
    assert posenc_export.extend(source / "m.onnx", there / "longer.onnx", max_len=300, force=True).passed
    assert precious.read_text() == "mine"
    assert not (there / "longer.onnx").is_symlink()


@pytest.mark.exhaustive
def test_data_of_a_replaced_file_go_with_it_and_nothing_else(folders: tuple[Path, Path]) -> None:
    source, there = folders
    out = there / "longer.onnx"
    for number in range(3):
        assert posenc_export.extend(source / "m.onnx", out, max_len=300 + number, force=True).passed
    assert len([name for name in contents(there) if name.startswith("longer.onnx.")]) == 1
    (there / "copy.onnx").write_bytes(out.read_bytes())  # takes the same data
    assert posenc_export.extend(source / "m.onnx", out, max_len=400, force=True).passed
    session(there / "copy.onnx")
    # what another program wrote under such a name is not ours to remove
    shutil.rmtree(there)
    model = onnx.load(str(source / "m.onnx"))
    there.mkdir()
    onnx.save(model, str(out), save_as_external_data=True, location="longer.onnx.weights", size_threshold=99)
    before = (there / "longer.onnx.weights").read_bytes()
    assert not before.endswith(TRAILER)
    assert posenc_export.extend(source / "m.onnx", out, max_len=400, force=True).passed
    assert (there / "longer.onnx.weights").read_bytes() == before


def test_only_bytes_that_tensors_take_are_copied(tmp_path: Path) -> None:
    path = beside(tmp_path / "a")
    with (path.parent / "w.bin").open("r+b") as file:
        file.truncate(60 * 2**30)  # sparse: it takes no room
    there = tmp_path / "b"
    there.mkdir()
    assert posenc_export.extend(path, there / "longer.onnx", max_len=300).passed
    assert (there / "longer.onnx.weights").stat().st_size < 2**20


def test_a_huge_configuration_is_not_read(folders: tuple[Path, Path]) -> None:
    source, there = folders
    (there / CONFIG).unlink()
    with (source / CONFIG).open("w") as file:
        file.truncate(8 * 2**30)
    result = posenc_export.extend(source / "m.onnx", there / "longer.onnx", max_len=300)
    assert any("cannot be read, and was not changed: it has more than 16,777,216 bytes" in n for n in result.notes)


@pytest.mark.exhaustive
def test_millions_of_empty_nodes_are_refused_by_the_process_with_limits(tmp_path: Path) -> None:
    path = empty_nodes(tmp_path / "nodes.onnx", 20_000_000)
    words = (
        "import sys, posenc_export\n"
        "try:\n"
        "    posenc_export.extend(sys.argv[1], sys.argv[2], max_len=99)\n"
        "except posenc_export.common.errors.BadInput as error:\n"
        "    peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM:'))\n"
        "    print(int(peak.split()[1]) // 1024, error)\n"
    )
    command = [sys.executable, "-c", words, str(path), str(tmp_path / "out.onnx")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "fields, above what any model has" in said
    assert int(said.split()[0]) < 1000, "MiB of the process that the user started: all nodes would take 3,000"


def test_what_was_not_compared_does_not_pass(tmp_path: Path, cli: Cli) -> None:
    model = onnx.load(str(buffered(tmp_path)))
    model.graph.node.append(helper.make_node("Unknown", ["hidden"], ["other"], domain="com.example"))
    model.graph.output[0].name = "other"
    model.opset_import.add(domain="com.example", version=1)
    path, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(model, str(path))
    done = cli("extend", str(path), "--max-len", "300", "-o", str(out))
    assert done.exit_code == 1, done.output
    assert "NOT PROVED" in done.output
    assert "no output of it was compared: the file that was read does not run here" in done.output
    assert out.is_file()


@pytest.mark.exhaustive
def test_a_path_with_letters_is_proved_under_any_locale(tmp_path: Path) -> None:
    folder = tmp_path / "größe"
    path = beside(folder)
    command = [
        sys.executable,
        "-m",
        "posenc_export",
        "extend",
        str(path),
        "--max-len",
        "300",
        "-o",
        str(folder / "ö.onnx"),
    ]
    for variables in ({"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        (folder / "ö.onnx").unlink(missing_ok=True)
        done = subprocess.run(command, capture_output=True, check=False, env={**os.environ, **variables})
        assert done.returncode == 0, done.stdout + done.stderr
        assert b"5 positions: the same outputs as before" in done.stdout


@pytest.mark.exhaustive
def test_the_target_is_looked_up_before_anything_is_written(tmp_path: Path, cli: Cli) -> None:
    path, out = buffered(tmp_path), tmp_path / "out.onnx"
    for target, words in (("nothere:X", "nothere"), ("ropee", "rope"), (str(tmp_path / "none.onnx"), "does not exist")):
        done = cli("extend", str(path), "--max-len", "300", "-o", str(out), "--against", target)
        assert done.exit_code == 2, done.output
        assert words in done.output
        assert not out.exists()


@pytest.mark.parametrize("max_len", [0, 1, -5])
def test_too_few_positions_are_refused_from_python(tmp_path: Path, max_len: int) -> None:
    path = buffered(tmp_path)
    with pytest.raises(BadInput, match="max_len must be at least 2"):
        posenc_export.extend(path, tmp_path / "out.onnx", max_len=max_len)
    assert not (tmp_path / "out.onnx").exists()


def test_a_bias_that_is_stored_is_refused_in_one_line(tmp_path: Path) -> None:
    """The graph would stay as it is: nothing is written."""
    slopes = 2.0 ** -np.arange(1, 9)
    bias = (-slopes[:, None, None] * np.abs(np.arange(32)[:, None] - np.arange(32))).astype(np.float32)[None]
    path = written(
        tmp_path,
        "g (float[b, 8, s, 16] q, float[b, 8, s, 16] k) => (float[b, 8, s, s] y) {"
        "z = Constant <value_ints = [0, 0]> () x = Constant <value_ints = [2, 3]> () n = Shape <start = 2, end = 3> (q)"
        "l = Concat <axis = 0> (n, n) r = Slice (bias, z, l, x) t = Transpose <perm = [0, 1, 3, 2]> (k)"
        "m = MatMul (q, t) a = Add (m, r) y = Softmax <axis = -1> (a) }",
        {"bias": bias},
    )
    with pytest.raises(BadInput, match=r"tables of the family .* are not rewritten"):
        posenc_export.extend(path, tmp_path / "out.onnx", max_len=512)
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.exhaustive
def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    path, out = buffered(tmp_path), tmp_path / "out.onnx"
    command = [sys.executable, "-m", "posenc_export", "extend", str(path), "--max-len", "300", "-o", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    end = time.monotonic() + 60
    while not list(tmp_path.glob(".out.onnx.partial-*/new/*")) and time.monotonic() < end:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    (workshop,) = tmp_path.glob(".*")
    with FileLock(workshop / "lock", timeout=30):  # the last thread that was killed has given it free
        pass
    assert posenc_export.extend(path, out, max_len=300).passed
    assert {entry.name for entry in tmp_path.iterdir()} == {path.name, out.name}


def test_external_data_may_not_lie_outside_even_in_functions(tmp_path: Path) -> None:
    path = beside(tmp_path / "a")
    (tmp_path / "secret").write_bytes(b"0" * 64)
    model = onnx.load(str(path), load_external_data=False)
    tensor = TensorProto(name="t", data_type=TensorProto.FLOAT, dims=[16], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="../secret")
    node = helper.make_node("Constant", [], ["c"])
    node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(tensor)
    model.functions.append(helper.make_function("local", "unused", [], ["c"], [node], model.opset_import[:1]))
    onnx.save(model, str(path))
    there = tmp_path / "b"
    there.mkdir()
    with pytest.raises(BadInput, match="external data must lie inside the model's folder"):
        posenc_export.extend(path, there / "out.onnx", max_len=300)
    assert not list(there.iterdir())
