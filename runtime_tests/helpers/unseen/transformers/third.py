"""A third sample, made when what was missed in the second was mended, and counted once: other types, other classes."""

from __future__ import annotations

from typing import Any

from helpers.foreign.models import BOTH, ROWS, learned
from helpers.foreign.truth import Held
from helpers.unseen.parts import (
    LATE,
    NEW,
    OLD,
    OLDER,
    OWN,
    sections,
)
from scripts.unseen_files import (
    GPT,
    HALF_HEADS,
    IMAGE,
    MOE,
    NONE,
    SPEECH,
    Model,
    distances,
    table,
    turned,
)

STAGES: dict[str, Any] = {"depths": [1, 1], "hidden_sizes": [16, 32], "num_encoder_blocks": 2}
STAGES |= {"patch_sizes": [7, 3], "strides": [4, 2], "num_attention_heads": [1, 2], "mlp_ratios": [2, 2]}
MODELS: tuple[Model, ...] = (
    turned("aria_text", (OLD,), **{**MOE, "moe_num_experts": 2, "moe_topk": 1, "moe_num_shared_experts": 1}),
    turned("emu3_text_model", (NEW, OLDER), theta=1e6, **HALF_HEADS),
    turned("hy_v3", (LATE,), **{**MOE, "moe_intermediate_size": 32, "mlp_layer_types": ["dense", "dense"]}),
    turned(
        "lfm2_moe",
        (OLD,),
        layers=(0,),
        theta=1e6,
        layer_types=["conv", "full_attention"],
        **{**HALF_HEADS, **MOE, "num_dense_layers": 2, "moe_intermediate_size": 32},
    ),
    sections("paddleocr_vl_text", [4, 6, 6], (OLD,)),
    *(
        table("text_alone", name, ways, ROWS)
        for name, ways in (
            ("metaclip_2_text_model", (OLD, NEW)),
            ("clipseg_text_model", (OLDER,)),
            ("xclip_text_model", (NEW,)),
            ("groupvit_text_model", (OLD,)),
            ("aimv2_text_model", (OLD, NEW)),
            ("align_text_model", (LATE,)),
        )
    ),
    table("tokens", "ibert", (OLD,), ROWS, 2, pad_token_id=1),
    table("tokens", "markuplm", (NEW,), ROWS, 2, pad_token_id=1, max_depth=4),
    table("tokens", "blip_text_model", (OLD,), ROWS),
    *(
        Model("pixels", name, IMAGE, (learned(17),), ways)
        for name, ways in (
            ("clipseg_vision_model", (OLD,)),
            ("metaclip_2_vision_model", (OLDER, NEW)),
            ("chinese_clip_vision_model", (OLD,)),
            ("altclip_vision_model", (OLD,)),
            ("instructblip_vision_model", (OLD,)),
        )
    ),
    Model(
        "pixels",
        "swin2sr",
        {
            "embed_dim": 16,
            "depths": [2],
            "num_heads": [2],
            "window_size": 4,
            "image_size": 32,
            "patch_size": 1,
            "mlp_ratio": 2.0,
        },
        (Held("window", "continuous", {"heads": 2, "window": [4, 4], "pretrained_window": [4, 4]}, BOTH),),
        (OLD,),
    ),
    Model(
        "pixels",
        "focalnet",
        {
            **IMAGE,
            "embed_dim": 16,
            "depths": [1, 1],
            "focal_levels": [2, 2],
            "focal_windows": [3, 3],
            "hidden_sizes": [16, 32],
            "patch_size": 4,
        },
        NONE,
        (OLD,),
    ),
    Model("pixels", "glpn", {**STAGES, "sr_ratios": [2, 1], "decoder_hidden_size": 16}, NONE, (OLD,)),
    Model(
        "pixels",
        "efficientnet",
        {"width_coefficient": 0.2, "depth_coefficient": 0.2, "hidden_dim": 256, "image_size": 32},
        NONE,
        (OLD,),
    ),
    Model("wave", "unispeech", {**SPEECH, "num_ctc_classes": 8}, NONE, (OLD,)),
    Model("tokens", "gpt-sw3", GPT, (learned(ROWS),), (OWN,)),
)


SAM: dict[str, Any] = {**IMAGE, "output_channels": 16, "window_size": 2, "global_attn_indexes": [1], "mlp_dim": 32}
MORE_MODELS: tuple[Model, ...] = (
    *(
        Model("pixels", name, {**IMAGE, **more}, NONE, ways)
        for name, more, ways in (
            ("mobilenet_v1", {"depth_multiplier": 0.25}, (OLD, NEW)),
            (
                "mobilevit",
                {"hidden_sizes": [16, 16, 16], "neck_hidden_sizes": [8, 8, 8, 8, 8, 8, 8], "patch_size": 2},
                (OLD,),
            ),
            ("convnextv2", {"depths": [1, 1], "hidden_sizes": [16, 32], "num_stages": 2, "patch_size": 4}, (OLD, NEW)),
            ("dinov3_convnext", {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 8, 16, 16]}, (NEW,)),
            ("swiftformer", {"depths": [1, 1, 1, 1], "embed_dims": [8, 8, 16, 16]}, (OLD,)),
        )
    ),
    Model("pixels", "sam_hq_vision_model", SAM, (learned(16), distances(1, (0,)), distances(3, (1,))), (OLD, NEW)),
    Model(
        "wave16",
        "dac",
        {
            "encoder_hidden_size": 8,
            "decoder_hidden_size": 16,
            "downsampling_ratios": [2, 2],
            "upsampling_ratios": [2, 2],
            "n_codebooks": 2,
            "codebook_size": 8,
            "codebook_dim": 4,
        },
        NONE,
        (OLD,),
    ),
    table("tokens", "dpr", (OLD, NEW), ROWS),
)
