"""Networks of packages that run on PyTorch, as each package's own classes make them, tiny, with weights at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from helpers.foreign.models import BOTH, ROWS, learned, rotary
from helpers.foreign.truth import Held
from helpers.unseen.parts import (
    GRID,
    IDS,
    IMAGES,
    NEW,
    NEWER,
    OLD,
    OLDER,
    OLDEST,
    SMALL,
    VIT,
    First,
    Frames,
    Network,
    X,
    diffused,
    flux,
    images,
    lit,
    llama_of_torchtune,
    of,
    of_places,
    picture,
    plain,
    sampled,
    steps,
    tokens,
    vectors,
    windows,
    x_model,
)
from scripts.unseen_files import BATCH, BY_TOKEN, NONE, buckets, distances, ids, numbers, sines

SWIN: dict[str, Any] = {"embed_dim": 16, "depths": [2, 1], "num_heads": [2, 4]}


TIMM: tuple[Network, ...] = (
    picture("timm.vit", "timm.models.vision_transformer:VisionTransformer", (learned(17),), (OLD, NEW), **SMALL),
    picture("timm.deit", "timm.models.deit:VisionTransformerDistilled", (learned(18),), (OLDER,), **SMALL),
    picture(
        "timm.beit",
        "timm.models.beit:Beit",
        windows("table", (2, [4, 4], BOTH), class_token=True),
        (OLD, NEW),
        use_abs_pos_emb=False,
        use_rel_pos_bias=True,
        **SMALL,
    ),
    picture("timm.cait", "timm.models.cait:Cait", (learned(16),), (OLD,), depth_token_only=1, **SMALL),
    picture(
        "timm.pit",
        "timm.models.pit:PoolingVisionTransformer",
        (learned(16, 16),),
        (OLD,),
        img_size=32,
        patch_size=8,
        stride=8,
        base_dims=[16, 16],
        depth=[1, 1],
        heads=[1, 1],
        mlp_ratio=2,
        num_classes=4,
    ),
    picture(
        "timm.xcit",
        "timm.models.xcit:Xcit",
        (Held("grid", "sine_2d", {"dim": 64, "temperature": 10000.0, "normalize": True, "scale": 6.283185307179586}),),
        (OLD,),
        **SMALL,
    ),
    picture(
        "timm.relpos",
        "timm.models.vision_transformer_relpos:VisionTransformerRelPos",
        windows("table", (2, [4, 4], BOTH)),
        (OLD, NEW),
        rel_pos_type="bias",
        class_token=False,
        global_pool="avg",
        **SMALL,
    ),
    picture(
        "timm.swin",
        "timm.models.swin_transformer:SwinTransformer",
        windows("table", (2, [4, 4], BOTH), (4, [4, 4], (2,))),
        (OLD, NEW),
        img_size=32,
        patch_size=4,
        window_size=4,
        num_classes=4,
        **SWIN,
    ),
    picture(
        "timm.swin_v2",
        "timm.models.swin_transformer_v2:SwinTransformerV2",
        windows("continuous", (2, [4, 4], BOTH), (4, [4, 4], (2,)), pretrained_window=[4, 4]),
        (OLD,),
        img_size=32,
        patch_size=4,
        window_size=4,
        num_classes=4,
        **SWIN,
    ),
    picture(
        "timm.eva02",
        "timm.models.eva:Eva",
        (learned(17, 64), of_places("interleaved")),
        (OLD, NEW),
        **{**SMALL, "embed_dim": 64, "use_rot_pos_emb": True, "use_abs_pos_emb": True},
    ),
    picture(
        "timm.dinov3",
        "timm.models.eva:Eva",
        (Held("rotary", "dinov3", {"head_dim": 32, "rope_theta": 100.0, "layout": "halves"}, BOTH),),
        (OLD, NEW),
        **{
            **SMALL,
            "embed_dim": 64,
            "use_rot_pos_emb": True,
            "use_abs_pos_emb": False,
            "rope_type": "dinov3",
            "rope_temperature": 100.0,
            "rope_rotate_half": True,
            "no_embed_class": True,
            "rope_grid_offset": 0.0,
        },
    ),
    picture(
        "timm.twins",
        "timm.models.twins:Twins",
        NONE,
        (OLD,),
        img_size=32,
        patch_size=4,
        num_classes=4,
        embed_dims=[16, 32],
        num_heads=[1, 2],
        mlp_ratios=[2, 2],
        depths=[1, 1],
        sr_ratios=[2, 1],
    ),
    Network(
        "timm.mobilenetv3",
        lambda: of("timm:create_model")("mobilenetv3_small_050", num_classes=4),
        images,
        IMAGES,
        NONE,
        (OLDEST,),
    ),
)
TV: dict[str, Any] = {"patch_size": [4, 4], "window_size": [4, 4], "num_classes": 4, **SWIN}
TORCHVISION: tuple[Network, ...] = (
    picture(
        "torchvision.vit",
        "torchvision.models:VisionTransformer",
        (learned(17),),
        (OLD, NEW),
        image_size=32,
        patch_size=8,
        num_layers=2,
        num_heads=2,
        hidden_dim=32,
        mlp_dim=32,
        num_classes=4,
    ),
    picture(
        "torchvision.swin",
        "torchvision.models:SwinTransformer",
        windows("table", (2, [4, 4], BOTH), (4, [4, 4], (2,))),
        (OLD, NEW),
        **TV,
    ),
    Network(
        "torchvision.swin_v2",
        lambda: First(
            of("torchvision.models:SwinTransformer")(
                block=of("torchvision.models.swin_transformer:SwinTransformerBlockV2"),
                downsample_layer=of("torchvision.models.swin_transformer:PatchMergingV2"),
                **TV,
            )
        ),
        images,
        IMAGES,
        windows("continuous", (2, [4, 4], BOTH), (4, [4, 4], (2,)), pretrained_window=[4, 4]),
        (OLD,),
    ),
    Network(
        "torchvision.maxvit",
        plain(
            "torchvision.models:MaxVit",
            input_size=(32, 32),
            stem_channels=8,
            partition_size=4,
            block_channels=[8, 16],
            block_layers=[1, 1],
            head_dim=8,
            stochastic_depth_prob=0.0,
            num_classes=4,
        ),
        images,
        IMAGES,
        windows("table", (1, [4, 4], BOTH), (2, [4, 4], (2, 3))),
        (OLD,),
    ),
    Network(
        "torchvision.resnet18",
        plain("torchvision.models:resnet18", num_classes=4, width_per_group=64),
        images,
        IMAGES,
        NONE,
        (OLD,),
    ),
)


def open_clip_text() -> nn.Module:
    """Return open_clip's text tower."""
    return First(
        of("open_clip.transformer:TextTransformer")(
            context_length=ROWS, vocab_size=64, width=32, heads=2, layers=2, output_dim=32
        )
    )


