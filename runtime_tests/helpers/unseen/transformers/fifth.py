"""A fifth sample, of what people deploy: types of transformers that no sample has, or have otherwise.

Types that come again have another config (heads, bases, scalings, rows, windows), and are exported at opsets and with
inputs that none of their files has, or built by mobius, or optimized otherwise: llama, qwen2,
qwen3, smollm3, gemma, gemma2, gemma3_text, mistral, phi, stablelm, gpt_neox, granite, olmo2, glm4, starcoder2,
nemotron, ernie4_5, falcon, bloom, mpt, opt, gpt2, gte, nomic_bert, jina_embeddings_v3, modernbert, mpnet, xlm-roberta,
deberta-v2, electra, beit, siglip_vision_model, t5, bart, marian, m2m_100; and as parts of others: bert, albert,
distilbert, dinov2, swin, parakeet_encoder.
"""

from __future__ import annotations

from dataclasses import replace
from math import log
from typing import Any

import torch
from torch import nn

from helpers.foreign.models import BASE, BOTH, ROWS, learned, rotary
from helpers.foreign.truth import Held
from helpers.unseen.parts import (
    BACKBONE,
    KINDS_OF_LAYERS,
    MAMBA,
    PAIR,
    PIXELS,
    WORDS,
    Network,
    both_sides,
    hugging,
    of,
    of_sections,
    of_three,
    pixels,
    two_bases,
    windows,
    with_mask,
)
from scripts.unseen_files import (
    BATCH,
    BY_TOKEN,
    GPT,
    HALF_HEADS,
    IMAGE,
    KINDS,
    MOE,
    NONE,
    SEQ,
    T5,
    WIDE,
    Feeds,
    Inputs,
    Model,
    both_sines,
    buckets,
    distances,
    ids,
    numbers,
    ones,
    sines,
    table,
    turned,
)

EARLY, MIDDLE, LATE = "old 15", "old 16", "old 19"
FIRST, SECOND, LAST = "new 21", "new 22", "new 24"
LLAMA3 = {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 128}
YARN: dict[str, Any] = {"factor": 16.0, "original_max_position_embeddings": 64}


def heads_of(width: int, queries: int, keys: int, size: int) -> dict[str, Any]:
    """Return the sizes of a decoder with fewer heads of keys than of queries."""
    return {"hidden_size": width, "num_attention_heads": queries, "num_key_value_heads": keys, "head_dim": size}


def grouped(
    model_type: str,
    ways: tuple[str, ...],
    heads: tuple[int, int, int, int],
    form: str = "default",
    scaling: dict[str, Any] | None = None,
    *,
    theta: float = 10000.0,
    part: float = 1.0,
    layout: str = "halves",
    layers: tuple[int, ...] = BOTH,
    kind: str = "decoder",
    held: dict[str, Any] | None = None,
    **more: Any,
) -> Model:
    """Return a decoder of grouped heads, (width, queries, keys, features), whose frequencies may be scaled."""
    settings = {"rope_type": form, "rope_theta": theta, "partial_rotary_factor": part, **(scaling or {})}
    size = heads[3]
    own = rotary(
        form, theta=theta, layout=layout, layers=layers, head_dim=size, rotary_dim=int(size * part),
        **{**(scaling or {}), **(held or {})},
    )  # fmt: skip
    config = {**WIDE, **heads_of(*heads), "max_position_embeddings": 2048, "rope_parameters": settings, **more}
    return Model(kind, model_type, config, (own,), ways)


