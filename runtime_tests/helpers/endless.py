"""A graph of a stranger's that never ends."""

from pathlib import Path

import onnx
from onnx import TensorProto, helper

from helpers import hostile


def value(name: str, kind: int, *dims: str | int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, dims)


def endless(bundle: Path) -> None:
    """Put a Loop that counts to 2^62 before y, in the place of model.onnx: 4,000 years of work."""
    kind = TensorProto.FLOAT
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["sum", "sum"], ["more"])],
        "body",
        [value("i", TensorProto.INT64), value("go", TensorProto.BOOL), value("sum", kind)],
        [value("on", TensorProto.BOOL), value("more", kind)],
    )
    start = helper.make_node("Cast", ["start"], ["position"], to=kind)
    loop = helper.make_node("Loop", ["trips", "always", "zero"], ["result"], body=body)
    nodes = [start, loop, helper.make_node("Sum", ["x", "result", "position"], ["y"])]
    given = [value("x", kind, "batch", "seq", 8), value("start", TensorProto.INT64, 1)]
    constants = [
        helper.make_tensor("trips", TensorProto.INT64, [], [2**62]),
        helper.make_tensor("always", TensorProto.BOOL, [], [True]),
        helper.make_tensor("zero", kind, [], [0.0]),
    ]
    graph = helper.make_graph(nodes, "endless", given, [value("y", kind, "batch", "seq", 8)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    (bundle / "model.onnx").write_bytes(model.SerializeToString())
    hostile.sign(bundle)
