"""Tiny models beside the decoders of text: encoders, speech, vision, diffusion."""

from __future__ import annotations

from collections.abc import Mapping

from helpers.foreign.models import BASE, BOTH, DECODERS, MODERNBERT, ROTARY, ROWS, Tiny, learned, rotary
from helpers.foreign.truth import Held, Parameter

SPEECH: Mapping[str, object] = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "initializer_range": 0.2,
    "vocab_size": 64,
    "conv_dim": [8, 8],
    "conv_kernel": [3, 3],
    "conv_stride": [2, 2],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4,
    "conv_depthwise_kernel_size": 7,
    "max_source_positions": ROWS,
    "position_embeddings_type": "relative",
}
WHISPER: Mapping[str, object] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "num_mel_bins": 8,
    "max_source_positions": 24,
    "max_target_positions": ROWS,
    "init_std": 0.2,
    "vocab_size": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
T5: Mapping[str, object] = {
    "vocab_size": 64,
    "d_model": 32,
    "d_kv": 16,
    "d_ff": 32,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 2,
    "pad_token_id": 0,
    "decoder_start_token_id": 0,
}
IMAGES: Mapping[str, object] = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 8,
    "initializer_range": 0.2,
}
SWIN: Mapping[str, object] = {
    "embed_dim": 16,
    "depths": [2, 1],
    "num_heads": [2, 4],
    "window_size": 4,
    "image_size": 32,
    "patch_size": 4,
    "initializer_range": 0.2,
}
DETR: Mapping[str, object] = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "num_queries": 5,
    "use_timm_backbone": False,
    "use_pretrained_backbone": False,
    "backbone": None,
}
VITS: Mapping[str, object] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "window_size": 4,
    "ffn_dim": 32,
    "flow_size": 32,
    "spectrogram_bins": 33,
    "initializer_range": 0.2,
}
UNET: Mapping[str, object] = {
    "sample_size": 8,
    "in_channels": 3,
    "out_channels": 3,
    "block_out_channels": [16, 32],
    "norm_num_groups": 8,
    "layers_per_block": 1,
    "down_block_types": ["DownBlock2D", "AttnDownBlock2D"],
    "up_block_types": ["AttnUpBlock2D", "UpBlock2D"],
    "attention_head_dim": 8,
}


def t5(part: str, bidirectional: bool) -> Held:
    """Return the bias of T5, which the first layer's table gives to both."""
    settings: Mapping[str, Parameter] = {
        "heads": 2,
        "num_buckets": 32,
        "max_distance": 128,
        "bidirectional": bidirectional,
    }
    return Held("t5", "buckets", settings, BOTH, part)


def windows(layers: tuple[int, ...], heads: int) -> Held:
    """Return the bias of Swin's windows of 4 by 4: a row for each of 7 times 7 differences."""
    return Held("window", "table", {"heads": heads, "window": [4, 4], "rows": 49}, layers)


SINES: Mapping[str, Parameter] = {"d_model": 32, "base": 10000.0, "rows": 24, "layout": "halves", "spacing": "half"}
TOWERS: Mapping[str, Tiny] = {
    "bert": Tiny("tokens", "bert", BASE, (learned(ROWS),)),
    # RoBERTa counts from its padding id + 1
    "roberta": Tiny("tokens", "roberta", {**BASE, "pad_token_id": 1, "bos_token_id": 0}, (learned(ROWS, offset=2),)),
    "modernbert": Tiny(
        "tokens",
        "modernbert",
        MODERNBERT,
        (rotary(layers=(0,), theta=160000.0, head_dim=16), rotary(layers=(1,), head_dim=16)),
    ),
    "roformer": Tiny(
        "tokens",
        "roformer",
        {**BASE, "embedding_size": 32, "rotary_value": False},
        (rotary(head_dim=16, layout="interleaved", rows=ROWS),),
    ),
    "whisper": Tiny(
        "whisper",
        "whisper",
        WHISPER,
        (Held("sinusoidal", "halves", SINES, part="encoder"), learned(ROWS, part="decoder")),
    ),
    "t5": Tiny("seq2seq", "t5", T5, (t5("encoder", True), t5("decoder", False))),
    "vit": Tiny("pixels", "vit", IMAGES, (learned(17),)),
    "swin": Tiny("pixels", "swin", SWIN, (windows((0, 1), 2), windows((2,), 4))),
    "dinov3": Tiny(
        "grid",
        "dinov3_vit",
        {**IMAGES, "num_register_tokens": 2, "rope_theta": 100.0},
        (Held("rotary", "dinov3", {"head_dim": 16, "rope_theta": 100.0, "layout": "halves"}, BOTH),),
    ),
    "detr": Tiny(
        "masked_pixels",
        "detr",
        DETR,
        (
            Held("grid", "sine_2d", {"dim": 32, "temperature": 10000.0, "normalize": True, "scale": 6.283185307179586}),
            # object queries: a row each, added to queries of the decoder as positions are
            learned(5, part="decoder"),
        ),
    ),
    "conformer": Tiny(
        "frames",
        "wav2vec2-conformer",
        SPEECH,
        (Held("relative", "conformer", {"d_model": 32, "base": 10000.0, "rows": 2 * ROWS - 1}, BOTH),),
    ),
    "conformer-rotary": Tiny(
        "frames",
        "wav2vec2-conformer",
        {**SPEECH, "position_embeddings_type": "rotary", "rotary_embedding_base": 10000},
        (rotary(head_dim=16),),
    ),
    "vits": Tiny("vits", "vits", VITS, (Held("relative", "clipped", {"head_dim": 16, "left": 4, "right": 4}, BOTH),)),
    "unet": Tiny(
        "steps",
        "UNet2DModel",
        UNET,
        (Held("timestep", "halves, cosines first", {"dim": 16, "flip_sin_to_cos": True, "downscale_freq_shift": 0.0}),),
    ),
}
TINY: Mapping[str, Tiny] = {**ROTARY, **DECODERS, **TOWERS}
