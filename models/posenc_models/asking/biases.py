"""Biases of distances: T5's buckets, DeBERTa's, and the slopes of ALiBi, at the positions of a call."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np
import torch

from posenc.call import queries_and_keys
from posenc.ports import Array, Feeds
from posenc_models.asking.built import Built, built, put
from posenc_models.asking.intercepting import intercepted
from posenc_models.asking.model import Answer, Call, CannotAsk, Function, OwnModel, Question
from posenc_models.asking.running import added_to_scores, in_order, mask_in, values_of
from posenc_models.config.foreign import HfModule

Square = Callable[[int], Array]
"""Positions 0..n-1 -> (heads, n, n) of queries and keys."""


def model_of(question: Question) -> OwnModel:
    """Return a model's bias of distances."""
    return {"t5_bias": _t5, "deberta_buckets": _deberta, "alibi": _alibi}[question.reading.scheme](question)


def end_of(*positions: Array) -> int:
    """Return the end, exclusive, of positions."""
    return max(int(at.max(initial=0)) for at in positions) + 1


def at_positions(question: Question, square: Square) -> Call:
    """Return the function that answers a call: the bias of its queries and keys, out of that of all positions."""

    def call(feeds: Feeds) -> Answer:
        queries, keys = queries_and_keys(question.inputs, feeds)
        # (heads, n, n)
        whole = square(end_of(queries, keys))
        # (batch, seq, 1) and (batch, 1, seq_k) -> (batch, seq, seq_k) each
        pairs = zip(*np.broadcast_arrays(queries[..., None], keys[:, None, :]), strict=True)
        return added_to_scores(question, np.stack([whole[..., query, key] for query, key in pairs]), feeds)

    return call


def _t5(question: Question) -> OwnModel:
    made = built(question)
    put(made.model, made.table, in_order(question.tables)[0])
    owner = made.table.removesuffix(".relative_attention_bias.weight")
    attention: HfModule = made.model.get_submodule(owner)

    def square(n: int) -> Array:
        if hasattr(attention, "compute_position_bias"):  # MPNet
            return np.asarray(values_of(lambda: attention.compute_position_bias(torch.zeros(1, n, 1)))[0])
        if "block_length" in inspect.signature(attention.compute_bias).parameters:  # LongT5
            blocks = values_of(lambda: attention.compute_bias(n))[0, 0]  # (heads, block, 3 block)
            return np.asarray(blocks[:, :, n : 2 * n])  # the queries' own block is the one in the middle
        return np.asarray(values_of(lambda: attention.compute_bias(n, n))[0])

    words = "compute_position_bias" if hasattr(attention, "compute_position_bias") else "compute_bias"
    return OwnModel(f"{type(attention).__name__}.{words}", made.library, at_positions(question, square))


def _deberta(question: Question) -> OwnModel:
    made = built(question, lambda made: hasattr(getattr(made.model, "encoder", None), "get_rel_pos"))
    model: HfModule = made.model
    encoder = model.encoder

    def square(n: int) -> Array:
        return np.asarray(values_of(lambda: encoder.get_rel_pos(torch.zeros(1, n, 1)))[0])

    return OwnModel(f"{type(encoder).__name__}.get_rel_pos", made.library, at_positions(question, square))


def _alibi(question: Question) -> OwnModel:
    """Return the slopes of BLOOM, MPT and Falcon: of keys from a mask, or of the last keys of the longest sequence."""
    made = built(question)
    words, bias = {"bloom": _bloom, "falcon": _falcon, "mpt": _mpt}[made.part.model_type](made)

    def call(feeds: Feeds) -> Answer:
        q, k = (feeds[port.name] for port in question.inputs[:2]) if "scores" not in feeds else (feeds["scores"],) * 2
        seq, seq_k = q.shape[2], q.shape[3] if "scores" in feeds else k.shape[2]
        mask = mask_in(question, feeds)
        values = bias(np.ones((1, seq_k), np.int64) if mask is None else mask)
        return added_to_scores(question, np.array(np.broadcast_to(values, (*values.shape[:2], seq, seq_k))), feeds)

    return OwnModel(words, made.library, call, note=ROUNDED if made.part.model_type == "falcon" else "")


ROUNDED = "the model rounds the product of a slope and a position to bfloat16, too: it was asked without that rounding"
Slopes = tuple[str, Callable[[Array], Array]]
"""The function that answers, in words; a mask (batch, seq_k) -> (batch, heads, 1, seq_k)."""


def _bloom(made: Built) -> Slopes:
    model: HfModule = made.model
    return "BloomModel.build_alibi_tensor", lambda mask: _of_mask(model.build_alibi_tensor, mask, model.num_heads)


def _falcon(made: Built) -> Slopes:
    """Return Falcon's slopes, divided by the root of a head's features, as its attention does with bias and scores.

    The slopes are rounded to bfloat16; the model rounds their product with a position, too, which is left out here.
    """
    from transformers.models.falcon.modeling_falcon import build_alibi_tensor

    model: HfModule = made.model
    root = np.float32((made.config.hidden_size // model.num_heads) ** 0.5)

    def bias(mask: Array) -> Array:
        with wide_products():
            return np.asarray(_of_mask(build_alibi_tensor, mask, model.num_heads) / root)

    return "build_alibi_tensor", bias


def wide_products() -> AbstractContextManager[object]:
    """Make numbers that are rounded to bfloat16 float32 again: they are rounded, and products with them are not."""

    def widened(function: Function, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        value = function(*args, **kwargs)
        return value.float() if function is torch.Tensor.bfloat16 else value

    return intercepted(widened)


def _of_mask(function: Function, mask: Array, heads: int) -> Array:
    values = values_of(lambda: function(torch.from_numpy(mask), heads, torch.float32))
    return values.reshape(len(mask), heads, 1, -1)  # (batch * heads, 1, seq_k) -> (batch, heads, 1, seq_k)


def _mpt(made: Built) -> Slopes:
    """Return MPT's slopes: its model makes them for its longest sequence, and takes those of the last keys."""
    model: HfModule = made.model

    def bias(mask: Array) -> Array:
        max_length = made.config.max_seq_len
        if mask.shape[1] > max_length:
            raise CannotAsk(f"its longest sequence is {max_length}")
        whole = values_of(lambda: model.build_mpt_alibi_tensor(model.num_heads, max_length))  # (heads, 1, max_length)
        return whole[None, :, :, -mask.shape[1] :]

    return "MptModel.build_mpt_alibi_tensor", bias