AGAIN: tuple[Model, ...] = (
    grouped("llama", (f"{EARLY} cached", f"{LAST} cached"), (96, 6, 2, 16), "llama3", LLAMA3, theta=500000.0),
    grouped(
        "llama",
        (f"{LATE} positions",),
        (80, 5, 1, 16),
        "linear",
        {"factor": 4.0},
        layers=(0, 1, 2),
        num_hidden_layers=3,
    ),
    grouped(
        "qwen2",
        (f"{EARLY} cached", f"{SECOND} positions"),
        (96, 6, 2, 16),
        "yarn",
        YARN,
        theta=1e6,
        held={"attention_factor": 0.1 * log(16) + 1, "original_max_position_embeddings": 128},
    ),
    grouped(
        "qwen3",
        (LATE, FIRST),
        (64, 4, 2, 24),
        "yarn",
        {"factor": 4.0, "original_max_position_embeddings": 128},
        theta=5e6,
        held={"attention_factor": 0.1 * log(4) + 1, "original_max_position_embeddings": 256},
    ),
    grouped(
        "smollm3",
        (MIDDLE,),
        (64, 4, 2, 16),
        theta=5e6,
        layers=(0, 2),
        num_hidden_layers=3,
        no_rope_layers=[1, 0, 1],
        use_sliding_window=False,
    ),
    grouped("gemma", (f"{EARLY} positions",), (48, 3, 1, 32), theta=50000.0),
    grouped(
        "gemma2", (f"{LATE} cached",), (96, 4, 2, 48), theta=20000.0, layer_types=KINDS_OF_LAYERS, sliding_window=24
    ),
    grouped("mistral", (f"{LATE} cached", FIRST), (128, 8, 2, 16), theta=1e9, sliding_window=None),
    grouped("phi", (f"{MIDDLE} cached",), (80, 5, 5, 16), part=0.375, theta=25000.0),
    grouped(
        "stablelm",
        (LATE, f"{SECOND} positions"),
        (96, 4, 4, 24),
        part=0.25,
        use_parallel_residual=True,
        qk_layernorm=True,
    ),
    grouped("gpt_neox", (EARLY, LAST), (96, 4, 4, 24), part=0.25, use_parallel_residual=False),
    grouped("granite", (f"{LATE} cached",), (96, 6, 2, 16), theta=1e7, attention_multiplier=0.1),
    grouped("olmo2", (f"{EARLY} cached",), (96, 6, 3, 16), theta=500000.0),
    grouped("glm4", (FIRST,), (96, 6, 2, 16), part=0.5, theta=50000.0, layout="interleaved"),
    grouped("starcoder2", (f"{LATE} positions",), (96, 6, 2, 16), theta=999999.4420358813),
    grouped("nemotron", (f"{LATE} cached",), (96, 6, 2, 16), part=0.5, theta=20000.0),
    grouped("ernie4_5", (f"{SECOND} cached",), (80, 5, 1, 16), theta=250000.0, layout="interleaved"),
    Model(
        "falcon",
        "falcon",
        {
            **WIDE,
            "hidden_size": 96,
            "num_attention_heads": 6,
            "num_kv_heads": 2,
            "head_dim": None,
            "new_decoder_architecture": True,
            "alibi": False,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500042.0},
        },
        (rotary(theta=500042.0, head_dim=16),),
        (LATE, FIRST),
    ),
    Model(
        "decoder",
        "bloom",
        {**BASE, "hidden_size": 96, "n_layer": 2, "n_head": 6},
        (Held("alibi", "key", {"heads": 2, "bias_max": 8.0}, BOTH),),
        (LATE, LAST),
    ),
    # MPT's code does not hand alibi_bias_max on: it is 8
    Model(
        "decoder",
        "mpt",
        {
            **BASE,
            "d_model": 64,
            "n_layers": 2,
            "n_heads": 4,
            "max_seq_len": 128,
            "expansion_ratio": 2,
            "attn_config": {"alibi_bias_max": 16},
        },
        (Held("alibi", "last_key", {"heads": 2, "bias_max": 8.0, "rows": 128}, BOTH),),
        (LATE,),
    ),
    Model(
        "decoder",
        "opt",
        {
            **BASE,
            "hidden_size": 48,
            "ffn_dim": 64,
            "word_embed_proj_dim": 24,
            "do_layer_norm_before": False,
            "num_attention_heads": 3,
            "max_position_embeddings": 96,
        },
        (learned(98, 48, offset=2),),
        (LATE, FIRST),
    ),
    Model(
        "decoder",
        "gpt2",
        {**GPT, "n_embd": 48, "n_head": 3, "n_positions": 72, "scale_attn_by_inverse_layer_idx": True},
        (learned(72, 48),),
        (EARLY, LAST),
    ),
    two_bases("gemma3_text", (f"{LATE} cached",), (10000.0, 1e6), query_pre_attn_scalar=16, **heads_of(96, 6, 2, 32)),
    grouped("gte", (LATE, FIRST), (96, 4, 4, 24), kind="tokens", theta=500000.0),
    grouped("nomic_bert", (EARLY, SECOND), (96, 6, 6, 16), kind="tokens"),
    grouped("jina_embeddings_v3", (MIDDLE,), (96, 4, 4, 24), kind="tokens", theta=10000.0, pad_token_id=1),
    Model(
        "tokens",
        "modernbert",
        {
            **BASE,
            "hidden_size": 96,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
            "local_attention": 12,
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 80000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 20000.0},
            },
            "cls_token_id": 1,
            "sep_token_id": 2,
        },
        (rotary(theta=80000.0, layers=(0,), head_dim=24), rotary(theta=20000.0, layers=(1, 2), head_dim=24)),
        (EARLY, FIRST),
    ),
    Model(
        "tokens",
        "mpnet",
        {
            **BASE,
            "hidden_size": 48,
            "num_attention_heads": 3,
            "pad_token_id": 1,
            "max_position_embeddings": 66,
            "relative_attention_num_buckets": 32,
        },
        (learned(66, 48, offset=2), buckets(3, 32, 128, True)),
        (LATE, LAST),
    ),
    Model(
        "tokens",
        "xlm-roberta",
        {**BASE, "hidden_size": 48, "num_attention_heads": 3, "pad_token_id": 1, "max_position_embeddings": 66},
        (learned(66, 48, offset=2),),
        (EARLY,),
    ),
    Model(
        "tokens",
        "deberta-v2",
        {
            **BASE,
            "hidden_size": 48,
            "num_attention_heads": 3,
            "relative_attention": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_buckets": 8,
            "max_position_embeddings": 64,
            "position_biased_input": False,
            "share_att_key": True,
            "norm_rel_ebd": "layer_norm",
            "conv_kernel_size": 3,
        },
        (Held("relative", "deberta", {"position_buckets": 8, "max_relative_positions": 64, "rows": 16}, BOTH),),
        (LATE,),
    ),
    Model(
        "tokens",
        "electra",
        {**BASE, "hidden_size": 48, "num_attention_heads": 3, "embedding_size": 24},
        (learned(ROWS, 24),),
        (EARLY,),
    ),
    Model(
        "pixels",
        "beit",
        {
            **IMAGE,
            "hidden_size": 48,
            "num_attention_heads": 3,
            "patch_size": 4,
            "use_shared_relative_position_bias": True,
        },
        (Held("window", "table", {"heads": 3, "window": [8, 8], "class_token": True}, BOTH),),
        (LATE, FIRST),
    ),
    Model(
        "pixels",
        "siglip_vision_model",
        {**IMAGE, "hidden_size": 48, "num_attention_heads": 3, "patch_size": 4},
        (learned(64, 48),),
        (EARLY, LAST),
    ),
    Model(
        "seq2seq",
        "t5",
        {
            **T5,
            "d_model": 48,
            "num_heads": 4,
            "d_kv": 12,
            "num_layers": 3,
            "relative_attention_num_buckets": 16,
            "relative_attention_max_distance": 64,
            "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": False,
        },
        (
            replace(buckets(4, 16, 64, True, part="encoder"), layers=(0, 1, 2)),
            buckets(4, 16, 64, False, part="decoder"),
        ),
        (EARLY, LAST),
    ),
    Model(
        "seq2seq",
        "bart",
        {**SEQ, "d_model": 48, "encoder_attention_heads": 3, "decoder_attention_heads": 3, "encoder_layers": 1},
        tuple(replace(learned(ROWS + 2, 48, offset=2), part=part) for part in ("encoder", "decoder")),
        (EARLY,),
    ),
    Model(
        "seq2seq",
        "marian",
        {
            **SEQ,
            "d_model": 48,
            "encoder_attention_heads": 3,
            "decoder_attention_heads": 3,
            "scale_embedding": True,
            "max_position_embeddings": 96,
        },
        tuple(sines(48, 96, part=part) for part in ("encoder", "decoder")),
        (LATE, FIRST),
    ),
    Model(
        "seq2seq",
        "m2m_100",
        {
            **SEQ,
            "d_model": 48,
            "encoder_attention_heads": 3,
            "decoder_attention_heads": 3,
            "scale_embedding": True,
            "pad_token_id": 1,
        },
        tuple(sines(48, ROWS + 2, part=part, spacing="half", offset=2) for part in ("encoder", "decoder")),
        (LATE,),
    ),
)
"""Types that come again, with other configs, in other ways."""

