"""Parts of a graph, evaluated: what a value is for the sizes of a call, and for positions, without the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import onnx_ir as ir

    from posenc.ports import Array

LARGEST = 2**28
"""Bytes of stored numbers above which a part is not evaluated: it is none of a mask or of positions."""


class GraphPart:
    """The nodes between inputs of a graph and one of its values, as a model of its own.

    The sizes of an input go in beside it, so that a long cache needs no array of its length.

    Args:
        model: the graph.
        value: what comes out.

    Raises ValueError where the part reads stored numbers that are too many for one.
    """

    def __init__(self, model: ir.Model, value: ir.Value) -> None:
        nodes, self.inputs, self.shapes, stored = _before(model.graph, value)
        bytes_stored = sum(each.const_value.nbytes for each in stored if each.const_value is not None)
        if bytes_stored > LARGEST:
            raise ValueError(f"{value.name} reads {bytes_stored:,} bytes of stored numbers")
        self._bytes = _proto(model, nodes, [*self.inputs, *(shape.outputs[0] for shape in self.shapes)], stored, value)

    def values(
        self, calls: Sequence[Mapping[str, Array]], shapes: Sequence[Mapping[str, tuple[int, ...]]]
    ) -> list[Array]:
        """Return the value for each call, of inputs by their names; `shapes` has their sizes."""
        from onnxruntime import InferenceSession, SessionOptions

        options = SessionOptions()
        options.log_severity_level = 4
        session = InferenceSession(self._bytes, options, providers=["CPUExecutionProvider"])
        answers: list[Array] = []
        for call, sizes in zip(calls, shapes, strict=True):
            feeds = {str(each.name): call[str(each.name)] for each in self.inputs}
            for shape in self.shapes:
                source = shape.inputs[0]
                assert source is not None
                whole = sizes[str(source.name)]
                start, end = (
                    shape.attributes[name].as_int() if name in shape.attributes else None for name in ("start", "end")
                )
                feeds[str(shape.outputs[0].name)] = np.array(whole[start:end], np.int64)
            answers += session.run(None, feeds)
        return answers


def _before(graph: ir.Graph, value: ir.Value) -> tuple[list[ir.Node], list[ir.Value], list[ir.Node], list[ir.Value]]:
    """Return nodes in order that a value comes from, inputs that they read, Shapes of inputs, and what is stored."""
    wanted: set[ir.Node] = set()
    inputs: dict[ir.Value, None] = {}
    shapes: dict[ir.Node, None] = {}
    stored: dict[ir.Value, None] = {}
    given = set(graph.inputs)
    rest: list[ir.Value] = [value]
    while rest:
        one = rest.pop()
        maker = one.producer()
        if maker is None:
            (inputs if one in given else stored)[one] = None
        elif maker.op_type == "Shape" and maker.inputs[0] in given:
            shapes[maker] = None
        elif maker not in wanted:
            wanted.add(maker)
            rest += [each for each in maker.inputs if each is not None]
    return [each for each in graph if each in wanted], list(inputs), list(shapes), list(stored)


def _proto(
    model: ir.Model, nodes: Sequence[ir.Node], inputs: Sequence[ir.Value], stored: Sequence[ir.Value], value: ir.Value
) -> bytes:
    import onnx
    import onnx_ir as ir
    from onnx import helper

    def described(each: ir.Value) -> onnx.ValueInfoProto:
        dtype = onnx.TensorProto.INT64 if each.dtype is None else int(each.dtype)
        rank = None if each.shape is None else [None] * len(each.shape)
        return helper.make_tensor_value_info(str(each.name), dtype, rank)

    output = onnx.ValueInfoProto(name=str(value.name))
    tensors = []
    for each in stored:
        assert each.const_value is not None
        tensor = ir.to_proto(each.const_value)
        tensor.name = str(each.name)
        tensors.append(tensor)
    graph = helper.make_graph(
        [ir.to_proto(each) for each in nodes], "part", [*map(described, inputs)], [output], tensors
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in model.graph.opset_imports.items()]
    # an older IR version than torch writes, which every runtime here loads
    whole = helper.make_model(graph, opset_imports=imports, ir_version=8)
    return bytes(whole.SerializeToString())
