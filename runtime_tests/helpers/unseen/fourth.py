"""A fourth sample: types, classes, exporters and operators that none of the three before it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from math import log
from typing import Any

import torch
from torch import nn

from helpers.foreign.models import BASE, BOTH, ROWS, learned, rotary
from helpers.foreign.truth import Held
from helpers.unseen.torch_packages import Network, of, windows
from helpers.unseen.transformers_types import NEW, NEWER, OLD, OLDER, OWN
from scripts.unseen_files import (
    BATCH,
    BY_TOKEN,
    HALF_HEADS,
    IMAGE,
    MLA,
    MOE,
    NONE,
    SPEECH,
    TRACED,
    WIDE,
    Axes,
    Feeds,
    Inputs,
    Model,
    both_sines,
    buckets,
    ids,
    numbers,
    ones,
    sines,
    table,
    turned,
)

PART = 0.25
KINDS_OF_LAYERS = ["sliding_attention", "full_attention"]
SPARSE: dict[str, Any] = {
    **MOE,
    "moe_intermediate_size": 32,
    "n_routed_experts": 2,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    "mlp_layer_types": ["dense", "sparse"],
}
DELTA: dict[str, Any] = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "layer_types": ["linear_attention", "full_attention"],
}
MAMBA: dict[str, Any] = {
    "mamba_d_ssm": 32,
    "mamba_n_heads": 4,
    "mamba_d_head": 8,
    "mamba_d_state": 4,
    "mamba_chunk_size": 8,
    "mamba_n_groups": 1,
}


def split(
    model_type: str,
    ways: tuple[str, ...],
    theta: float = 10000.0,
    layout: str = "interleaved",
    layers: tuple[int, ...] = BOTH,
    **more: Any,
) -> Model:
    """Return a decoder with latent attention, which turns the last 16 of 32 features of a head."""
    settings = {"rope_type": "default", "rope_theta": theta}
    held = rotary(layout=layout, theta=theta, layers=layers, head_dim=32, rotary_dim=16, first_feature=16)
    return Model("decoder", model_type, {**WIDE, **MLA, **more, "rope_parameters": settings}, (held,), ways)


def two_bases(
    model_type: str,
    ways: tuple[str, ...],
    bases: tuple[float, float],
    *,
    part: float = 1.0,
    kind: str = "decoder",
    **more: Any,
) -> Model:
    """Return a model whose first layer looks near, and whose second looks far; the second turns a part of features."""
    near, far = bases
    each = {
        "sliding_attention": {"rope_type": "default", "rope_theta": near},
        "full_attention": {"rope_type": "default", "rope_theta": far, "partial_rotary_factor": part},
    }
    held = (rotary(theta=near, layers=(0,)), rotary(theta=far, layers=(1,), rotary_dim=int(32 * part)))
    config = {**WIDE, "layer_types": KINDS_OF_LAYERS, "sliding_window": 16, "rope_parameters": each, **more}
    return Model(kind, model_type, config, held, ways)


def of_sections(parts: list[int], order: str) -> dict[str, Any]:
    """Return how many pairs turn by time, height and width, and in which order: ERNIE's config has time last."""
    if order == "time_last":
        return {"sections": [parts[2], *parts[:2]], "section_layout": order}
    return {"sections": parts} | ({} if order == "sectioned" else {"section_layout": order})


def of_three(
    model_type: str,
    ways: tuple[str, ...],
    parts: list[int],
    section_layout: str,
    *,
    layout: str = "halves",
    layers: tuple[int, ...] = BOTH,
    theta: float = 10000.0,
    width: int = 32,
    **more: Any,
) -> Model:
    """Return a decoder whose tokens have three positions each, in some order of pairs."""
    settings = {"rope_type": "default", "rope_theta": theta, "mrope_section": parts, **more.pop("settings", {})}
    held = rotary(
        "mrope", layout=layout, theta=theta, layers=layers, rotary_dim=width, **of_sections(parts, section_layout)
    )
    return Model("three_positions", model_type, {**WIDE, "rope_parameters": settings, **more}, (held,), ways)


