"""Networks of packages for the fourth sample: classes that no sample has, as each package's own code makes them."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, cast

import torch
from torch import Tensor, nn

from helpers.foreign.models import BOTH, ROWS, learned, rotary
from helpers.foreign.truth import Held
from helpers.unseen.parts import (
    GRID,
    IDS,
    SINCOS,
    SMALL,
    VIT,
    Absent,
    First,
    Frames,
    Network,
    X,
    diffused,
    in_order,
    of,
    on_axes,
    picture,
    plain,
    sampled,
    steps,
    tokens,
    vectors,
    windows,
    without_sounds,
)
from scripts.unseen_files import BATCH, Feeds, buckets, distances, ids, numbers, sines

ROTATED: dict[str, Any] = {**SMALL, "embed_dim": 64, "use_rot_pos_emb": True, "use_abs_pos_emb": False}


def coatnet() -> nn.Module:
    """Return a CoAtNet, whose last stage attends with a bias by rows and columns."""
    models = "timm.models.maxxvit"
    attended = of(f"{models}:MaxxVitTransformerCfg")(dim_head=16, rel_pos_type="bias", window_size=(4, 4))
    config = of(f"{models}:MaxxVitCfg")(
        embed_dim=(16, 32), depths=(1, 1), block_type=("C", "T"), stem_width=8, transformer_cfg=attended
    )
    return cast(nn.Module, of(f"{models}:MaxxVit")(config, img_size=32, num_classes=4))


class Palm(nn.Module):
    """PaLM, which forgets between calls what it keeps of the last: an export would leave tensors of its own there."""

    def __init__(self) -> None:
        super().__init__()
        self.net = of("palm_pytorch:PaLM")(num_tokens=64, dim=64, depth=2, heads=2, dim_head=32, ff_mult=1)

    def forward(self, ids: Tensor) -> Tensor:
        """Return a score for each word."""
        for module in self.net.modules():
            if hasattr(module, "pos_emb"):
                module.mask = module.pos_emb = None
        return cast(Tensor, self.net(ids))


class Labml(nn.Module):
    """Two layers of labml with an attention of its own, (tokens, batch, width)."""

    def __init__(self, path: str, is_masked: bool) -> None:
        super().__init__()
        # a part of an older release, which the attention calls with numbers to keep
        vars(import_module("labml.tracker"))["debug"] = lambda *_: None
        layer, network = (
            of("labml_nn.transformers.models:TransformerLayer"),
            of("labml_nn.transformers.feed_forward:FeedForward"),
        )
        self.is_masked = is_masked
        self.layers = nn.ModuleList(
            layer(d_model=64, self_attn=of(path)(2, 64), feed_forward=network(64, 64), dropout_prob=0.0)
            for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return what the layers make of tokens."""
        count = x.shape[0]
        mask = torch.tril(torch.ones(count, count, dtype=torch.long))[:, :, None] if self.is_masked else None
        for layer in self.layers:
            x = layer(x=x, mask=mask)
        return x


def of_bert() -> nn.Module:
    """Return the first BERT of PyTorch."""
    config = of("pytorch_pretrained_bert.modeling:BertConfig")(
        64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=ROWS,
    )
    return First(of("pytorch_pretrained_bert.modeling:BertModel")(config), output_all_encoded_layers=False)


def of_openai() -> nn.Module:
    """Return the first GPT of PyTorch."""
    config = of("pytorch_pretrained_bert.modeling_openai:OpenAIGPTConfig")(
        64, n_positions=ROWS, n_ctx=ROWS, n_embd=32, n_layer=2, n_head=2
    )
    return First(of("pytorch_pretrained_bert.modeling_openai:OpenAIGPTModel")(config))


