"""Numbers that a module computes with and that its file has nowhere: each is a line of the report.

Whatever rewrites a graph may drop a number, and usual inputs do not show that an epsilon is gone. A number that meets
constants alone may have been folded into others; every other one is in the file, in some type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_export.common.arrays import FLOATS, numpy_dtype

if TYPE_CHECKING:
    import torch
    from torch.fx import Node

Part = Any
"""A graph of onnx_ir."""
ARITHMETIC = frozenset(
    (
        "add",
        "sub",
        "rsub",
        "mul",
        "div",
        "remainder",
        "fmod",
        "addcmul",
        "addcdiv",
        "clamp",
        "clamp_min",
        "clamp_max",
        "threshold",
        "softplus",
        "leaky_relu",
        "elu",
        "celu",
        "hardtanh",
        "masked_fill",
        "where",
        "full_like",
        "full",
        "fill",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "nan_to_num",
        "layer_norm",
        "native_layer_norm",
        "rms_norm",
        "group_norm",
        "native_group_norm",
        "instance_norm",
    )
)
"""Operators whose numbers go into a file as they are; powers become roots, and a batch norm becomes weights."""
NEUTRAL = {"add": 0.0, "sub": 0.0, "rsub": 0.0, "mul": 1.0, "div": 1.0}
"""The number with which an operator does nothing: it may be left out."""
LARGEST = 4096
"""Numbers of the largest tensor that is looked through: larger ones are weights."""


def lost_numbers(program: torch.export.ExportedProgram, model: Part) -> tuple[str, ...]:
    """Return a line for each number of a program that is nowhere in its ONNX graph."""
    wanted = dict(_numbers(program))
    if not wanted:
        return ()
    held = np.unique(np.concatenate([np.zeros(0), *(_floats(array) for array in _arrays(model))]))
    lost = (place for (number, _), place in wanted.items() if not _is_among(number, held))
    return tuple(
        f"{place} is nowhere in the ONNX file: what writes it has left it out, and where numbers are small, or large, "
        "the file may give something else"
        for place in lost
    )


def _numbers(program: torch.export.ExportedProgram) -> Iterator[tuple[tuple[float, str], str]]:
    """Yield each number that meets what comes from inputs, with its operator; and its place in words."""
    given = set(program.graph_signature.user_inputs)
    fixed, read = set(), _read(program)
    for node in program.graph.nodes:
        if node.op == "placeholder":
            if node.name not in given:
                fixed.add(node)
        elif node.op == "get_attr" or all(part in fixed for part in node.all_input_nodes):
            fixed.add(node)
        elif node in read:
            name = getattr(node.target, "__name__", "").partition(".")[0].rstrip("_")
            if name in ARITHMETIC and _is_of_floats(node):
                for number in _given_numbers(node):
                    if number != NEUTRAL.get(name):
                        yield (number, name), f"{number:g} of {name}{_line_of_code(node)}"


def _read(program: torch.export.ExportedProgram) -> set[Node]:
    """Return the nodes that an output depends on."""
    found: set[Node] = set()
    waiting = [node for node in program.graph.nodes if node.op == "output"]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += node.all_input_nodes
    return found


def _is_of_floats(node: Node) -> bool:
    values = [part.meta.get("val") for part in (*node.all_input_nodes, node)]
    return any(getattr(getattr(value, "dtype", None), "is_floating_point", False) for value in values)


def _given_numbers(node: Node) -> Iterator[float]:
    """Yield the floats among the arguments of a node, with an epsilon that is the operator's own."""
    arguments = getattr(getattr(node.target, "_schema", None), "arguments", ())
    for place, argument in enumerate(arguments):
        value = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
        if value is None and argument.name == "eps":
            value = argument.default_value
        if isinstance(value, float):
            yield value


def _line_of_code(node: Node) -> str:
    """Return where a node comes from, as " (model.py, line 12)"."""
    lines = re.findall(r'File "(.+?)", line (\d+)', node.meta.get("stack_trace") or "")
    return f" ({Path(lines[-1][0]).name}, line {lines[-1][1]})" if lines else ""


def _arrays(model: Part) -> Iterator[Part]:
    """Yield every tensor of a graph and of its functions, and every number that an operator has as a setting."""
    import onnx_ir as ir

    graphs = [model.graph, *model.functions.values()]
    values = [value.const_value for value in model.graph.initializers.values()]
    for graph in graphs:
        for node in ir.traversal.RecursiveGraphIterator(graph):
            for attribute in node.attributes.values():
                if attribute.type in (ir.AttributeType.FLOAT, ir.AttributeType.FLOATS):
                    yield np.atleast_1d(np.asarray(attribute.value, np.float64))
                elif attribute.type is ir.AttributeType.TENSOR:
                    values.append(attribute.value)
    for tensor in values:
        if tensor is not None and tensor.size <= LARGEST:
            yield tensor.numpy()


def _floats(array: Part) -> Part:
    """Return numbers as float64: integers, too, which a float may have become."""
    return np.zeros(0) if array.dtype.kind in "bOSU" else array.astype(np.float64).ravel()


def _is_among(number: float, held: Part) -> bool:
    """Tell whether a number, its negative or its inverse is held, in any of the types of a file."""
    forms = [number, -number, *([1 / number] if number else [])]
    with np.errstate(all="ignore"):
        rounded = [float(np.asarray(form, np.float32).astype(numpy_dtype(name))) for form in forms for name in FLOATS]
    return bool(np.isin([*forms, *rounded], held).any())