def on_axes(axes: list[int], layout: str, layers: tuple[int, ...] = BOTH, **more: Any) -> Held:
    """Return a rotation by the place on each axis of a grid, in heads of 32 features."""
    settings = {"head_dim": 32, "rope_theta": [10000.0], "layout": layout, "axes_dim": axes, **more}
    return Held("rotary", "rope_nd", settings, layers)


YARN_AS_TRAINED: dict[str, Any] = {"factor": 8.0, "original_max_position_embeddings": 32}
DECODERS: tuple[Model, ...] = (
    split("axk1", (OLD, NEW), **{**SPARSE, "head_dim": None, "rope_interleave": True}),
    turned(
        "cohere2_moe",
        (NEW, "new cached"),
        layout="interleaved",
        layers=(0,),
        layer_types=KINDS_OF_LAYERS,
        sliding_window=16,
        **{**MOE, "mlp_layer_types": ["dense", "sparse"], "prefix_dense_intermediate_size": 64},
    ),
    Model(
        "decoder",
        "dbrx",
        {
            "vocab_size": 64,
            "d_model": 64,
            "n_heads": 2,
            "n_layers": 2,
            "max_seq_len": ROWS,
            "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 500000.0},
            "ffn_config": {"ffn_hidden_size": 64, "moe_num_experts": 2, "moe_top_k": 1, "hidden_size": 64},
            "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
        },
        (rotary(theta=500000.0),),
        (OLD,),
    ),
    turned("falcon_h1", (NEW,), theta=1e6, **{**MAMBA, "head_dim": None}),
    split("glm4_moe_lite", (OLDER,), theta=1e6, **{**SPARSE, "head_dim": None}),
    turned(
        "granite_swa",
        ("old 17 positions", "old 14 cached"),
        **{**HALF_HEADS, "layer_types": KINDS_OF_LAYERS, "sliding_window": 16},
    ),
    turned(
        "granitemoehybrid",
        (NEW,),
        layers=(0,),
        **{
            **HALF_HEADS,
            **MOE,
            "shared_intermediate_size": 32,
            "position_embedding_type": "rope",
            "layer_types": ["mamba", "attention"],
            "mamba_n_heads": 4,
            "mamba_d_head": 32,
            "mamba_d_state": 4,
            "mamba_chunk_size": 8,
        },
    ),
    turned(
        "kolibri1",
        (OLD, NEWER),
        layers=(0,),
        layer_types=KINDS_OF_LAYERS,
        sliding_window=16,
        **{**MOE, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32},
    ),
    two_bases(
        "laguna",
        (NEW, OWN),
        (10000.0, 500000.0),
        part=0.5,
        **{
            **MOE,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 32,
            "mlp_layer_types": ["dense", "sparse"],
            "num_attention_heads_per_layer": [2, 2],
        },
    ),
    two_bases(
        "mellum",
        (OLD, OWN),
        (10000.0, 500000.0),
        **{**MOE, "moe_intermediate_size": 32, "mlp_layer_types": ["sparse"] * 2},
    ),
    two_bases(
        "mimo_v2_flash",
        (OLDER,),
        (10000.0, 5e6),
        part=0.5,
        **{
            **SPARSE,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "v_head_dim": 32,
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0},
                "full_attention": {"rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 0.5},
            },
        },
    ),
    split("minicpm3", ("old 17 positions", NEW), layout="halves", head_dim=16),
    turned(
        "minimax",
        (OLD,),
        theta=1e6,
        layers=(0,),
        **{**MOE, "layer_types": ["full_attention", "linear_attention"], "block_size": 16},
    ),
    Model(
        "decoder",
        "ministral3",
        {
            **WIDE,
            "max_position_embeddings": 256,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 1e6,
                **YARN_AS_TRAINED,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
                "llama_4_scaling_beta": 0.1,
            },
        },
        (
            rotary("yarn", theta=1e6, **YARN_AS_TRAINED, attention_factor=1.0),
            Held("temperature", "attention_temperature", {"beta": 0.1, "step": 32, "offset": 0}, BOTH),
        ),
        ("old 17 positions",),
    ),
    Model(
        "tokens",
        "openai_privacy_filter",
        {
            **WIDE,
            **MOE,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 150000.0,
                "factor": 32.0,
                "original_max_position_embeddings": 64,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "truncate": False,
            },
            "max_position_embeddings": 2048,
        },
        (
            rotary(
                "yarn",
                theta=150000.0,
                layout="interleaved",
                factor=32.0,
                original_max_position_embeddings=64,
                truncate=False,
                attention_factor=0.1 * log(32) + 1,
            ),
        ),
        (NEW,),
    ),
    turned("phimoe", (OLD, "old 17 cached"), theta=1e6, **{**HALF_HEADS, **MOE}),
    of_three("qwen3_vl_text", (OLD, NEW), [6, 5, 5], "interleaved", theta=5e6),
    of_three(
        "ernie4_5_vl_moe_text",
        (NEW,),
        [6, 6, 4],
        "time_last",
        layout="interleaved",
        theta=500000.0,
        **{
            **HALF_HEADS,
            **MOE,
            "moe_intermediate_size": [32, 32],
            "moe_num_experts": 2,
            "moe_k": 1,
            "mlp_layer_types": ["dense", "dense"],
        },
    ),
    of_three("glm_ocr_text", (NEW,), [4, 6, 6], "sectioned", layout="interleaved"),
    of_three(
        "qwen3_vl_moe_text", (NEWER,), [6, 5, 5], "interleaved", theta=5e6, **{**MOE, "moe_intermediate_size": 32}
    ),
    of_three(
        "glm4v_moe_text",
        (OLD,),
        [4, 2, 2],
        "sectioned",
        width=16,
        settings={"partial_rotary_factor": 0.5},
        **{**SPARSE, "mlp_layer_types": ["dense", "dense"], "first_k_dense_replace": 2},
    ),
    of_three("glm_image_text", (OLDER,), [4, 6, 6], "sectioned", **HALF_HEADS),
    two_bases("ultrabert", (OLD, NEW), (10000.0, 2560000.0), kind="tokens"),
    turned("mllama_text_model", (OLD, OWN), theta=500000.0, cross_attention_layers=[], pad_token_id=0, **HALF_HEADS),
    Model(
        "decoder",
        "zamba2",
        {
            **WIDE,
            "layers_block_type": ["mamba", "hybrid"],
            "use_mem_rope": True,
            "mamba_d_state": 4,
            "n_mamba_heads": 4,
            "mamba_headdim": 32,
            "chunk_size": 8,
            "attention_head_dim": 64,
            "head_dim": None,
            "num_mem_blocks": 1,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        },
        (rotary(head_dim=64, layers=(0,)),),
        (NEW,),
    ),
    turned("hrm_text", (OWN,), layers=(0, 1, 2, 3), num_layers_per_stack=1, H_cycles=2, L_cycles=1),
    Model(
        "decoder",
        "mistral4",
        {
            **WIDE,
            **MLA,
            **SPARSE,
            "head_dim": None,
            "rope_interleave": True,
            "first_k_dense_replace": 2,
            "max_position_embeddings": 256,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 10000.0,
                **YARN_AS_TRAINED,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
                "llama_4_scaling_beta": 0.1,
                "partial_rotary_factor": 0.5,
            },
        },
        (
            rotary("yarn", layout="interleaved", rotary_dim=16, first_feature=16, **YARN_AS_TRAINED),
            Held("temperature", "attention_temperature", {"beta": 0.1, "step": 32, "offset": 0}, BOTH),
        ),
        (OLD,),
    ),
    Model(
        "decoder",
        "gemma4_text",
        {
            **WIDE,
            "layer_types": KINDS_OF_LAYERS,
            "sliding_window": 16,
            "hidden_size_per_layer_input": 16,
            "vocab_size_per_layer_input": 64,
            "per_layer_config": {},
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                "full_attention": {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25},
            },
        },
        (rotary(layers=(0,)), rotary("proportional", theta=1e6, layers=(1,), partial_rotary_factor=0.25)),
        (OLD, OWN),
    ),
    turned("csm_depth_decoder_model", (NEW,), theta=500000.0, num_codebooks=32, backbone_hidden_size=64),
    table("tokens", "owlv2_text_model", (OLD,), ROWS),
    Model(
        "boxes",
        "layoutlmv3",
        {
            **BASE,
            "pad_token_id": 1,
            "max_2d_position_embeddings": 64,
            "coordinate_size": 6,
            "shape_size": 4,
            "has_relative_attention_bias": True,
            "has_spatial_attention_bias": False,
            "visual_embed": False,
        },
        (learned(ROWS, offset=2), buckets(2, 32, 128, True)),
        (OLD, NEW),
    ),
)


