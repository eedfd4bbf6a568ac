"""GroupQueryAttention in the place of attention behind a cache: Softmax(q k^T + mask) v, and two Concats.

    q, k, v: Transpose(Reshape(x)), or what turns it                        (batch, tokens, heads x features)
    Concat(past keys, k), Concat(past values, v): caches of the file        past and present of the operator
    Softmax(cap Tanh(q k^T scale / cap) + mask) v                           attributes `scale` and `softcap`
    what a mask hides: keys behind a query, keys before a window            the operator itself, `local_window_size`
    padding, and any other number that a mask adds                          `attention_bias`

The operator appends keys behind as many as the mask says, whatever room there is in the buffer of the past.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posenc_export.write.formats.onnx.compatibility import MICROSOFT
from posenc_export.write.formats.onnx.forms import put_value
from posenc_export.write.formats.onnx.fused.masks import Feeds, Hiding, hiding
from posenc_export.write.formats.onnx.fused.rotations import Rotations
from posenc_export.write.formats.onnx.fused.values import (
    HEADS_FIRST,
    features_of,
    in_rows,
    is_swap,
    number_of,
    sizes_of,
    stored,
    without_casts,
)
from posenc_export.write.formats.onnx.lengths import initializer, node
from posenc_export.write.formats.onnx.repeated_heads import maker_of, repeated_in

if TYPE_CHECKING:
    import onnx_ir as ir


OPERATOR = "GroupQueryAttention"
FLOATS = ("FLOAT", "FLOAT16")
"""What the operator computes in on the CPU."""


@dataclass(frozen=True)
class Attentions:
    """What became of the attentions of a graph.

    Args:
        count: how many there are.
        fused: how many of them one operator computes.
        left: why the others stay as they are, each reason with how many.
    """

    count: int
    fused: int
    left: Mapping[str, int]


class Scores(NamedTuple):
    """Products of queries and keys, and what is done to them before the softmax."""

    queries: ir.Value
    keys: ir.Value
    mask: ir.Value | None
    scale: float
    softcap: float
    sinks: ir.Value | None


class Attention(NamedTuple):
    """An attention behind a cache, as plain operators compute it.

    Args:
        softmax: the node between its two products.
        scores: what goes into it.
        keys: the Concat of cached keys and new ones.
        values: that of values.
        attended: what comes out, (batch, heads, tokens, features).
        mask: what is added to its scores, or which keys are seen.
        hides: what that hides.
    """

    softmax: ir.Node
    scores: Scores
    keys: ir.Node
    values: ir.Node
    attended: ir.Value
    mask: ir.Value
    hides: Hiding


class NotFused(Exception):
    """Why an attention stays as it is."""


def fuse_attention(fusing: Fusing) -> Attentions:
    """Write attention behind caches as GroupQueryAttention, and rotations before it as RotaryEmbedding, in place."""
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    graph = fusing.model.graph
    # others choose experts, or classes
    softmaxes = [each for each in graph if each.op_type == "Softmax" and len(each.outputs[0].shape or ()) == 4]
    fused, left = 0, dict[str, int]()
    for softmax in softmaxes:
        try:
            fusing.put(fusing.found(softmax))
            fused += 1
        except NotFused as error:
            left[str(error)] = left.get(str(error), 0) + 1
    if fused:
        graph.opset_imports.setdefault(MICROSOFT, 1)
        RemoveUnusedNodesPass()(fusing.model)
        fusing.count_by_mask()
        RemoveUnusedNodesPass()(fusing.model)
        graph.sort()
    return Attentions(len(softmaxes), fused, left)


@dataclass
class Fusing:
    """A graph whose attentions become operators, with what these share.

    Args:
        model: the graph.
        padding: the input that says which keys are padding, (batch, keys), 0 for these.
        feeds: makes inputs of a call, for the parts of the graph that are evaluated.
        longest: up to which length a window is looked for.
        positions: how many positions the model has; None where nobody says it: then no rows of them are stored.
    """

    model: ir.Model
    padding: ir.Value
    feeds: Feeds
    longest: int
    positions: int | None
    hidden: dict[ir.Value, Hiding | None] = field(default_factory=dict)
    biases: dict[ir.Value, ir.Value] = field(default_factory=dict)
    lengths: tuple[ir.Value, ir.Value] | None = None

    def __post_init__(self) -> None:
        self.graph = self.model.graph
        self.rotations = Rotations(self.model, self.feeds, self.positions)
        self.repeated = {each.result: each.heads for each in repeated_in(self.graph)}

    @property
    def start(self) -> ir.Node:
        """The first node: what is put before it follows from inputs alone."""
        return next(iter(self.graph))

    def found(self, softmax: ir.Node) -> Attention:
        """Return the attention that a softmax belongs to; raise NotFused for one that the operator cannot compute."""
        output = softmax.outputs[0]
        if softmax.attributes["axis"].as_int() not in (-1, 3):
            raise NotFused("it weights something else than keys")
        scores = scores_of(self.graph, softmax)
        keys, product = self._cached(scores.keys), _product_of(output, scores.sinks is not None)
        values = self._cached(product.inputs[1])
        if keys is None or values is None or keys is values:
            raise NotFused("its keys and values do not come behind a cache that is an input")
        attended = product.outputs[0]
        sizes = [sizes_of(each, 4)[3] for each in (keys.outputs[0], values.outputs[0])]
        if sizes[0] != sizes[1] or not isinstance(sizes[0], int):
            raise NotFused("its keys and values have different features")
        if sizes[0] % 8:
            raise NotFused("the features of its heads are no multiple of 8")
        if attended.dtype is None or attended.dtype.name not in FLOATS:
            raise NotFused("the operator computes in float32 or float16")
        if scores.mask is None:
            raise NotFused("no mask hides keys behind a query")
        hides = self._hides(scores.mask)
        if hides is None:
            raise NotFused("its mask lets a query see keys behind it, or cannot be evaluated alone")
        return Attention(softmax, scores, keys, values, attended, scores.mask, hides)

    def _cached(self, value: ir.Value | None) -> ir.Node | None:
        """Return the Concat of an input's and new heads that a value is, for every query or for several."""
        whole = self.repeated.get(value, value) if value is not None else None
        concat = maker_of(whole, "Concat")
        if concat is None or len(concat.inputs) != 2 or concat.inputs[0] not in self.graph.inputs:
            return None
        is_cache = concat.outputs[0] in self.graph.outputs and len(concat.outputs[0].shape or ()) == 4
        return concat if is_cache and concat.attributes["axis"].as_int() in (-2, 2) else None

    def put(self, attention: Attention) -> None:
        """Put the operator in the place of an attention and of what lengthens its caches."""
        import onnx_ir as ir

        before, hides = attention.softmax, attention.hides
        new = [each.inputs[1] for each in (attention.keys, attention.values)]
        past = [each.inputs[0] for each in (attention.keys, attention.values)]
        assert new[0] is not None
        assert new[1] is not None
        queries = self.rotations.turned(before, attention.scores.queries)
        keys = self.rotations.turned(before, new[0])
        values = in_rows(self.graph, before, new[1])
        last, total = self._lengths()
        bias = self._bias(before, attention.mask, hides, attention.attended)
        heads = [features_of(sizes_of(each, 4)[1]) for each in (attention.scores.queries, new[0])]
        attributes: dict[str, int | float] = {"num_heads": heads[0], "kv_num_heads": heads[1]}
        attributes["scale"] = attention.scores.scale
        if attention.scores.softcap:
            attributes["softcap"] = attention.scores.softcap
        if hides.window is not None:
            attributes["local_window_size"] = hides.window
        name = attention.attended.name
        outputs = [ir.Value(name=f"{each}_fused") for each in (name, attention.keys.name, attention.values.name)]
        sinks = None if attention.scores.sinks is None else self._sinks(attention.scores.sinks, attention.attended)
        inputs = [queries, keys, values, *past, last, total, None, None, None, bias, sinks]
        while inputs[-1] is None:
            inputs.pop()
        fused = ir.node(OPERATOR, inputs, attributes, domain=MICROSOFT, outputs=outputs, name=f"{name}_fused")
        self.graph.insert_before(before, [fused])
        outputs[0].type, outputs[0].shape = queries.type, queries.shape
        for concat, present in zip((attention.keys, attention.values), outputs[1:], strict=True):
            put_value(self.graph, concat.outputs[0], present)
        self._give(attention.attended, outputs[0])

    def _give(self, attended: ir.Value, rows: ir.Value) -> None:
        """Use rows of tokens for what is attended, (batch, heads, tokens, features), where these are joined from it."""
        heads = attended
        uses = [use.node for use in heads.uses()]
        if len(uses) == 1 and uses[0].op_type == "Where":  # 0 where a query sees no key: such a query is padding
            heads = uses[0].outputs[0]
        joined, others = _joined(heads, rows)
        for result in joined:
            put_value(self.graph, result, rows)
        if others:
            sizes = [features_of(size) for size in (sizes_of(heads, 4)[1], sizes_of(heads, 4)[3])]
            shape = stored(self.graph, f"heads_of_{sizes[0]}_{sizes[1]}", [0, 0, *sizes])
            apart = node("Reshape", f"{heads.name}_apart", rows, shape)
            swapped = node("Transpose", f"{heads.name}_by_head", apart.outputs[0], perm=list(HEADS_FIRST))
            producer = heads.producer()
            assert producer is not None
            self.graph.insert_after(producer, [apart, swapped])
            put_value(self.graph, heads, swapped.outputs[0])

    def count_by_mask(self) -> None:
        """Have every size of a cache follow from the mask and the ids: its buffer may have room for more tokens."""
        fused = [each for each in self.graph if each.op_type == OPERATOR]
        pasts = {each.inputs[place] for each in fused for place in (3, 4)}
        presents = {each.outputs[place] for each in fused for place in (1, 2)}
        for shape in [each for each in self.graph if each.op_type == "Shape"]:
            cache = shape.inputs[0]
            if cache is not None and cache in pasts | presents:
                put_value(self.graph, shape.outputs[0], self._size(shape, cache, is_past=cache in pasts))

    def _size(self, shape: ir.Node, cache: ir.Value, is_past: bool) -> ir.Value:
        """Return what a Shape of a cache says where its buffer is as long as its tokens are many."""
        bounds = [shape.attributes[name].as_int() if name in shape.attributes else None for name in ("start", "end")]
        wanted = range(4)[slice(*bounds)]
        name, graph = str(shape.outputs[0].name), self.graph
        sizes: list[ir.Value] = []
        nodes: list[ir.Node] = []
        for axis in wanted:
            if axis == 0:
                nodes.append(node("Shape", f"{name}_texts", self.padding, start=0, end=1))
            elif axis == 2:
                nodes.append(node("Shape", f"{name}_keys", self.padding, start=1, end=2))
                if is_past:
                    of_ids = node("Shape", f"{name}_tokens", self.ids, start=1, end=2)
                    nodes += [of_ids, node("Sub", f"{name}_past", nodes[-1].outputs[0], of_ids.outputs[0])]
            else:
                size = features_of(sizes_of(cache, 4)[axis])
                sizes.append(stored(graph, f"size_{size}", [size]))
                continue
            sizes.append(nodes[-1].outputs[0])
        if len(sizes) > 1:
            nodes.append(node("Concat", f"{name}_sizes", *sizes, axis=0))
        graph.insert_before(self.start, nodes)
        return nodes[-1].outputs[0] if nodes else sizes[0]

    @property
    def ids(self) -> ir.Value:
        """An input with a row a text and a column a token: ids, vectors, or positions."""
        inputs = [each for each in self.graph.inputs if each is not self.padding and len(each.shape or ()) in (2, 3)]
        return min(inputs, key=lambda each: len(each.shape or ()))

    def _hides(self, mask: ir.Value) -> Hiding | None:
        if mask not in self.hidden:
            self.hidden[mask] = hiding(self.model, mask, str(self.padding.name), self.feeds, self.longest)
        return self.hidden[mask]

    def _lengths(self) -> tuple[ir.Value, ir.Value]:
        """Return the place of the last key of each text, and how many keys there are, in int32."""
        import onnx_ir as ir

        if self.lengths is None:
            nodes = [
                node("Shape", "keys_and_texts_total", self.padding, start=1, end=2),
                node("Shape", "texts", self.padding, start=0, end=1),
            ]
            whole = node("Cast", "total_sequence_length", nodes[0].outputs[0], to=ir.DataType.INT32)
            one = initializer(self.graph, "one_key", np.array([1], np.int32))
            last = node("Sub", "last_key", whole.outputs[0], one)
            of_texts = node("Expand", "seqlens_k", last.outputs[0], nodes[1].outputs[0])
            self.graph.insert_before(self.start, [*nodes, whole, last, of_texts])
            self.lengths = of_texts.outputs[0], whole.outputs[0]
        return self.lengths

    def _bias(self, before: ir.Node, mask: ir.Value, hides: Hiding, like: ir.Value) -> ir.Value:
        """Return what is added to scores, (batch or 1, heads or 1, tokens, keys): for padding, or a mask's numbers."""
        if hides.plain:
            if self.padding not in self.biases:
                self.biases[self.padding] = self._of_padding(like)
            return self.biases[self.padding]
        if mask not in self.biases:
            self.biases[mask] = self._of_mask(before, mask, like)
        return self.biases[mask]

    def _of_padding(self, like: ir.Value) -> ir.Value:
        """Return 0 for keys, and for padding a number near the lowest, since a softmax of minus infinity is none."""
        import onnx_ir as ir

        assert like.dtype is not None
        dtype = like.dtype.numpy()
        shown, hidden = (stored(self.graph, name, np.array(number, dtype)) for name, number in _numbers(dtype))
        is_key = node("Cast", "is_key", self.padding, to=ir.DataType.BOOL)
        added = node("Where", "padding_hidden", is_key.outputs[0], shown, hidden)
        axes = stored(self.graph, "heads_and_queries", [1, 2])
        wide = node("Unsqueeze", "padding_of_queries", added.outputs[0], axes)
        one = stored(self.graph, "one_head", [1])
        sizes = [
            node("Shape", "texts_of_mask", self.padding, start=0, end=1),
            node("Shape", "queries_of_ids", self.ids, start=1, end=2),
            node("Shape", "keys_of_mask", self.padding, start=1, end=2),
        ]
        shape = node("Concat", "bias_shape", sizes[0].outputs[0], one, *(each.outputs[0] for each in sizes[1:]), axis=0)
        bias = node("Expand", "attention_bias", wide.outputs[0], shape.outputs[0])
        bias.outputs[0].dtype = like.dtype
        self.graph.insert_before(self.start, [is_key, added, wide, *sizes, shape, bias])
        return bias.outputs[0]

    def _sinks(self, sinks: ir.Value, like: ir.Value) -> ir.Value:
        """Return a score a head, (heads,)."""
        assert sinks.const_value is not None
        assert like.dtype is not None
        numbers = sinks.const_value.numpy().reshape(-1).astype(like.dtype.numpy())
        return initializer(self.graph, f"{like.name}_sinks", numbers)

    def _of_mask(self, before: ir.Node, mask: ir.Value, like: ir.Value) -> ir.Value:
        """Return the numbers of a mask, with one near the lowest for minus infinity."""
        import onnx_ir as ir

        assert like.dtype is not None
        dtype = like.dtype.numpy()
        low = stored(self.graph, "key_hidden", np.array(dict(_numbers(dtype))["key_hidden"], dtype))
        name = f"{mask.name}_added"
        if mask.dtype == ir.DataType.BOOL:
            shown = stored(self.graph, "key_shown", np.array(0, dtype))
            made = node("Where", name, mask, shown, low)
        else:
            made = node("Max", name, mask, low)
        made.outputs[0].dtype = like.dtype
        self.graph.insert_before(before, [made])
        return made.outputs[0]