def whisper_decoder() -> nn.Module:
    """Return Whisper's decoder, which traces only without torch's own attention."""
    of("whisper.model:MultiHeadAttention").use_sdpa = False
    return First(of("whisper.model:TextDecoder")(64, ROWS, 32, 2, 2))


def torchscale_encoder(**more: Any) -> Callable[[], nn.Module]:
    """Return what makes torchscale's encoder, called with vectors."""
    settings = {
        "encoder_embed_dim": 64,
        "encoder_attention_heads": 2,
        "encoder_ffn_embed_dim": 64,
        "encoder_layers": 2,
        "checkpoint_activations": False,
        **more,
    }
    return lambda: First(
        of("torchscale.architecture.encoder:Encoder")(of("torchscale.architecture.config:EncoderConfig")(**settings)),
        names=("token_embeddings",),
        src_tokens=None,
    )


def moshi(kind: str) -> Callable[[], nn.Module]:
    """Return what makes Moshi's transformer."""
    return plain(
        "moshi.modules.transformer:StreamingTransformer",
        d_model=64,
        num_heads=2,
        num_layers=2,
        dim_feedforward=64,
        causal=True,
        positional_embedding=kind,
    )


def esm2() -> nn.Module:
    """Return ESM-2."""
    return First(of("esm.model.esm2:ESM2")(num_layers=2, embed_dim=64, attention_heads=2, token_dropout=False))


