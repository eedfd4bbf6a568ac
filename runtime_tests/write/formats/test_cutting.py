"""Parts of an ONNX graph: positions that begin elsewhere, what some values are made of, which rows are looked up."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from posenc.ports import Array, Axis, Port, fixed
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.proof.runtimes import RunFailed
from posenc_export.proof.runtimes.onnx_runtime import part_runner
from posenc_export.proof.stored.rows_read import GoldenCalls, axes_read, rows_read
from posenc_export.write.formats.onnx.cutting import counts, from_elsewhere, pruned, start_input
from posenc_export.write.formats.onnx.tensors import look_ups, stored_tensors

X = Port("x", (Axis("seq", "length"), fixed(3)), "float32")
TABLE = np.arange(60, dtype=np.float32).reshape(20, 3)


def model(nodes: Sequence[onnx.NodeProto], **constants: Array) -> onnx.ModelProto:
    """Return a graph from x (seq, 3) to y (seq, 3)."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["seq", 3]) for name in ("x", "y")]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def rows_of_range() -> onnx.ModelProto:
    """x + table[0..seq-1 // 2]: every row is read by two tokens."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], start=0, end=1),
        helper.make_node("Squeeze", ["shape"], ["seq"]),
        helper.make_node("Range", ["zero", "seq", "one"], ["arange"]),
        helper.make_node("Div", ["arange", "two"], ["index"]),
        helper.make_node("Gather", ["table", "index"], ["rows"]),
        helper.make_node("Add", ["x", "rows"], ["y"]),
    ]
    return model(nodes, table=TABLE, zero=np.array(0), one=np.array(1), two=np.array(2))


def golden(seq: int) -> GoldenCase:
    return GoldenCase(Case(f"seq{seq}", {"seq": seq}), {"x": np.zeros((seq, 3), np.float32)})


def test_what_counts_is_found_with_what_it_looks_up() -> None:
    assert [(count.value, count.tables) for count in counts(rows_of_range().graph)] == [("arange", ("table",))]


@pytest.mark.parametrize("start", [0, 1, 7, 34])
def test_positions_begin_where_they_are_told_to(tmp_path: Path, start: int) -> None:
    cut, (name,) = from_elsewhere(rows_of_range(), ["arange"])
    onnx.checker.check_model(cut, full_check=True)
    runner = part_runner(cut, tmp_path, (X, Port(name, (fixed(1),), "int64")))
    x = np.zeros((5, 3), np.float32)
    given = runner.run({"x": x, name: start_input(start)})["y"]
    np.testing.assert_array_equal(given, TABLE[(start + np.arange(5)) // 2])


def test_a_start_beyond_the_table_is_refused(tmp_path: Path) -> None:
    cut, (name,) = from_elsewhere(rows_of_range(), ["arange"])
    runner = part_runner(cut, tmp_path, (X, Port(name, (fixed(1),), "int64")))
    with pytest.raises(RunFailed, match="out of data bounds"):
        runner.run({"x": np.zeros((5, 3), np.float32), name: start_input(36)})


def test_the_graph_itself_is_left_as_it_was() -> None:
    whole = rows_of_range()
    before = whole.SerializeToString()
    from_elsewhere(whole, ["arange"])
    pruned(whole, ["index"])
    assert whole.SerializeToString() == before


def test_a_new_input_takes_no_name_of_the_graph() -> None:
    whole = rows_of_range()
    whole.graph.node[2].output[0] = whole.graph.node[3].input[0] = "start_0"
    cut, (name,) = from_elsewhere(whole, ["start_0"])
    onnx.checker.check_model(cut, full_check=True)
    assert name == "start_0_"


def test_a_part_has_what_its_outputs_need_alone(tmp_path: Path) -> None:
    part = pruned(rows_of_range(), ["index"])
    assert [node.op_type for node in part.graph.node] == ["Shape", "Squeeze", "Range", "Div"]
    assert {tensor.name for tensor in part.graph.initializer} == {"zero", "one", "two"}
    index = part_runner(part, tmp_path, (X,)).run({"x": np.zeros((5, 3), np.float32)})["index"]
    assert index.tolist() == [0, 0, 1, 1, 2]


def gathered(index: Sequence[int]) -> onnx.ModelProto:
    nodes = [helper.make_node("Gather", ["table", "at"], ["rows"]), helper.make_node("Add", ["x", "rows"], ["y"])]
    return model(nodes, table=TABLE, at=np.asarray(index))


def sliced() -> onnx.ModelProto:
    """x + table[2 : 2 + seq], whose end is computed."""
    nodes = [
        helper.make_node("Shape", ["x"], ["seq"], start=0, end=1),
        helper.make_node("Add", ["seq", "two"], ["end"]),
        helper.make_node("Slice", ["table", "two", "end", "axis"], ["rows"]),
        helper.make_node("Add", ["x", "rows"], ["y"]),
    ]
    return model(nodes, table=TABLE, two=np.array([2]), axis=np.array([0]))


def split() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Split", ["table", "sizes"], ["rows", "rest"], axis=0),
        helper.make_node("Add", ["x", "rows"], ["y"]),
    ]
    return model(nodes, table=TABLE, sizes=np.array([4, 16]))


def added() -> onnx.ModelProto:
    return model([helper.make_node("Add", ["x", "table"], ["y"])], table=TABLE)


@pytest.mark.parametrize(
    ("make", "seq", "rows"),
    [
        (rows_of_range, 9, range(5)),
        (lambda: gathered([3, -1]), 2, [3, 19]),
        (sliced, 6, range(2, 8)),
        (split, 4, range(4)),
        (added, 20, range(20)),
    ],
)
def test_the_rows_that_a_case_reads(
    tmp_path: Path, make: Callable[[], onnx.ModelProto], seq: int, rows: Sequence[int]
) -> None:
    whole = make()
    tensors = stored_tensors(whole, tmp_path)
    assert (list(tensors), axes_read(whole, tensors)) == (["table"], {"table": 0})
    read = rows_read(whole, tensors, GoldenCalls((X,), (replace(X, name="y"),), tmp_path, [golden(seq)]))["table"]
    assert np.flatnonzero(read.read).tolist() == np.flatnonzero(read.compared).tolist() == list(rows)


def test_of_an_output_that_is_kept_in_part_those_rows_count(tmp_path: Path) -> None:
    whole = rows_of_range()
    in_part = replace(golden(9), rows={"y": np.array([0, 5, 6])})
    calls = GoldenCalls((X,), (replace(X, name="y"),), tmp_path, [in_part])
    read = rows_read(whole, stored_tensors(whole, tmp_path), calls)["table"]
    assert (np.flatnonzero(read.read).tolist(), np.flatnonzero(read.compared).tolist()) == ([0, 1, 2, 3, 4], [0, 2, 3])


def test_a_table_that_something_else_reads_too_is_read_whole() -> None:
    whole = gathered([1])
    whole.graph.node.append(helper.make_node("Identity", ["table"], ["same"]))
    assert len(look_ups(whole.graph, "table", TABLE.shape) or ()) == 1
    whole.graph.node.append(helper.make_node("Neg", ["same"], ["all"]))
    assert look_ups(whole.graph, "table", TABLE.shape) is None
