"""Names of tensors in an ONNX graph and in the graphs inside its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING

from posenc_export.write.formats.onnx.inner_graphs import graphs_of

if TYPE_CHECKING:
    from onnx import GraphProto


def tensor_names(graph: GraphProto) -> set[str]:
    """Return the names of all tensors."""
    names: set[str] = set()
    for part in graphs_of(graph):
        names |= {value.name for value in (*part.input, *part.output, *part.initializer)}
        names |= {name for node in part.node for name in (*node.input, *node.output)}
    return names - {""}


def is_used(graph: GraphProto, name: str) -> bool:
    """Return whether a node reads a tensor, or a graph gives it."""
    return any(
        name in (value.name for value in part.output) or any(name in node.input for node in part.node)
        for part in graphs_of(graph)
    )


def free_name(name: str, taken: set[str]) -> str:
    """Return a name that is not taken, and take it."""
    free = next(text for number in count() if (text := f"{name}_{number}" if number else name) not in taken)
    taken.add(free)
    return free


def rename(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Give tensors other names, all at once: two may exchange theirs."""
    for part in graphs_of(graph):
        for node in part.node:
            for field in (node.input, node.output):
                field[:] = [names.get(name, name) for name in field]
        for value in (*part.input, *part.output, *part.initializer, *part.value_info):
            value.name = names.get(value.name, value.name)
        for sparse in part.sparse_initializer:
            sparse.values.name = names.get(sparse.values.name, sparse.values.name)
        for entry in part.quantization_annotation:
            entry.tensor_name = names.get(entry.tensor_name, entry.tensor_name)