TEXT: tuple[Network, ...] = (
    Network(
        "open_clip.text", open_clip_text, lambda _: tokens(ROWS), {"tokens": {0: "batch"}}, (learned(ROWS),), (OLD, NEW)
    ),
    picture(
        "open_clip.vision",
        "open_clip.transformer:VisionTransformer",
        (learned(17),),
        (OLD,),
        image_size=32,
        patch_size=8,
        width=32,
        layers=2,
        heads=2,
        mlp_ratio=1.0,
        output_dim=32,
    ),
    Network(
        "clip",
        plain("clip.model:CLIP", 32, 32, 2, 64, 8, 24, 64, 32, 2, 2),
        lambda _: {"image": numbers(BATCH, 3, 32, 32), "tokens": ids(24)},
        {},
        (learned(17, 64), learned(24)),
        (OLD,),
    ),
    Network(
        "whisper.encoder",
        plain("whisper.model:AudioEncoder", 8, 24, 32, 2, 2),
        lambda _: {"mel": numbers(BATCH, 8, 48)},
        {"mel": {0: "batch"}},
        (sines(32, 24, spacing="half"),),
        (OLD, NEW),
    ),
    Network(
        "whisper.decoder",
        whisper_decoder,
        lambda n: {"tokens": ids(n), "audio": numbers(BATCH, 24, 32)},
        {"tokens": BY_TOKEN, "audio": {0: "batch"}},
        (learned(ROWS),),
        (OLD, NEW),
    ),
    Network(
        "torchscale.buckets",
        torchscale_encoder(rel_pos_buckets=32, max_rel_pos=128),
        vectors(64),
        X,
        (buckets(2, 32, 128, True),),
        (OLD,),
    ),
    Network(
        "torchscale.xpos",
        torchscale_encoder(xpos_rel_pos=True),
        vectors(64),
        X,
        (
            Held(
                "rotary",
                "xpos",
                {
                    "head_dim": 32,
                    "rope_theta": 10000.0,
                    "layout": "interleaved",
                    "scale_base": 512.0,
                    "gamma": 0.4,
                    "center": "length",
                },
                BOTH,
            ),
        ),
        (OLD,),
    ),
    Network("litgpt.pythia", lit(rotary_percentage=0.5), tokens, IDS, (rotary(rotary_dim=16, rows=ROWS),), (OLD, NEW)),
    Network(
        "litgpt.llama3",
        lit(
            rotary_percentage=1.0,
            rope_base=500000,
            n_query_groups=1,
            norm_class_name="RMSNorm",
            mlp_class_name="LLaMAMLP",
            rope_adjustments={
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_seq_len": 64,
            },
        ),
        tokens,
        IDS,
        (
            rotary(
                "llama3",
                theta=500000.0,
                rows=ROWS,
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=64,
            ),
        ),
        (OLD, NEW),
    ),
    Network(
        "x_transformers.rotary",
        x_model(rotary_pos_emb=True),
        tokens,
        IDS,
        (rotary(layout="interleaved", rotary_dim=16),),
        (OLD, NEW),
    ),
    Network(
        "x_transformers.alibi",
        x_model(alibi_pos_bias=True, alibi_num_heads=2),
        tokens,
        IDS,
        (learned(ROWS), Held("alibi", "distance", {"heads": 2, "bias_max": 8.0}, BOTH)),
        (OLD,),
    ),
    Network("x_transformers.t5", x_model(rel_pos_bias=True), tokens, IDS, (buckets(2, 32, 128, False),), (OLD, NEW)),
    Network("moshi.rope", moshi("rope"), vectors(64), X, (rotary(layout="interleaved"),), (OLD, NEW)),
    Network(
        "moshi.sin",
        moshi("sin"),
        vectors(64),
        X,
        (sines(64, None, layout="halves, cosines first", spacing="half"),),
        (OLD,),
    ),
    Network("esm.esm2", esm2, lambda n: {"tokens": ids(n).clamp(max=24)}, IDS, (rotary(),), (OLD, NEW)),
    Network(
        "torchtune.llama2",
        llama_of_torchtune("torchtune.models.llama2:llama2"),
        tokens,
        IDS,
        (rotary(layout="interleaved", rows=ROWS),),
        (NEW, NEWER),
    ),
    Network(
        "torchtune.llama3_1",
        llama_of_torchtune("torchtune.models.llama3_1:llama3_1", scale_factor=8),
        tokens,
        IDS,
        (
            rotary(
                "llama3",
                layout="interleaved",
                theta=500000.0,
                rows=ROWS,
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=8192,
            ),
        ),
        (NEW,),
    ),
)


