"""Files read into graphs: in order, with functions in place and constants closed, or one line on what is wrong."""

import time
import tracemalloc
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from helpers.written_graphs import FLOAT, graph, node, save, tensor, value
from posenc_export.read.graph import Graph
from posenc_export.read.graph.read import inner_graph, read_graph

INT64 = TensorProto.INT64


def operators(read: Graph) -> list[str]:
    return [item.op_type for item in read.nodes]


def test_nodes_come_after_what_they_take_and_stay_in_place_otherwise(tmp_path: Path) -> None:
    nodes = [node("Add", "a b", "y"), node("Neg", "x", "a"), node("Abs", "x", "b", "named"), node("Exp", "x", "unused")]
    read = read_graph(save(tmp_path / "m.onnx", graph(nodes, "x", "y")))
    assert [item.name for item in read.nodes] == ["Neg#1", "named", "Add#0", "Exp#3"]
    assert (read.outputs, read.opsets, read.missing) == (("y",), {"": 18, "local": 1}, ())
    assert read.nodes[2].inputs == ("a", "b")


def test_inputs_say_their_sizes_and_stored_ones_are_constants(tmp_path: Path) -> None:
    content = graph([node("Add", "x w", "y")], "", "y", [tensor("w", 1, 2)])
    content.input.extend([value("x", FLOAT, "batch", 2, None, -1), value("w", FLOAT, 2)])
    read = read_graph(save(tmp_path / "m.onnx", content))
    assert [item.name for item in read.inputs] == ["x"]
    assert read.inputs[0].shape == ("batch", 2, None, None)
    assert read.inputs[0].dtype == np.float32
    assert list(read.constants) == ["w"]


def test_nodes_of_constants_are_constants_in_all_their_forms(tmp_path: Path) -> None:
    sparse = helper.make_sparse_tensor(tensor("", 5), numpy_helper.from_array(np.array([2])), [4])
    forms: dict[str, dict[str, Any]] = {
        "a": {"value": tensor("", 1, 2)}, "b": {"value_int": 3}, "c": {"value_ints": [4, 5]}, "d": {"value_float": 0.5},
        "e": {"value_floats": [1.5]}, "f": {"value_string": "text"}, "g": {"sparse_value": sparse},
    }  # fmt: skip
    nodes = [node("Constant", "", name, **form) for name, form in forms.items()]
    read = read_graph(save(tmp_path / "m.onnx", graph([*nodes, node("Neg", "a", "y")], "", "y")))
    numbers = {name: stored.load().tolist() for name, stored in read.constants.items()}
    assert numbers == {"a": [1, 2], "b": 3, "c": [4, 5], "d": 0.5, "e": [1.5], "f": "text", "g": [0, 0, 5, 0]}
    assert [read.constants[name].dtype for name in "bd"] == [np.int64, np.float32]
    assert read.constants["a"].stored == {"a"}
    assert operators(read) == ["Neg"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "int4", "uint4", "int8", "bool", "float64"])
@pytest.mark.parametrize("raw", [True, False])
def test_constants_of_each_element_type(tmp_path: Path, dtype: str, raw: bool) -> None:
    numbers = np.array([[0, 1, 2], [3, 4, 5]]).astype(getattr(ml_dtypes, dtype, None) or np.dtype(dtype))
    stored = numpy_helper.from_array(numbers, "w")
    if not raw:
        stored = helper.make_tensor("w", stored.data_type, [2, 3], numbers.astype(np.float64).reshape(-1).tolist())
    read = read_graph(save(tmp_path / "m.onnx", graph([node("Neg", "w", "y")], "", "y", [stored])))
    array = read.constants["w"].load()
    assert array.dtype == read.constants["w"].dtype == numbers.dtype
    np.testing.assert_array_equal(array.astype(np.float64), numbers.astype(np.float64))


