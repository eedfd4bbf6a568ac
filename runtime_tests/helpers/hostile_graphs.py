"""Graphs of a few hundred bytes that end the process that runs them, keep it for ever, or take all of its memory."""

from collections.abc import Callable, Sequence
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from helpers import hostile

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
Nodes = Sequence[onnx.NodeProto]


def value(name: str, kind: int, *dims: str | int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, dims)


def integers(name: str, *numbers: int) -> onnx.TensorProto:
    return helper.make_tensor(name, INT64, [len(numbers)], numbers)


def put(
    bundle: Path, nodes: Nodes, constants: Sequence[onnx.TensorProto] = (), functions: Sequence[onnx.FunctionProto] = ()
) -> None:
    """Put a graph in the place of model.onnx: y = x + start + `more`, a float that the nodes compute."""
    ends = [helper.make_node("Cast", ["start"], ["position"], to=FLOAT)]
    ends += [helper.make_node("Sum", ["x", "more", "position"], ["y"])]
    ports = [value("x", FLOAT, "batch", "seq", 8), value("start", INT64, 1)]
    graph = helper.make_graph(
        [*nodes, *ends], "hostile", ports, [value("y", FLOAT, "batch", "seq", 8)], list(constants)
    )
    opsets = [helper.make_opsetid("", 18), *([helper.make_opsetid("local", 1)] if functions else [])]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=list(functions))
    (bundle / "model.onnx").write_bytes(model.SerializeToString())
    hostile.sign(bundle)


def endless(bundle: Path) -> None:
    """A Loop that counts to 2^62: 4,000 years of work."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["sum", "sum"], ["twice"])],
        "body",
        [value("i", INT64), value("go", TensorProto.BOOL), value("sum", FLOAT)],
        [value("on", TensorProto.BOOL), value("twice", FLOAT)],
    )
    constants = [
        helper.make_tensor("trips", INT64, [], [2**62]),
        helper.make_tensor("always", TensorProto.BOOL, [], [True]),
        helper.make_tensor("zero", FLOAT, [], [0.0]),
    ]
    put(bundle, [helper.make_node("Loop", ["trips", "always", "zero"], ["more"], body=body)], constants)


def overflowing(bundle: Path) -> None:
    """-2^63 / -1, of constants: the processor has no such integer, and the system ends the process."""
    nodes = [helper.make_node("Div", ["least", "minus"], ["quotient"])]
    nodes += [helper.make_node("Cast", ["quotient"], ["more"], to=FLOAT)]
    put(bundle, nodes, [integers("least", -(2**63)), integers("minus", -1)])


def overflowing_when_run(bundle: Path) -> None:
    """The same of an input, so that it is not computed before a call."""
    nodes = [
        helper.make_node("Mul", ["start", "zero"], ["nothing"]),
        helper.make_node("Add", ["nothing", "least"], ["dividend"]),
        helper.make_node("Add", ["nothing", "minus"], ["divisor"]),
        helper.make_node("Div", ["dividend", "divisor"], ["quotient"]),
        helper.make_node("Cast", ["quotient"], ["more"], to=FLOAT),
    ]
    put(bundle, nodes, [integers("zero", 0), integers("least", -(2**63)), integers("minus", -1)])


def doubling(bundle: Path, deep: int = 40) -> None:
    """Functions that each call the one before twice: 2^40 nodes where they are put in the place of their calls."""
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    functions = [
        helper.make_function("local", "f0", ["a"], ["b"], [helper.make_node("Identity", ["a"], ["b"])], opsets)
    ]
    for i in range(1, deep):
        inner = f"f{i - 1}"
        nodes = [helper.make_node(inner, [a], [b], domain="local") for a, b in (("a", "c"), ("c", "b"))]
        functions.append(helper.make_function("local", f"f{i}", ["a"], ["b"], nodes, opsets))
    nodes = [helper.make_node(f"f{deep - 1}", ["zero"], ["more"], domain="local")]
    put(bundle, nodes, [helper.make_tensor("zero", FLOAT, [], [0.0])], functions)


def large_of(size: int) -> Callable[[Path], None]:
    """Return what writes a graph with a constant of a size: its sum is taken."""

    def put_large(bundle: Path) -> None:
        nodes = [
            helper.make_node("ConstantOfShape", ["size"], ["zeros"]),
            helper.make_node("ReduceSum", ["zeros"], ["more"], keepdims=0),
        ]
        put(bundle, nodes, [integers("size", size)])

    return put_large


def growing(bundle: Path) -> None:
    """A tensor that is repeated as often as a constant says: 2^38 numbers."""
    nodes = [
        helper.make_node("Cast", ["start"], ["number"], to=FLOAT),
        helper.make_node("Tile", ["number", "times"], ["many"]),
        helper.make_node("ReduceMax", ["many"], ["more"], keepdims=0),
    ]
    put(bundle, nodes, [integers("times", 2**38)])