SPEECH: tuple[Network, ...] = (
    Network(
        "espnet.conformer",
        lambda: Frames(
            of("espnet2.asr.encoder.conformer_encoder:ConformerEncoder")(
                input_size=16,
                output_size=32,
                attention_heads=2,
                linear_units=32,
                num_blocks=2,
                input_layer="linear",
                rel_pos_type="latest",
                pos_enc_layer_type="rel_pos",
                selfattention_layer_type="rel_selfattn",
                cnn_module_kernel=5,
            )
        ),
        vectors(16),
        X,
        (Held("relative", "conformer", {"d_model": 32, "base": 10000.0, "rows": 9999}, BOTH),),
        (OLD,),
    ),
    Network(
        "espnet.transformer",
        lambda: Frames(
            of("espnet2.asr.encoder.transformer_encoder:TransformerEncoder")(
                input_size=16, output_size=32, attention_heads=2, linear_units=32, num_blocks=2, input_layer="linear"
            )
        ),
        vectors(16),
        X,
        (sines(32, 5000, layout="interleaved"),),
        (OLD,),
    ),
    Network(
        "funasr.sanm",
        lambda: Frames(
            of("funasr.models.sanm.encoder:SANMEncoder")(
                input_size=32,
                output_size=32,
                attention_heads=2,
                linear_units=32,
                num_blocks=2,
                input_layer="pe",
                kernel_size=5,
            )
        ),
        vectors(32),
        X,
        (sines(32, None, spacing="half", offset=1),),
        (OLD,),
    ),
    Network(
        "demucs",
        lambda: First(
            of("demucs.transformer:CrossTransformerEncoder")(
                dim=32, emb="sin", num_layers=2, num_heads=2, hidden_scale=1.0
            )
        ),
        lambda _: {"x": numbers(BATCH, 32, 4, 11), "wave": numbers(BATCH, 32, 22)},
        {},
        (
            sines(32, None, layout="halves, cosines first", spacing="half"),
            Held(
                "grid",
                "sincos_2d",
                {"dim": 32, "base": 10000.0, "order": "row_first", "layout": "interleaved", "spacing": "paper"},
            ),
        ),
        (OLD,),
    ),
)


