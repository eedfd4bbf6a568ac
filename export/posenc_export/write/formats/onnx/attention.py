"""Attention with any number of axes: batch, heads, tokens and features are four, as torch.onnx has them.

A missing axis gets size 1 while the operator runs; with more than four axes, the first ones are joined. A query whose
keys are all masked, as those of padding, gives 0 as in PyTorch; torch.onnx gives a mean of values, or NaN.

Keys meet queries by one Transpose and one product, which ONNX Runtime joins. torch.onnx transposes by way of three
axes, with shapes that are computed in each layer, and scales all keys of the cache beside the queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from posenc_export.write.formats import AttentionOp

if TYPE_CHECKING:
    import torch

Part = Any
"""A value of a graph that is being written."""
AXES = 4


def count_of(program: torch.export.ExportedProgram) -> int:
    """Return how many attentions of a program torch.export keeps as one operator."""
    import torch

    attention = torch.ops.aten.scaled_dot_product_attention.default
    return sum(node.target is attention for node in program.graph.nodes)


def _operators() -> Part:
    from onnxscript import opset18

    return opset18


def translations(op: AttentionOp = "decomposed") -> dict[Callable[..., object], Callable[..., object]]:
    """Return how attention is written: with four axes, or by way of four; 0 for a query without a key.

    Args:
        op: plain operators, or Attention of ai.onnx.
    """
    import torch

    of_four: Callable[..., Part] = {"onnx": by_operator}.get(op, by_products)

    def attention(query: Part, key: Part, value: Part, attn_mask: Part = None, *more: Part, **named: Part) -> Part:
        attended = of_any(query, key, value, attn_mask, *more, **named)
        return attended if attn_mask is None else _seen_alone(attended, attn_mask)

    def of_any(query: Part, key: Part, value: Part, attn_mask: Part, *more: Part, **named: Part) -> Part:
        tensors = (query, key, value)
        if not _alike(tensors) or len(query.shape) == AXES:
            return of_four(query, key, value, attn_mask, *more, **named)
        if len(query.shape) < AXES:
            return _without(of_four(*map(_with_first_axes, tensors), attn_mask, *more, **named), len(query.shape))
        mask = attn_mask if attn_mask is None else _joined(_expanded(attn_mask, query, key))
        return _apart(of_four(*map(_joined, tensors), mask, *more, **named), query, value)

    return {torch.ops.aten.scaled_dot_product_attention.default: attention}


def by_products(
    query: Part,
    key: Part,
    value: Part,
    mask: Part = None,
    *more: Part,
    scale: float | None = None,
    enable_gqa: bool = False,
    **named: Part,
) -> Part:
    """Write attention with four axes; with dropout, causal or over an unknown number of heads torch.onnx does."""
    import onnx_ir as ir
    from onnxscript.function_libs.torch_lib.ops.nn import aten_scaled_dot_product_attention

    op, features = _operators(), query.shape[-1]
    if enable_gqa:
        if all(len(x.shape) == AXES and isinstance(x.shape[1], int) for x in (query, key, value)):
            # `share_heads` takes the repetition out again
            key, value = (_repeated(x, query.shape[1]) for x in (key, value))
        else:
            named["enable_gqa"] = True
    if not _is_plain(query, key, value, *more, **named):
        return aten_scaled_dot_product_attention(query, key, value, mask, *more, scale=scale, **named)
    factor = op.CastLike(op.Constant(value_float=features**-0.5 if scale is None else scale), query)
    sizes = [*key.shape]
    keys = _of(op.Transpose(key, perm=[0, 1, 3, 2]), key, [*sizes[:2], sizes[3], sizes[2]])
    scores = _of(op.MatMul(op.Mul(query, factor), keys), query, [*query.shape[:-1], sizes[2]])
    if mask is not None:
        added = mask
        if mask.dtype == ir.DataType.BOOL:
            nothing, hidden = (op.CastLike(op.Constant(value_float=number), query) for number in (0.0, float("-inf")))
            added = op.Where(mask, nothing, hidden)
        scores = _of(op.Add(scores, added), query, scores.shape)
    weights = _of(op.Softmax(scores, axis=-1), query, scores.shape)
    return op.MatMul(weights, value)


def _repeated(x: Part, heads: int) -> Part:
    """Repeat heads for all queries: (batch, key heads, tokens, features) -> (batch, heads, tokens, features)."""
    op = _operators()
    batch, count, tokens, features = x.shape
    if count == heads:
        return x
    single = _of(op.Unsqueeze(x, _integers([2])), x, [batch, count, 1, tokens, features])
    shape = op.Concat(op.Shape(x, end=2), _integers([heads // count]), op.Shape(x, start=2), axis=0)
    wide = _of(op.Expand(single, shape), x, [batch, count, heads // count, tokens, features])
    whole = op.Concat(op.Shape(x, end=1), _integers([heads]), op.Shape(x, start=2), axis=0)
    return _of(op.Reshape(wide, whole), x, [batch, heads, tokens, features])


def by_operator(  # noqa: PLR0917 - as torch has it
    query: Part,
    key: Part,
    value: Part,
    mask: Part = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Part:
    """Write attention with four axes as one operator, in which `attention_operator` finds shared heads and caches."""
    from onnxscript import opset23
    from onnxscript.function_libs.torch_lib.ops.nn import aten_scaled_dot_product_attention

    if dropout_p or not _is_plain(query, key, value):
        options = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
        return aten_scaled_dot_product_attention(query, key, value, mask, **options)
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    if is_causal:
        mask = _causal(query, key)
    elif mask is not None and mask.shape[-1] == 1:
        mask = _expanded(mask, query, key)  # the operator repeats a mask for heads and batch, and not for keys
    heads: dict[str, int] = {}
    if enable_gqa and all(isinstance(x.shape[1], int) for x in (query, key)):
        heads = {"q_num_heads": query.shape[1], "kv_num_heads": key.shape[1]}
    y, *_ = opset23.Attention(query, key, value, *([] if mask is None else [mask]), scale=factor, **heads)
    return y


def _causal(query: Part, key: Part) -> Part:
    """Return the mask of torch's is_causal: True for keys up to the place of the query, (queries, keys)."""
    op = _operators()
    one, zero = (op.Constant(value_int=number) for number in (1, 0))
    places = [op.Range(zero, op.Squeeze(op.Shape(x, start=AXES - 2, end=AXES - 1)), one) for x in (query, key)]
    return op.LessOrEqual(places[1], op.Unsqueeze(places[0], _integers([1])))


