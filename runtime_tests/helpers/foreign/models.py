"""Tiny models of transformers and diffusers, and the encodings that their configs say they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log, sqrt

from helpers.foreign.truth import Held, Parameter

ROWS = 48
"""Positions that a model is made for: small, so that ends are reached."""
BOTH = (0, 1)
"""The layers of a model: two."""
BASE: Mapping[str, object] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": ROWS,
    "initializer_range": 0.2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED: Mapping[str, object] = {**BASE, "num_key_value_heads": 1, "head_dim": 32}
GPT: Mapping[str, object] = {
    "vocab_size": 64,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 2,
    "n_positions": ROWS,
    "n_inner": 32,
    "initializer_range": 0.2,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@dataclass(frozen=True)
class Tiny:
    """A model: how it is called, its config, and what its config and its code say that it holds.

    Args:
        kind: what goes in, a name of `helpers.foreign.feeds`.
        model_type: its name in transformers.
        config: what differs from the type's defaults.
        held: the encodings.
    """

    kind: str
    model_type: str
    config: Mapping[str, object]
    held: tuple[Held, ...]


Settings = Mapping[str, Parameter]
NONE: Settings = {}


def rotary(
    form: str = "default",
    layers: tuple[int, ...] = BOTH,
    theta: float = 10000.0,
    scaling: Settings = NONE,
    **parameters: Parameter,
) -> Held:
    """Return a rotary encoding; its attention factor is 1 and its pairs are halves unless parameters say otherwise."""
    usual: dict[str, Parameter] = {"head_dim": 32, "layout": "halves", "attention_factor": 1.0}
    merged = {**usual, "rope_theta": theta, **scaling, **parameters}
    merged.setdefault("rotary_dim", merged["head_dim"])
    return Held("rotary", form, merged, layers)


def learned(rows: int, width: int = 32, offset: int = 0, part: str = "") -> Held:
    """Return a learned table of rows by position, read from `offset` on."""
    return Held("learned", "table", {"rows": rows, "d_model": width, "offset": offset}, part=part)


def llama(rope_type: str, theta: float = 10000.0, context: int = ROWS, scaling: Settings = NONE) -> Tiny:
    """Return a Llama of a rope type; both spellings of its settings, of transformers 4 and 5, are in the config."""
    # transformers 4 reads rope_theta beside rope_scaling, 5 reads rope_parameters
    settings = {"rope_type": rope_type, "rope_theta": theta, **scaling}
    config = {**GROUPED, "max_position_embeddings": context, "rope_theta": theta}
    config |= {"rope_parameters": settings} | ({"rope_scaling": settings} if scaling else {})
    more: dict[str, Parameter] = {}
    if rope_type == "yarn":
        # transformers: 0.1 ln(factor) + 1, where the config gives none
        more["attention_factor"] = 0.1 * log(float(str(scaling["factor"]))) + 1
    if rope_type == "longrope":
        factor = context / LONG["original"]
        more |= {"factor": factor, "attention_factor": sqrt(1 + log(factor) / log(LONG["original"]))}
    if rope_type == "dynamic":
        more["max_position_embeddings"] = context
    return Tiny("decoder", "llama", config, (rotary(rope_type, theta=theta, scaling={**scaling, **more}),))


LONG = {"original": 24}
# binary fractions: the same in float32, so that a reader can name them exactly
SHORT_FACTOR = [1.0 + 0.0625 * pair for pair in range(16)]
LONG_FACTOR = [1.5 + 0.25 * pair for pair in range(16)]
LONGROPE: dict[str, Parameter] = {
    "short_factor": SHORT_FACTOR,
    "long_factor": LONG_FACTOR,
    "original_max_position_embeddings": LONG["original"],
}
YARN: dict[str, Parameter] = {"factor": 4.0, "original_max_position_embeddings": 64}
LLAMA3: dict[str, Parameter] = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
ROTARY: Mapping[str, Tiny] = {
    "llama": llama("default"),
    "llama-5e5": llama("default", 500000.0),
    "llama-yarn": llama("yarn", context=256, scaling=YARN),
    "llama-llama3": llama("llama3", 500000.0, 512, LLAMA3),
    "llama-longrope": llama("longrope", context=96, scaling=LONGROPE),
    "llama-linear": llama("linear", scaling={"factor": 2.0}),
    "llama-dynamic": llama("dynamic", scaling={"factor": 2.0}),
}
TWO_KINDS: Mapping[str, object] = {
    "sliding_window": 16,
    "layer_types": ["sliding_attention", "full_attention"],
    "rope_local_base_freq": 10000.0,
    "rope_theta": 1000000.0,
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
    },
}
# attention of ModernBERT picks flash kernels unless it is told
MODERNBERT: Mapping[str, object] = {
    **BASE,
    "layer_types": ["full_attention", "sliding_attention"],
    "global_attn_every_n_layers": 2,
    "local_attention": 16,
    "global_rope_theta": 160000.0,
    "local_rope_theta": 10000.0,
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 160000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    },
    "attn_implementation": "eager",
    "cls_token_id": 1,
    "sep_token_id": 2,
}
PHI3: Mapping[str, object] = {
    **BASE,
    "num_key_value_heads": 1,
    "hidden_size": 64,
    "max_position_embeddings": 96,
    "original_max_position_embeddings": LONG["original"],
    "rope_scaling": {"type": "longrope", "short_factor": SHORT_FACTOR, "long_factor": LONG_FACTOR},
    "rope_parameters": {"rope_type": "longrope", "rope_theta": 10000.0, **LONGROPE},
}
DECODERS: Mapping[str, Tiny] = {
    "gemma3": Tiny(
        "decoder",
        "gemma3_text",
        {**GROUPED, **TWO_KINDS, "query_pre_attn_scalar": 32},
        (rotary(layers=(0,)), rotary(layers=(1,), theta=1000000.0)),
    ),
    "qwen2": Tiny(
        "decoder",
        "qwen2",
        {
            **BASE,
            "num_key_value_heads": 1,
            "rope_theta": 1000000.0,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
        },
        (rotary(theta=1000000.0, head_dim=16),),
    ),
    "smollm3": Tiny(
        "decoder",
        "smollm3",
        {
            **BASE,
            "num_key_value_heads": 1,
            "no_rope_layers": [1, 0],
            "rope_theta": 2000000.0,
            "rope_parameters": {"rope_type": "default", "rope_theta": 2000000.0},
            "use_sliding_window": False,
        },
        (rotary(layers=(0,), theta=2000000.0, head_dim=16),),
    ),
    "gptj": Tiny(
        "decoder",
        "gptj",
        {**GPT, "rotary_dim": 8},
        (rotary(head_dim=16, rotary_dim=8, layout="interleaved", rows=ROWS),),
    ),
    "gpt_neox": Tiny(
        "decoder",
        "gpt_neox",
        {
            **BASE,
            "rotary_pct": 0.5,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
        },
        (rotary(head_dim=16, rotary_dim=8),),
    ),
    "phi3": Tiny(
        "decoder",
        "phi3",
        PHI3,
        (rotary("longrope", scaling=LONGROPE, factor=4.0, attention_factor=sqrt(1 + log(4) / log(24))),),
    ),
    "gpt2": Tiny("decoder", "gpt2", GPT, (learned(ROWS),)),
    "opt": Tiny(
        "decoder",
        "opt",
        {**BASE, "ffn_dim": 32, "word_embed_proj_dim": 32, "init_std": 0.2},
        (learned(ROWS + 2, offset=2),),
    ),
    "bloom": Tiny(
        "decoder",
        "bloom",
        {**BASE, "n_layer": 2, "n_head": 2},
        (Held("alibi", "key", {"heads": 2, "bias_max": 8.0}, BOTH),),
    ),
    "mpt": Tiny(
        "decoder",
        "mpt",
        {**BASE, "d_model": 32, "n_layers": 2, "n_heads": 2, "max_seq_len": 256, "expansion_ratio": 1},
        (Held("alibi", "last_key", {"heads": 2, "bias_max": 8.0, "rows": 256}, BOTH),),
    ),
}