def hugging(
    model_type: str,
    path: str,
    given: tuple[Callable[[int], Feeds], Axes],
    held: tuple[Held, ...],
    ways: tuple[str, ...],
    /,
    **config: Any,
) -> Network:
    """Return a class of transformers, which no `AutoModel` makes, or whose inputs, with their axes, are its own."""
    feeds, axes = given

    def make() -> nn.Module:
        transformers = import_module("transformers")
        settings = transformers.AutoConfig.for_model(model_type, **config)
        module = of(f"transformers.models.{path}")(settings)
        with torch.no_grad():
            for parameter in module.parameters():
                if parameter.dim() > 1 and (parameter == parameter.flatten()[0]).all():
                    parameter.normal_(std=0.2)  # ones, as zeros, are no table
        return Inputs(module, tuple(feeds(TRACED)))

    return Network(model_type, make, feeds, axes, held, ways)


def with_mask(length: int) -> Feeds:
    """Return ids and a mask."""
    return {"input_ids": ids(length), "attention_mask": ones(length)}


def both_sides(length: int) -> Feeds:
    """Return ids of an encoder and of a decoder."""
    return {**with_mask(length), "decoder_input_ids": ids(length + 2)}


def mels(name: str, bins: int, frames: int) -> Callable[[int], Feeds]:
    """Return spectra of one length."""
    return lambda _: {name: numbers(BATCH, bins, frames)}


