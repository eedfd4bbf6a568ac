"""Functions of a file stand in the place of their calls, or are refused in one line."""

from pathlib import Path

import onnx
import pytest
from onnx import helper

from helpers.written_graphs import function, graph, node, refused, save
from posenc_export.read.graph import Graph
from posenc_export.read.graph.read import inner_graph, read_graph


def operators(read: Graph) -> list[str]:
    return [item.op_type for item in read.nodes]


class TestFunctions:
    def test_they_stand_in_the_place_of_their_calls(self, tmp_path: Path) -> None:
        scale = function("scale", "v", "s", [node("Mul", "v v", "t"), node("Neg", "t", "s")])
        twice = function(
            "twice", "v", "s", [node("scale", "v", "t", domain="local"), node("scale", "t", "s", domain="local")]
        )
        nodes = [node("twice", "x", "y", "call", domain="local"), node("twice", "y", "z", domain="local")]
        read = read_graph(save(tmp_path / "m.onnx", graph(nodes, "x", "z"), [scale, twice]))
        assert operators(read) == ["Mul", "Neg"] * 4
        assert [item.name for item in read.nodes[:3]] == [
            "call/scale#0/Mul#0",
            "call/scale#0/Neg#1",
            "call/scale#1/Mul#0",
        ]
        assert len({name for item in read.nodes for name in item.outputs}) == 8
        assert (read.nodes[3].outputs, read.nodes[7].outputs) == (("y",), ("z",))

    def test_attributes_are_those_of_the_call_or_defaults_or_left_out(self, tmp_path: Path) -> None:
        soft = helper.make_node("Softmax", ["v"], ["s"])
        soft.attribute.add(name="axis", ref_attr_name="along", type=onnx.AttributeProto.INT)
        body = function("soft", "v", "s", [soft], ["along"])
        nodes = [node("soft", "x", "a", domain="local", along=1), node("soft", "a", "y", domain="local")]
        read = read_graph(save(tmp_path / "m.onnx", graph(nodes, "x", "y"), [body]))
        assert [dict(item.attributes) for item in read.nodes] == [{"axis": 1}, {}]
        del body.attribute[:]
        body.attribute_proto.append(helper.make_attribute("along", 2))
        read = read_graph(save(tmp_path / "m.onnx", graph(nodes, "x", "y"), [body]))
        assert [dict(item.attributes) for item in read.nodes] == [{"axis": 1}, {"axis": 2}]

    def test_inputs_left_out_and_outputs_that_are_inputs(self, tmp_path: Path) -> None:
        body = function("f", "v low", "s v", [node("Clip", "v low", "s")])
        calls = [node("f", "x", "a b", domain="local"), node("Add", "a b", "y")]
        read = read_graph(save(tmp_path / "m.onnx", graph(calls, "x", "y"), [body]))
        assert [(item.op_type, item.inputs) for item in read.nodes] == [
            ("Clip", ("x", "")), ("Identity", ("x",)), ("Add", ("a", "b")),
        ]  # fmt: skip

    def test_graphs_in_functions_and_calls_in_graphs(self, tmp_path: Path) -> None:
        negate = function("negate", "v", "s", [node("Neg", "v", "s")])
        inside = graph([node("negate", "t", "i", domain="local")], "", "i")
        body = function(
            "f", "c v", "s", [node("Abs", "v", "t"), node("If", "c", "s", then_branch=inside, else_branch=inside)]
        )
        calls = [node("f", "c x", "a", domain="local"), node("f", "c a", "y", domain="local")]
        read = read_graph(save(tmp_path / "m.onnx", graph(calls, "x c", "y"), [negate, body]))
        assert operators(read) == ["Abs", "If", "Abs", "If"]
        branch = read.nodes[3].attributes["then_branch"]
        assert isinstance(branch, onnx.GraphProto)
        inner = inner_graph(branch, read)
        assert [(item.op_type, item.inputs) for item in inner.nodes] == [("Neg", read.nodes[2].outputs)]
        assert inner.outputs == inner.nodes[0].outputs

    @pytest.mark.parametrize("depth", [1, 2, 5])
    def test_calls_in_a_loop_are_refused(self, tmp_path: Path, depth: int) -> None:
        names = [f"f{place}" for place in range(depth)]
        bodies = [
            function(name, "v", "s", [node(names[(place + 1) % depth], "v", "s", domain="local")])
            for place, name in enumerate(names)
        ]
        text = refused(save(tmp_path / "m.onnx", graph([node("f0", "x", "y", domain="local")], "x", "y"), bodies))
        assert (
            text
            == f"has functions that call each other in a loop: {' -> '.join([*names, 'f0'])}; no runtime can run it"
        )

    def test_functions_that_grow_beyond_all_bounds_are_refused(self, tmp_path: Path) -> None:
        bodies = [
            function(
                f"f{n}",
                "v",
                "s",
                [node(f"f{n + 1}", "v", "t", domain="local"), node(f"f{n + 1}", "t", "s", domain="local")],
            )
            for n in range(60)
        ]
        bodies.append(function("f60", "v", "s", [node("Neg", "v", "s")]))
        text = refused(save(tmp_path / "m.onnx", graph([node("f0", "x", "y", domain="local")], "x", "y"), bodies))
        assert text == f"has {2**60} nodes with its functions in place, above the limit of 200000"

    def test_functions_too_deep_are_refused(self, tmp_path: Path) -> None:
        bodies = [function(f"f{n}", "v", "s", [node(f"f{n + 1}", "v", "s", domain="local")]) for n in range(5000)]
        assert "deep" in refused(
            save(tmp_path / "m.onnx", graph([node("f0", "x", "y", domain="local")], "x", "y"), bodies)
        )