GEMMA3N: dict[str, Any] = {
    "vocab_size_per_layer_input": 64,
    "hidden_size_per_layer_input": 16,
    "laurel_rank": 8,
    "num_kv_shared_layers": 0,
    "activation_sparsity_pattern": [0.0, 0.0],
    "altup_num_inputs": 2,
    "intermediate_size": [64, 64],
}
NEWS: tuple[Model, ...] = (
    turned(
        "bamba",
        ("new",),
        part=0.5,
        layers=(0,),
        **{
            **MAMBA,
            **HALF_HEADS,
            "attn_layer_indices": [1],
            "mamba_n_heads": 4,
            "mamba_d_head": 32,
            "mamba_n_groups": 1,
        },
    ),
    turned(
        "qwen3_next",
        ("old 17", "new"),
        part=0.25,
        theta=1e7,
        layer_types=["full_attention", "full_attention"],
        **{**MOE, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, "mlp_only_layers": [0, 1]},
    ),
    turned(
        "granitemoe_swa",
        ("old 17 positions", "new"),
        **{**HALF_HEADS, **MOE, "layer_types": KINDS_OF_LAYERS, "sliding_window": 16},
    ),
    two_bases(
        "gemma3n_text",
        ("old 17", "new"),
        (10000.0, 1e6),
        **GEMMA3N,
    ),
    of_three(
        "qwen3_5_text",
        ("old 17", "new"),
        [4, 2, 2],
        "interleaved",
        theta=1e7,
        width=16,
        settings={"partial_rotary_factor": 0.5},
        layer_types=["full_attention", "full_attention"],
    ),
    turned("moshi", ("old 17", "new"), theta=20000.0, ffn_dim=64, audio_vocab_size=32),
    turned("molmo2_text", ("old 17", "new"), theta=1e6, additional_vocab_size=4, qk_norm_type="qwen3"),
    table("tokens", "tapas", ("old 17", "new"), ROWS, reset_position_index_per_cell=False),
    table("tokens", "mra", ("old 17",), 66, 2, max_position_embeddings=64, block_per_row=2),
    table("text_alone", "siglip2_text_model", ("old 17", "new"), ROWS),
    Model(
        "pixels",
        "textnet",
        {
            "conv_layer_kernel_sizes": [[[3, 3]], [[3, 3]], [[3, 1]], [[1, 3]]],
            "stem_out_channels": 8,
            "conv_layer_strides": [[1], [2], [2], [2]],
            "hidden_sizes": [8, 8, 8, 8, 8],
        },
        NONE,
        ("old 17",),
    ),
)
"""Types that no sample has."""
SINE: dict[str, Any] = {"dim": 32, "base": 10000.0, "order": "row_first", "layout": "halves", "spacing": "paper"}
AUDIO: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_mel_bins": 16,
    "subsampling_conv_channels": 8,
    "subsampling_factor": 4,
    "conv_kernel_size": 5,
}