def pixels(_: int) -> Feeds:
    """Return images of 32 by 32."""
    return {"pixel_values": numbers(BATCH, 3, 32, 32)}


def of_patches(_: int) -> Feeds:
    """Return 8 by 4 patches with their place each, of columns first."""
    rows, columns = torch.meshgrid(torch.arange(4), torch.arange(8), indexing="ij")
    places = torch.stack([columns, rows], -1).reshape(1, 32, 2).repeat(BATCH, 1, 1)
    return {"pixel_values": numbers(BATCH, 32, 3 * 16).sigmoid(), "pixel_position_ids": places}


def bark() -> nn.Module:
    """Return the part of Bark that makes tokens of meaning from words."""
    transformers = import_module("transformers")
    config = transformers.BarkSemanticConfig(
        block_size=ROWS, input_vocab_size=64, output_vocab_size=64, num_layers=2, num_heads=2, hidden_size=32
    )
    return Inputs(transformers.BarkSemanticModel(config), ("input_ids", "attention_mask"))


def series(_: int) -> Feeds:
    """Return the past of a series, and its future as a decoder sees it."""
    return {
        "past_values": numbers(BATCH, 31),
        "past_time_features": numbers(BATCH, 31, 2),
        "past_observed_mask": torch.ones(BATCH, 31),
        "future_values": numbers(BATCH, 8),
        "future_time_features": numbers(BATCH, 8, 2),
    }