DIFFUSION: tuple[Network, ...] = (
    diffused(
        "UNet2DConditionModel",
        (sampled(16, True, 0.0),),
        (OLD, NEW),
        lambda n: {**steps(n), "encoder_hidden_states": numbers(BATCH, 6, 32)},
        sample_size=8,
        block_out_channels=(16, 32),
        layers_per_block=1,
        norm_num_groups=8,
        cross_attention_dim=32,
        attention_head_dim=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    ),
    diffused(
        "DiTTransformer2DModel",
        (Held("grid", "sincos_2d", {**GRID, "order": "column_first", "rows": 16}), sampled(256, True, 1.0)),
        (OLD,),
        lambda n: {
            "hidden_states": numbers(BATCH, 4, 8, 8),
            "timestep": torch.tensor([n, 3 * n]),
            "class_labels": torch.tensor([1, 2]),
        },
        num_attention_heads=2,
        attention_head_dim=16,
        in_channels=4,
        num_layers=1,
        sample_size=8,
        patch_size=2,
        num_embeds_ada_norm=10,
    ),
    diffused(
        "SD3Transformer2DModel",
        (Held("grid", "sincos_2d", {**GRID, "order": "column_first", "rows": 16}), sampled(256, True, 0.0)),
        (OLD, NEW),
        lambda n: {
            "hidden_states": numbers(BATCH, 4, 8, 8),
            "encoder_hidden_states": numbers(BATCH, 6, 32),
            "pooled_projections": numbers(BATCH, 32),
            "timestep": torch.tensor([n, 3 * n]),
        },
        sample_size=8,
        patch_size=2,
        in_channels=4,
        num_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        caption_projection_dim=32,
        pooled_projection_dim=32,
        out_channels=4,
        pos_embed_max_size=4,
    ),
    diffused(
        "FluxTransformer2DModel",
        (
            rotary("rope_nd", layers=BOTH, head_dim=16, layout="interleaved", axes_dims=[4, 4, 8]),
            sampled(256, True, 0.0),
        ),
        (NEW,),
        flux,
        patch_size=1,
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        axes_dims_rope=[4, 4, 8],
    ),
    Network(
        "denoising.unet",
        lambda: First(of("denoising_diffusion_pytorch:Unet")(dim=16, dim_mults=(1, 2), channels=4, flash_attn=False)),
        steps,
        {},
        (sampled(16, False, 1.0),),
        (OLD,),
    ),
    Network(
        "torch_geometric.positions",
        plain("torch_geometric.nn:PositionalEncoding", 32),
        lambda n: {"t": torch.arange(n) * 1.0},
        {"t": {0: "nodes"}},
        (sampled(32, False, 1.0),),
        (OLD, NEW),
    ),
)
PICTURES: tuple[Network, ...] = (
    picture(
        "vit_pytorch.simple",
        "vit_pytorch:SimpleViT",
        (Held("grid", "sincos_2d", {**GRID, "order": "column_first", "spacing": "half", "rows": 16}),),
        (OLD, NEW),
        dim_head=16,
        **VIT,
    ),
    picture("vit_pytorch.vit", "vit_pytorch:ViT", (learned(17),), (OLD,), **VIT),
    Network(
        "vit_pytorch.simple_1d",
        plain(
            "vit_pytorch.simple_vit_1d:SimpleViT",
            seq_len=64,
            patch_size=4,
            num_classes=4,
            dim=32,
            depth=2,
            heads=2,
            mlp_dim=32,
        ),
        lambda n: {"series": numbers(BATCH, 3, 4 * n)},
        {"series": {0: "batch", 2: "samples"}},
        (sines(32, None, spacing="half"),),
        (OLD,),
    ),
    picture(
        "vit_pytorch.cvt",
        "vit_pytorch.cvt:CvT",
        NONE,
        (OLD,),
        num_classes=4,
        s1_emb_dim=8,
        s2_emb_dim=8,
        s3_emb_dim=8,
        s1_depth=1,
        s2_depth=1,
        s3_depth=1,
        s2_heads=1,
        s3_heads=1,
    ),
    picture(
        "segment_anything",
        "segment_anything.modeling:ImageEncoderViT",
        (
            learned(16),
            distances(1, (0,)),
            distances(3, (1,)),
        ),
        (OLD,),
        img_size=32,
        patch_size=8,
        embed_dim=32,
        depth=2,
        num_heads=2,
        out_chans=16,
        use_rel_pos=True,
        window_size=2,
        global_attn_indexes=(1,),
    ),
    Network(
        "monai.vit",
        plain(
            "monai.networks.nets:ViT",
            in_channels=1,
            img_size=(16, 16, 16),
            patch_size=(8, 8, 8),
            hidden_size=32,
            mlp_dim=32,
            num_layers=2,
            num_heads=2,
        ),
        lambda _: {"scan": numbers(BATCH, 1, 16, 16, 16)},
        {"scan": {0: "batch"}},
        (learned(8),),
        (OLD,),
    ),
    Network(
        "smp.unet",
        plain("segmentation_models_pytorch:Unet", "resnet18", encoder_weights=None),
        images,
        IMAGES,
        NONE,
        (OLD,),
    ),
    Network(
        "ultralytics.aifi",
        plain("ultralytics.nn.modules.transformer:AIFI", 32, 32, 2),
        lambda _: {"x": numbers(BATCH, 32, 4, 4)},
        {"x": {0: "batch"}},
        (Held("grid", "sincos_2d", {**GRID, "order": "row_first"}),),
        (OLD, NEW),
    ),
    Network(
        "ultralytics.yolo11",
        lambda: First(of("ultralytics.nn.tasks:DetectionModel")("yolo11n.yaml", verbose=False)),
        lambda _: {"image": numbers(1, 3, 32, 32)},
        {},
        NONE,
        (OLD,),
    ),
)
NETWORKS: tuple[Network, ...] = (*TIMM, *TORCHVISION, *TEXT, *SPEECH, *DIFFUSION, *PICTURES)