def _joined(heads: ir.Value, rows: ir.Value) -> tuple[list[ir.Value], bool]:
    """Return the rows of tokens that heads are joined to, and whether they are used otherwise, too."""
    joined: list[ir.Value] = []
    for swap in [use.node for use in heads.uses()]:
        if swap.op_type != "Transpose" or not is_swap(swap):
            return [], True
        for join in [use.node for use in swap.outputs[0].uses()]:
            result = join.outputs[0]
            are_rows = result.shape is not None and len(result.shape) == 3 and rows.shape is not None
            if join.op_type != "Reshape" or not are_rows or sizes_of(result, 3)[2] != sizes_of(rows, 3)[2]:
                return [], True
            joined.append(result)
    return joined, False


def _numbers(dtype: np.dtype[Any]) -> list[tuple[str, float]]:
    # half of the lowest: with scores added it still is a number
    return [("key_shown", 0.0), ("key_hidden", float(np.finfo(dtype).min) / 2)]


def scores_of(graph: ir.Graph, softmax: ir.Node) -> Scores:
    """Return what goes into a softmax; raise NotFused where it is more than the operator computes."""
    value, sinks = _without_sinks(softmax)
    hidden = maker_of(value, "Where")
    if hidden is not None:  # Where(hidden, a low number, scores + numbers)
        value = without_casts(hidden.inputs[2])
    mask: ir.Value | None = None
    total = maker_of(value, "Add")
    if total is not None:
        # scores come from a product, whatever is done to them on the way
        sides = [(total.inputs[0], total.inputs[1]), (total.inputs[1], total.inputs[0])]
        value, mask = next(((left, right) for left, right in sides if _chain(left) is not None), (value, None))
    chain = _chain(value)
    if chain is None:
        raise NotFused("its scores are no products of queries and keys, scaled, capped and masked")
    if hidden is not None:
        mask = _hidden_too(graph, softmax, hidden, mask)
    queries, keys, scale, softcap = chain
    return Scores(queries, keys, _of_where(mask), scale, softcap, sinks)