def chronos_bolt() -> nn.Module:
    """Return Chronos-Bolt: patches of a series, T5, and a decoder of one token."""
    own = {
        "context_length": 1600,
        "prediction_length": 8,
        "input_patch_size": 8,
        "input_patch_stride": 8,
        "quantiles": [0.1, 0.5, 0.9],
        "use_reg_token": True,
    }
    config = of("transformers:T5Config")(
        vocab_size=2,
        d_model=32,
        d_kv=16,
        d_ff=32,
        num_layers=2,
        num_decoder_layers=2,
        num_heads=2,
        pad_token_id=0,
        decoder_start_token_id=0,
        reg_token_id=1,
        chronos_config=own,
        is_encoder_decoder=True,
        feed_forward_proj="relu",
    )
    return First(of("chronos.chronos_bolt:ChronosBoltModelForForecasting")(config))


class Joey(nn.Module):
    """JoeyNMT's encoder, of embedded words that are all there."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = of("joeynmt.encoders:TransformerEncoder")(
            hidden_size=32, ff_size=32, num_layers=2, num_heads=2, dropout=0.0, emb_dropout=0.0
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return what it makes of words."""
        lengths = torch.zeros(x.shape[0], dtype=torch.long) + x.shape[1]
        mask = torch.ones_like(x[:, None, :, 0]).bool()
        return cast(Tensor, self.encoder(x, lengths, mask)[0])


