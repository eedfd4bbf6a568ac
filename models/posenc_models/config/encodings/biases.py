"""Model types of text with biases on attention scores."""

from collections.abc import Mapping
from dataclasses import replace

from posenc_models.config.encodings.rows import LENGTH, If, Row, alike, hidden
from posenc_models.config.encodings.tables import BERT, table
from posenc_models.config.keys import Key, Made, quotient

T5 = "{}.block.*.layer.0.SelfAttention.relative_attention_bias.weight"
LOCAL = "encoder.block.*.layer.0.{}.relative_attention_bias.weight"
ROUNDED_PRODUCTS = (
    "Falcon rounds slope x position to bfloat16, which is not written: its bias is off from this one by up to 2^-7 "
    "of itself, with 71 heads by 7.8 / sqrt(head_dim) before position 2048"
)
LONG = "|".join(LOCAL.format(name) for name in ("LocalSelfAttention", "TransientGlobalSelfAttention"))

RELATIVE = If(Key("relative_attention", False), (True,))
NO_BUCKETS = "its distances are in no buckets"


def _t5(heads: int, encoder: str = T5.format("encoder")) -> tuple[Row, Row]:
    """Return T5's buckets: the encoder's on either side of a query, the decoder's before it (T5Attention)."""
    parameters = {
        "heads": Key("num_heads", heads),
        "num_buckets": Key("relative_attention_num_buckets", 32),
        "max_distance": Key("relative_attention_max_distance", 128),
    }
    return (
        Row("t5_bias", {**parameters, "bidirectional": True}, "encoder", tables=(encoder,)),
        Row("t5_bias", {**parameters, "bidirectional": False}, "decoder", tables=(T5.format("decoder"),)),
    )


def _pix2struct() -> Row:
    """Return the buckets of Pix2Struct's text, which is a decoder (Pix2StructTextAttention)."""
    row = replace(_t5(12)[1], part="")
    return replace(row, tables=("layer.*.self_attention.attention.relative_attention_bias.weight",))


def _falcon() -> Row:
    """Return Falcon's slopes, which are rounded, and added to scores before those are scaled."""
    heads = Key("num_attention_heads", 71, ("n_head",))
    # FalconAttention: (scores + alibi) * inv_norm_factor
    scale = Made("1 / sqrt({})", lambda dim: dim**-0.5, (quotient(hidden(4544), heads),))
    parameters = {"heads": heads, "form": "key", "scale": scale, "bfloat16_slopes": True}
    when = (If(Key("alibi", False), (True,)),)
    return Row("alibi", parameters, when=when, positions="mask", differs=ROUNDED_PRODUCTS)


def _mpt() -> tuple[Row, Row]:
    """Return MPT's slopes, whose largest bias is 8: build_mpt_alibi_tensor is never given the config's key."""
    alibi, largest = If(Key("attn_config.alibi", True), (True,)), Key("attn_config.alibi_bias_max", 8)
    eight = Made("{} is 8", lambda bias_max: bias_max == 8, (largest,))
    parameters = {"heads": Key("n_heads", 16), "form": "last_key", "bias_max": Made("{}", float, (largest,))}
    lacks = "attn_config.alibi_bias_max is not 8, which transformers takes"
    return (
        Row("alibi", parameters, when=(alibi, If(eight, (True,)))),
        Row("", when=(alibi, If(eight, (False,))), lacks=lacks),
    )


def _deberta(width: int) -> tuple[Row, ...]:
    """Return DeBERTa V2's learned table and buckets of distances; a config may leave out either."""
    max_positions = Key(LENGTH, 512)
    own = Key("max_relative_positions", -1, least=-1)
    # DebertaV2Encoder: if self.max_relative_positions < 1, it is max_position_embeddings
    max_distance = Made("{} or {}", lambda distance, length: distance if distance > 0 else length, (own, max_positions))
    buckets = Key("position_buckets", -1, least=-1)
    absolute = If(Key("position_biased_input", True), (True,))
    has_buckets = Made("{} > 0", lambda count: count > 0, (buckets,))
    parameters = {"num_buckets": buckets, "max_distance": max_distance}
    return (
        table(hidden(width), max_positions, BERT, part="absolute", when=(absolute,)),
        Row("deberta_buckets", parameters, "relative", (RELATIVE, If(has_buckets, (True,)))),
        Row("", part="relative", when=(RELATIVE, If(has_buckets, (False,))), lacks=NO_BUCKETS),
    )


BIASES: Mapping[str, tuple[Row, ...]] = {
    "t5": _t5(8),
    **alike("mt5 umt5", *_t5(6)),  # UMT5 has a table in each layer
    "longt5": _t5(8, LONG),  # local blocks, or local blocks and transient global tokens
    "switch_transformers": _t5(12),  # T5, with experts
    "pix2struct_text_model": (_pix2struct(),),
    "pop2piano": _t5(8),  # T5, of sound
    "deberta-v2": _deberta(1536),
    # its first version has a bias for each distance, without buckets
    "deberta": (_deberta(768)[0], Row("", part="relative", when=(RELATIVE,), lacks=NO_BUCKETS)),
    "bloom": (Row("alibi", {"heads": Key("n_head", 8, ("num_attention_heads",)), "form": "key"}, positions="mask"),),
    "mpt": _mpt(),
    "falcon": (_falcon(),),
}
