"""Types of transformers that no archive and no earlier sample has, tiny, and what they hold by config and code."""

from __future__ import annotations

from dataclasses import replace
from math import log
from typing import Any

from helpers.foreign.models import BASE, BOTH, ROWS, learned, rotary
from helpers.foreign.truth import Held
from scripts.unseen_files import (
    GPT,
    HALF_HEADS,
    IMAGE,
    MLA,
    MOE,
    NONE,
    SEQ,
    SPEECH,
    T5,
    WIDE,
    Model,
    both_sines,
    both_tables,
    buckets,
    distances,
    sines,
    table,
    turned,
)

OLD, OLDER, LATE, NEW, NEWER, OWN = "old 17", "old 14", "old 20", "new", "new 23", "transformers.exporters"
DEPTHS: dict[str, Any] = {
    "depths": [2, 1],
    "num_heads": [2, 4],
    "embed_dim": 16,
    "window_size": 4,
    "image_size": 32,
    "patch_size": 4,
}
EXPERTS = {**MOE, "moe_intermediate_size": 32, "n_routed_experts": 2, "n_shared_experts": 1, "first_k_dense_replace": 1}
EXPERTS |= {"n_group": 1, "topk_group": 1}


def scaled(model_type: str, ways: tuple[str, ...], settings: dict[str, Any], held: Held, **more: Any) -> Model:
    """Return a decoder whose frequencies are scaled."""
    config = {**WIDE, "rope_parameters": settings, "max_position_embeddings": 256, **more}
    return Model("decoder", model_type, config, (held,), ways)


def of_places(layout: str = "halves") -> Held:
    """Return a rotation by row and column, in heads of 32 features."""
    return Held("rotary", "rope_2d", {"head_dim": 32, "rope_theta": 10000.0, "layout": layout}, BOTH)


def sections(model_type: str, parts: list[int], ways: tuple[str, ...], layout: str = "halves", **more: Any) -> Model:
    """Return the text part of a model of pictures, whose tokens have three positions."""
    settings = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": parts, **more.pop("settings", {})}
    held = rotary("mrope", layout=layout, sections=parts)
    return Model("three_positions", model_type, {**WIDE, "rope_parameters": settings, **more}, (held,), ways)


LLAMA3: dict[str, Any] = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 16.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 8.0}
YARN = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 8.0, "original_max_position_embeddings": 32}

