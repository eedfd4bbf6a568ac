"""A third sample, made when what was missed in the second was mended, and counted once: other types, other classes."""

from __future__ import annotations

from typing import Any

from helpers.foreign.models import BOTH, ROWS, learned, rotary
from helpers.foreign.truth import Held
from helpers.unseen.torch_packages import (
    IDS,
    SMALL,
    VIT,
    First,
    Frames,
    Network,
    X,
    diffused,
    images,
    lit,
    llama_of_torchtune,
    of,
    picture,
    plain,
    sampled,
    steps,
    tokens,
    vectors,
    windows,
    x_model,
)
from helpers.unseen.torch_packages import (
    IMAGE as IMAGES,
)
from helpers.unseen.transformers_types import LATE, NEW, NEWER, OLD, OLDER, OWN, sections
from scripts.unseen_files import (
    BATCH,
    GPT,
    HALF_HEADS,
    IMAGE,
    MOE,
    NONE,
    SPEECH,
    Model,
    distances,
    numbers,
    sines,
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


def pixart(length: int) -> dict[str, Any]:
    """Return what goes into PixArt: latents, words, a step."""
    return {
        "hidden_states": numbers(BATCH, 4, 8, 8),
        "encoder_hidden_states": numbers(BATCH, 6, 32),
        "timestep": steps(length)["timestep"],
    }


SINCOS: dict[str, Any] = {"dim": 32, "base": 10000.0, "order": "column_first", "layout": "halves", "spacing": "paper"}
HALVES: dict[str, Any] = {"intermediate_dim": 64}
NETWORKS: tuple[Network, ...] = (
    picture(
        "timm.deit3",
        "timm.models.vision_transformer:VisionTransformer",
        (learned(16),),
        (OLD, NEW),
        no_embed_class=True,
        init_values=1e-4,
        **SMALL,
    ),
    picture(
        "timm.reg4",
        "timm.models.vision_transformer:VisionTransformer",
        (learned(16),),
        (OLD,),
        reg_tokens=4,
        no_embed_class=True,
        **SMALL,
    ),
    picture(
        "timm.volo",
        "timm.models.volo:VOLO",
        (learned(16, 16),),
        (OLD,),
        layers=[1, 1],
        img_size=32,
        patch_size=4,
        stem_hidden_dim=8,
        embed_dims=[16, 16],
        num_heads=[1, 1],
        downsamples=(True, False),
        outlook_attention=(True, False),
        mlp_ratio=2.0,
        num_classes=4,
        use_aux_head=False,
    ),
    picture(
        "timm.mixer",
        "timm.models.mlp_mixer:MlpMixer",
        NONE,
        (OLD,),
        img_size=32,
        patch_size=8,
        num_blocks=2,
        embed_dim=32,
        num_classes=4,
    ),
    picture("vit_pytorch.deepvit", "vit_pytorch.deepvit:DeepViT", (learned(17),), (OLD,), **VIT),
    picture("vit_pytorch.small", "vit_pytorch.vit_for_small_dataset:ViT", (learned(17),), (OLD, NEW), **VIT),
    picture("vit_pytorch.parallel", "vit_pytorch.parallel_vit:ViT", (learned(17),), (NEW,), **VIT),
    Network(
        "vit_pytorch.vit_1d",
        plain("vit_pytorch.vit_1d:ViT", seq_len=64, patch_size=4, num_classes=4, dim=32, depth=2, heads=2, mlp_dim=32),
        lambda _: {"series": numbers(BATCH, 3, 64)},
        {"series": {0: "batch"}},
        (learned(17),),
        (OLD,),
    ),
    picture(
        "vit_pytorch.cct",
        "vit_pytorch.cct:CCT",
        (learned(64),),
        (OLD,),
        img_size=32,
        embedding_dim=32,
        n_conv_layers=2,
        kernel_size=3,
        stride=1,
        padding=1,
        pooling_kernel_size=3,
        pooling_stride=2,
        pooling_padding=1,
        num_layers=2,
        num_heads=2,
        mlp_ratio=1.0,
        num_classes=4,
        positional_embedding="learnable",
    ),
    Network(
        "litgpt.condensed",
        lit(rotary_percentage=1.0, rope_condense_ratio=2),
        tokens,
        IDS,
        (rotary("linear", factor=2.0, rows=ROWS),),
        (OLD, NEW),
    ),
    Network(
        "litgpt.phi",
        lit(rotary_percentage=0.25, parallel_residual=True, shared_attention_norm=True, lm_head_bias=True),
        tokens,
        IDS,
        (rotary(rotary_dim=8, rows=ROWS),),
        (LATE,),
    ),
    Network("x_transformers.absolute", x_model(), tokens, IDS, (learned(ROWS),), (OLD, NEW)),
    Network(
        "x_transformers.half",
        x_model(rotary_pos_emb=True, rotary_emb_dim=32, attn_kv_heads=1),
        tokens,
        IDS,
        (rotary(layout="interleaved"),),
        (OLD,),
    ),
    Network(
        "torchtune.mistral",
        llama_of_torchtune("torchtune.models.mistral:mistral", **HALVES),
        tokens,
        IDS,
        (rotary(layout="interleaved", rows=ROWS),),
        (NEW,),
    ),
    Network(
        "torchtune.qwen2",
        llama_of_torchtune("torchtune.models.qwen2:qwen2", **HALVES),
        tokens,
        IDS,
        (rotary(theta=1e6, rows=ROWS),),
        (NEW,),
    ),
    Network(
        "torchtune.phi3",
        llama_of_torchtune("torchtune.models.phi3:phi3", **HALVES),
        tokens,
        IDS,
        (rotary(rows=ROWS),),
        (NEWER,),
    ),
    Network(
        "espnet.e_branchformer",
        lambda: Frames(
            of("espnet2.asr.encoder.e_branchformer_encoder:EBranchformerEncoder")(
                input_size=16,
                output_size=32,
                attention_heads=2,
                linear_units=32,
                cgmlp_linear_units=32,
                num_blocks=2,
                input_layer="linear",
                rel_pos_type="latest",
                cgmlp_conv_kernel=5,
            )
        ),
        vectors(16),
        X,
        (Held("relative", "conformer", {"d_model": 32, "base": 10000.0, "rows": 9999}, BOTH),),
        (OLD,),
    ),
    Network(
        "espnet.scaled",
        lambda: Frames(
            of("espnet2.asr.encoder.conformer_encoder:ConformerEncoder")(
                input_size=16,
                output_size=32,
                attention_heads=2,
                linear_units=32,
                num_blocks=2,
                input_layer="linear",
                pos_enc_layer_type="abs_pos",
                selfattention_layer_type="selfattn",
                cnn_module_kernel=5,
            )
        ),
        vectors(16),
        X,
        (sines(32, 5000, layout="interleaved"),),
        (OLD,),
    ),
    Network(
        "moshi.sin_rope",
        plain(
            "moshi.modules.transformer:StreamingTransformer",
            d_model=64,
            num_heads=2,
            num_layers=2,
            dim_feedforward=64,
            causal=True,
            positional_embedding="sin_rope",
        ),
        vectors(64),
        X,
        (sines(64, None, layout="halves, cosines first", spacing="half"), rotary(layout="interleaved")),
        (OLD, NEW),
    ),
    diffused(
        "PixArtTransformer2DModel",
        (Held("grid", "sincos_2d", {**SINCOS, "rows": 16}), sampled(256, True, 0.0)),
        (OLD,),
        pixart,
        num_attention_heads=2,
        attention_head_dim=16,
        in_channels=4,
        out_channels=8,
        num_layers=1,
        cross_attention_dim=32,
        sample_size=8,
        patch_size=2,
        caption_channels=32,
        interpolation_scale=1,
        use_additional_conditions=False,
    ),
    Network(
        "demucs.scaled",
        lambda: First(
            of("demucs.transformer:CrossTransformerEncoder")(
                dim=32, emb="scaled", num_layers=2, num_heads=2, hidden_scale=1.0
            )
        ),
        lambda _: {"x": numbers(BATCH, 32, 4, 11), "wave": numbers(BATCH, 32, 22)},
        {},
        (learned(22), Held("grid", "sincos_2d", {**SINCOS, "order": "row_first", "layout": "interleaved"})),
        (OLD,),
    ),
    picture(
        "timm.beit_abs",
        "timm.models.beit:Beit",
        (learned(17),),
        (OLD,),
        use_abs_pos_emb=True,
        use_rel_pos_bias=False,
        **SMALL,
    ),
    picture(
        "timm.swin_ape",
        "timm.models.swin_transformer:SwinTransformer",
        windows("table", (1, [4, 4], BOTH)),
        (OLD,),
        img_size=32,
        patch_size=4,
        window_size=4,
        num_classes=4,
        embed_dim=16,
        depths=[2],
        num_heads=[1],
    ),
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


def of_timm(name: str) -> Network:
    """Return a network of convolutions that timm makes by its name."""
    return Network(f"timm.{name}", lambda: of("timm:create_model")(name, num_classes=4), images, IMAGES, NONE, (OLD,))


ENDED: dict[str, Any] = {
    "sample_size": 8,
    "in_channels": 4,
    "out_channels": 4,
    "norm_num_groups": 8,
    "layers_per_block": 1,
}
WIDTHS: dict[str, Any] = {"block_out_channels": (16, 32), **ENDED}
MORE_NETWORKS: tuple[Network, ...] = (
    picture(
        "timm.tnt",
        "timm.models.tnt:TNT",
        (learned(17), learned(4, 8)),
        (OLD,),
        img_size=32,
        patch_size=8,
        embed_dim=32,
        inner_dim=8,
        depth=2,
        num_heads_outer=2,
        num_heads_inner=2,
        first_stride=4,
        num_classes=4,
    ),
    picture(
        "timm.xcit_s",
        "timm.models.vision_transformer:VisionTransformer",
        (learned(17),),
        (LATE,),
        qk_norm=True,
        init_values=0.1,
        global_pool="avg",
        **SMALL,
    ),
    picture(
        "timm.vit_dist", "timm.models.vision_transformer:VisionTransformer", NONE, (OLD, NEW), pos_embed="none", **SMALL
    ),
    *(of_timm(name) for name in ("ghostnet_050", "repvit_m0_9", "lcnet_035", "mixnet_s")),
    *(
        Network(f"torchvision.{name}", plain(f"torchvision.models:{name}", num_classes=4), images, IMAGES, NONE, (OLD,))
        for name in ("shufflenet_v2_x0_5", "squeezenet1_1", "mnasnet0_5")
    ),
    picture(
        "vit_pytorch.cait",
        "vit_pytorch.cait:CaiT",
        (learned(16),),
        (OLD, NEW),
        image_size=32,
        patch_size=8,
        num_classes=4,
        dim=32,
        depth=2,
        cls_depth=1,
        heads=2,
        mlp_dim=32,
    ),
    picture(
        "vit_pytorch.xcit",
        "vit_pytorch.xcit:XCiT",
        (learned(16),),
        (OLD, NEW),
        image_size=32,
        patch_size=8,
        num_classes=4,
        dim=32,
        depth=2,
        cls_depth=1,
        heads=2,
        mlp_dim=32,
    ),
    diffused(
        "UNet3DConditionModel",
        (sampled(16, True, 0.0),),
        (OLD,),
        lambda n: {
            "sample": numbers(BATCH, 4, 2, 8, 8),
            "timestep": steps(n)["timestep"],
            "encoder_hidden_states": numbers(BATCH, 6, 32),
        },
        down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"),
        up_block_types=("UpBlock3D", "CrossAttnUpBlock3D"),
        cross_attention_dim=32,
        attention_head_dim=8,
        **WIDTHS,
    ),
    diffused(
        "PriorTransformer",
        (sampled(32, True, 0.0), learned(8)),
        (OLD, NEW),
        lambda n: {
            "hidden_states": numbers(BATCH, 32),
            "timestep": steps(n)["timestep"],
            "proj_embedding": numbers(BATCH, 32),
            "encoder_hidden_states": numbers(BATCH, 4, 32),
        },
        num_attention_heads=2,
        attention_head_dim=16,
        num_layers=1,
        embedding_dim=32,
        num_embeddings=4,
        additional_embeddings=4,
    ),
    diffused(
        "AutoencoderKL",
        NONE,
        (OLD,),
        lambda _: {"sample": numbers(BATCH, 4, 8, 8)},
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
        **WIDTHS,
    ),
    Network(
        "monai.unetr",
        plain(
            "monai.networks.nets:UNETR",
            in_channels=1,
            out_channels=2,
            img_size=(32, 32, 32),
            feature_size=4,
            hidden_size=32,
            mlp_dim=32,
            num_heads=2,
        ),
        lambda _: {"scan": numbers(1, 1, 32, 32, 32)},
        {},
        (learned(8),),
        (OLD,),
    ),
    Network(
        "monai.unet",
        plain(
            "monai.networks.nets:UNet", spatial_dims=2, in_channels=1, out_channels=2, channels=(8, 16), strides=(2,)
        ),
        lambda _: {"scan": numbers(BATCH, 1, 32, 32)},
        {"scan": {0: "batch"}},
        NONE,
        (OLD, NEW),
    ),
    Network(
        "smp.fpn",
        plain("segmentation_models_pytorch:FPN", "mobilenet_v2", encoder_weights=None),
        images,
        IMAGES,
        NONE,
        (OLD,),
    ),
    Network(
        "smp.segformer",
        plain("segmentation_models_pytorch:Segformer", "mit_b0", encoder_weights=None),
        lambda _: {"image": numbers(BATCH, 3, 64, 64)},
        IMAGES,
        NONE,
        (OLD,),
    ),
    Network(
        "litgpt.falcon",
        lit(rotary_percentage=1.0, parallel_residual=True, n_query_groups=1, bias=False),
        tokens,
        IDS,
        (rotary(rows=ROWS),),
        (OLD, NEW),
    ),
    Network(
        "litgpt.gemma",
        lit(
            rotary_percentage=1.0,
            norm_class_name="RMSNorm",
            mlp_class_name="GemmaMLP",
            scale_embeddings=True,
            head_size=16,
        ),
        tokens,
        IDS,
        (rotary(head_dim=16, rows=ROWS),),
        (OLD, NEW),
    ),
    Network(
        "x_transformers.xl",
        x_model(rotary_pos_emb=True, use_rmsnorm=True, ff_swish=True, ff_glu=True),
        tokens,
        IDS,
        (rotary(layout="interleaved", rotary_dim=16),),
        (LATE,),
    ),
    Network(
        "torchtune.gemma",
        llama_of_torchtune("torchtune.models.gemma:gemma", head_dim=32, **HALVES),
        tokens,
        IDS,
        (rotary(layout="interleaved", rows=ROWS),),
        (NEW,),
    ),
    Network(
        "moshi.plain",
        plain(
            "moshi.modules.transformer:StreamingTransformer",
            d_model=64,
            num_heads=2,
            num_layers=2,
            dim_feedforward=64,
            causal=True,
            positional_embedding="none",
        ),
        vectors(64),
        X,
        NONE,
        (OLD,),
    ),
)
