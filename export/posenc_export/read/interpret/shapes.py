"""Shapes of what nodes make: inferred by the onnx package, one node at a time, without a number of a weight."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, TypeProto, defs, helper, numpy_helper
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError, infer_node_outputs

from posenc_export.read.graph import Node
from posenc_export.read.interpret.budget import Stopped
from posenc_export.read.interpret.state import dtype_of, shape_of, small_numbers
from posenc_export.read.values import Operand, Shape, Value

Kind = tuple[Shape, np.dtype[np.generic]]
"""The shape and the element type of a tensor."""
KNOWN = 4096
"""How many numbers of an input are shown to the inference: shapes are short."""
AXES = ("Concat", "Split", "Gather", "Softmax", "LogSoftmax", "ArgMax", "ArgMin")
"""Operators with an axis of their first input that newer opsets may count from the end."""
CASES, SHORT = 1 << 13, 256
"""How many nodes are known again, and bytes of numbers that such a node has at most."""


@functools.cache
def schema_of(op_type: str, domain: str, version: int) -> defs.OpSchema | None:
    """Return the schema of an operator; None for one that the onnx package does not know."""
    try:
        return defs.get_schema(op_type, version, "" if domain == "ai.onnx" else domain)
    except defs.SchemaError:
        return None


def inferred(node: Node, operands: Sequence[Operand | None], opsets: Mapping[str, int]) -> list[Kind | None]:
    """Return what each output of a node is; None where its shape does not follow; raises Stopped where sizes misfit."""
    version = opsets.get(node.domain, opsets.get("", 1))
    schema = schema_of(node.op_type, node.domain, version)
    if schema is None or any(operand and dtype_of(operand.value) is None for operand in operands):
        return [None] * len(node.outputs)
    kinds = tuple(_kind_of(operand.value) if operand else None for operand in operands)
    numbers = tuple(_numbers(operands))
    case = NamelessNode(
        node.op_type, node.domain, tuple(opsets.items()), attributes_of(node), tuple(map(bool, node.outputs))
    )
    size = sum(len(content) for _, _, content in numbers)
    try:
        return list((_inferred if size <= SHORT else _inferred.__wrapped__)(case, kinds, numbers))
    except InferenceError as error:
        raise Stopped(_line(error), node.name) from None
    except ValidationError:  # types that the specification leaves out, and runtimes may take
        return [None] * len(node.outputs)


@dataclass(frozen=True)
class NamelessNode:
    """A node without its names, of which layers have the same many times.

    Args:
        op_type: its operator.
        domain: the operator's domain.
        opsets: versions of operators, by domain.
        attributes: as the file has them, in bytes.
        outputs: whether each is asked for.
    """

    op_type: str
    domain: str
    opsets: tuple[tuple[str, int], ...]
    attributes: tuple[bytes, ...]
    outputs: tuple[bool, ...]


@functools.lru_cache(maxsize=CASES)
def _inferred(
    case: NamelessNode, kinds: tuple[Kind | None, ...], numbers: tuple[tuple[int, Kind, bytes], ...]
) -> tuple[Kind | None, ...]:
    """Return what the outputs are of a node whose inputs are known by shape, and some by number."""
    schema = schema_of(case.op_type, case.domain, dict(case.opsets).get(case.domain, dict(case.opsets).get("", 1)))
    assert schema is not None  # the caller has looked
    outputs = [f"o{place}" if name else "" for place, name in enumerate(case.outputs)]
    proto = onnx.NodeProto(op_type=case.op_type, domain=case.domain, output=outputs)
    proto.input.extend(f"i{place}" if kind else "" for place, kind in enumerate(kinds))
    proto.attribute.extend(map(onnx.AttributeProto.FromString, case.attributes))
    rank = len(kinds[0][0]) if kinds and kinds[0] else 0
    for attribute in proto.attribute:
        # old opsets count no axis from the end, but old exporters do, and runtimes take it
        if attribute.name == "axis" and attribute.i < 0 and case.op_type in AXES:
            attribute.i += rank
    types = {f"i{place}": _tensor_type(element_type(kind[1]), kind[0]) for place, kind in enumerate(kinds) if kind}
    arrays = ((place, np.frombuffer(content, kind[1]).reshape(kind[0])) for place, kind, content in numbers)
    known = {f"i{place}": numpy_helper.from_array(array) for place, array in arrays}
    imports = [helper.make_opsetid(domain, number) for domain, number in case.opsets]
    types_out = infer_node_outputs(schema, proto, types, known, opset_imports=imports)
    return tuple(_kind(types_out.get(name)) if name else None for name in outputs)


def attributes_of(node: Node) -> tuple[bytes, ...]:
    """Return the attributes of a node as the file has them, in bytes."""
    return tuple(attribute.SerializeToString() for attribute in node.proto.attribute)


@functools.lru_cache(maxsize=4096)
def _tensor_type(element: int, shape: Shape) -> TypeProto:
    return helper.make_tensor_type_proto(element, shape)


@functools.cache
def element_type(dtype: np.dtype[np.generic]) -> int:
    """Return the number that ONNX gives an element type; strings for what NumPy calls objects."""
    return TensorProto.STRING if dtype.kind in "OUS" else int(helper.np_dtype_to_tensor_dtype(dtype))


def _kind_of(value: Value) -> Kind:
    dtype, shape = dtype_of(value), shape_of(value)
    assert dtype is not None
    assert shape is not None
    return shape, dtype


def _numbers(operands: Sequence[Operand | None]) -> Iterator[tuple[int, Kind, bytes]]:
    """Yield the numbers that shapes may follow from, with their places: integers, and scales of sizes."""
    for place, operand in enumerate(operands):
        if operand is None:
            continue
        shape, dtype = _kind_of(operand.value)
        if (dtype.kind not in "iu" and dtype != np.float32) or len(shape) > 1:
            continue
        array = small_numbers(operand.value)
        if array is not None and array.size <= KNOWN:
            yield place, (shape, dtype), array.tobytes()


def _kind(output: TypeProto | None) -> Kind | None:
    """Return an output as a shape and an element type; None unless every size is known."""
    # sequences and optional values have no shape of their own
    if output is None or not output.HasField("tensor_type") or not output.tensor_type.HasField("shape"):
        return None
    dims = output.tensor_type.shape.dim
    if not output.tensor_type.elem_type or not all(dim.HasField("dim_value") for dim in dims):
        return None
    return tuple(dim.dim_value for dim in dims), _dtype(output.tensor_type.elem_type)


@functools.cache
def _dtype(element: int) -> np.dtype[np.generic]:
    return onnx.helper.tensor_dtype_to_np_dtype(element)


def _line(error: Exception) -> str:
    """Return what an error says, in one line."""
    return " ".join(str(error).split())[:300]
