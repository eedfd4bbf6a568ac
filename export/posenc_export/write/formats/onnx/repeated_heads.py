"""Attention whose queries share keys: products with keys as they are, where a module repeats them for every query.

    MatMul(q, Transpose(Reshape(Expand(Unsqueeze(k)))))    Reshape(MatMul(Reshape(q), Transpose(k)))
    MatMul(p, Reshape(Expand(Unsqueeze(v))))               Reshape(MatMul(Reshape(p), v))

Queries that share a head of keys lie side by side in memory: (batch, heads, queries, features) is (batch, key heads,
heads per key head x queries, features), too, so that a Reshape copies nothing. Repeating copies the cache at every
step. Each product is of the same numbers as before, whatever is done to scores in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from posenc_export.write.formats.onnx.forms import put
from posenc_export.write.formats.onnx.lengths import initializer, node

if TYPE_CHECKING:
    import onnx_ir as ir

AXES, REPEATED_AXES = 4, 5
SWAP = (0, 1, 3, 2)
"""What a transposition does to keys before they meet queries."""


@dataclass(frozen=True)
class SharedHeads:
    """Keys, or values, that are repeated.

    Args:
        heads: as they are: (batch, key heads, tokens, features).
        result: repeated: (batch, key heads x groups, tokens, features).
        count: how many key heads there are.
    """

    heads: ir.Value
    result: ir.Value
    count: int


@dataclass(frozen=True)
class Shapes:
    """Shapes of Reshapes, each once in a graph: sizes of a call by their symbols.

    Args:
        graph: the graph.
        made: those that there are, by what they are made of.
    """

    graph: ir.Graph
    made: dict[tuple[int | str, ...], ir.Value] = field(default_factory=dict)

    def of(self, left: ir.Value, heads: int, times: int, last: tuple[ir.Value, int], before: ir.Node) -> ir.Value:
        """Return [batch, heads, tokens x times, size of a value along an axis], computed before a node.

        All four are said: 0 and -1 in their place would be no sizes where nothing is in the batch, or in the cache.

        Args:
            left: what is shaped, (batch, ..., tokens, features).
            heads: how many there are.
            times: how many heads lie in one.
            last: the value, and its axis.
            before: the node.
        """
        assert left.shape is not None
        sizes = (heads, times, size_of(left.shape[0]), size_of(left.shape[2]), _last_size(*last))
        if sizes not in self.made:
            name = f"heads_{heads}_{len(self.made)}"
            batch = node("Shape", f"{name}_batch", left, start=0, end=1)
            nodes = [batch, node("Shape", f"{name}_tokens", left, start=2, end=3)]
            if times > 1:
                factor = initializer(self.graph, f"{name}_times", [times])
                nodes.append(node("Mul", f"{name}_many", nodes[-1].outputs[0], factor))
            many = nodes[-1].outputs[0]
            size = node("Shape", f"{name}_last", last[0], start=last[1], end=last[1] + 1)
            of_heads = initializer(self.graph, f"{name}_of", [heads])
            whole = node("Concat", name, batch.outputs[0], of_heads, many, size.outputs[0], axis=0)
            self.graph.insert_before(before, [*nodes, size, whole])
            self.made[sizes] = whole.outputs[0]
        return self.made[sizes]


def _last_size(value: ir.Value, axis: int) -> int | str:
    assert value.shape is not None
    return size_of(value.shape[axis])


def share_heads(model: ir.Model) -> None:
    """Multiply with keys and values as they are, where a graph repeats them for queries that share them, in place."""
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    shapes = Shapes(model.graph)
    # products in the order of the graph: a shape that one computes is there for those behind it
    places = {id(one): place for place, one in enumerate(model.graph)}
    found = [(product, each) for each in repeated_in(model.graph) for product in _products(each)]
    for product, repeated in sorted(found, key=lambda pair: places[id(pair[0])]):
        _share(shapes, product, repeated)
    if found:
        RemoveUnusedNodesPass()(model)


def repeated_in(graph: ir.Graph) -> Iterator[SharedHeads]:
    """Yield keys and values that are repeated: by Unsqueeze, Expand and Reshape."""
    for reshape in graph:
        expand = maker_of(reshape.inputs[0], "Expand") if reshape.op_type == "Reshape" else None
        unsqueeze = maker_of(expand.inputs[0], "Unsqueeze") if expand is not None else None
        if expand is None or unsqueeze is None:
            continue
        heads, wide, result = unsqueeze.inputs[0], expand.outputs[0], reshape.outputs[0]
        single = unsqueeze.outputs[0]
        if heads is None or None in (shapes := [value.shape for value in (heads, single, wide, result)]):
            continue
        narrow, one, many, joined = ([*map(size_of, shape or ())] for shape in shapes)
        if (len(narrow), len(many), len(joined)) != (AXES, REPEATED_AXES, AXES):
            continue
        count, groups, features = many[1], many[2], many[4]
        if not all(isinstance(size, int) for size in (count, groups, features)):
            continue
        alike = one == [*narrow[:2], 1, *narrow[2:]] and many == [*narrow[:2], groups, *narrow[2:]]
        if alike and joined == [narrow[0], int(count) * int(groups), *narrow[2:]] and int(groups) > 1:
            yield SharedHeads(heads, result, int(count))


def size_of(size: int | ir.SymbolicDim) -> int | str:
    """Return a size, or its symbol, so that two of them can be compared: a size without a symbol equals no other."""
    return size if isinstance(size, int) else size.value or f"unknown {id(size)}"


def maker_of(value: ir.Value | None, op: str) -> ir.Node | None:
    """Return the node that makes a value where it is of an operator."""
    maker = value.producer() if value is not None else None
    return maker if maker is not None and maker.op_type == op else None


def _products(repeated: SharedHeads) -> list[ir.Node]:
    """Return the products that what is repeated goes into; none where anything else takes it, too."""
    products = []
    for use in repeated.result.uses():
        takers = [use]
        if use.node.op_type == "Transpose" and tuple(use.node.attributes["perm"].as_ints()) == SWAP:
            takers = list(use.node.outputs[0].uses())
        for taker in takers:
            others = taker.node.inputs[0]
            if taker.node.op_type != "MatMul" or taker.idx != 1 or others is None or others.shape is None:
                return []
            heads = repeated.result.shape[1] if repeated.result.shape is not None else None
            if len(others.shape) != AXES or others.shape[1] != heads:
                return []
            products.append(taker.node)
    return products


def _share(shapes: Shapes, product: ir.Node, repeated: SharedHeads) -> None:
    """Put a product with what is not repeated in the place of one with what is."""
    left, right, made = product.inputs[0], product.inputs[1], product.outputs[0]
    assert left is not None
    assert left.shape is not None
    name, heads = str(made.name), left.shape[1]
    assert isinstance(heads, int)
    nodes = []
    if right is not repeated.result:
        nodes.append(node("Transpose", f"{name}_keys", repeated.heads, perm=list(SWAP)))
    others = nodes[-1].outputs[0] if nodes else repeated.heads
    groups = heads // repeated.count
    shape = shapes.of(left, repeated.count, groups, (left, 3), product)
    grouped = node("Reshape", f"{name}_grouped", left, shape, allowzero=1)
    shared = node("MatMul", f"{name}_shared", grouped.outputs[0], others)
    # a score a token, or the features of the values
    shape = shapes.of(left, heads, 1, (repeated.heads, 2 if nodes else 3), product)
    nodes += [grouped, shared, node("Reshape", f"{name}_apart", shared.outputs[0], shape, allowzero=1)]
    put(shapes.graph, product, nodes)
