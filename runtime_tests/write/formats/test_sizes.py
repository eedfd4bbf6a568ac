"""Sizes of values in graphs made for it: a few numbers in every call, or as many as a call has tokens or points."""

import os
from pathlib import Path

import onnx
import pytest
from onnx import parser

from posenc_export.write.formats.onnx.sizes import Size, outputs_by_node, sizes_of, worst

HEAD = '<ir_version: 8, opset_import: ["": 18, "made.up": 1]> g'
INPUTS = {
    "x": "float[batch, seq, 8] x",
    "ids": "int64[batch, seq] ids",
    "row": "int64[seq] row",
    "points": "int32[points, 3] points",
    "mask": "bool[batch, seq] mask",
    "start": "int64[1] start",
    "shape": "int64[2] shape",
    "unnamed": "int64[?] unnamed",
}
COUNT = "<int64 zero = {0}, int64 one = {1}, int64[1] first = {0}, int64[1] second = {1}, float block = {64.0}>"
SEQ = "sizes = Shape (x) seq = Gather (sizes, one)"

SMALL = {
    "a shape": ("x", "y = Shape (x)"),
    "one size of it": ("x", f"{SEQ} y = Add (seq, one)"),
    "a number of two axes": ("x", f"{SEQ} a = Unsqueeze (seq, first) b = Unsqueeze (a, first) y = Cast <to = 1> (b)"),
    "sizes put together": ("x", f"{SEQ} a = Unsqueeze (seq, first) y = Concat <axis = 0> (a, a, second, first)"),
    "a part of a shape": ("x", "sizes = Shape (x) y = Slice (sizes, first, second)"),
    "a flag": ("x", f"{SEQ} y = Equal (seq, one)"),
    "a number of blocks": ("x", f"{SEQ} a = Cast <to = 1> (seq) b = Div (a, block) y = Ceil (b)"),
    "a reshaped size": (
        "x",
        f"{SEQ} four = Constant <value_ints = [1, 1, 1, 1]> () a = Reshape (seq, four) y = Cast <to = 1> (a)",
    ),
    "the largest of all ids": ("ids", "y = ReduceMax <keepdims = 1> (ids)"),
    "a range of axes": ("x", "three = Constant <value_int = 3> () y = Range (zero, three, one)"),
    "where tokens start": ("start", "a = Add (start, one) y = Cast <to = 10> (a)"),
    "a number for each axis": ("x", "a = Shape (x) b = Shape (a) y = Expand (one, b)"),
}
"""By what they are: inputs, and nodes that make y."""
LARGE = {
    "ids of all tokens": ("ids", "y = Add (ids, one)"),
    "a range over tokens": ("x", f"{SEQ} y = Range (zero, seq, one)"),
    "numbers of a range": ("x", f"{SEQ} a = Range (zero, seq, one) y = Cast <to = 1> (a)"),
    "a row of positions": ("row", "y = Mul (row, one)"),
    "flags of tokens": ("ids", "y = Less (ids, one)"),
    "indices of points": ("points", "y = BitwiseXor (points, points)"),
    "one number a batch": ("ids", "y = ReduceMax <keepdims = 0> (ids, second)"),
    "tokens of all batches in one row": ("ids", "a = Constant <value_ints = [-1]> () y = Reshape (ids, a)"),
    "a number for every token": ("x", "sizes = Shape (x) y = Expand (one, sizes)"),
    "zeros for every token": ("ids", "sizes = Shape (ids) y = ConstantOfShape (sizes)"),
    "counted tokens": ("mask", "a = Cast <to = 7> (mask) y = CumSum (a, one)"),
    "an axis without a name": ("unnamed", "y = Add (unnamed, one)"),
    "pairs of sizes, as many as tokens": (
        "x",
        f"{SEQ} a = Range (zero, seq, one) b = Unsqueeze (a, second) y = Concat <axis = 1> (b, b)",
    ),
    "a long table": ("x", "a = Constant <value_ints = [4096]> () b = ConstantOfShape (a) y = Add (b, block)"),
}
UNKNOWN = {
    "an operator that nobody knows": ("ids", "y = made.up.Count (ids)"),
    "a shape that is an input": ("ids, shape", "y = Reshape (ids, shape)"),
    "where flags are set": ("mask", "y = NonZero (mask)"),
}
CASES = [
    (size, *graph, what)
    for size, graphs in (("few", SMALL), ("many", LARGE), ("unknown", UNKNOWN))
    for what, graph in graphs.items()
]


def model_of(inputs: str, nodes: str) -> onnx.ModelProto:
    ports = ", ".join(INPUTS[name] for name in inputs.split(", "))
    return parser.parse_model(f"{HEAD} ({ports}) => (y) {COUNT} {{ {nodes} }}")


@pytest.mark.parametrize(("size", "inputs", "nodes"), [case[:3] for case in CASES], ids=[case[3] for case in CASES])
def test_a_value_is_small_or_large_or_not_known(size: Size, inputs: str, nodes: str) -> None:
    assert sizes_of([model_of(inputs, nodes)], {"y"}) == {"y": size}


def test_shapes_of_another_export_are_not_believed() -> None:
    model = model_of("ids", "a = Add (ids, one) y = Add (a, one)")
    del model.graph.output[:]
    for name, values in (("a", model.graph.value_info), ("y", model.graph.output)):
        values.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, [1, 4]))
    assert sizes_of([model], {"a", "y"}) == {"a": "many", "y": "many"}
    assert model.graph.value_info, "the model itself stays as it was"


def test_what_a_runtime_alone_knows_is_taken_from_its_graph() -> None:
    model = model_of("ids", "y = made.up.Count (ids)")
    other = onnx.ModelProto()
    other.CopyFrom(model)
    other.graph.value_info.append(onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT64, [2]))
    assert sizes_of([model, other], {"y", "nowhere"}) == {"y": "few", "nowhere": "unknown"}


def test_a_node_is_as_large_as_its_largest_output() -> None:
    assert worst(["few", "unknown", "many"]) == "many"
    assert worst(["few", "unknown"]) == "unknown"
    assert worst(["few", "few"]) == "few"
    assert worst([]) == "unknown"


def test_nodes_inside_branches_are_looked_at() -> None:
    inside = onnx.helper.make_node("Add", ["ids", "one"], ["z"], name="inside")
    result = onnx.helper.make_tensor_value_info("z", onnx.TensorProto.INT64, None)
    branch = onnx.helper.make_graph([inside], "branch", [], [result])
    model = model_of("ids", "c = ReduceMax <keepdims = 0> (ids) f = Equal (c, one) y = Add (ids, one)")
    model.graph.node.append(onnx.helper.make_node("If", ["f"], ["w"], then_branch=branch, else_branch=branch))
    assert outputs_by_node(model)["inside"] == {"z"}
    assert sizes_of([model], {"z", "c", "f"}) == {"z": "many", "c": "few", "f": "few"}


def test_nothing_is_written_where_a_user_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sizes_of([model_of("ids", "y = made.up.Count (ids)")], {"y"})
    assert os.listdir() == []