DECODERS: tuple[Model, ...] = (
    turned("qwen3_moe", (NEW, OWN), theta=1e6, **{**MOE, "moe_intermediate_size": 32, "mlp_only_layers": [0]}),
    turned("glm4_moe", (NEW,), part=0.5, **EXPERTS),
    turned("dots1", (OLD,), **{**EXPERTS, "layer_types": ["full_attention", "full_attention"]}),
    turned(
        "ernie4_5_moe",
        (NEW,),
        layout="interleaved",
        theta=500000.0,
        **{**MOE, "moe_num_experts": 2, "moe_k": 1, "moe_intermediate_size": 32, "moe_layer_start_index": 1},
    ),
    turned("flex_olmo", (OLD,), theta=500000.0, **{**HALF_HEADS, **MOE}),
    turned("minimax_m2", (NEW,), part=0.5, **MOE),
    turned("doge", (OLD, NEW), **HALF_HEADS),
    turned("jetmoe", (OLD,), **{**MOE, "kv_channels": 32, "num_key_value_heads": 1}),
    turned("granitemoeshared", (NEW,), **{**HALF_HEADS, **MOE, "shared_intermediate_size": 32}),
    scaled(
        "cwm",
        (OLD, NEWER),
        LLAMA3,
        rotary("llama3", theta=500000.0, scaling={k: v for k, v in LLAMA3.items() if "rope" not in k}),
        layer_types=["full_attention", "sliding_attention"],
        sliding_window=16,
    ),
    scaled("hyperclovax", (NEW,), LINEAR, rotary("linear", factor=8.0)),
    scaled(
        "seed_oss",
        (OLD,),
        YARN,
        rotary("yarn", theta=1e6, factor=8.0, original_max_position_embeddings=32, attention_factor=0.1 * log(8) + 1),
    ),
    turned("vaultgemma", (OLD, OWN), layer_types=["sliding_attention", "full_attention"]),
    turned("jais2", (LATE, NEWER), theta=500000.0),
    turned("internlm3", ("old 14 cached", NEWER), theta=5e7),
    turned("iquestcoder", (NEWER,), theta=500000.0),
    turned(
        "afmoe",
        (NEW,),
        layers=(0,),
        layer_types=["sliding_attention", "full_attention"],
        sliding_window=16,
        **{**MOE, "num_dense_layers": 2, "moe_intermediate_size": 32},
    ),
    turned(
        "exaone_moe",
        (OLD,),
        layers=(0,),
        layer_types=["sliding_attention", "full_attention"],
        sliding_window=16,
        **{
            **MOE,
            "moe_intermediate_size": 32,
            "n_group": 1,
            "topk_group": 1,
            "first_k_dense_replace": 2,
            "is_moe_layer": [False, False],
            "mlp_layer_types": ["dense", "dense"],
        },
    ),
    turned(
        "lfm2",
        (OLD, NEW),
        layers=(0,),
        theta=1e6,
        layer_types=["conv", "full_attention"],
        block_auto_adjust_ff_dim=False,
        **HALF_HEADS,
    ),
    turned(
        "recurrent_gemma",
        (OLD,),
        part=0.5,
        layers=(0,),
        block_types=["recurrent", "attention"],
        lru_width=64,
        attention_window_size=64,
        **HALF_HEADS,
    ),
    turned("gpt_neox_japanese", (OLD, NEW), part=0.25, **{**HALF_HEADS, "intermediate_multiple_size": 1}),
    turned("hunyuan_v1_moe", (NEW,), **{**MOE, "moe_topk": [1, 1], "moe_intermediate_size": 32}),
    turned(
        "modernbert-decoder",
        (OLD,),
        layers=BOTH,
        **{
            **HALF_HEADS,
            "layer_types": ["full_attention", "full_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 160000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            },
        },
        theta=160000.0,
    ),
    Model(
        "decoder",
        "youtu",
        {**WIDE, **MLA, "rope_interleave": True, "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}},
        (rotary(layout="interleaved", theta=500000.0, head_dim=32, rotary_dim=16, first_feature=16),),
        (NEW,),
    ),
    turned("solar_open", (NEW,), **EXPERTS),
    Model("decoder", "openai-gpt", {**GPT, "n_inner": None}, (learned(ROWS),), (OLD, NEW)),
    Model("tokens", "imagegpt", GPT, (learned(ROWS),), (OLDER,)),
    table("decoder", "bert-generation", (OLD,), ROWS),
    Model(
        "decoder", "trocr", {**SEQ, "use_learned_position_embeddings": True}, (learned(ROWS + 2, offset=2),), (OLD, NEW)
    ),
    Model(
        "decoder",
        "mamba2",
        {
            "vocab_size": 64,
            "hidden_size": 32,
            "num_hidden_layers": 1,
            "state_size": 4,
            "num_heads": 4,
            "head_dim": 16,
            "n_groups": 1,
            "chunk_size": 8,
        },
        NONE,
        (OLD,),
    ),
    Model(
        "decoder",
        "rwkv",
        {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "attention_hidden_size": 32},
        NONE,
        (OLD,),
    ),
    sections("qwen2_vl_text", [4, 6, 6], (OLD, NEW), **HALF_HEADS),
    sections("qwen2_5_vl_text", [4, 6, 6], (NEWER,), **HALF_HEADS),
    sections("glm4v_text", [4, 6, 6], (NEW,), layout="interleaved", **HALF_HEADS),
)
TOKENS: tuple[Model, ...] = (
    turned("nomic_bert", (OLD, NEW), kind="tokens", theta=1000.0),
    turned("gte", (OLDER, NEW), kind="tokens", theta=160000.0, **HALF_HEADS),
    turned("jina_embeddings_v3", (NEW,), kind="tokens", theta=20000.0, pad_token_id=1, **HALF_HEADS),
    turned("esmc", (OLD,), kind="text_alone", pad_token_id=1),
    table("tokens", "ernie", (OLDER, NEW), ROWS),
    table("tokens", "roberta-prelayernorm", (OLD,), ROWS, 2, pad_token_id=1),
    table("tokens", "xlm-roberta-xl", (NEW,), ROWS, 2, pad_token_id=1),
    table("tokens", "xmod", (OLD,), ROWS, 2, pad_token_id=1, languages=["en_XX"], default_language="en_XX"),
    table("tokens", "data2vec-text", (OLDER,), ROWS, 2, pad_token_id=1),
    table("tokens", "luke", (OLD,), ROWS, 2, pad_token_id=1, entity_vocab_size=8, entity_emb_size=16),
    table(
        "tokens",
        "mobilebert",
        (OLDER, NEW),
        ROWS,
        embedding_size=32,
        true_hidden_size=32,
        intra_bottleneck_size=32,
        num_feedforward_networks=1,
    ),
    table("tokens", "splinter", (OLD,), ROWS),
    table("tokens", "visual_bert", (OLD,), ROWS),
    table("tokens", "yoso", (NEW,), ROWS + 2, 2, use_expectation=True),
    table("tokens", "flaubert", (OLD,), ROWS, emb_dim=32, n_layers=2, n_heads=2, n_words=64),
    Model(
        "tokens",
        "xlm",
        {
            "vocab_size": 64,
            "emb_dim": 32,
            "n_layers": 2,
            "n_heads": 2,
            "max_position_embeddings": ROWS,
            "sinusoidal_embeddings": True,
            "pad_index": 0,
        },
        (sines(32, ROWS, layout="interleaved"),),
        (OLD, NEW),
    ),
    Model(
        "boxes",
        "lilt",
        {**BASE, "hidden_size": 48, "pad_token_id": 1, "max_2d_position_embeddings": 64, "channel_shrink_ratio": 2},
        (learned(ROWS, 48, offset=2), learned(ROWS, 24, offset=2)),
        (OLD,),
    ),
    table("text_alone", "siglip_text_model", (OLD, NEW), ROWS),
    table("text_alone", "chinese_clip_text_model", (OLD,), ROWS),
    table("tokens", "altclip_text_model", (OLD,), ROWS, 2, pad_token_id=1),
    table("tokens", "flava_text_model", (NEW,), ROWS),
    table("tokens", "owlvit_text_model", (OLD,), ROWS),
    table("tokens", "clap_text_model", (OLD,), ROWS, 2, pad_token_id=1),
)
SEQUENCES: tuple[Model, ...] = (
    Model(
        "seq2seq",
        "led",
        {
            **SEQ,
            "max_encoder_position_embeddings": ROWS,
            "max_decoder_position_embeddings": ROWS,
            "attention_window": 8,
        },
        both_tables(ROWS),
        (OLD,),
    ),
    Model("seq2seq", "mvp", SEQ, both_tables(ROWS + 2, 2), (OLD, NEW)),
    Model("seq2seq", "bigbird_pegasus", {**SEQ, "attention_type": "original_full"}, both_tables(ROWS), (OLD,)),
    Model(
        "seq2seq",
        "pegasus_x",
        {**SEQ, "num_global_tokens": 4, "block_size": 8},
        both_sines(None, spacing="half"),
        (OLD,),
    ),
    Model(
        "seq2seq",
        "nllb-moe",
        {**SEQ, "encoder_sparse_step": 0, "decoder_sparse_step": 0, "num_experts": 2},
        both_sines(ROWS + 2, spacing="half", offset=1),
        (OLD,),
    ),
    Model(
        "seq2seq",
        "fsmt",
        {**SEQ, "src_vocab_size": 64, "tgt_vocab_size": 64, "langs": ["en", "de"]},
        both_sines(ROWS + 1, spacing="half", offset=1),
        (OLD,),
    ),
    Model(
        "seq2seq",
        "longt5",
        {**T5, "encoder_attention_type": "local", "local_radius": 7},
        (buckets(2, 32, 128, True, part="encoder"), buckets(2, 32, 128, False, part="decoder")),
        (OLD,),
    ),
    Model(
        "seq2seq",
        "switch_transformers",
        {**T5, "num_sparse_encoder_layers": 0, "num_sparse_decoder_layers": 0, "num_experts": 2},
        (buckets(2, 32, 128, True, part="encoder"), buckets(2, 32, 128, False, part="decoder")),
        (OLDER,),
    ),
    Model(
        "text_alone",
        "pix2struct_text_model",
        {
            "initializer_range": 0.2,
            "vocab_size": 64,
            "hidden_size": 32,
            "d_kv": 16,
            "d_ff": 32,
            "num_layers": 2,
            "num_heads": 2,
        },
        (buckets(2, 32, 128, False),),
        (OLD, NEW),
    ),
)
SOUNDS: tuple[Model, ...] = (
    Model(
        "mel_fixed",
        "audio-spectrogram-transformer",
        {
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "max_length": 32,
            "num_mel_bins": 16,
            "patch_size": 8,
            "frequency_stride": 8,
            "time_stride": 8,
        },
        (learned(10),),
        (OLD, NEW),
    ),
    Model("wave", "sew", {**SPEECH, "squeeze_factor": 2}, NONE, (OLD,)),
    Model("wave", "unispeech-sat", {**SPEECH, "num_clusters": 4}, NONE, (OLD,)),
    Model("wave", "data2vec-audio", {**SPEECH, "num_conv_pos_embeddings": 2, "conv_pos_kernel_size": 3}, NONE, (NEW,)),
    Model(
        "features16",
        "parakeet_encoder",
        {
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_mel_bins": 16,
            "subsampling_conv_channels": 8,
            "subsampling_factor": 4,
            "conv_kernel_size": 5,
        },
        (Held("relative", "conformer", {"d_model": 32, "base": 10000.0}, BOTH),),
        (OLD, NEW),
    ),
    Model(
        "features16",
        "lasr_encoder",
        {
            "hidden_size": 64,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "num_mel_bins": 16,
            "subsampling_conv_channels": 8,
            "conv_kernel_size": 5,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        },
        (rotary(),),
        (OLD,),
    ),
    Model(
        "wave16",
        "encodec",
        {
            "hidden_size": 16,
            "num_filters": 4,
            "upsampling_ratios": [2, 2],
            "codebook_size": 8,
            "codebook_dim": 16,
            "num_lstm_layers": 1,
        },
        NONE,
        (OLD,),
    ),
    Model(
        "moonshine",
        "moonshine",
        {
            **SEQ,
            "hidden_size": 64,
            "intermediate_size": 32,
            "encoder_num_hidden_layers": 2,
            "decoder_num_hidden_layers": 2,
            "encoder_num_attention_heads": 2,
            "decoder_num_attention_heads": 2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
        },
        (replace(rotary(layout="interleaved", rotary_dim=16, layers=(0, 1, 2, 4)), part="encoder and decoder"),),
        (NEW,),
    ),
    Model(
        "codes",
        "musicgen_decoder",
        {
            "vocab_size": 64,
            "hidden_size": 32,
            "ffn_dim": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "max_position_embeddings": ROWS,
            "num_codebooks": 2,
            "pad_token_id": 0,
            "audio_channels": 1,
        },
        (sines(32, ROWS, layout="halves, cosines first", spacing="half"),),
        (OLD,),
    ),
)
PICTURES: tuple[Model, ...] = (
    *(
        Model("pixels", name, {**IMAGE, **more}, NONE, ways)
        for name, more, ways in (
            (
                "convnext",
                {"depths": [1, 1], "hidden_sizes": [16, 32], "num_stages": 2, "patch_size": 4},
                ("old 12", NEW),
            ),
            (
                "poolformer",
                {
                    "depths": [1, 1],
                    "hidden_sizes": [16, 32],
                    "num_encoder_blocks": 2,
                    "patch_sizes": [7, 3],
                    "strides": [4, 2],
                    "padding": [2, 1],
                    "patch_size": 4,
                    "stride": 4,
                },
                (OLD,),
            ),
            (
                "pvt_v2",
                {
                    "num_encoder_blocks": 2,
                    "depths": [1, 1],
                    "sr_ratios": [2, 1],
                    "hidden_sizes": [16, 32],
                    "patch_sizes": [7, 3],
                    "strides": [4, 2],
                    "num_attention_heads": [1, 2],
                    "mlp_ratios": [2, 2],
                    "num_stages": 2,
                    "out_features": ["stage2"],
                },
                (OLD,),
            ),
            ("mobilenet_v2", {"depth_multiplier": 0.25}, ("old 12",)),
        )
    ),
    Model("pixels", "aimv2_vision_model", {**IMAGE, "is_native": False}, (learned(16),), (OLD, NEW)),
    Model("pixels", "blip_vision_model", IMAGE, (learned(17),), (OLD, NEW)),
    Model("pixels", "blip_2_vision_model", IMAGE, (learned(17),), (OLD,)),
    Model("pixels", "git_vision_model", IMAGE, (learned(17),), (OLD,)),
    Model("pixels", "owlvit_vision_model", IMAGE, (learned(17),), (NEW,)),
    Model(
        "pixels",
        "groupvit_vision_model",
        {**IMAGE, "depths": [1, 1], "num_group_tokens": [4, 0], "num_output_groups": [4, 0]},
        (learned(16),),
        (OLD,),
    ),
    Model("pixels", "flava_image_model", IMAGE, (learned(17),), (OLD,)),
    Model("pixels", "janus_vision_model", {**IMAGE, "projection_dim": 32}, (learned(16),), (OLD,)),
    Model(
        "pixels",
        "internvl_vision",
        {**IMAGE, "image_size": [32, 32], "patch_size": [8, 8], "use_absolute_position_embeddings": True},
        (learned(17),),
        (NEW,),
    ),
    Model(
        "pixels",
        "llama4_vision_model",
        {
            **IMAGE,
            "hidden_size": 64,
            "intermediate_size": 256,
            "vision_output_dim": 32,
            "projector_input_dim": 32,
            "projector_output_dim": 32,
            "pixel_shuffle_ratio": 0.5,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        },
        (learned(17, 64), of_places("interleaved")),
        (NEW,),
    ),
    Model("pixels", "mlcd_vision_model", {**IMAGE, "hidden_size": 64}, (of_places(),), (OLD, NEW)),
    Model(
        "pixels",
        "donut-swin",
        DEPTHS,
        tuple(
            Held("window", "table", {"heads": heads, "window": [4, 4]}, layers)
            for heads, layers in ((2, (0, 1)), (4, (2,)))
        ),
        (OLD, NEW),
    ),
    Model(
        "pixels",
        "maskformer-swin",
        DEPTHS,
        tuple(
            Held("window", "table", {"heads": heads, "window": [4, 4]}, layers)
            for heads, layers in ((2, (0, 1)), (4, (2,)))
        ),
        (OLD,),
    ),
    Model(
        "pixels",
        "sam_vision_model",
        {**IMAGE, "output_channels": 16, "window_size": 2, "global_attn_indexes": [1], "mlp_dim": 32},
        (
            learned(16),
            distances(1, (0,)),
            distances(3, (1,)),
        ),
        (OLD,),
    ),
    Model(
        "pixels",
        "hiera",
        {
            **IMAGE,
            "embed_dim": 16,
            "depths": [1, 1],
            "num_heads": [1, 2],
            "image_size": [32, 32],
            "patch_size": [3, 3],
            "patch_stride": [2, 2],
            "patch_padding": [1, 1],
            "num_query_pool": 1,
            "masked_unit_size": [4, 4],
        },
        (learned(256, 16),),
        (OLD,),
    ),
    Model(
        "pixels",
        "pvt",
        {
            **IMAGE,
            "num_encoder_blocks": 2,
            "depths": [1, 1],
            "sequence_reduction_ratios": [2, 1],
            "hidden_sizes": [16, 32],
            "patch_sizes": [4, 2],
            "strides": [4, 2],
            "num_attention_heads": [1, 2],
            "mlp_ratios": [2, 2],
        },
        (Held("grid", "interpolated", {"dim": 16, "rows": 64}), Held("grid", "interpolated", {"dim": 32, "rows": 16})),
        (OLD,),
    ),
    Model(
        "video",
        "videomae",
        {**IMAGE, "num_frames": 4, "tubelet_size": 2},
        (sines(32, 32, layout="interleaved"),),
        (OLD, NEW),
    ),
    Model("video", "vivit", {**IMAGE, "num_frames": 4, "tubelet_size": [2, 8, 8]}, (learned(33),), (OLD,)),
    Model("video", "timesformer", {**IMAGE, "num_frames": 4}, (learned(17), learned(4)), (OLD,)),
    Model(
        "series",
        "patchtst",
        {
            "num_input_channels": 2,
            "context_length": 32,
            "patch_length": 8,
            "patch_stride": 8,
            "d_model": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "ffn_dim": 32,
            "positional_encoding_type": "random",
            "use_cls_token": False,
        },
        (learned(4),),
        (OLD,),
    ),
    Model(
        "series",
        "patchtsmixer",
        {
            "num_input_channels": 2,
            "context_length": 32,
            "patch_length": 8,
            "patch_stride": 8,
            "d_model": 16,
            "num_layers": 1,
        },
        NONE,
        (OLD, NEW),
    ),
)
MODELS: tuple[Model, ...] = (*DECODERS, *TOKENS, *SEQUENCES, *SOUNDS, *PICTURES)
