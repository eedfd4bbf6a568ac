"""Model types at their default configurations, each with the module that holds an encoding and what that gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from helpers.models.images import CUBES
from helpers.models.segmentation import points
from helpers.models.text import alone, code

Ours = Callable[..., Tensor]
"""The graph that was exported: of its inputs, the values."""
STEPS = 128
"""Roundings of angles that are computed in float32, of positions below 100; twelve times that are Whisper's."""
THOUSANDS = 48
"""Roundings within the bound that the scheme has itself for SAM's angles, which are thousands of radians."""

PRODUCTS = 16
"""Roundings of sums of 64 products."""


@dataclass(frozen=True)
class Default:
    """A model type, one of its encodings, and what its own module gives for that.

    make: of its configuration, the module that holds the encoding; path: where that is in the model, if it has weights.
    own: of that, the values; call: of the graph, those to be equal to them. roundings: see `text.Model`.
    """

    model_type: str
    make: Callable[[Any], nn.Module]
    own: Callable[[Any], Tensor]
    call: Callable[[Ours], Tensor]
    path: str = ""
    part: str | None = None
    mode: str = "baked"
    roundings: int = 0

    @property
    def name(self) -> str:
        return f"{self.model_type}-{self.part}" if self.part else self.model_type


def made(model_type: str, name: str) -> Callable[[Any], nn.Module]:
    """What makes a module of a configuration alone."""
    return lambda config: nn.Module.eval(code(model_type, name)(config))


def tokens(seq: int) -> Tensor:
    """Two sequences of tokens, the second of which ends with padding (1)."""
    ids = torch.arange(2, seq + 2).repeat(2, 1)
    ids[1, seq - 9 :] = 1
    return ids


def text(seq: int) -> Callable[[Any], Tensor]:
    def own(embeddings: Any) -> Any:
        return alone(embeddings)(input_ids=tokens(seq))

    return own


def added(width: int, seq: int, masked: bool = False) -> Callable[[Ours], Tensor]:
    """What a graph adds to as many tokens."""
    mask = (tokens(seq) != 1).long()
    return lambda ours: ours(torch.zeros(2, seq, width), *((mask,) if masked else ()))


def bert(name: str, seq: int, masked: bool = False) -> Default:
    make = made(name, f"{name.title()}Embeddings")
    return Default(name, make, text(seq), added(768, seq, masked), "embeddings")


def vit(name: str, kind_: str, height: int, width: int) -> Default:
    """A vision model, at its own size or at another."""

    def own(embeddings: Any) -> Any:
        size = getattr(embeddings.patch_size, "__getitem__", lambda _: embeddings.patch_size)(0)
        empty = torch.zeros(1, 1 + height * width, 768)
        return embeddings.interpolate_pos_encoding(empty, height * size, width * size)

    call = on_grid(height, width)
    return Default(name, made(name, kind_), own, call, "embeddings", mode="dynamic", roundings=CUBES)


def on_grid(height: int, width: int, features: int = 768) -> Callable[[Ours], Tensor]:
    return lambda ours: ours(torch.zeros(1, height, width, features))


def t5(part: str) -> Default:
    def make(config: Any) -> Any:
        config.is_decoder = part == "decoder"
        return code("t5", "T5Attention")(config, has_relative_attention_bias=True, layer_idx=0)

    def call(ours: Ours) -> Tensor:
        return ours(torch.zeros(1, 8, 200, 4), torch.zeros(1, 8, 200, 4))

    path = f"{part}.block.0.layer.0.SelfAttention"
    return Default("t5", make, lambda attention: attention.compute_bias(200, 200), call, path, part, "dynamic")


def swin(stage: int) -> Default:
    def make(config: Any) -> nn.Module:
        window = (config.window_size,) * 2
        bias: nn.Module = code("swin", "SwinRelativePositionBias")(config.num_heads[stage], window)
        nn.init.normal_(bias.get_parameter("relative_position_bias_table"))
        return bias

    path = f"encoder.layers.{stage}.blocks.0.attention.relative_position_bias"
    return Default("swin", make, lambda bias: bias(), lambda ours: ours(), path, f"stage{stage + 1}")


def repeated(module: Any, seq: int) -> Any:
    """The rows of a table, for two sequences."""
    return module.weight[:seq].expand(2, -1, -1)