def flattened(_: int) -> Feeds:
    """Return patches of 8 by 4, each with its row and its column before its pixels."""
    rows, columns = torch.meshgrid(torch.arange(1.0, 5.0), torch.arange(1.0, 9.0), indexing="ij")
    places = torch.stack([rows, columns], -1).reshape(1, 32, 2).repeat(BATCH, 1, 1)
    return {"flattened_patches": torch.cat([places, numbers(BATCH, 32, 48)], -1), "attention_mask": ones(32)}


def noisy(_: int) -> Feeds:
    """Return images and the noise by which patches are left out."""
    return {**pixels(0), "noise": numbers(BATCH, 16)}


def mae() -> nn.Module:
    """Return MAE's encoder with the table of sines that its checkpoints hold: rows first, and none for the class."""
    path = "transformers.models.vit_mae.modeling_vit_mae"
    settings = of("transformers:ViTMAEConfig")(**{**IMAGE, "mask_ratio": 0.25})
    module = of(f"{path}:ViTMAEModel")(settings)
    table = of(f"{path}:build_2d_sinusoidal_position_embedding")(4, 4, embed_dim=32, cls_token=True)
    module.embeddings.position_embeddings.data.copy_(table[None])
    return Inputs(module, ("pixel_values", "noise"))


def seen(length: int) -> Feeds:
    """Return words with the boxes and features of things in a picture."""
    return {"input_ids": ids(length), "visual_feats": numbers(BATCH, 5, 16), "visual_pos": numbers(BATCH, 5, 4)}


