"""Names in a file are UTF-8: others come from protobuf as bytes, which nothing that uses names expects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

from posenc_export.read.graph.attributes import graphs_of

SHOWN = 60
"""Letters of a name that cannot be read that are shown."""
MOST_LETTERS = 2**12
"""Letters of a name: exporters write paths of modules, of some hundred."""


def check_texts(model: onnx.ModelProto) -> None:
    """Raise ValueError where a name in a model is no text, or is longer than any name."""
    for text in _texts(model):
        if not isinstance(text, str):
            raise ValueError(f"has a name that is not UTF-8, {_begin(text)}: the file is damaged")
        if len(text) > MOST_LETTERS:
            raise ValueError(f"has a name of {len(text)} letters, {_begin(text)}: the file is damaged")


def _begin(text: object) -> str:
    shown = repr(text)
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."


def _texts(model: onnx.ModelProto) -> Iterator[object]:
    yield from (entry.domain for entry in model.opset_import)
    for function in model.functions:
        yield from (function.name, function.domain, getattr(function, "overload", ""))
        yield from (*function.input, *function.output, *function.attribute)
        yield from (entry.domain for entry in function.opset_import)
        yield from _of_nodes(function.node)
        yield from _of_attributes(function.attribute_proto)
    yield from _of_graph(model.graph)


def _of_graph(graph: onnx.GraphProto) -> Iterator[object]:
    yield graph.name
    for item in (*graph.input, *graph.output):
        yield item.name
        yield from (dim.dim_param for dim in item.type.tensor_type.shape.dim)
    for tensor in graph.initializer:
        yield from _of_tensor(tensor)
    for sparse in graph.sparse_initializer:
        yield from (*_of_tensor(sparse.values), *_of_tensor(sparse.indices))
    yield from _of_nodes(graph.node)


def _of_tensor(tensor: onnx.TensorProto) -> Iterator[object]:
    yield tensor.name
    for entry in tensor.external_data:
        yield from (entry.key, entry.value)


def _of_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[object]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, getattr(node, "overload", ""))
        yield from (*node.input, *node.output)
        yield from _of_attributes(node.attribute)


def _of_attributes(attributes: Iterable[onnx.AttributeProto]) -> Iterator[object]:
    for attribute in attributes:
        yield from (attribute.name, attribute.ref_attr_name)
        # looking at a field that is not there would make an empty message: ask first
        if attribute.HasField("t"):
            yield from _of_tensor(attribute.t)
        if attribute.HasField("sparse_tensor"):
            yield from (*_of_tensor(attribute.sparse_tensor.values), *_of_tensor(attribute.sparse_tensor.indices))
        for tensor in attribute.tensors:
            yield from _of_tensor(tensor)
        for graph in graphs_of(attribute):
            yield from _of_graph(graph)
