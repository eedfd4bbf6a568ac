"""Small models of transformers for images, each with what it adds for positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from helpers.models.text import BERT, Model, code, of_tokens, rows

VIT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
TINY_VIT = {**VIT, "image_size": 32, "patch_size": 8}
SHARED = {**TINY_VIT, "use_shared_relative_position_bias": True}
SWIN = {"image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4}
RESNET = {"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8] * 4, "depths": [1] * 4}
DETR = {
    **{f"{part}_{name}": 1 for part in ("encoder", "decoder") for name in ("layers", "attention_heads")},
    **{"d_model": 16, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "position_embedding_type": "learned"},
    **{"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None, "backbone_config": RESNET},
}
HEIGHT, WIDTH = 5, 3
"""Of a grid in patches, of a size that no model here was made for."""
PIXELS = torch.ones(2, HEIGHT, WIDTH, dtype=torch.bool)
"""Which places are no padding."""
PIXELS[1, 3:] = False
PIXELS[1, :, 2:] = False
CPU = torch.device("cpu")
CUBES = 16
"""Roundings of a value that sixteen others are weighed for."""


def resized(model: Any) -> Any:
    """SigLIP2's rows for an image of another size than it was made for."""
    embeddings = model.vision_model.embeddings
    square = embeddings.position_embedding.weight.reshape(4, 4, -1)
    sizes = torch.tensor([[HEIGHT, WIDTH]])
    return embeddings.resize_positional_embeddings(square, sizes, HEIGHT * WIDTH)


def of_patches(prefix: int) -> Callable[[Any], Tensor]:
    """What a vision model adds to patches of another size than it was made for."""

    def own(model: Any) -> Any:
        inner = getattr(model, "vision_model", model).embeddings
        size = inner.patch_size if isinstance(inner.patch_size, int) else inner.patch_size[0]
        tokens = torch.zeros(1, prefix + HEIGHT * WIDTH, 16)
        return inner.interpolate_pos_encoding(tokens, HEIGHT * size, WIDTH * size)

    return own


def on_grid(module: nn.Module) -> Tensor:
    """What a module gives for a grid of patches, line by line."""
    values: Tensor = module(torch.zeros(1, HEIGHT, WIDTH, 16))
    return values.flatten(1, 2) if values.dim() == 4 and values.shape[1:3] == (HEIGHT, WIDTH) else values


def vit(model_type: str, prefix: int, **sizes: Any) -> Model:
    return Model(model_type, of_patches(prefix), on_grid, {**TINY_VIT, **sizes}, mode="dynamic", roundings=CUBES)


def two(text: dict[str, Any], vision: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a model of text and images."""
    return {"text_config": {**BERT, "max_position_embeddings": 12, **text}, "vision_config": {**TINY_VIT, **vision}}


def sine(model_type: str, name: str) -> Callable[[Any], Any]:
    """What makes a module of sines, of a configuration."""
    return lambda config: code(model_type, name)(config.d_model // 2, normalize=True)


def of_shape(module: Any) -> Any:
    return module((2, 16, HEIGHT, WIDTH), CPU, torch.float32, PIXELS)


def detr(model_type: str, make: Callable[[Any], Any], own: Callable[[Any], Any] = of_shape) -> Model:
    return Model(
        model_type,
        lambda module: own(module) * PIXELS[:, None],
        lambda module: module(PIXELS.long()) * PIXELS[:, None],
        {"d_model": 16},
        make=make,
        roundings=16,
    )


def learned(model: Any) -> Any:
    """DETR's rows and columns; those of Table Transformer are in its backbone, and take pixels."""
    if hasattr(model, "position_embedding"):
        return model.position_embedding((2, 16, HEIGHT, WIDTH), CPU, torch.float32)[:1]
    return model.backbone.position_embedding(torch.zeros(2, 16, HEIGHT, WIDTH))[:1]


def swinv2(model: Any) -> Tensor:
    attention = model.encoder.layers[1].blocks[0].attention.self
    table = attention.continuous_position_bias_mlp(attention.relative_coords_table).view(-1, 4)
    values: Tensor = 16 * torch.sigmoid(table[attention.relative_position_index.view(-1)])
    return values.reshape(16, 16, 4).permute(2, 0, 1)[None]


def beit(height: int, width: int) -> Callable[[Any], Tensor]:
    """BEiT's bias in a window, which its table is resized to."""

    def own(model: Any) -> Tensor:
        tokens = 1 + height * width
        values: Tensor = model.shared_position_bias((height, width), interpolate_pos_encoding=True, dim_size=tokens)
        return values.reshape(1, 2, tokens, tokens)

    return own


IMAGES = [
    *(vit(name, prefix) for name, prefix in (("vit", 1), ("deit", 2), ("dinov2", 1), ("dinov2_with_registers", 1))),
    vit("beit", 1, use_absolute_position_embeddings=True),
    Model("beit", beit(4, 4), lambda module: module(), SHARED, "shared"),
    Model("beit", beit(HEIGHT, WIDTH), on_grid, SHARED, "shared", mode="dynamic", roundings=CUBES),
    *(Model(name, of_tokens, rows(16), two({}, {}), "text") for name in ("clip", "siglip")),
    *(
        Model(name, of_patches(prefix), on_grid, two({}, {}), "vision", mode="dynamic", roundings=CUBES)
        for name, prefix in (("clip", 1), ("siglip", 0))
    ),
    Model("siglip2", resized, on_grid, two({}, {"num_patches": 16}), "vision", mode="dynamic", roundings=CUBES),
    detr("detr", sine("detr", "DetrSinePositionEmbedding")),
    detr("deformable_detr", sine("deformable_detr", "DeformableDetrSinePositionEmbedding")),
    detr(
        "grounding-dino",
        code("grounding-dino", "GroundingDinoSinePositionEmbedding"),
        lambda module: module(PIXELS, PIXELS),
    ),
    *(
        Model(name, learned, lambda module: module(torch.zeros(2, 16, HEIGHT, WIDTH)), DETR)
        for name in ("detr", "conditional_detr", "table-transformer")
    ),
    Model(
        "rt_detr",
        lambda module: module(WIDTH, HEIGHT, CPU, torch.float32),
        on_grid,
        {"encoder_hidden_dim": 16},
        make=lambda config: code("rt_detr", "RTDetrSinePositionEmbedding")(
            config.encoder_hidden_dim, config.positional_encoding_temperature
        ),
        roundings=16,
        mode="dynamic",
    ),
    Model(
        "swin",
        lambda model: model.encoder.layers[1].blocks[0].attention.relative_position_bias(),
        lambda module: module(),
        SWIN,
        "stage2",
    ),
    Model("swinv2", swinv2, lambda module: module(), SWIN, "stage2", roundings=32),
]