def whisper(part: str, name: str, length: int, roundings: int) -> Default:
    def make(config: Any) -> Any:
        return code("whisper", name)(config).embed_positions

    def own(table: Any) -> Any:
        return repeated(table, length)

    path = f"{part}.embed_positions"
    return Default("whisper", make, own, added(384, length), path, part, roundings=roundings)


def opt(config: Any) -> Any:
    return code("opt", "OPTLearnedPositionalEmbedding")(config.max_position_embeddings, config.hidden_size)


def of_mask(table: Any) -> Any:
    return table((tokens(2048) != 1).long())


PIXELS = torch.ones(2, 30, 20, dtype=torch.bool)
PIXELS[1, 20:] = False


def detr(config: Any) -> Any:
    return code("detr", "DetrSinePositionEmbedding")(config.d_model // 2, normalize=True)


def of_pixels(sine: Any) -> Tensor:
    values: Tensor = sine((2, 256, 30, 20), torch.device("cpu"), torch.float32, PIXELS)
    return values * PIXELS[:, None]


def sam_vision(config: Any) -> nn.Module:
    with torch.device("meta"):
        encoder: nn.Module = code("sam", "SamVisionEncoder")(config.vision_config)
    encoder.register_parameter("pos_embed", nn.Parameter(torch.randn(encoder.get_parameter("pos_embed").shape)))
    return encoder


def sam_layer(layer: int, height: int, width: int, mode: str) -> Default:
    """The rows of one of SAM's layers, of which the third is the first that sees the whole image, for a head."""
    part, side = ("global", 0) if layer == 2 else ("window", 14)
    q = torch.randn(1, 1, height, width, 64, generator=torch.Generator().manual_seed(0))

    def make(config: Any) -> nn.Module:
        attention: nn.Module = code("sam", "SamVisionAttention")(config.vision_config, side)
        for name in ("rel_pos_h", "rel_pos_w"):
            nn.init.normal_(attention.get_parameter(name), std=0.1)
        return attention

    def own(attention: Any) -> Tensor:
        tables, sides = (attention.rel_pos_h, attention.rel_pos_w), (height, width)
        values: Tensor = attention.get_decomposed_rel_pos(q[0].flatten(1, 2), *tables, sides, sides)
        return values.reshape(1, 1, height * width, height * width)

    def call(ours: Ours) -> Tensor:
        return ours(q if mode == "dynamic" else q.flatten(2, 3))

    return Default("sam", make, own, call, f"vision_encoder.layers.{layer}.attn", part, mode, roundings=PRODUCTS)


def sam_points(config: Any) -> Any:
    return code("sam", "SamPositionalEmbedding")(config.vision_config)


def of_points(embedding: Any) -> Any:
    """SAM's points, its module in float64: in float32 its angles of thousands of radians are off by thousandths."""
    return embedding.double()(points().double()[:, None])[:, 0].float()


DEFAULTS = [
    bert("bert", 512),
    bert("roberta", 510, masked=True),
    Default("opt", opt, of_mask, added(768, 2048, masked=True), "decoder.embed_positions"),
    *(vit("vit", "ViTEmbeddings", *size) for size in ((14, 14), (10, 23))),
    *(vit("dinov2", "Dinov2Embeddings", *size) for size in ((16, 16), (37, 20))),
    t5("encoder"),
    t5("decoder"),
    whisper("encoder", "WhisperEncoder", 1500, 12 * STEPS),
    whisper("decoder", "WhisperDecoder", 448, 0),
    *map(swin, range(4)),
    Default("detr", detr, of_pixels, lambda ours: ours(PIXELS.long()) * PIXELS[:, None], roundings=16),
    Default(
        "wav2vec2-conformer",
        made("wav2vec2_conformer", "Wav2Vec2ConformerRelPositionalEmbedding"),
        lambda rows: rows(torch.zeros(1, 90, 768)),
        lambda ours: ours(torch.zeros(1, 90, 768)),
        roundings=STEPS,
    ),
    Default(
        "sam", sam_vision, lambda encoder: encoder.pos_embed, on_grid(64, 64), "vision_encoder", "absolute", "dynamic"
    ),
    sam_layer(0, 14, 14, "baked"),
    sam_layer(2, 64, 64, "dynamic"),
    Default(
        "sam",
        sam_points,
        of_points,
        lambda ours: ours(points()),
        "shared_image_embedding",
        "prompt",
        "dynamic",
        THOUSANDS,
    ),
]
