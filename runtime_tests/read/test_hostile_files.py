"""Files that were made to harm: one clear line or an inspection, within a GiB, and nothing outside is read or run."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from helpers.costs import Cost, cost_of_inspecting
from helpers.foreign.files import FOLDER, foreign_files
from helpers.hostile_onnx import HOSTILE
from helpers.mutated_onnx import mutated
from posenc_export.common.errors import BadInput
from posenc_export.read.examine import Examining, examine
from posenc_export.read.facts import facts_of
from posenc_export.read.graph.read import read_graph
from posenc_export.read.report.schema import inspection_json, inspection_read

REFUSED = {
    "functions_in_a_ring": "has functions that call each other in a loop: f0 -> f1",
    "functions_that_double": "nodes with its functions in place, above the limit of 200000",
    "many_inputs": "has 5002 inputs, above the limit of 4096",
    "long_names": "has a name of 3000001 letters, 'innnn",
    "data in /dev/zero": "external data must lie inside the model's folder",
    "data in ../m.onnx": "external data must lie inside the model's folder",
    "data linked to /proc/self/mem": "a link out of the model's folder",
    "data linked to w.data": "a link out of the model's folder",
}
READ = (
    *("nested_ifs", "huge_sizes_of_inputs", "huge_sizes_of_tensors", "words_for_a_terminal", "many_axes"),
    *("data_in_a_pipe", "data_in_the_file_itself", "code_in_python"),
    *(f"huge_{name}" for name in ("ConstantOfShape", "Range", "Tile", "Expand", "Pad", "OneHot", "CumSum")),
)
LARGE = ("many_large_ConstantOfShape", "many_large_Tile", "masks_of_all_pairs", "constants_of_constants")


def said(path: Path) -> str:
    """Read a file as the command does, in this process, and return what the inspection says."""
    graph = read_graph(path)
    inspection = examine(graph, facts_of(graph, path.name), Examining(path.name, None, 20, lambda _: None))
    text = json.dumps(inspection_json(inspection), allow_nan=False)
    inspection_read(text)
    return text


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as error:
        said(HOSTILE[name](tmp_path))
    assert REFUSED[name] in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize("name", READ)
def test_what_no_node_can_harm_is_read(name: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    said(HOSTILE[name](tmp_path / "model"))
    assert not (tmp_path / "model" / "executed").exists()


@pytest.mark.exhaustive
def test_nothing_of_a_terminal_is_left_to_a_file(tmp_path: Path) -> None:
    cost = cost_of_inspecting(HOSTILE["words_for_a_terminal"](tmp_path))
    assert cost.status == 0
    assert not any("\x1b" in line or line.startswith("error") for line in cost.lines), cost.lines


def limited(name: str, folder: Path, words: Sequence[str] = ("--timeout", "60", "--memory", "1")) -> Cost:
    cost = cost_of_inspecting(HOSTILE[name](folder), words)
    assert cost.status in (0, 1, 2), cost.lines  # 1: ONNX Runtime refuses it, too
    assert cost.status != 2 or sum("Error" in line for line in cost.lines) == 1, cost.lines
    return cost


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", LARGE)
def test_memory_is_bounded(name: str, tmp_path: Path) -> None:
    assert limited(name, tmp_path).peak < 1024


@pytest.mark.exhaustive
def test_a_chain_of_a_million_nodes_is_refused(tmp_path: Path) -> None:
    cost = limited("million_nodes", tmp_path)
    assert "has 1000000 nodes" in cost.lines[-1]
    assert cost.peak < 1024


@pytest.mark.exhaustive
def test_files_of_other_exporters_with_something_changed_are_read_or_refused(tmp_path: Path) -> None:
    assert FOLDER.is_dir()
    random, outcomes = np.random.default_rng(25), []
    path = tmp_path / "m.onnx"
    for file, _ in foreign_files(models=("llama", "bert", "t5")):
        path.write_bytes(mutated(file.read_bytes(), random))
        try:
            said(path)
            outcomes.append("read")
        except BadInput as error:
            assert "\n" not in str(error)  # noqa: PT017
            outcomes.append("refused")
    assert {"read", "refused"} == set(outcomes)
