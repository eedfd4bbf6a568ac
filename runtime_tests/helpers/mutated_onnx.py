"""ONNX files with something changed at random: bytes, or nodes, sizes and attributes of a file that still parses."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

Random = np.random.Generator
EXTREME = (-(2**63), -(2**31), -7, -1, 0, 1, 2, 3, 7, 65, 2**20, 2**31, 2**60, 2**63 - 1)


def mutated(content: bytes, random: Random) -> bytes:
    """Return a file with changes: of bytes in a third of the cases."""
    if random.random() < 1 / 3:
        return in_bytes(content, random)
    model = onnx.load_from_string(content)
    for _ in range(random.integers(1, 4)):
        CHANGES[random.integers(len(CHANGES))](model.graph, random)
    return bytes(model.SerializeToString())


def in_bytes(content: bytes, random: Random) -> bytes:
    """Return a file that is cut, or has some other bytes, mostly at its beginning, where nodes are."""
    if random.random() < 0.2:
        return content[: random.integers(len(content))]
    damaged = np.frombuffer(content, np.uint8).copy()
    end = len(damaged) if random.random() < 0.5 else min(len(damaged), 20_000)
    places = random.integers(0, end, random.integers(1, 9))
    damaged[places] = random.integers(0, 256, places.size)
    return damaged.tobytes()


def _one(items: Sequence[Any], random: Random) -> Any:
    return items[int(random.integers(len(items)))] if len(items) else None


def _number(random: Random) -> int:
    return int(EXTREME[random.integers(len(EXTREME))])


def _attribute(graph: onnx.GraphProto, random: Random) -> None:
    node = _one([node for node in graph.node if node.attribute], random)
    attribute = _one(node.attribute, random) if node else None
    if attribute is None:
        return
    if attribute.ints and random.random() < 0.8:
        attribute.ints[int(random.integers(len(attribute.ints)))] = _number(random)
    elif random.random() < 0.8:
        attribute.i = _number(random)
    else:
        attribute.type = int(random.integers(0, 15))


def _dropped(graph: onnx.GraphProto, random: Random) -> None:
    node = _one(graph.node, random)
    if node is not None and node.attribute:
        del node.attribute[int(random.integers(len(node.attribute)))]


def _rewired(graph: onnx.GraphProto, random: Random) -> None:
    node, other = _one(graph.node, random), _one(graph.node, random)
    names = [*other.output, *(item.name for item in graph.initializer), ""] if other else [""]
    if node is not None and node.input:
        name = names[int(random.integers(len(names)))]
        node.input[int(random.integers(len(node.input)))] = name


def _operator(graph: onnx.GraphProto, random: Random) -> None:
    node, other = _one(graph.node, random), _one(graph.node, random)
    if node is not None and other is not None:
        node.op_type, node.domain = other.op_type, other.domain


def _inputs(graph: onnx.GraphProto, random: Random) -> None:
    node = _one(graph.node, random)
    if node is None or not node.input:
        return
    if random.random() < 0.5:
        del node.input[-1]
    else:
        node.input.append(node.input[0])


def _sizes(graph: onnx.GraphProto, random: Random) -> None:
    item = _one(graph.input, random)
    dim = _one(item.type.tensor_type.shape.dim, random) if item else None
    if dim is not None:
        dim.dim_value = _number(random)


def _tensor(graph: onnx.GraphProto, random: Random) -> None:
    tensor = _one(graph.initializer, random)
    if tensor is None:
        return
    if tensor.dims and random.random() < 0.4:
        tensor.dims[int(random.integers(len(tensor.dims)))] = _number(random)
    elif random.random() < 0.4:
        tensor.data_type = int(random.integers(0, 26))
    else:
        raw = np.frombuffer(tensor.raw_data, np.uint8).copy()
        if raw.size:
            raw[int(random.integers(raw.size))] = int(random.integers(256))
            tensor.raw_data = raw.tobytes()


def _integers(graph: onnx.GraphProto, random: Random) -> None:
    """Change a number that sizes, axes or indices may follow from."""
    short = [item for item in graph.initializer if item.data_type == TensorProto.INT64 and 0 < len(item.raw_data) <= 64]
    short += [a.t for node in graph.node for a in node.attribute if a.t.data_type == TensorProto.INT64 and a.t.raw_data]
    tensor = _one(short, random)
    if tensor is not None:
        numbers = np.frombuffer(tensor.raw_data, np.int64).copy()
        numbers[int(random.integers(numbers.size))] = _number(random)
        tensor.raw_data = numbers.tobytes()


CHANGES: tuple[Callable[[onnx.GraphProto, Random], None], ...] = (
    _attribute, _dropped, _rewired, _operator, _inputs, _sizes, _tensor, _integers, _integers,
)  # fmt: skip