def _without_sinks(softmax: ir.Node) -> tuple[ir.Value | None, ir.Value | None]:
    """Return the scores of keys that go into a softmax, and a score a head beside them, (1, heads, 1, 1), or None.

    Such a sink takes a part of the weights: Softmax(Concat(scores, sinks)), of which a Slice leaves the keys' own.
    """
    value = without_casts(softmax.inputs[0])
    less = maker_of(value, "Sub")
    most = maker_of(less.inputs[1], "ReduceMax") if less is not None else None
    if less is not None and most is not None and most.inputs[0] is less.inputs[0]:
        value = without_casts(less.inputs[0])  # the largest score is taken off: a softmax does so itself
    concat = maker_of(value, "Concat")
    if concat is None:
        return value, None
    expand = maker_of(concat.inputs[1], "Expand") if len(concat.inputs) == 2 else None
    sinks = without_casts(expand.inputs[0]) if expand is not None else None
    if sinks is None or sinks.const_value is None or concat.attributes["axis"].as_int() not in (-1, 3):
        return value, None
    if sinks.const_value.size != sinks.const_value.shape[1] or sizes_of(concat.inputs[1], 4)[3] != 1:
        return value, None
    return without_casts(concat.inputs[0]), sinks


def _hidden_too(graph: ir.Graph, before: ir.Node, hidden: ir.Node, mask: ir.Value | None) -> ir.Value:
    """Return a mask's numbers, and a low one where a Where puts it in the place of scores."""
    condition, low, _ = hidden.inputs
    lowest = number_of(low)
    if condition is None or low is None or lowest is None or lowest > -1e4:
        raise NotFused("its scores are chosen otherwise than by a mask")
    dtype = hidden.outputs[0].dtype
    assert dtype is not None
    shown = mask if mask is not None else stored(graph, "key_shown", np.array(0, dtype.numpy()))
    both = node("Where", f"{hidden.outputs[0].name}_mask", condition, low, shown)
    both.outputs[0].type = hidden.outputs[0].type
    graph.insert_before(before, [both])
    return both.outputs[0]