class Speech(nn.Module):
    """SpeechBrain's Conformer with the rows by distance that it takes."""

    def __init__(self) -> None:
        super().__init__()
        without_sounds()
        self.places = of("speechbrain.nnet.attention:RelPosEncXL")(32)
        self.encoder = of("speechbrain.lobes.models.transformer.Conformer:ConformerEncoder")(
            num_layers=2, d_model=32, d_ffn=32, nhead=2, kernel_size=5, attention_type="RelPosMHAXL"
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return what it makes of frames."""
        return cast(Tensor, self.encoder(x, pos_embs=self.places(x))[0])


def f5() -> nn.Module:
    """Return the transformer of F5-TTS, without what its package imports to train it."""
    without_sounds()
    package = Absent("f5_tts.model")
    package.__path__ = [f"{place}/model" for place in import_module("f5_tts").__path__]
    sys.modules.setdefault("f5_tts.model", package)
    return First(
        of("f5_tts.model.backbones.dit:DiT")(
            dim=64, depth=2, heads=2, dim_head=32, ff_mult=1, mel_dim=8, text_num_embeds=32, text_dim=32, conv_layers=1
        )
    )


def spoken(length: int) -> Feeds:
    """Return what goes into F5: noise, a voice, words and a time."""
    return {
        "x": numbers(BATCH, 3 * length, 8),
        "cond": numbers(BATCH, 3 * length, 8),
        "text": ids(length).clamp(max=30),
        "time": torch.tensor([0.25, 0.5]),
    }


def film(_: int) -> Feeds:
    """Return a film of 4 frames."""
    return {"film": numbers(BATCH, 3, 4, 32, 32)}


def latents(*shape: int, words: int = 32) -> Any:
    """Return what makes latents with words and a step."""
    return lambda n: {
        "hidden_states": numbers(BATCH, *shape),
        "encoder_hidden_states": numbers(BATCH, 6, words),
        "timestep": torch.tensor([n, 3 * n]),
    }


CONFORMER: dict[str, Any] = {
    "input_size": 16,
    "output_size": 32,
    "attention_heads": 2,
    "linear_units": 32,
    "num_blocks": 2,
    "input_layer": "linear",
}
RELATIVE: dict[str, Any] = {"d_model": 32, "base": 10000.0}
FILM = {"film": {0: "batch"}}
CLASSES: tuple[Network, ...] = (
    picture(
        "timm.gcvit",
        "timm.models.gcvit:GlobalContextVit",
        windows("table", (2, [4, 4], BOTH)),
        ("old 17", "new"),
        img_size=32,
        window_size=4,
        embed_dim=32,
        depths=(2,),
        num_heads=(2,),
        num_classes=4,
    ),
    picture(
        "timm.crossvit",
        "timm.models.crossvit:CrossVit",
        (learned(17, 16), learned(5)),
        ("old 14", "new"),
        img_size=32,
        patch_size=(8, 16),
        embed_dim=(16, 32),
        depth=((1, 1, 0),),
        num_heads=(2, 2),
        mlp_ratio=(1.0, 1.0, 1.0),
        num_classes=4,
    ),
    picture(
        "timm.tiny_vit",
        "timm.models.tiny_vit:TinyVit",
        windows("table", (2, [4, 4], (0,))),
        ("old 17", "new"),
        embed_dims=(16, 32),
        depths=(1, 1),
        num_heads=(1, 2),
        window_sizes=(4, 4),
        num_classes=4,
    ),
    picture(
        "timm.edgenext",
        "timm.models.edgenext:EdgeNeXt",
        (Held("grid", "sine_2d", {"dim": 64, "temperature": 10000.0, "normalize": True, "scale": 6.283185307179586}),),
        ("old 17",),
        dims=(16, 16, 32, 32),
        depths=(1, 2, 1, 1),
        heads=(2, 2, 2, 2),
        d2_scales=(2, 2, 2, 2),
        num_classes=4,
    ),
    picture(
        "timm.vit_sam",
        "timm.models.vision_transformer_sam:VisionTransformerSAM",
        (learned(16), distances(1, (0,)), distances(3, (1,))),
        ("old 17",),
        use_rel_pos=True,
        window_size=2,
        global_attn_indexes=(1,),
        **SMALL,
    ),
    Network(
        "timm.coatnet",
        coatnet,
        lambda _: {"image": numbers(BATCH, 3, 32, 32)},
        {"image": {0: "batch"}},
        windows("table", (2, [4, 4], (0,))),
        ("old 17",),
    ),
    picture(
        "timm.rope_mixed",
        "timm.models.eva:Eva",
        (Held("rotary", "rope_mixed", {"heads": 2, "head_dim": 32}, BOTH),),
        ("new",),
        rope_type="mixed",
        rope_temperature=10.0,
        **ROTATED,
    ),
    picture(
        "timm.perception",
        "timm.models.eva:Eva",
        (learned(17, 64), on_axes([16, 16], "interleaved", first=[1.0], axis_order=[1, 0])),
        ("new 23",),
        rope_grid_offset=1.0,
        rope_grid_indexing="xy",
        use_pre_transformer_norm=True,
        attn_type="rope",
        **{**ROTATED, "use_abs_pos_emb": True},
    ),
    Network(
        "torchvision.swin3d",
        plain(
            "torchvision.models.video.swin_transformer:SwinTransformer3d",
            patch_size=[2, 8, 8],
            embed_dim=16,
            depths=[2],
            num_heads=[2],
            window_size=[2, 4, 4],
            num_classes=4,
        ),
        film,
        FILM,
        windows("table", (2, [2, 4, 4], BOTH)),
        ("old 17", "new"),
    ),
    Network(
        "monai.vit_autoenc",
        plain(
            "monai.networks.nets:ViTAutoEnc",
            in_channels=1,
            img_size=(16, 16),
            patch_size=(4, 4),
            hidden_size=32,
            mlp_dim=32,
            num_layers=2,
            num_heads=2,
            spatial_dims=2,
        ),
        lambda _: {"scan": numbers(BATCH, 1, 16, 16)},
        {"scan": {0: "batch"}},
        (learned(16),),
        ("old 17",),
    ),
    Network(
        "monai.decoder_only",
        plain(
            "monai.networks.nets:DecoderOnlyTransformer",
            num_tokens=64,
            max_seq_len=ROWS,
            attn_layers_dim=32,
            attn_layers_depth=2,
            attn_layers_heads=2,
        ),
        tokens,
        IDS,
        (learned(ROWS),),
        ("old 17", "new"),
    ),
    Network(
        "monai.diffusion_unet",
        plain(
            "monai.networks.nets:DiffusionModelUNet",
            spatial_dims=2,
            in_channels=4,
            out_channels=4,
            num_res_blocks=1,
            channels=(16, 32),
            attention_levels=(False, True),
            norm_num_groups=8,
            num_head_channels=16,
        ),
        steps,
        {},
        (sampled(16, True, 0.0),),
        ("old 17", "new"),
    ),
    Network(
        "vit_pytorch.vit_3d",
        plain(
            "vit_pytorch.vit_3d:ViT",
            image_size=32,
            image_patch_size=8,
            frames=4,
            frame_patch_size=2,
            num_classes=4,
            dim=32,
            depth=2,
            heads=2,
            mlp_dim=32,
        ),
        film,
        FILM,
        (learned(33),),
        ("old 17", "new"),
    ),
    picture(
        "vit_pytorch.max_vit",
        "vit_pytorch.max_vit:MaxViT",
        windows("table", (1, [2, 2], (0, 1)), (2, [2, 2], (2, 3))),
        ("old 17", "new"),
        num_classes=4,
        dim=16,
        depth=(1, 1),
        dim_head=16,
        dim_conv_stem=8,
        window_size=2,
    ),
    picture(
        "vit_pytorch.cross_vit",
        "vit_pytorch.cross_vit:CrossViT",
        (learned(17, 16), learned(5)),
        ("old 17",),
        image_size=32,
        num_classes=4,
        sm_dim=16,
        lg_dim=32,
        sm_patch_size=8,
        lg_patch_size=16,
        sm_enc_heads=2,
        lg_enc_heads=2,
        lg_enc_depth=1,
        sm_enc_mlp_dim=16,
        lg_enc_mlp_dim=32,
        cross_attn_depth=1,
        cross_attn_heads=2,
        depth=1,
    ),
    picture(
        "vit_pytorch.registers",
        "vit_pytorch.simple_vit_with_register_tokens:SimpleViT",
        (Held("grid", "sincos_2d", {**GRID, "order": "column_first", "spacing": "half", "rows": 16}),),
        ("old 14",),
        dim_head=16,
        **VIT,
    ),
    picture(
        "kornia.vit",
        "kornia.models.vit:VisionTransformer",
        (learned(17),),
        ("old 17", "new"),
        image_size=32,
        patch_size=8,
        embed_dim=32,
        depth=2,
        num_heads=2,
    ),
    picture(
        "kornia.tiny_vit",
        "kornia.models.tiny_vit:TinyViT",
        windows("table", (2, [4, 4], (0,))),
        ("old 17",),
        img_size=32,
        embed_dims=(16, 32),
        depths=(1, 1),
        num_heads=(1, 2),
        window_sizes=(4, 4),
        num_classes=4,
    ),
    Network(
        "palm_pytorch",
        Palm,
        tokens,
        IDS,
        (rotary(),),
        ("new",),
    ),
    Network(
        "conformer",
        lambda: of("conformer:Conformer")(dim=32, depth=2, heads=2, dim_head=16, ff_mult=1, conv_kernel_size=5),
        vectors(32),
        X,
        (
            Held(
                "relative",
                "distances",
                {"head_dim": 16, "left": 512, "right": 512, "rows": 1025, "distance": "query_minus_key"},
                BOTH,
            ),
        ),
        ("old 17", "new"),
    ),
    Network(
        "performer",
        lambda: of("performer_pytorch:PerformerLM")(
            num_tokens=64,
            max_seq_len=ROWS,
            dim=64,
            depth=2,
            heads=2,
            dim_head=32,
            ff_mult=1,
            nb_features=8,
            feature_redraw_interval=None,
        ),
        tokens,
        IDS,
        (sines(64, ROWS), rotary(layout="interleaved", rows=ROWS)),
        ("old 17",),
    ),
    Network("pretrained_bert.bert", of_bert, tokens, IDS, (learned(ROWS),), ("old 11", "new")),
    Network("pretrained_bert.openai", of_openai, tokens, IDS, (learned(ROWS),), ("old 17",)),
    Network(
        "chronos.bolt",
        chronos_bolt,
        lambda _: {"context": numbers(BATCH, 1600)},
        {"context": {0: "batch"}},
        (buckets(2, 32, 128, True, part="encoder"),),
        ("new",),
    ),
    Network(
        "labml.rope",
        lambda: Labml("labml_nn.transformers.rope:RotaryPEMultiHeadAttention", is_masked=False),
        lambda n: {"x": numbers(n, BATCH, 64)},
        {"x": {0: "sequence", 1: "batch"}},
        (rotary(rotary_dim=16),),
        ("old 17", "new"),
    ),
    Network(
        "labml.alibi",
        lambda: Labml("labml_nn.transformers.alibi:AlibiMultiHeadAttention", is_masked=True),
        lambda n: {"x": numbers(n, BATCH, 64)},
        {"x": {0: "sequence", 1: "batch"}},
        (Held("alibi", "key", {"heads": 2, "bias_max": 8.0}, BOTH),),
        ("old 17",),
    ),
    Network(
        "labml.ddpm",
        lambda: of("labml_nn.diffusion.ddpm.unet:UNet")(
            image_channels=4, n_channels=32, ch_mults=(1, 2), is_attn=(False, True), n_blocks=1
        ),
        steps,
        {},
        (sampled(32, False, 1.0),),
        ("old 17",),
    ),
    Network("joeynmt", Joey, vectors(32), X, (sines(32, 5000, layout="interleaved"),), ("old 17", "new")),
    Network(
        "speechbrain.conformer",
        Speech,
        vectors(32),
        X,
        (Held("relative", "conformer", RELATIVE, BOTH),),
        ("old 17", "new"),
    ),
    Network(
        "f5_tts",
        f5,
        spoken,
        {},
        (rotary(layout="interleaved"), sampled(256, False, 1.0), sines(32, None, layout="halves, cosines first")),
        ("new",),
    ),
    Network(
        "espnet.branchformer",
        lambda: Frames(
            of("espnet2.asr.encoder.branchformer_encoder:BranchformerEncoder")(
                input_size=16,
                output_size=32,
                attention_heads=2,
                cgmlp_linear_units=32,
                cgmlp_conv_kernel=5,
                num_blocks=2,
                input_layer="linear",
                use_flash_attn=False,
            )
        ),
        vectors(16),
        X,
        (Held("relative", "conformer", {**RELATIVE, "rows": 9999}, BOTH),),
        ("old 17",),
    ),
    Network(
        "espnet.multiconv",
        lambda: Frames(
            of("espnet2.asr.encoder.multiconvformer_encoder:MultiConvConformerEncoder")(
                rel_pos_type="latest",
                cgmlp_linear_units=32,
                multicgmlp_kernel_sizes="3,5",
                multicgmlp_merge_conv_kernel=3,
                **CONFORMER,
            )
        ),
        vectors(16),
        X,
        (Held("relative", "conformer", {**RELATIVE, "rows": 9999}, BOTH),),
        ("old 17",),
    ),
    Network(
        "funasr.conformer",
        lambda: Frames(
            of("funasr.models.conformer.encoder:ConformerEncoder")(
                rel_pos_type="latest", cnn_module_kernel=5, **CONFORMER
            )
        ),
        vectors(16),
        X,
        (Held("relative", "conformer", {**RELATIVE, "rows": 9999}, BOTH),),
        ("old 17",),
    ),
    Network(
        "funasr.transformer",
        lambda: Frames(of("funasr.models.transformer.encoder:TransformerEncoder")(**CONFORMER)),
        vectors(16),
        X,
        (sines(32, 5000, layout="interleaved"),),
        ("old 17",),
    ),
    Network(
        "x_transformers.vit",
        lambda: First(
            of("x_transformers:ViTransformerWrapper")(
                image_size=32,
                patch_size=8,
                num_classes=4,
                attn_layers=of("x_transformers:Encoder")(dim=32, depth=2, heads=2, attn_dim_head=16),
            )
        ),
        lambda _: {"image": numbers(BATCH, 3, 32, 32)},
        {"image": {0: "batch"}},
        (learned(16),),
        ("old 17",),
    ),
    Network(
        "torchtune.t5",
        lambda: First(
            of("torchtune.models.t5._component_builders:t5_encoder")(
                embed_dim=32,
                mlp_dim=32,
                num_heads=2,
                head_dim=16,
                num_layers=2,
                rel_pos_num_buckets=32,
                rel_pos_max_dist=128,
                vocab_size=64,
                norm_eps=1e-6,
                max_seq_len=160,
            )
        ),
        lambda _: tokens(160),
        {"tokens": {0: "batch"}},
        (buckets(2, 32, 128, True),),
        ("new",),
    ),
    Network(
        "denoising.unet_1d",
        lambda: First(of("denoising_diffusion_pytorch:Unet1D")(dim=16, dim_mults=(1, 2), channels=4)),
        lambda n: {"x": numbers(BATCH, 4, 32), "time": torch.tensor([n, 3 * n])},
        {},
        (sampled(16, False, 1.0),),
        ("old 17",),
    ),
    diffused(
        "WanTransformer3DModel",
        (on_axes([12, 10, 10], "interleaved", layers=(0, 2)), sampled(256, True, 0.0)),
        ("new",),
        latents(4, 2, 8, 8),
        patch_size=(1, 2, 2),
        num_attention_heads=2,
        attention_head_dim=32,
        in_channels=4,
        out_channels=4,
        text_dim=32,
        freq_dim=256,
        ffn_dim=64,
        num_layers=2,
        rope_max_seq_len=64,
    ),
    diffused(
        "CogVideoXTransformer3DModel",
        (
            Held(
                "grid",
                "sincos_3d",
                {"dim": 64, "base": 10000.0, "order": "column_first", "spatial_interpolation_scale": 1.875},
            ),
            sampled(64, True, 0.0),
        ),
        ("old 17", "new"),
        latents(2, 4, 8, 8),
        num_attention_heads=2,
        attention_head_dim=32,
        in_channels=4,
        out_channels=4,
        time_embed_dim=32,
        text_embed_dim=32,
        num_layers=1,
        sample_width=8,
        sample_height=8,
        sample_frames=5,
        max_text_seq_length=6,
    ),
    diffused(
        "AuraFlowTransformer2DModel",
        (learned(16, 64), sampled(256, True, 0.0)),
        ("old 17",),
        latents(4, 8, 8),
        sample_size=8,
        in_channels=4,
        num_mmdit_layers=1,
        num_single_dit_layers=1,
        attention_head_dim=32,
        num_attention_heads=2,
        joint_attention_dim=32,
        caption_projection_dim=64,
        out_channels=4,
        pos_embed_max_size=16,
    ),
    diffused(
        "LatteTransformer3DModel",
        (Held("grid", "sincos_2d", {**SINCOS, "rows": 16}), sampled(256, True, 0.0), sines(32, 4)),
        ("old 17",),
        lambda n: {
            "hidden_states": numbers(BATCH, 4, 4, 8, 8),
            "timestep": torch.tensor([n, 3 * n]),
            "encoder_hidden_states": numbers(BATCH, 6, 32),
        },
        num_attention_heads=2,
        attention_head_dim=16,
        in_channels=4,
        out_channels=8,
        num_layers=1,
        cross_attention_dim=32,
        sample_size=8,
        patch_size=2,
        norm_type="ada_norm_single",
        caption_channels=32,
        video_length=4,
        num_embeds_ada_norm=1000,
    ),
    diffused(
        "UNet1DModel",
        (sampled(32, True, 0.0),),
        ("new",),
        lambda n: {"sample": numbers(BATCH, 2, 64), "timestep": torch.tensor([n, 3 * n])},
        sample_size=64,
        time_embedding_type="positional",
        block_out_channels=(32, 32, 64),
        extra_in_channels=32,
        use_timestep_embedding=False,
    ),
)
NETWORKS: tuple[Network, ...] = tuple(map(in_order, CLASSES))