WORDS: Axes = {"input_ids": BY_TOKEN, "attention_mask": BY_TOKEN}
PAIR: Axes = {**WORDS, "decoder_input_ids": {0: "batch", 1: "decoded"}}
PIXELS: Axes = {"pixel_values": {0: "batch"}}
FORECAST: dict[str, Any] = {
    "prediction_length": 8,
    "context_length": 24,
    "num_time_features": 2,
    "d_model": 32,
    "embedding_dimension": [2],
}
MODALITY: dict[str, Any] = {
    **IMAGE,
    "max_source_positions": 24,
    "num_mel_bins": 8,
    "d_model": 32,
    "encoder_layers": 2,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
}
DIA: dict[str, Any] = {
    "encoder_config": {
        "vocab_size": 64,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "intermediate_size": 32,
        "max_position_embeddings": ROWS,
    },
    "decoder_config": {
        "vocab_size": 64,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "intermediate_size": 32,
        "cross_hidden_size": 64,
        "cross_num_attention_heads": 2,
        "cross_num_key_value_heads": 2,
        "cross_head_dim": 32,
        "num_channels": 3,
        "max_position_embeddings": ROWS,
    },
    "delay_pattern": [0, 1, 2],
}
GEMMA: dict[str, Any] = {
    **WIDE,
    "layer_types": ["full_attention"] * 2,
    "query_pre_attn_scalar": 32,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
}
OTHERS: tuple[Network, ...] = (
    hugging(
        "kosmos_2_text_model",
        "kosmos2.modeling_kosmos2:Kosmos2TextModel",
        (with_mask, WORDS),
        (sines(32, ROWS + 2, spacing="half", offset=2),),
        (OLD, NEW),
        vocab_size=64,
        max_position_embeddings=ROWS,
        embed_dim=32,
        layers=2,
        ffn_dim=32,
        attention_heads=2,
        pad_token_id=1,
    ),
    hugging(
        "bridgetower_text_model",
        "bridgetower.modeling_bridgetower:BridgeTowerTextModel",
        (with_mask, WORDS),
        (learned(ROWS, offset=2),),
        (OLDER, NEW),
        **{**BASE, "pad_token_id": 1},
    ),
    hugging(
        "musicgen_melody_decoder",
        "musicgen_melody.modeling_musicgen_melody:MusicgenMelodyForCausalLM",
        (lambda n: {"input_ids": ids(n).repeat_interleave(2, 0)}, {"input_ids": {1: "sequence"}}),
        (sines(32, ROWS, layout="halves, cosines first", spacing="half"),),
        (OLD,),
        vocab_size=64,
        hidden_size=32,
        ffn_dim=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=ROWS,
        num_codebooks=2,
        pad_token_id=0,
        audio_channels=1,
    ),
    Network("bark", bark, with_mask, WORDS, (learned(ROWS),), (OLD, NEW)),
    hugging(
        "funnel",
        "funnel.modeling_funnel:FunnelBaseModel",
        (with_mask, {"input_ids": {0: "batch"}}),
        (Held("relative", "transformer_xl", {"d_model": 32, "base": 10000.0}, BOTH),),
        (OLD,),
        vocab_size=64,
        block_sizes=[2],
        num_decoder_layers=1,
        d_model=32,
        n_head=2,
        d_head=16,
        d_inner=32,
        pad_token_id=0,
    ),
    hugging(
        "seamless_m4t",
        "seamless_m4t.modeling_seamless_m4t:SeamlessM4TForTextToText",
        (both_sides, PAIR),
        both_sines(ROWS + 2, spacing="half", offset=1),
        (OLD,),
        vocab_size=64,
        hidden_size=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=ROWS,
        pad_token_id=0,
        speech_encoder_layers=1,
        speech_encoder_attention_heads=2,
        speech_encoder_intermediate_size=32,
    ),
    hugging(
        "t5gemma",
        "t5gemma.modeling_t5gemma:T5GemmaModel",
        (both_sides, PAIR),
        (replace(rotary(layers=(0, 1, 2, 4)), part="encoder and decoder"),),
        (OLD,),
        encoder=GEMMA,
        decoder=GEMMA,
        vocab_size=64,
        pad_token_id=0,
    ),
    hugging(
        "dia",
        "dia.modeling_dia:DiaModel",
        (lambda n: {**with_mask(n), "decoder_input_ids": ids(3 * n).reshape(BATCH, n, 3)}, PAIR),
        (replace(rotary(layers=(0, 1, 2, 4)), part="encoder and decoder"),),
        (NEW,),
        **DIA,
    ),
    hugging(
        "time_series_transformer",
        "time_series_transformer.modeling_time_series_transformer:TimeSeriesTransformerModel",
        (series, {}),
        (sines(32, None, part="encoder"), sines(32, None, part="decoder", offset=24)),
        (OLD, NEW),
        **FORECAST,
    ),
    hugging(
        "informer",
        "informer.modeling_informer:InformerModel",
        (series, {}),
        (sines(32, None, part="encoder"), sines(32, None, part="decoder", offset=24)),
        (OLD,),
        **{**FORECAST, "attention_type": "full", "distil": False},
    ),
    hugging(
        "timesfm",
        "timesfm.modeling_timesfm:TimesFmModel",
        (
            lambda _: {
                "past_values": numbers(BATCH, 64),
                "past_values_padding": torch.zeros(BATCH, 64),
                "freq": torch.zeros(BATCH, 1, dtype=torch.int64),
            },
            {},
        ),
        (sines(32, None, spacing="half"),),
        (NEW,),
        patch_length=8,
        context_length=64,
        horizon_length=8,
        num_hidden_layers=2,
        hidden_size=32,
        intermediate_size=32,
        head_dim=16,
        num_attention_heads=2,
        use_positional_embedding=True,
    ),
    hugging(
        "voxtral_encoder",
        "voxtral.modeling_voxtral:VoxtralEncoder",
        (mels("input_features", 8, 48), {"input_features": {0: "batch"}}),
        (learned(24),),
        (OLD,),
        **MODALITY,
    ),
    hugging(
        "qwen2_audio_encoder",
        "qwen2_audio.modeling_qwen2_audio:Qwen2AudioEncoder",
        (mels("input_features", 8, 48), {"input_features": {0: "batch"}}),
        (learned(24),),
        (NEW,),
        **MODALITY,
    ),
    hugging(
        "glmasr_encoder",
        "glmasr.modeling_glmasr:GlmAsrEncoder",
        (lambda n: {"input_features": numbers(BATCH, 8, 2 * n)}, {"input_features": {0: "batch", 2: "frames"}}),
        (rotary(rotary_dim=16),),
        (OLD, NEW),
        hidden_size=64,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        num_mel_bins=8,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
    ),
    hugging(
        "granite_speech_encoder",
        "granite_speech.modeling_granite_speech:GraniteSpeechCTCEncoder",
        (lambda n: {"hidden_states": numbers(BATCH, 3 * n, 16)}, {"hidden_states": {0: "batch"}}),
        (Held("relative", "distances", {"head_dim": 16, "left": 7, "right": 7, "rows": 15}, BOTH),),
        (OLD,),
        input_dim=16,
        num_layers=2,
        hidden_dim=32,
        feedforward_mult=1,
        num_heads=2,
        dim_head=16,
        output_dim=8,
        context_size=8,
        max_pos_emb=16,
        conv_kernel_size=5,
        conv_expansion_factor=2,
    ),
    hugging(
        "clap_audio_model",
        "clap.modeling_clap:ClapAudioModel",
        (lambda _: {"input_features": numbers(BATCH, 1, 64, 16)}, {"input_features": {0: "batch"}}),
        windows("table", (1, [4, 4], BOTH), (2, [4, 4], (2,))),
        (OLD,),
        window_size=4,
        num_mel_bins=16,
        spec_size=32,
        patch_size=4,
        patch_stride=[4, 4],
        num_classes=4,
        hidden_size=32,
        depths=[2, 1],
        num_attention_heads=[1, 2],
        patch_embeds_hidden_size=16,
        num_hidden_layers=2,
        projection_dim=32,
    ),
    hugging(
        "mgp-str",
        "mgp_str.modeling_mgp_str:MgpstrModel",
        (lambda _: {"pixel_values": numbers(BATCH, 3, 32, 64)}, PIXELS),
        (learned(33),),
        (OLD, NEW),
        image_size=[32, 64],
        patch_size=8,
        max_token_length=4,
        num_character_labels=8,
        num_bpe_labels=8,
        num_wordpiece_labels=8,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        mlp_ratio=1.0,
    ),
    hugging(
        "idefics3_vision",
        "idefics3.modeling_idefics3:Idefics3VisionTransformer",
        (pixels, PIXELS),
        (learned(16),),
        (NEW,),
        **IMAGE,
    ),
    hugging(
        "pixtral",
        "pixtral.modeling_pixtral:PixtralVisionModel",
        (lambda _: {"pixel_values": numbers(1, 3, 32, 64)}, {}),
        (on_axes([16, 16], "halves", frequencies="alternate"),),
        (OLD, NEW),
        hidden_size=64,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=64,
        patch_size=8,
        head_dim=32,
        rope_parameters={"rope_type": "axial", "rope_theta": 10000.0},
    ),
    hugging(
        "vjepa2",
        "vjepa2.modeling_vjepa2:VJEPA2Model",
        (lambda _: {"pixel_values_videos": numbers(BATCH, 4, 3, 32, 32)}, {"pixel_values_videos": {0: "batch"}}),
        (on_axes([10, 10, 10], "axis_tiled"),),
        (OLD, NEW),
        patch_size=8,
        crop_size=32,
        frames_per_clip=4,
        tubelet_size=2,
        hidden_size=64,
        num_attention_heads=2,
        num_hidden_layers=2,
        mlp_ratio=1.0,
        pred_hidden_size=64,
        pred_num_attention_heads=2,
        pred_num_hidden_layers=1,
        pred_mlp_ratio=1.0,
        num_pooler_layers=1,
    ),
    hugging(
        "videoprism_vision_model",
        "videoprism.modeling_videoprism:VideoPrismVisionModel",
        (lambda _: {"pixel_values_videos": numbers(BATCH, 4, 3, 32, 32)}, {"pixel_values_videos": {0: "batch"}}),
        (learned(16), learned(4)),
        (OLD,),
        image_size=32,
        num_frames=4,
        tubelet_size=[1, 8, 8],
        hidden_size=32,
        num_attention_heads=2,
        intermediate_size=32,
        num_spatial_layers=1,
        num_temporal_layers=1,
        num_auxiliary_layers=1,
    ),
    hugging(
        "gemma4_vision",
        "gemma4.modeling_gemma4:Gemma4VisionModel",
        (of_patches, {"pixel_values": {0: "batch"}, "pixel_position_ids": {0: "batch"}}),
        (learned(16, 64), learned(16, 64), on_axes([16, 16], "axis_halves", rope_theta=[100.0])),
        (OLD,),
        hidden_size=64,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        patch_size=4,
        position_embedding_size=16,
        pooling_kernel_size=2,
        rope_parameters={"rope_type": "axial", "rope_theta": 100.0},
    ),
)
MORE: tuple[Network, ...] = (
    hugging(
        "kosmos_2_vision_model",
        "kosmos2.modeling_kosmos2:Kosmos2VisionModel",
        (pixels, PIXELS),
        (learned(17),),
        (OLD,),
        **IMAGE,
    ),
    hugging(
        "florence_vision",
        "florence2.modeling_florence2:Florence2VisionBackbone",
        (lambda _: {"hidden_states": numbers(BATCH, 3, 32, 32)}, {"hidden_states": {0: "batch"}}),
        NONE,
        (OLD,),
        depths=[1, 1],
        patch_size=[7, 3],
        patch_stride=[4, 2],
        patch_padding=[3, 1],
        patch_prenorm=[False, True],
        embed_dim=[16, 32],
        num_heads=[1, 2],
        num_groups=[1, 2],
        window_size=4,
        projection_dim=32,
    ),
)
BACKBONE: dict[str, Any] = {"embedding_size": 8, "depths": [1, 1, 1, 1], "layer_type": "basic"}
SQUARE: dict[str, Any] = {"dim": 32, "temperature": 10000.0, "normalize": True, "scale": 6.283185307179586}
DETECTORS: tuple[Network, ...] = (
    hugging(
        "table-transformer",
        "table_transformer.modeling_table_transformer:TableTransformerModel",
        (
            lambda _: {"pixel_values": numbers(BATCH, 3, 128, 128), "pixel_mask": ones(128)[:, None].repeat(1, 128, 1)},
            {"pixel_values": {0: "batch"}, "pixel_mask": {0: "batch"}},
        ),
        (Held("grid", "sine_2d", SQUARE), learned(5, part="decoder")),
        (OLD, NEW),
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        num_queries=5,
        use_timm_backbone=False,
        backbone_config={
            "model_type": "resnet",
            "hidden_sizes": [8, 8, 16, 16],
            "out_features": ["stage4"],
            **BACKBONE,
        },
    ),
    hugging(
        "rt_detr",
        "rt_detr.modeling_rt_detr:RTDetrModel",
        (lambda _: {"pixel_values": numbers(BATCH, 3, 128, 128)}, PIXELS),
        (
            Held(
                "grid",
                "sincos_2d",
                {"dim": 32, "base": 10000.0, "order": "row_first", "layout": "halves", "spacing": "paper"},
            ),
        ),
        (OLD, NEW),
        d_model=32,
        encoder_hidden_dim=32,
        encoder_in_channels=[8, 16, 16],
        encoder_ffn_dim=32,
        encoder_attention_heads=2,
        decoder_in_channels=[32, 32, 32],
        decoder_ffn_dim=32,
        decoder_layers=1,
        decoder_attention_heads=2,
        decoder_n_points=2,
        num_queries=5,
        num_denoising=0,
        backbone_config={
            "model_type": "rt_detr_resnet",
            "hidden_sizes": [8, 8, 16, 16],
            "out_features": ["stage2", "stage3", "stage4"],
            **BACKBONE,
        },
    ),
    hugging(
        "sew-d",
        "sew_d.modeling_sew_d:SEWDModel",
        (lambda n: {"input_values": numbers(BATCH, 8 * n + 3)}, {"input_values": {0: "batch", 1: "samples"}}),
        (Held("relative", "deberta", {"position_buckets": 16, "max_relative_positions": ROWS, "rows": 32}, BOTH),),
        (OLD, NEW),
        **{
            **SPEECH,
            "squeeze_factor": 2,
            "position_buckets": 16,
            "max_position_embeddings": ROWS,
            "feat_extract_norm": "group",
        },
    ),
    hugging(
        "voxtral_realtime_encoder",
        "voxtral_realtime.modeling_voxtral_realtime:VoxtralRealtimeEncoder",
        (lambda n: {"input_features": numbers(BATCH, 8, 2 * n)}, {"input_features": {0: "batch", 2: "frames"}}),
        (rotary(),),
        (NEW,),
        hidden_size=64,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        head_dim=32,
        num_mel_bins=8,
        sliding_window=16,
        max_position_embeddings=ROWS,
    ),
)
TOWERS: tuple[Model, ...] = (
    Model(
        "pixels",
        "pixio",
        {**IMAGE, "n_cls_tokens": 2, "mlp_ratio": 1},
        (Held("grid", "interpolated", {"dim": 32, "rows": 16}),),
        (OLD,),
    ),
    Model("pixels", "tipsv2_vision_model", {**IMAGE, "mlp_ratio": 1, "num_register_tokens": 1}, (learned(17),), (NEW,)),
    Model("pixels", "owlv2_vision_model", IMAGE, (learned(17),), (OLDER, NEW)),
    Model(
        "pixels",
        "xclip_vision_model",
        {**IMAGE, "num_frames": 2, "mit_hidden_size": 32, "mit_num_attention_heads": 2, "mit_intermediate_size": 32},
        (learned(17),),
        (OLD,),
    ),
    Model(
        "pixels",
        "radio",
        {
            **IMAGE,
            "max_img_size": 64,
            "num_cls_tokens": 1,
            "num_registers": 1,
            "mlp_ratio": 1.0,
            "patch_dim": 192,
            "summary_idxs": [0],
        },
        (Held("grid", "interpolated", {"dim": 32, "rows": 64}),),
        (OLD,),
    ),
    Model(
        "pixels",
        "regnet",
        {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "groups_width": 8},
        NONE,
        (OLD,),
    ),
    Model(
        "decoder",
        "falcon_mamba",
        {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "state_size": 4},
        NONE,
        (OLD,),
    ),
)
MODELS: tuple[Model, ...] = (*DECODERS, *TOWERS)
NETWORKS: tuple[Network, ...] = (*OTHERS, *MORE, *DETECTORS)
