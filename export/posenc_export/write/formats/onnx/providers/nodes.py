"""The nodes of an ONNX file as lists of kernels know them: operators with the opset of their form, and dtypes.

Dtypes follow from those of inputs by the definitions of operators, without shapes: nothing of an untrusted file runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posenc_export.write.formats.onnx.operators import ONNX
from posenc_export.write.formats.onnx.providers.lists import signatures

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto
    from onnx.defs import OpSchema

UNKNOWN = ""
"""The dtype of a tensor of which nothing is known."""
NAMES = {"float": "float32", "double": "float64"}
FLOATS = frozenset({"float32", "float16", "bfloat16", "float64"})


@dataclass(frozen=True)
class Slot:
    """An input or output of a node.

    Attributes:
        name: its name in the operator's definition.
        type: its type there: a name that several share, or one dtype.
        dtype: of the tensor that is there.
        floats: whether it may hold floats.
    """

    name: str
    type: str
    dtype: str
    floats: bool


@dataclass(frozen=True)
class TypedNode:
    """A node of a file.

    Attributes:
        domain: the operator's domain.
        name: the operator.
        since: the opset of its form; 0 where nothing defines it.
        opset: the opset that the file has of the domain.
        inputs: those that are given.
        outputs: those that are asked for.
    """

    domain: str
    name: str
    since: int
    opset: int
    inputs: tuple[Slot | None, ...]
    outputs: tuple[Slot | None, ...]


def typed_nodes(model: ModelProto) -> list[TypedNode]:
    """Return the nodes of a file, those of graphs inside nodes too; constants are no nodes.

    A call of the file's own function is one node of an operator that nothing defines.
    """
    opsets = {entry.domain or ONNX: entry.version for entry in model.opset_import}
    return list(_nodes(model.graph, opsets, {}))


def _nodes(graph: GraphProto, opsets: Mapping[str, int], outer: Mapping[str, str]) -> Iterator[TypedNode]:
    said = {value.name: _name_of(value.type.tensor_type.elem_type) for value in (*graph.value_info, *graph.output)}
    dtypes = {**outer, **{v.name: _name_of(v.type.tensor_type.elem_type) for v in graph.input}}
    dtypes |= {tensor.name: _name_of(tensor.data_type) for tensor in graph.initializer}
    for node in graph.node:
        made = _typed(node, opsets, dtypes, said)
        found = zip(node.output, made.outputs, strict=False)
        dtypes |= {name: slot.dtype for name, slot in found if slot is not None}
        if (made.domain, made.name) != (ONNX, "Constant"):
            yield made
        for attribute in node.attribute:
            for inside in (attribute.g, *attribute.graphs):
                yield from _nodes(inside, opsets, dtypes)


def _typed(node: NodeProto, opsets: Mapping[str, int], dtypes: Mapping[str, str], said: Mapping[str, str]) -> TypedNode:
    domain = node.domain or ONNX
    opset = opsets.get(domain, 0)
    schema = _schema(domain, node.op_type, opset)
    ins, outs = _formal(schema, domain, node)
    given = zip(node.input, ins, strict=True)
    inputs = tuple(formal.slot(dtypes.get(name, UNKNOWN)) if name else None for name, formal in given)
    bound = {slot.type: slot.dtype for slot in inputs if slot is not None and slot.dtype}
    asked = [(name, formal, _output(node, formal, bound)) for name, formal in zip(node.output, outs, strict=True)]
    outputs = tuple(formal.slot(dtype or said.get(name, UNKNOWN)) if name else None for name, formal, dtype in asked)
    since = int(schema.since_version) if schema is not None else int(domain != ONNX and node.op_type in signatures())
    return TypedNode(domain, node.op_type, since, opset, inputs, outputs)


def _schema(domain: str, name: str, opset: int) -> OpSchema | None:
    import onnx

    try:
        return onnx.defs.get_schema(name, opset, "" if domain == ONNX else domain)
    except (onnx.defs.SchemaError, TypeError, OverflowError):  # the opset of an untrusted file may be any number
        return None


@dataclass(frozen=True)
class Formal:
    """An input or output in the definition of an operator: its name, its type, and which dtypes that allows."""

    name: str
    type: str
    dtypes: frozenset[str] = frozenset()

    def slot(self, dtype: str) -> Slot:
        """Return it with the dtype of the tensor that a node has there."""
        return Slot(self.name, self.type, dtype, not self.dtypes or bool(self.dtypes & FLOATS))


def _formal(schema: OpSchema | None, domain: str, node: NodeProto) -> tuple[list[Formal], list[Formal]]:
    if schema is not None:
        ins, outs = ([_of_schema(formal) for formal in way] for way in (schema.inputs, schema.outputs))
    else:
        known = signatures().get(node.op_type, ((), ())) if domain != ONNX else ((), ())
        ins, outs = ([Formal("", kind) for kind in way] for way in known)
    return _as_many(ins, len(node.input)), _as_many(outs, len(node.output))


def _of_schema(formal: OpSchema.FormalParameter) -> Formal:
    return Formal(formal.name, formal.type_str, frozenset(map(_short, formal.types)))


def _as_many(formal: list[Formal], count: int) -> list[Formal]:
    """Return as many as a node has: the last of an operator may stand for any number."""
    last = formal[-1] if formal else Formal("", UNKNOWN)
    return (formal + [last] * count)[:count]


def _output(node: NodeProto, formal: Formal, bound: Mapping[str, str]) -> str:
    """Return the dtype of an output: that of inputs of its type, the only one that may be there, or an attribute's."""
    if bound.get(formal.type):
        return bound[formal.type]
    if formal.type.startswith("tensor("):
        return _short(formal.type)
    if len(formal.dtypes) == 1:
        return next(iter(formal.dtypes))
    attributes = {attribute.name: attribute for attribute in node.attribute}
    for name in ("to", "dtype"):
        if name in attributes:
            return _name_of(attributes[name].i)
    if "value" in attributes:
        return _name_of(attributes["value"].t.data_type)
    typed = {"value_float": "float32", "value_floats": "float32", "value_int": "int64", "value_ints": "int64"}
    by_value = (dtype for name, dtype in typed.items() if name in attributes)
    # ConstantOfShape and RandomNormal make float32 where they do not say
    return next(
        by_value, "float32" if node.op_type in ("ConstantOfShape", "RandomNormal", "RandomUniform") else UNKNOWN
    )


def _short(kind: str) -> str:
    inside = kind.removeprefix("tensor(").removesuffix(")")
    return NAMES.get(inside, inside)


def _name_of(number: int) -> str:
    from onnx import TensorProto

    if number == TensorProto.UNDEFINED or number not in TensorProto.DataType.values():
        return UNKNOWN
    return _short(TensorProto.DataType.Name(number).lower())