def square(_: int) -> Feeds:
    """Return images of 128 by 128."""
    return {"pixel_values": numbers(BATCH, 3, 128, 128)}


SAM: dict[str, Any] = {**IMAGE, "output_channels": 16, "window_size": 2, "global_attn_indexes": [1], "mlp_dim": 32}
RESNET: dict[str, Any] = {
    "model_type": "rt_detr_resnet",
    "hidden_sizes": [8, 8, 16, 16],
    "out_features": ["stage2", "stage3", "stage4"],
    **BACKBONE,
}
DETECTOR: dict[str, Any] = {
    "d_model": 32,
    "encoder_hidden_dim": 32,
    "encoder_in_channels": [8, 16, 16],
    "encoder_ffn_dim": 32,
    "encoder_attention_heads": 2,
    "decoder_in_channels": [32, 32, 32],
    "decoder_ffn_dim": 32,
    "decoder_layers": 1,
    "decoder_attention_heads": 2,
    "decoder_n_points": 2,
    "num_queries": 5,
    "num_denoising": 0,
    "backbone_config": RESNET,
}
DINO: dict[str, Any] = {
    "model_type": "dinov2",
    **IMAGE,
    "num_hidden_layers": 4,
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
    "apply_layernorm": True,
    "reshape_hidden_states": False,
}
DEPTH: dict[str, Any] = {
    "backbone_config": DINO,
    "reassemble_hidden_size": 32,
    "neck_hidden_sizes": [8, 8, 16, 16],
    "fusion_hidden_size": 8,
    "head_hidden_size": 8,
    "patch_size": 8,
    "head_in_index": -1,
}
PLACES = {"input_ids": BY_TOKEN, "position_ids": {1: "batch", 2: "sequence"}}


def of_omni(model_type: str, path: str, parts: list[int], order: str, ways: tuple[str, ...], **more: Any) -> Network:
    """Return the text part of a model that hears and sees, whose tokens have three positions."""
    settings = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": parts}
    held = rotary("mrope", theta=1e6, **of_sections(parts, order))
    feeds = KINDS["three_positions"].feeds
    return hugging(model_type, path, (feeds, PLACES), (held,), ways, **{**WIDE, "rope_parameters": settings, **more})


