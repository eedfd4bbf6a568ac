"""The operators of an ONNX graph, and the file that names them to a reduced build of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posenc_export.write.formats.onnx.inner_graphs import graphs_of

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

REQUIRED_OPERATORS = "required_operators.config"
"""The file of a bundle that `build.sh --include_ops_by_config` of ONNX Runtime reads."""
ONNX = "ai.onnx"
"""The name of ONNX's own domain, which files write as ""."""
HEAD = "# The operators of model.onnx, for a reduced build of ONNX Runtime: build.sh --include_ops_by_config FILE\n"


@dataclass(frozen=True, order=True)
class Operator:
    """An operator that a graph uses, of a domain at an opset; 0 where the file does not say which."""

    domain: str
    opset: int
    name: str


def operators_of(model: ModelProto) -> list[Operator]:
    """Return the operators of a graph, of its inner graphs and of its functions, in order, each once.

    Calls of the file's own functions, and constants, do not count: both are gone once a graph is loaded.
    """
    own = {(function.domain, function.name) for function in model.functions}
    operators: set[Operator] = set()
    for opsets, nodes in _parts(model):
        calls = (node for node in nodes if (node.domain, node.op_type) not in own and not _is_constant(node))
        operators |= {Operator(_words(n.domain), opsets.get(_words(n.domain), 0), n.op_type) for n in calls}
    return sorted(operators)


def required_operators(model: ModelProto) -> str:
    """Return the operators as ONNX Runtime's builds read them: a line `domain;opset;Op1,Op2` each domain and opset."""
    names: dict[tuple[str, int], list[str]] = {}
    for operator in operators_of(model):
        names.setdefault((operator.domain, operator.opset), []).append(operator.name)
    return HEAD + "".join(f"{domain};{opset};{','.join(ops)}\n" for (domain, opset), ops in names.items())


def _parts(model: ModelProto) -> Iterator[tuple[dict[str, int], list[NodeProto]]]:
    """Yield the nodes of each graph and of each function, with the opsets that they are of, by domain."""
    opsets = {_words(entry.domain): entry.version for entry in model.opset_import}
    yield opsets, [node for graph in graphs_of(model.graph) for node in graph.node]
    for function in model.functions:
        own = {_words(entry.domain): entry.version for entry in function.opset_import}
        # graphs inside a function's nodes belong to it
        inner = (a.g for node in function.node for a in node.attribute if a.HasField("g"))
        nodes = [*function.node, *(node for held in inner for graph in graphs_of(held) for node in graph.node)]
        yield {**opsets, **own}, nodes


def _is_constant(node: NodeProto) -> bool:
    return node.op_type == "Constant" and _words(node.domain) == ONNX


def _words(domain: str) -> str:
    return domain or ONNX