def _of_where(mask: ir.Value | None) -> ir.Value | None:
    """Return which keys are seen, of a mask that adds 0 where they are, and minus infinity where they are not."""
    where = maker_of(without_casts(mask), "Where")
    if where is None or number_of(where.inputs[1]) != 0 or number_of(where.inputs[2]) != float("-inf"):
        return mask
    return where.inputs[0]


def _chain(value: ir.Value | None) -> tuple[ir.Value, ir.Value, float, float] | None:
    """Return queries, keys, the scale of their products, and the ceiling on these, 0 for none; None for others."""
    scale, softcap = 1.0, 0.0
    value = without_casts(value)
    product = maker_of(value, "Mul")
    tanh = maker_of(without_casts(product.inputs[0]), "Tanh") if product is not None else None
    if product is not None and tanh is not None:
        ceiling = number_of(product.inputs[1])
        inner = without_casts(tanh.inputs[0])
        quotient = maker_of(inner, "Div")
        if ceiling is None or quotient is None or number_of(quotient.inputs[1]) != ceiling:
            return None
        softcap, value = ceiling, without_casts(quotient.inputs[0])
    value, factor = _unscaled(value)
    scale *= factor
    products = maker_of(value, "MatMul")
    if products is None:
        return None
    queries, factor = _unscaled(products.inputs[0])
    transposed, of_keys = _unscaled(products.inputs[1])
    swap = maker_of(transposed, "Transpose")
    if swap is None or tuple(swap.attributes["perm"].as_ints()) != (0, 1, 3, 2):
        return None
    keys, again = _unscaled(swap.inputs[0])
    if queries is None or keys is None or len(queries.shape or ()) != 4:
        return None
    return queries, keys, scale * factor * of_keys * again, softcap


def _unscaled(value: ir.Value | None) -> tuple[ir.Value | None, float]:
    """Return what is multiplied by a number, or divided by one, and by what."""
    for operator in ("Mul", "Div"):
        node_ = maker_of(value, operator)
        if node_ is None:
            continue
        for place in (1, 0) if operator == "Mul" else (1,):
            factor = number_of(node_.inputs[place])
            if factor is not None:
                return node_.inputs[1 - place], factor if operator == "Mul" else 1 / factor
    return value, 1.0


def _product_of(weights: ir.Value, has_sinks: bool) -> ir.Node:
    """Return the product of weights with values; raise NotFused where they are used otherwise."""
    uses = [use.node for use in weights.uses()]
    # the weights of sinks are cut off
    while len(uses) == 1 and (uses[0].op_type in ("Cast", "CastLike") or (has_sinks and uses[0].op_type == "Slice")):
        uses = [use.node for use in uses[0].outputs[0].uses()]
    if len(uses) != 1 or uses[0].op_type != "MatMul":
        raise NotFused("its weights are used otherwise than for one product with values")
    return uses[0]