def _is_plain(query: Part, key: Part, value: Part, *more: Part, **named: Part) -> bool:
    """Return whether attention has four axes of known features, and neither dropout, a causal mask nor shared heads."""
    others = any(more) or any(named.values())
    return not others and isinstance(query.shape[-1], int) and all(len(x.shape) == AXES for x in (query, key, value))


def _seen_alone(attended: Part, mask: Part) -> Part:
    """Put 0 where a query has no key: mask (..., queries, keys), attended (..., queries, features)."""
    import onnx_ir as ir

    op = _operators()
    keys = _integers([-1])
    if mask.dtype == ir.DataType.BOOL:
        # True where any key is seen; ReduceMax of booleans needs a newer opset
        seen = op.Cast(op.ReduceMax(op.Cast(mask, to=ir.DataType.INT32), keys), to=ir.DataType.BOOL)
    else:
        seen = op.Greater(op.ReduceMax(mask, keys), op.CastLike(op.Constant(value_float=float("-inf")), mask))
    return op.Where(seen, attended, op.CastLike(op.Constant(value_float=0.0), attended))


def _alike(tensors: Sequence[Part]) -> bool:
    """Return whether the axes that are joined have the same sizes in all tensors: otherwise one would be repeated."""
    joined = {tuple(map(str, x.shape[: 1 - AXES])) for x in tensors}
    return len(joined) == 1 == len({len(x.shape) for x in tensors})


def _with_first_axes(x: Part) -> Part:
    """Add axes in front: (..., tokens, features) -> (1, ..., tokens, features), four of them."""
    op = _operators()
    missing = AXES - len(x.shape)
    return _of(op.Unsqueeze(x, _integers(range(missing))), x, [1] * missing + list(x.shape))


def _without(x: Part, rank: int) -> Part:
    """Remove those axes: (1, ..., tokens, features) -> (..., tokens, features)."""
    op = _operators()
    return op.Squeeze(x, _integers(range(AXES - rank)))


def _joined(x: Part) -> Part:
    """Join the first axes: (a, b, ..., heads, tokens, features) -> (a b ..., heads, tokens, features)."""
    op = _operators()
    # -1 stands for the product of the first axes
    shape = op.Concat(_integers([-1]), op.Shape(x, start=1 - AXES), axis=0)
    return _of(op.Reshape(x, shape), x, [None, *x.shape[1 - AXES :]])


def _expanded(mask: Part, query: Part, key: Part) -> Part:
    """Repeat a mask for every head and batch: -> (..., queries, keys)."""
    op = _operators()
    shape = op.Concat(op.Shape(query, end=-1), op.Shape(key, start=-2, end=-1), axis=0)
    return _of(op.Expand(mask, shape), mask, [*query.shape[:-1], key.shape[-2]])


def _apart(x: Part, query: Part, value: Part) -> Part:
    """Split the axes that were joined: (a b ..., heads, queries, dim) -> (a, b, ..., heads, queries, dim)."""
    op = _operators()
    return op.Reshape(x, op.Concat(op.Shape(query, end=-1), op.Shape(value, start=-1), axis=0))


def _integers(values: Iterable[int]) -> Part:
    return _operators().Constant(value_ints=list(values))


def _of(x: Part, like: Part, sizes: Sequence[Any]) -> Part:
    """Set shape and dtype of a new value: torch.onnx infers nothing before a function has been written."""
    import onnx_ir as ir

    x.shape, x.dtype = ir.Shape(sizes), like.dtype
    return x
