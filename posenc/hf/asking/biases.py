"""Biases of distances: T5's buckets, DeBERTa's, and the slopes of ALiBi, at the positions of a call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from posenc.call import queries_and_keys
from posenc.hf.asking.built import Built, built, put
from posenc.hf.asking.model import Arguments, CannotAsk, Function, HfModule, Keywords, Model, Question
from posenc.hf.asking.running import array, in_order, mask_in, output_name, run_
from posenc.ports import Array, Feeds

Square = Callable[[int], Array]
"""Positions 0..n-1 -> (heads, n, n) of queries and keys."""


def model_of(question: Question) -> Model:
    """Return a model's bias of distances."""
    return {"t5_bias": _t5, "deberta_buckets": _deberta, "alibi": _alibi}[question.reading.scheme](question)


def at_positions(question: Question, square: Square) -> Callable[[Feeds], dict[str, Array]]:
    """Return what answers a call: of the biases of all positions those of its queries and keys."""

    def call(feeds: Feeds) -> dict[str, Array]:
        queries, keys = queries_and_keys(question.inputs, feeds)
        far = int(max(queries.max(initial=0), keys.max(initial=0))) + 1
        whole = square(far)
        pairs = zip(*np.broadcast_arrays(queries[..., None], keys[:, None, :]), strict=True)
        values = np.stack([whole[..., query, key] for query, key in pairs])
        return {output_name(question): values + feeds["scores"] if "scores" in feeds else values}

    return call


def _t5(question: Question) -> Model:
    made = built(question)
    name = made.holding(made.row.tables[0])[0]
    put(made.model, name, in_order(question.tables)[0])
    attention: HfModule = made.model.get_submodule(name.removesuffix(".relative_attention_bias.weight"))

    def square(n: int) -> Array:
        if takes_block(attention):
            blocks = array(run_(lambda: attention.compute_bias(n)))[0, 0]  # (heads, block, 3 block)
            return np.asarray(blocks[:, :, n : 2 * n])  # the queries' own block is the one in the middle
        return np.asarray(array(run_(lambda: attention.compute_bias(n, n)))[0])

    return Model(f"{type(attention).__name__}.compute_bias", made.library, at_positions(question, square))


def takes_block(attention: HfModule) -> bool:
    """Whether an attention is one of blocks, as LongT5's."""
    import inspect

    return "block_length" in inspect.signature(attention.compute_bias).parameters


def _deberta(question: Question) -> Model:
    made = built(question, lambda made: hasattr(getattr(made.model, "encoder", None), "get_rel_pos"))
    encoder: Any = made.model.encoder

    def square(n: int) -> Array:
        import torch

        return np.asarray(array(run_(lambda: encoder.get_rel_pos(torch.zeros(1, n, 1))))[0])

    return Model(f"{type(encoder).__name__}.get_rel_pos", made.library, at_positions(question, square))


def _alibi(question: Question) -> Model:
    """Return the slopes of BLOOM, MPT and Falcon: of keys from a mask, or of the last keys of a longest sequence."""
    made = built(question)
    ask = {"bloom": _bloom, "falcon": _falcon, "mpt": _mpt}[made.part.model_type]
    words, bias = ask(made)

    def call(feeds: Feeds) -> dict[str, Array]:
        q, k = (feeds[port.name] for port in question.inputs[:2]) if "scores" not in feeds else (feeds["scores"],) * 2
        seq, seq_k = (q.shape[2], q.shape[3]) if "scores" in feeds else (q.shape[2], k.shape[2])
        mask = mask_in(question, feeds)
        values = bias(np.ones((1, seq_k), np.int64) if mask is None else mask)
        values = np.broadcast_to(values, (*values.shape[:2], seq, seq_k))
        return {output_name(question): values + feeds["scores"] if "scores" in feeds else np.array(values)}

    note = ROUNDED if made.part.model_type == "falcon" else ""
    return Model(words, made.library, call, note=note)


ROUNDED = "the model rounds the product of a slope and a position to bfloat16, too: it was asked without that rounding"
Slopes = tuple[str, Callable[[Array], Array]]
"""What answers; a mask (batch, seq_k) -> (batch, heads, 1, seq_k)."""


def _bloom(made: Built) -> Slopes:
    model: HfModule = made.model
    return "BloomModel.build_alibi_tensor", lambda mask: _of_mask(model.build_alibi_tensor, mask, model.num_heads)


def _falcon(made: Built) -> Slopes:
    """Return Falcon's, which its model divides by the root of a head's features, as it does where it adds it.

    Its slopes are rounded to bfloat16, and so would its product with a position be, which here it is not.
    """
    from transformers.models.falcon.modeling_falcon import build_alibi_tensor

    model: HfModule = made.model
    root = np.float32((made.config.hidden_size // model.num_heads) ** 0.5)

    def bias(mask: Array) -> Array:
        with wide_products():
            return np.asarray(_of_mask(build_alibi_tensor, mask, model.num_heads) / root)

    return "build_alibi_tensor", bias


def wide_products() -> AbstractContextManager[object]:
    """Have what is rounded to bfloat16 be float32 again, so that only it is rounded, and no product with it."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):
        def __torch_function__(
            self, function: Function, types: object, args: Arguments = (), kwargs: Keywords = None
        ) -> object:
            value = function(*args, **(kwargs or {}))
            return value.float() if function is torch.Tensor.bfloat16 and isinstance(value, torch.Tensor) else value

    return Mode()


def _of_mask(function: Function, mask: Array, heads: int) -> Array:
    import torch

    values = array(run_(lambda: function(torch.from_numpy(mask), heads, torch.float32)))
    return values.reshape(len(mask), heads, 1, -1)


def _mpt(made: Built) -> Slopes:
    """Return MPT's, whose model makes it for its longest sequence, and takes that of the last keys."""
    model: HfModule = made.model

    def bias(mask: Array) -> Array:
        if mask.shape[1] > made.config.max_seq_len:
            raise CannotAsk(f"its longest sequence is {made.config.max_seq_len}")
        whole = array(run_(lambda: model.build_mpt_alibi_tensor(model.num_heads, made.config.max_seq_len)))
        return whole[None, :, :, -mask.shape[1] :]

    return "MptModel.build_mpt_alibi_tensor", bias
