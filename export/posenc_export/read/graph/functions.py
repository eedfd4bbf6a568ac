"""Functions of a model, put in the place of the nodes that call them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx

from posenc_export.read.graph.attributes import graphs, graphs_of

DEEPEST = 64
"""Functions that may be inside each other: exporters nest as deep as modules, below 20."""
LARGEST = 200_000
"""Nodes that a graph may have with all functions in their places."""

Key = tuple[str, str, str]
Nodes = Iterable[onnx.NodeProto]


@dataclass(frozen=True)
class NamedNode:
    """A node with the name that reports give it."""

    name: str
    proto: onnx.NodeProto


def own_domain(domain: str) -> str:
    """Return a domain, with "" for both spellings of ONNX's own."""
    return "" if domain == "ai.onnx" else domain


def expanded(model: onnx.ModelProto) -> list[NamedNode]:
    """Return the nodes of a model's graph with all calls of its functions replaced by what they do."""
    functions = _functions(model)
    if not functions:
        return [NamedNode(_name(node, place), node) for place, node in enumerate(model.graph.node)]
    return list(Inliner(functions, _all_names(model.graph)).nodes(model.graph.node, ""))


def check_count(model: onnx.ModelProto) -> None:
    """Raise ValueError where a model has too many nodes or tensors, or functions that call each other in a loop."""
    if len(model.graph.initializer) > LARGEST:
        raise ValueError(f"stores {len(model.graph.initializer)} tensors, above the limit of {LARGEST}")
    _check_size(_functions(model), model.graph.node)


def _functions(model: onnx.ModelProto) -> dict[Key, onnx.FunctionProto]:
    return {(own_domain(f.domain), f.name, getattr(f, "overload", "")): f for f in model.functions}


def _name(node: onnx.NodeProto, place: int) -> str:
    return node.name or f"{node.op_type}#{place}"


def _key(node: onnx.NodeProto) -> Key:
    return own_domain(node.domain), node.op_type, getattr(node, "overload", "")


def _all_names(graph: onnx.GraphProto) -> set[str]:
    return {name for node in graph.node for name in (*node.input, *node.output)}


def _check_size(functions: Mapping[Key, onnx.FunctionProto], nodes: Nodes) -> None:
    sizes: dict[Key, int] = {}

    def size(nodes: Nodes, path: tuple[Key, ...]) -> int:
        total = 0
        for node in nodes:
            key = _key(node)
            total += call(key, path) if key in functions else 1
            total += sum(size(graph.node, path) for graph in graphs(node))
        return total

    def call(key: Key, path: tuple[Key, ...]) -> int:
        if key in path:
            names = " -> ".join(name for _, name, _ in (*path[path.index(key) :], key))
            raise ValueError(f"has functions that call each other in a loop: {names}; no runtime can run it")
        if len(path) == DEEPEST:
            raise ValueError(f"has functions inside functions, more than {DEEPEST} deep: the file is damaged")
        # counted once for each function, so that functions that double each other take no time
        if key not in sizes:
            sizes[key] = size(functions[key].node, (*path, key))
        return sizes[key]

    total = size(nodes, ())
    if total > LARGEST:
        raise ValueError(f"has {total} nodes with its functions in place, above the limit of {LARGEST}")


@dataclass
class Inliner:
    """What puts functions in the place of their calls.

    Args:
        functions: by domain, name and overload.
        taken: names of tensors that are in use.
    """

    functions: Mapping[Key, onnx.FunctionProto]
    taken: set[str] = field(default_factory=set)

    def nodes(self, nodes: Nodes, prefix: str) -> Iterator[NamedNode]:
        """Yield nodes, and for calls the nodes of the function, all with names that begin with a prefix."""
        for place, node in enumerate(nodes):
            name = prefix + _name(node, place)
            if _key(node) in self.functions:
                yield from self.nodes(self._body(self.functions[_key(node)], node, name), f"{name}/")
            else:
                yield NamedNode(name, self._inside(node))

    def _inside(self, node: onnx.NodeProto) -> onnx.NodeProto:
        if not graphs(node):
            return node
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for graph in graphs(copy):
            nodes = [_renamed(node.proto, node.name) for node in self.nodes(graph.node, "")]
            del graph.node[:]
            graph.node.extend(nodes)
        return copy

    def _body(self, function: onnx.FunctionProto, call: onnx.NodeProto, name: str) -> list[onnx.NodeProto]:
        # inputs at the end may be left out
        inputs = [*call.input, *[""] * (len(function.input) - len(call.input))]
        names = dict(zip(function.input, inputs, strict=False))
        ends = []
        for inner, outer in zip(function.output, call.output, strict=False):
            if inner in names:
                # an input, or an output that is listed twice, has a name already
                ends.append(onnx.NodeProto(op_type="Identity", input=[names[inner]], output=[outer]))
            elif outer:
                names[inner] = outer
        copy = Copy(names, {a.name: a for a in (*function.attribute_proto, *call.attribute)}, name, self.taken)
        return [*copy.nodes(function.node), *ends]


@dataclass
class Copy:
    """A copy of a function's body for one call.

    Args:
        names: of tensors inside, what they are called outside.
        attributes: that the call gives, and defaults of the others.
        prefix: what names of tensors that stay inside begin with.
        taken: names of tensors that are in use.
    """

    names: dict[str, str]
    attributes: Mapping[str, onnx.AttributeProto]
    prefix: str
    taken: set[str]

    def nodes(self, nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
        """Return copies of nodes, with names of tensors as they are outside, and values for attributes."""
        self._name(name for node in nodes for name in node.output)
        return [self._node(node) for node in nodes]

    def _name(self, names: Iterable[str]) -> None:
        for name in names:
            if name and name not in self.names:
                unique, number = f"{self.prefix}/{name}", 1
                while unique in self.taken:
                    unique, number = f"{self.prefix}/{name}#{number}", number + 1
                self.taken.add(unique)
                self.names[name] = unique

    def _node(self, node: onnx.NodeProto) -> onnx.NodeProto:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for names in (copy.input, copy.output):
            names[:] = [self.names.get(name, name) for name in names]
        attributes = [value for attribute in copy.attribute if (value := self._value(attribute)) is not None]
        del copy.attribute[:]
        copy.attribute.extend(attributes)
        return copy

    def _value(self, attribute: onnx.AttributeProto) -> onnx.AttributeProto | None:
        value = onnx.AttributeProto()
        if attribute.ref_attr_name:
            if attribute.ref_attr_name not in self.attributes:
                return None
            value.CopyFrom(self.attributes[attribute.ref_attr_name])
            value.name = attribute.name
            return value
        value.CopyFrom(attribute)
        for graph in graphs_of(value):
            self._graph(graph)
        return value

    def _graph(self, graph: onnx.GraphProto) -> None:
        # names inside a graph shadow those around it
        sparse = [tensor.values for tensor in graph.sparse_initializer]
        bound = [*graph.input, *graph.initializer, *sparse]
        outside = dict(self.names)
        for name in [*(item.name for item in bound), *(name for node in graph.node for name in node.output)]:
            self.names.pop(name, None)
        self._name(item.name for item in bound)
        nodes = self.nodes(graph.node)
        for item in (*bound, *graph.output):
            item.name = self.names.get(item.name, item.name)
        del graph.node[:]
        graph.node.extend(nodes)
        self.names = outside


def _renamed(node: onnx.NodeProto, name: str) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.name = name
    return copy
