"""Small models of transformers with biases on scores, and with rows of distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from helpers.models.text import BERT, MASK, SEQ, VOCAB, Model, code

T5 = {"d_model": 16, "d_kv": 4, "d_ff": 16, "num_layers": 2, "num_heads": 4, "vocab_size": VOCAB}
BLOOM = {"hidden_size": 16, "n_layer": 1, "n_head": 4, "vocab_size": VOCAB}
FALCON = {**BERT, "num_attention_heads": 4, "alibi": True, "new_decoder_architecture": False}
MPT = {"d_model": 12, "n_heads": 6, "n_layers": 1, "vocab_size": VOCAB}
DEBERTA = {
    **BERT,
    "relative_attention": True,
    "position_biased_input": False,
    "position_buckets": 8,
    "max_relative_positions": 20,
}
XLNET = {"d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 16, "vocab_size": VOCAB}
SOUND = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "vocab_size": VOCAB,
    "conv_dim": [8],
    "conv_stride": [2],
    "conv_kernel": [2],
    "num_feat_extract_layers": 1,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "output_hidden_size": 16,
}
PARAKEET = {**SOUND, "num_key_value_heads": 2, "subsampling_conv_channels": 8}
FRAMES = 16
"""Roundings of angles that are computed in float32, of distances below 16."""


def scores(heads: int, seq: int = 6, seq_k: int | None = None) -> Callable[[nn.Module], Tensor]:
    """The bias of a module for queries and keys."""

    def call(module: nn.Module) -> Any:
        q, k = torch.zeros(1, heads, seq, 4), torch.zeros(1, heads, seq_k or seq, 4)
        return module(q, k)

    return call


def t5(model_type: str, part: str, layer: str = "SelfAttention") -> Model:
    def own(model: Any) -> Any:
        attention = getattr(getattr(model, part).block[0].layer[0], layer)
        return attention.compute_bias(6, 6) if layer == "SelfAttention" else local(attention)

    name = f"{part}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    return Model(model_type, own, scores(4), T5, part, key=name if model_type == "umt5" else "")


def local(attention: Any) -> Any:
    """The bias of LongT5's blocks, read back by distance: of block b, query i and key j of three blocks."""
    blocks = attention.compute_bias(6)[0, 0]  # (heads, block, 3 block)
    places = torch.arange(6)
    return blocks[:, 0, 6 + places[None, :] - places[:, None]][None]


def slopes(function: Callable[..., Tensor], heads: int) -> Any:
    """The bias of keys, of two sequences of which one is padded."""
    return function(MASK, heads, torch.float32).reshape(2, heads, 1, SEQ)


def biased(module: nn.Module) -> Any:
    """What a module adds to scores, the same for all queries."""
    return module(torch.zeros(2, 4, SEQ, SEQ), MASK)[:, :, :1]


def bloom(model: Any) -> Any:
    return slopes(model.build_alibi_tensor, 4)


def falcon(model: Any) -> Any:
    return slopes(code("falcon", "build_alibi_tensor"), 4) / 2  # the square root of a head's four features


def mpt(model: Any) -> Any:
    return model.build_mpt_alibi_tensor(6, 8)[None]


def buckets(model: Any) -> Any:
    x = torch.zeros(1, 30, 16)
    return code("deberta-v2", "build_relative_position")(x, x, 8, 20)


def xlnet(model: Any) -> Any:
    return model.relative_positional_encoding(qlen=6, klen=6, bsz=1).transpose(0, 1)


def conformer(model: Any) -> Any:
    return model.encoder.embed_positions(torch.zeros(1, 6, 16))


def frames(module: nn.Module) -> Any:
    """The rows of a module for six frames."""
    return module(torch.zeros(1, 6, 16))


def queries() -> Tensor:
    return torch.randn(1, 2, 30, 8, generator=torch.Generator().manual_seed(0))


def of_pairs(rows: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
    """The scores that a model's rows of every query and key add, (seq, seq_k, head_dim)."""

    def own(model: Any) -> Any:
        return torch.einsum("bhld,lrd->bhlr", queries(), rows(model)) / 8**0.5

    return own


def clipped(model: Any) -> Any:
    attention = model.encoder.layers[0].self_attn
    key, query = torch.arange(30), torch.arange(30)[:, None]
    left, right = attention.left_max_position_embeddings, attention.right_max_position_embeddings
    return attention.distance_embedding((key - query).clamp(-left, right) + left)


def rotary(model: Any) -> Any:
    cos, sin = model.encoder.embed_positions(torch.zeros(1, 30, 16))[:, :, 0, 0]
    q = queries()
    rotated_half = torch.cat([-q[..., 4:], q[..., :4]], -1)
    return q * cos + rotated_half * sin


SCORES = [
    *(t5(name, part) for name in ("t5", "mt5", "umt5") for part in ("encoder", "decoder")),
    t5("longt5", "encoder", "LocalSelfAttention"),
    Model("bloom", bloom, biased, BLOOM),
    Model("falcon", falcon, biased, FALCON),
    Model("mpt", mpt, lambda module: module(torch.zeros(1, 6, 8, 8))[:, :, -1:], MPT),
    Model("deberta-v2", buckets, scores(2, 30), DEBERTA, "relative"),
    Model("xlnet", xlnet, lambda module: module(torch.zeros(1, 6, 16), torch.zeros(1, 6, 16)), XLNET, roundings=FRAMES),
    Model("wav2vec2-conformer", conformer, frames, {**SOUND, "max_source_positions": 30}, roundings=FRAMES),
    Model(
        "wav2vec2-conformer",
        rotary,
        lambda module: module(queries(), queries(), torch.arange(30)[None])[0],
        {**SOUND, "position_embeddings_type": "rotary"},
        roundings=32,
    ),
    Model("wav2vec2-bert", of_pairs(clipped), lambda module: module(queries(), queries()), SOUND, roundings=16),
    Model(
        "parakeet_encoder",
        lambda model: model.encode_positions(torch.zeros(1, 6, 16)),
        frames,
        PARAKEET,
        roundings=FRAMES,
    ),
]