OTHERS: tuple[Network, ...] = (
    of_omni(
        "qwen2_5_omni_text",
        "qwen2_5_omni.modeling_qwen2_5_omni:Qwen2_5OmniThinkerTextModel",
        [4, 6, 6],
        "sectioned",
        ("old 17", "new"),
    ),
    of_omni(
        "qwen3_omni_moe_text",
        "qwen3_omni_moe.modeling_qwen3_omni_moe:Qwen3OmniMoeThinkerTextModel",
        [6, 5, 5],
        "interleaved",
        ("old 17", "new"),
        **{**MOE, "moe_intermediate_size": 32, "mlp_only_layers": [0, 1], "decoder_sparse_step": 1},
    ),
    hugging(
        "kosmos_2_5_text_model",
        "kosmos2_5.modeling_kosmos2_5:Kosmos2_5TextModel",
        (with_mask, WORDS),
        (sines(32, ROWS + 2, spacing="half", offset=2),),
        ("old 17", "new"),
        vocab_size=64,
        max_position_embeddings=ROWS,
        embed_dim=32,
        layers=2,
        ffn_dim=32,
        attention_heads=2,
        pad_token_id=1,
    ),
    hugging(
        "clvp_decoder",
        "clvp.modeling_clvp:ClvpModel",
        (with_mask, WORDS),
        (learned(ROWS),),
        ("old 17", "new"),
        **{**BASE, "n_inner": 32, "use_attention_bias": True},
    ),
    hugging(
        "bridgetower_vision_model",
        "bridgetower.modeling_bridgetower:BridgeTowerVisionTransformer",
        (lambda _: {**pixels(0), "attention_mask": 0 * ones(17)}, PIXELS),
        (learned(17, 128),),
        ("old 17", "new"),
        **{**IMAGE, "hidden_size": 128},
    ),
    hugging(
        "idefics_vision",
        "idefics.vision:IdeficsVisionTransformer",
        (pixels, PIXELS),
        (learned(17),),
        ("old 17",),
        **IMAGE,
    ),
    hugging(
        "got_ocr2_vision",
        "got_ocr2.modeling_got_ocr2:GotOcr2VisionEncoder",
        (pixels, PIXELS),
        (learned(16), distances(1, (0,)), distances(3, (1,))),
        ("old 17", "new"),
        **SAM,
    ),
    hugging(
        "deepseek_ocr2_sam_vision_model",
        "deepseek_ocr2.modeling_deepseek_ocr2:DeepseekOcr2SamVisionEncoder",
        (pixels, PIXELS),
        (learned(16), distances(1, (0,)), distances(3, (1,))),
        ("new",),
        **SAM,
        downsample_channels=[16, 16],
    ),
    hugging(
        "slanext_vision",
        "slanext.modeling_slanext:SLANeXtVisionEncoder",
        (pixels, PIXELS),
        (learned(16), distances(1, (0,)), distances(3, (1,))),
        ("old 17",),
        **SAM,
    ),
    hugging(
        "clvp_encoder",
        "clvp.modeling_clvp:ClvpEncoder",
        (with_mask, WORDS),
        (rotary(),),
        ("old 17",),
        vocab_size=64,
        hidden_size=64,
        intermediate_size=64,
        projection_dim=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        use_rotary_embedding=True,
    ),
    hugging(
        "lxmert",
        "lxmert.modeling_lxmert:LxmertModel",
        (seen, {"input_ids": BY_TOKEN}),
        (learned(ROWS),),
        ("old 17",),
        vocab_size=64,
        hidden_size=32,
        num_attention_heads=2,
        intermediate_size=32,
        l_layers=1,
        x_layers=1,
        r_layers=1,
        visual_feat_dim=16,
        max_position_embeddings=ROWS,
    ),
    Network(
        "vit_mae",
        mae,
        noisy,
        {"pixel_values": {0: "batch"}, "noise": {0: "batch"}},
        (Held("grid", "sincos_2d", {**SINE, "rows": 16}),),
        ("old 17", "new"),
    ),
    hugging(
        "pix2struct_vision_model",
        "pix2struct.modeling_pix2struct:Pix2StructVisionModel",
        (flattened, {"flattened_patches": {0: "batch", 1: "patches"}, "attention_mask": {0: "batch", 1: "patches"}}),
        (learned(40), learned(40)),
        ("old 17", "new"),
        hidden_size=32,
        patch_embed_hidden_size=48,
        d_ff=32,
        d_kv=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        patch_size=4,
        seq_len=40,
    ),
    hugging(
        "kosmos_2_5_vision_model",
        "kosmos2_5.modeling_kosmos2_5:Kosmos2_5VisionModel",
        (
            lambda n: {"flattened_patches": flattened(n)["flattened_patches"]},
            {"flattened_patches": {0: "batch", 1: "patches"}},
        ),
        (learned(40), learned(40)),
        ("old 17",),
        hidden_size=32,
        patch_embed_hidden_size=48,
        intermediate_size=32,
        head_dim=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        patch_size=4,
        max_num_patches=40,
    ),
    hugging(
        "idefics2_vision",
        "idefics2.modeling_idefics2:Idefics2VisionTransformer",
        (pixels, PIXELS),
        (learned(16),),
        ("new",),
        **IMAGE,
    ),
    hugging(
        "smolvlm_vision",
        "smolvlm.modeling_smolvlm:SmolVLMVisionTransformer",
        (pixels, PIXELS),
        (learned(16),),
        ("new",),
        **IMAGE,
    ),
    hugging(
        "rt_detr_v2",
        "rt_detr_v2.modeling_rt_detr_v2:RTDetrV2Model",
        (square, PIXELS),
        (Held("grid", "sincos_2d", SINE),),
        ("old 17", "new"),
        **DETECTOR,
    ),
    hugging(
        "d_fine",
        "d_fine.modeling_d_fine:DFineModel",
        (square, PIXELS),
        (Held("grid", "sincos_2d", SINE),),
        ("old 17", "new"),
        **{**DETECTOR, "decoder_n_points": [2, 2, 2], "hidden_expansion": 1.0},
    ),
    hugging(
        "depth_anything",
        "depth_anything.modeling_depth_anything:DepthAnythingForDepthEstimation",
        (pixels, PIXELS),
        (Held("grid", "interpolated", {"dim": 32, "rows": 16}),),
        ("old 17",),
        **DEPTH,
    ),
    hugging(
        "depth_anything",
        "depth_anything.modeling_depth_anything:DepthAnythingForDepthEstimation",
        (pixels, PIXELS),
        (learned(17),),
        ("new",),
        **DEPTH,
    ),
    hugging(
        "upernet",
        "upernet.modeling_upernet:UperNetForSemanticSegmentation",
        (square, PIXELS),
        windows("table", (2, [4, 4], BOTH), (4, [4, 4], (2,))),
        ("new",),
        backbone_config={
            "model_type": "swin",
            "embed_dim": 16,
            "depths": [2, 1],
            "num_heads": [2, 4],
            "window_size": 4,
            "image_size": 128,
            "patch_size": 4,
            "out_features": ["stage1", "stage2"],
        },
        hidden_size=16,
        pool_scales=[1, 2],
        use_auxiliary_head=False,
    ),
    hugging(
        "videoprism_text_model",
        "videoprism.modeling_videoprism:VideoPrismTextModel",
        (with_mask, WORDS),
        (sines(32, ROWS),),
        ("old 17", "new"),
        **BASE,
    ),
    hugging(
        "tipsv2_text_model",
        "tipsv2.modeling_tipsv2:Tipsv2TextModel",
        (with_mask, WORDS),
        (sines(32, ROWS, spacing="half"),),
        ("old 17",),
        **BASE,
    ),
    hugging(
        "parakeet_ctc",
        "parakeet.modeling_parakeet:ParakeetForCTC",
        (
            lambda n: {"input_features": numbers(BATCH, 4 * n, 16), "attention_mask": ones(4 * n)},
            {"input_features": {0: "batch", 1: "frames"}, "attention_mask": {0: "batch", 1: "frames"}},
        ),
        (Held("relative", "conformer", {"d_model": 32, "base": 10000.0}, BOTH),),
        ("old 18", "new"),
        vocab_size=16,
        encoder_config=AUDIO,
    ),
    hugging(
        "nemotron_asr_streaming_encoder",
        "nemotron_asr_streaming.modeling_nemotron_asr_streaming:NemotronAsrStreamingEncoder",
        (
            lambda n: {"input_features": numbers(BATCH, 4 * n, 16), "attention_mask": ones(4 * n)},
            {"input_features": {0: "batch", 1: "frames"}, "attention_mask": {0: "batch", 1: "frames"}},
        ),
        (Held("relative", "conformer", {"d_model": 32, "base": 10000.0}, BOTH),),
        ("new",),
        **AUDIO,
    ),
    hugging(
        "timesfm2_5",
        "timesfm2_5.modeling_timesfm2_5:TimesFm2_5Model",
        (lambda _: {"past_values": numbers(BATCH, 64), "past_values_padding": 0 * numbers(BATCH, 64)}, {}),
        (rotary(head_dim=16),),
        ("new", "old 17"),
        patch_length=8,
        context_length=64,
        horizon_length=8,
        num_hidden_layers=2,
        hidden_size=32,
        intermediate_size=32,
        head_dim=16,
        num_attention_heads=2,
        num_key_value_heads=2,
        output_quantile_len=16,
    ),
    hugging(
        "sapiens2",
        "sapiens2.modeling_sapiens2:Sapiens2Model",
        (pixels, PIXELS),
        (Held("rotary", "dinov3", {"head_dim": 16, "rope_theta": 100.0, "layout": "halves"}, BOTH),),
        ("old 17", "new"),
        **{**IMAGE, "num_key_value_heads": 2, "num_register_tokens": 2, "rope_theta": 100.0},
    ),
    hugging(
        "eomt",
        "eomt.modeling_eomt:EomtForUniversalSegmentation",
        (pixels, PIXELS),
        (learned(16),),
        ("old 17", "new"),
        **{
            **IMAGE,
            "num_blocks": 1,
            "num_queries": 5,
            "num_upscale_blocks": 1,
            "num_register_tokens": 2,
            "mlp_ratio": 1,
        },
    ),
    hugging(
        "seamless_m4t_v2",
        "seamless_m4t_v2.modeling_seamless_m4t_v2:SeamlessM4Tv2ForTextToText",
        (both_sides, PAIR),
        both_sines(ROWS + 2, spacing="half", offset=1),
        ("old 17",),
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
)
MODELS: tuple[Model, ...] = (*AGAIN, *NEWS)


def drawn(network: Network) -> Network:
    """Return a network whose weights are numbers, where its class leaves some as memory has them."""
    if network.name not in ("bridgetower_vision_model", "depth_anything"):
        return network

    def make() -> nn.Module:
        module = network.make()
        torch.manual_seed(2)
        with torch.no_grad():
            for parameter in module.parameters():
                if parameter.dim() < 2 or not bool(parameter.isfinite().all()) or parameter.abs().max() > 100:
                    parameter.normal_(std=0.2)
        return module

    return replace(network, make=make)


NETWORKS: tuple[Network, ...] = tuple(map(drawn, OTHERS))