def test_sparse_initializers_are_dense_constants(tmp_path: Path) -> None:
    content = graph([node("Neg", "w", "y")], "", "y")
    places = numpy_helper.from_array(np.array([[0, 1], [1, 2]]), "w_indices")
    content.sparse_initializer.append(helper.make_sparse_tensor(tensor("w", 7, 8), places, [2, 3]))
    stored = read_graph(save(tmp_path / "m.onnx", content)).constants["w"]
    assert stored.load().tolist() == [[0, 7, 0], [0, 0, 8]]
    places.CopyFrom(numpy_helper.from_array(np.array([6, 0]), "w_indices"))
    content.sparse_initializer[0].indices.CopyFrom(places)
    with pytest.raises(ValueError, match="some outside of"):
        read_graph(save(tmp_path / "m.onnx", content)).constants["w"].load()


def test_large_tensors_stay_in_the_file_until_they_are_asked_for(tmp_path: Path) -> None:
    table = np.arange(40000, dtype=np.float32).reshape(400, 100)
    inside = graph([node("Constant", "", "t", value=numpy_helper.from_array(table * 2))], "", "t")
    nodes = [node("If", "c", "z", then_branch=inside, else_branch=inside), node("Add", "w z", "y")]
    path = save(tmp_path / "m.onnx", graph(nodes, "c", "y", [numpy_helper.from_array(table, "w"), tensor("v", 1)]))
    read = read_graph(path)
    np.testing.assert_array_equal(read.constants["w"].load(), table)
    branch = read.nodes[0].attributes["then_branch"]
    assert isinstance(branch, onnx.GraphProto)
    assert branch.ByteSize() < 1000
    np.testing.assert_array_equal(inner_graph(branch, read).constants["t"].load(), table * 2)
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(ValueError, match="has changed since"):
        read.constants["w"].load()


def test_a_constant_above_the_limit_is_not_read(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", graph([node("Neg", "w", "y")], "", "y", [tensor("w", 1, 2, 3, 4)]))
    assert read_graph(path, limit=16).constants["w"].load().size == 4
    with pytest.raises(ValueError, match="takes 16 bytes, above the limit of 15"):
        read_graph(path, limit=15).constants["w"].load()


def test_a_graph_inside_takes_names_from_around_it(tmp_path: Path) -> None:
    inside = graph([node("Add", "late w", "b"), node("Constant", "", "w", value_float=2.0)], "", "b")
    nodes = [node("If", "c", "y", then_branch=inside, else_branch=inside), node("Neg", "x", "late")]
    read = read_graph(save(tmp_path / "m.onnx", graph(nodes, "x c", "y")))
    assert operators(read) == ["Neg", "If"]
    branch = read.nodes[1].attributes["else_branch"]
    assert isinstance(branch, onnx.GraphProto)
    inner = inner_graph(branch, read)
    assert [item.name for item in inner.nodes] == ["graph/Add#0"]
    assert (list(inner.constants), inner.inputs, inner.outputs, inner.path) == (["w"], (), ("b",), read.path)


def test_a_long_table_takes_no_memory_until_it_is_read(tmp_path: Path) -> None:
    table = np.zeros((131072, 64), np.float32)
    nodes = [node("Gather", "w p", "y")]
    path = save(tmp_path / "m.onnx", graph(nodes, "p", "y", [numpy_helper.from_array(table, "w")]))
    tracemalloc.start()
    try:
        read = read_graph(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert read.constants["w"].load().shape == table.shape


def test_thousands_of_nodes_in_any_order_are_read_in_a_second(tmp_path: Path) -> None:
    chain = [node("Add", f"t{place} w{place % 500}", f"t{place + 1}") for place in range(4000)]
    stored = [tensor(f"w{place}", *range(64)) for place in range(500)]
    path = save(tmp_path / "m.onnx", graph(chain[::-1], "t0", "t4000", stored))
    start = time.process_time()
    read = read_graph(path)
    assert [item.outputs for item in read.nodes] == [(f"t{place + 1}",) for place in range(4000)]
    # it takes a quarter of a second on an idle core, and machines that run tests are not idle
    assert time.process_time() - start < 3
