"""What inputs are for: numbers say it, names decide ties alone, and a caller has the last word."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import posenc_export
from helpers.attention_graphs import operator_file
from helpers.foreign.files import foreign_files
from helpers.foreign.read import inspected
from helpers.graph_files import written
from helpers.shared import Cli, one_of_each
from helpers.small_decoders import Decoder, saved
from posenc_export.read.graph.read import read_graph
from posenc_export.read.inspection import Inspection
from posenc_export.read.interpret.feeds import input_values
from posenc_export.read.values import Position

NAMES = (
    "input_pos",
    "in_1",
    "cache_position",
    "x2",
    "offsets",
    "time",
    "position_ids",
    "positions",
    "p",
    "steps_of_words",
)


def named(inspection: Inspection) -> list[tuple[str, str]]:
    return [(entry.family, entry.positions) for entry in inspection.encodings]


@pytest.mark.parametrize("name", NAMES)
def test_positions_are_found_under_every_name(name: str, tmp_path: Path) -> None:
    inspection = inspected(saved(Decoder(), tmp_path / "named.onnx", ("tokens", name)))
    assert named(inspection) == [("rotary", name)]
    assert {entry.name: entry.role for entry in inspection.taken}[name] == "positions"


def renamed(path: Path) -> Path:
    """The same file, whose inputs are called in_0, in_1, ..."""
    model = onnx.load(path)
    names = {entry.name: f"in_{i}" for i, entry in enumerate(model.graph.input)}

    def rename(graph: onnx.GraphProto) -> None:
        for node in graph.node:
            node.input[:] = [names.get(name, name) for name in node.input]
            for attribute in node.attribute:
                rename(attribute.g)

    rename(model.graph)
    for entry in model.graph.input:
        entry.name = names[entry.name]
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("model", one_of_each(["gptj", "llama", "roformer", "t5", "bert", "detr"], lambda _: None))
def test_files_are_read_alike_without_names(model: str) -> None:
    for path, truth in foreign_files([model], optimizers=[""], faulty=False):
        before = inspected(path)
        if any(entry.name in {i.name for i in onnx.load(path).graph.initializer} for entry in before.inputs):
            continue
        after = inspected(renamed(path))
        forms = [[(e.family, e.name, dict(e.parameters), e.layers) for e in i.encodings] for i in (before, after)]
        assert forms[0] == forms[1], truth.file


def looked_up(path: Path, inputs: Mapping[str, int], tables: dict[str, tuple[str, np.ndarray[Any, Any]]]) -> Path:
    """A graph that adds rows of tables, each picked by an input."""
    nodes, sums = [], []
    for name, (source, _) in tables.items():
        nodes.append(helper.make_node("Gather", [name, source], [f"rows_{name}"]))
        sums.append(f"rows_{name}")
    nodes.append(helper.make_node("Add", sums[:2], ["y"]))
    given = [helper.make_tensor_value_info(name, dtype, ["b", "t"]) for name, dtype in inputs.items()]
    stored = [numpy_helper.from_array(array.astype(np.float32), name) for name, (_, array) in tables.items()]
    result = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "rows", given, result, stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    return path


def rows(count: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(count).standard_normal((count, 32))


@pytest.mark.parametrize(("name", "count", "role"), [("pos_ids", 18, "classes"), ("pos_ids", 512, "positions")])
def test_parts_of_speech_are_no_positions(name: str, count: int, role: str, tmp_path: Path) -> None:
    both = {"input_ids": TensorProto.INT64, name: TensorProto.INT64}
    path = looked_up(tmp_path / "rows.onnx", both, {"words": ("input_ids", rows(50)), "other": (name, rows(count))})
    inspection = inspected(path)
    assert {entry.name: entry.role for entry in inspection.taken}[name] == role
    assert named(inspection) == ([("learned", name)] if role == "positions" else [])
    assert bool(inspection.ends) == (role == "positions")


def test_a_table_of_an_input_that_nothing_is_known_of_is_said(tmp_path: Path) -> None:
    """Words, or learned positions: no number tells them apart."""
    both = {"in_0": TensorProto.INT64, "in_1": TensorProto.INT64}
    path = looked_up(tmp_path / "rows.onnx", both, {"a": ("in_0", rows(50)), "b": ("in_1", rows(512))})
    notes = [entry.where for entry in inspected(path).findings if entry.name == "not-recognised"]
    assert notes == ["in_0", "in_1"]


def test_a_caller_has_the_last_word(tmp_path: Path, cli: Cli) -> None:
    both = {"in_0": TensorProto.INT64, "in_1": TensorProto.INT64}
    path = looked_up(tmp_path / "rows.onnx", both, {"a": ("in_0", rows(50)), "b": ("in_1", rows(512))})
    result = cli("inspect", str(path), "--positions", "in_1")
    assert "taken: in_1 is positions by the caller" in result.output
    assert "512 rows stored, float32; positions from in_1" in result.output
    masked = cli("inspect", str(path), "--mask", "in_1")
    assert "in_1 is mask by the caller" in masked.output
    wrong = cli("inspect", str(path), "--positions", "in_7")
    assert (wrong.exit_code, "--positions: the file has no input 'in_7': give one of in_0, in_1" in wrong.output) == (
        2,
        True,
    )


PADDED = {
    "padded behind": "long = Pad (input_ids, ends, one)  rows = Gather (words, long)",
    "joined with a first token": "long = Concat <axis = 1> (first, input_ids)  rows = Gather (words, long)",
    "swapped for another where a mask says so": "m = Equal (input_ids, one)  i = Where (m, one, input_ids)"
    "  rows = Gather (words, i)",
    "counted from the end where they are below zero": "z = Sub (one, one)  l = Less (input_ids, z)"
    "  m = Cast <to = 7> (l)  w = Mul (m, size)  i = Add (input_ids, w)  rows = Gather (words, i)",
    "masked by a product": "m = Equal (input_ids, one)  n = Cast <to = 7> (m)  i = Mul (input_ids, n)"
    "  rows = Gather (words, i)",
}


@pytest.mark.parametrize("how", PADDED)
def test_ids_that_are_changed_before_their_look_up_lie_in_its_table(how: str, tmp_path: Path) -> None:
    """Longformer pads ids to whole windows, decoders shift them: ids beyond the words would stop the reading."""
    body = f"g (int64[1, sequence] input_ids) => (float[1, s, 8] y) {{ {PADDED[how]}  y = Relu (rows) }}"
    tables = {
        "words": rows(64)[:, :8].astype(np.float32),
        "one": np.array(1),
        "size": np.array(64),
        "first": np.array([[2]]),
    }
    made = read_graph(written(tmp_path, body, {**tables, "ends": np.array([0, 0, 0, 3])}))
    ids = input_values(made, {"input_ids": "tokens"}, {"sequence": 13}, {}, 4096)["input_ids"]
    assert isinstance(ids, Position)
    assert ids.array.max() < 64


@pytest.mark.parametrize("name", ["position_ids", "offsets_of_nobody", "foo", "zzz"])
@pytest.mark.parametrize(
    ("domain", "shape"), [("", ["batch", "seq"]), ("com.microsoft", ["batch", "seq"]), ("com.microsoft", [1])]
)
def test_positions_that_an_operator_takes_have_their_end(
    tmp_path: Path, domain: str, shape: list[int | str], name: str
) -> None:
    """The operator says what they are, whatever they are called: tokens at random would be refused early."""
    found = posenc_export.inspect(operator_file(tmp_path / "model.onnx", domain, name, shape))
    assert [(end.last_right, end.beyond) for end in found.ends] == [(128, "refuses")]
    assert [encoding.positions for encoding in found.encodings] == [name]
