"""Towers of vision: pixels, of one size or of any."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from whole import Whole, built

SIZES: Mapping[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
    "initializer_range": 0.2,
}
SWIN = {"embed_dim": 16, "depths": [2, 1], "num_heads": [2, 4], "window_size": 4, "image_size": 32, "patch_size": 2}
STAGES = {"num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1], "hidden_sizes": [16, 32]}
SEGFORMER = {**STAGES, "patch_sizes": [7, 3], "strides": [4, 2], "num_attention_heads": [2, 4], "mlp_ratios": [2, 2]}
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "vit": SIZES,
    "deit": SIZES,
    "beit": {**SIZES, "use_relative_position_bias": True},
    "swin": {**SWIN, "initializer_range": 0.2},
    "swinv2": {**SWIN, "initializer_range": 0.2},
    "dinov2": {**SIZES, "image_size": 56, "patch_size": 14},
    "dinov3_vit": {**SIZES, "num_register_tokens": 2},
    "segformer": SEGFORMER,
    "convnext": {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2},
    "clip_vision_model": SIZES,
    "siglip_vision_model": SIZES,
}


class Pixels(nn.Module):
    """Pixels to hidden states."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self.model = built(model, CONFIGS[model])

    def forward(self, pixels: Tensor) -> Tensor:
        hidden: Tensor = self.model(pixel_values=pixels).last_hidden_state
        return hidden


class Resized(Pixels):
    """The same with positions interpolated to the grid of the image."""

    def forward(self, pixels: Tensor) -> Tensor:
        hidden: Tensor = self.model(pixel_values=pixels, interpolate_pos_encoding=True).last_hidden_state
        return hidden


FIXED = "pixels: float32[batch, 3, 32, 32]"


def row(name: str, model: str, pixels: str = FIXED, resized: bool = False, max_len: int = 70) -> Whole:
    return Whole(name, f"whole.vision:{'Resized' if resized else 'Pixels'}", model, (pixels,), max_len=max_len)


EIGHT = "pixels: float32[batch, 3, height % 8, width % 8]"
FOURTEEN = "pixels: float32[batch, 3, height % 14, width % 14]"
ROWS = (
    row("ViT", "vit"),
    row("ViT, positions interpolated", "vit", EIGHT, resized=True, max_len=96),
    row("DeiT", "deit"),
    row("BEiT", "beit"),
    row("Swin", "swin"),
    row("Swin V2", "swinv2"),
    row("DINOv2", "dinov2", FOURTEEN, max_len=140),
    row("DINOv3", "dinov3_vit", EIGHT, max_len=96),
    row("SegFormer", "segformer", EIGHT, max_len=96),
    row("ConvNeXt", "convnext", EIGHT, max_len=96),
    row("CLIP vision", "clip_vision_model"),
    row("SigLIP, positions interpolated", "siglip_vision_model", EIGHT, resized=True, max_len=96),
)
