"""Names in an ONNX graph that torch.onnx wrote: axes as the ports have them, and no notes of the exporter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from posenc.ports import Port

Part = Any
"""A graph of onnx_ir that is being written."""
UNSEEN = re.compile(r"\bu\d+\b")
"""A size of which torch.export knows a range alone."""


def name_axes(model: Part, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
    """Give the symbolic dims of a graph the names of the ports' axes, in place."""
    import onnx_ir as ir

    names: dict[str, str] = {}
    for value, port in zip(model.graph.inputs, inputs, strict=True):
        for index, axis in port.dynamic.items():
            # s0 -> batch, s1 -> seq
            names.setdefault(str(value.shape[index].value), axis.name)
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, names)) + r")\b") if names else None
    values = [*model.graph.inputs, *(v for node in model.graph.all_nodes() for v in node.outputs)]
    for value in values:
        if value.shape is not None and value.shape.frozen:
            value.shape = ir.Shape(value.shape.dims)  # a copy that can be changed
        for i, dim in enumerate(value.shape or ()):
            if pattern and isinstance(dim, ir.SymbolicDim) and dim.value is not None:
                value.shape[i] = ir.SymbolicDim(pattern.sub(lambda m: names[m.group(0)], str(dim.value)))
    # an axis of a port has its own name, where the exporter has a formula for its size
    values = [*model.graph.inputs, *model.graph.outputs]
    for value, port in zip(values, (*inputs, *outputs), strict=True):
        for index, axis in port.dynamic.items():
            if value.shape is not None and isinstance(value.shape[index], ir.SymbolicDim):
                value.shape[index] = ir.SymbolicDim(axis.name)


def clear_unseen_sizes(model: Part) -> None:
    """Leave out, in place, sizes of inner values that follow from no axis of a port.

    torch.export names such a size u0. A runtime that finds a formula for it, as tract does, takes both for two sizes.
    """
    import onnx_ir as ir

    outputs = {id(value) for value in model.graph.outputs}
    for value in (value for node in model.graph.all_nodes() for value in node.outputs if id(value) not in outputs):
        dims = [ir.SymbolicDim(None) if UNSEEN.search(str(dim)) else dim for dim in value.shape or ()]
        if value.shape is not None and dims != list(value.shape):
            value.shape = ir.Shape(dims)


def keep_constants(model: Part) -> None:
    """Store the constants that torch.onnx uses and has lost: a later one of the same name had taken their place.

    Its optimizer names the ends of a range after what is kept in it, which may be kept in several.
    """
    stored = model.graph.initializers
    given = {id(value) for value in model.graph.inputs}
    for node in model.graph.all_nodes():
        for value in node.inputs:
            if value is None or value.const_value is None or value.producer() is not None or id(value) in given:
                continue
            if stored.get(value.name) is not value:
                names = (f"{value.name}_{number}" for number in range(len(stored) + 1))
                value.name = value.name if value.name not in stored else next(n for n in names if n not in stored)
                model.graph.register_initializer(value)


def free_names(model: Part) -> None:
    """Rename inner values that the exporter gave the name of an input or an output."""
    ports = {id(v): v.name for v in (*model.graph.inputs, *model.graph.outputs)}
    taken = set(ports.values())
    for value in (*(v for node in model.graph.all_nodes() for v in node.outputs), *model.graph.initializers.values()):
        if id(value) not in ports and value.name in taken:
            value.name = f"{value.name}_inner"


def clear_notes(model: Part) -> None:
    """Drop the exporter's stack traces and paths: they differ between machines and tell nothing to a runtime."""
    model.graph.metadata_props.clear()
    for node in model.graph.all_nodes():
        node.metadata_props.clear()
        for value in node.outputs:
            value.metadata_props.clear()
    for value in (*model.graph.inputs, *model.graph.initializers.values()):
        value.metadata_props.clear()
