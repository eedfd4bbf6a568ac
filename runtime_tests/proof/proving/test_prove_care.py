"""`posenc prove` reads a stranger's file within limits, and `--from-hf` a stranger's config."""

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

import posenc_export
from helpers.foreign_files import Embedding, embedding_file
from helpers.hostile_onnx import empty_nodes
from helpers.shared import Cli
from posenc_export.common.errors import BadInput

IDS = ("ids: int64[batch, seq] < 16", "input_ids=ids")


def test_millions_of_empty_nodes_are_refused_before_this_process_reads_them(tmp_path: Path) -> None:
    path = empty_nodes(tmp_path / "nodes.onnx", 20_000_000)
    words = (
        "import sys, posenc_export\n"
        "try:\n"
        "    posenc_export.prove(sys.argv[1], 'rope', parameters={'head_dim': 8})\n"
        "except posenc_export.common.errors.BadInput as error:\n"
        "    peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM:'))\n"
        "    print(int(peak.split()[1]) // 1024, error)\n"
    )
    said = subprocess.run([sys.executable, "-c", words, str(path)], capture_output=True, text=True, check=True).stdout
    assert "fields, above what any model has" in said
    assert int(said.split()[0]) < 1000, "MiB of the process that the user started"


def test_what_weighs_a_file_loads_no_torch(tmp_path: Path) -> None:
    words = (
        "import json, sys\n"
        "from posenc_export.read.weighing import main\n"
        "main(json.loads(sys.argv[1]))\n"
        "sys.exit('torch' in sys.modules)"
    )
    path = embedding_file(tmp_path / "theirs.onnx")
    command = [sys.executable, "-c", words, json.dumps({"file": str(path), "memory": 2**33})]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"weighed {path.stat().st_size}\n"), done.stderr


@pytest.mark.parametrize("has_length", [True, False])
def test_weights_that_take_more_than_the_limit_are_refused_unread(tmp_path: Path, has_length: bool) -> None:
    path = embedding_file(tmp_path / "theirs.onnx")
    model = onnx.load(path)
    tensor = onnx.TensorProto(name="more", data_type=onnx.TensorProto.FLOAT, dims=[2**20, 2**10])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights")
    if has_length:
        tensor.external_data.add(key="length", value=str(2**32))
    model.graph.initializer.append(tensor)
    onnx.save(model, path)
    with (tmp_path / "weights").open("wb") as file:
        file.truncate(60 * 2**30)
    with pytest.raises(BadInput, match="take 12 GiB here: give more with --memory"):
        posenc_export.prove(path, Embedding, inputs=IDS)


@pytest.mark.parametrize("memory", [float("nan"), float("inf"), 0, -1, "much", True])
def test_a_limit_of_memory_is_a_number_of_gib(tmp_path: Path, memory: object) -> None:
    with pytest.raises(BadInput, match="memory must be a number of GiB"):
        posenc_export.prove(embedding_file(tmp_path / "theirs.onnx"), Embedding, inputs=IDS, memory=memory)


def test_a_huge_config_is_not_read(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(8 * 2**30)
    result = cli("export", "--from-hf", str(path), "--dynamic")
    assert result.exit_code == 2
    assert "it has more than 16,777,216 bytes" in result.output
