"""Small models of transformers that find what is in images, as SAM does, each with what it adds for positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from helpers.models.images import CUBES, HEIGHT, TINY_VIT, WIDTH, on_grid
from helpers.models.text import Model, code

LAYERS = {**TINY_VIT, "num_hidden_layers": 3, "window_size": 3}
SAM_VISION = {**LAYERS, "global_attn_indexes": [1], "output_channels": 8, "mlp_dim": 16}
SAM = {"vision_config": {**SAM_VISION, "num_pos_feats": 8}}
VITDET = {**LAYERS, "pretrain_image_size": 16, "window_block_indices": [0, 2], "use_relative_position_embeddings": True}


def points() -> Tensor:
    return torch.rand(1, 7, 2, generator=torch.Generator().manual_seed(0))


def sam(model: Any) -> Any:
    return model.shared_image_embedding(points()[:, None])[:, 0]


def sam_vision(model: Any) -> Any:
    return model.vision_encoder.pos_embed


def in_window(module: nn.Module) -> Any:
    return module(heads(3, 3).flatten(2, 3))


def heads(height: int = HEIGHT, width: int = WIDTH) -> Tensor:
    """Queries of two heads."""
    return torch.randn(2, 2, height, width, 8, generator=torch.Generator().manual_seed(0))


def decomposed(attention: Any, q: Tensor) -> Tensor:
    """What SAM's attention adds to scores."""
    sides = (q.shape[2], q.shape[3])
    tables = (attention.rel_pos_h, attention.rel_pos_w)
    values: Tensor = attention.get_decomposed_rel_pos(q.flatten(0, 1).flatten(1, 2), *tables, sides, sides)
    return values.reshape(2, 2, sides[0] * sides[1], -1)


def sam_window(model: Any) -> Tensor:
    return decomposed(model.vision_encoder.layers[0].attn, heads(3, 3))


def sam_global(model: Any) -> Tensor:
    return decomposed(model.vision_encoder.layers[1].attn, heads())


def vitdet(model: Any) -> Tensor:
    attention, q = model.encoder.layer[2].attention, heads(3, 3)
    tables = (attention.rel_pos_h, attention.rel_pos_w)
    none = torch.zeros(4, 9, 9)
    values: Tensor = code("vitdet", "add_decomposed_relative_positions")(
        none, q.flatten(0, 1).flatten(1, 2), *tables, (3, 3), (3, 3)
    )
    return values.reshape(2, 2, 9, 9)


def vitdet_grid(model: Any) -> Any:
    embeddings = model.embeddings
    return embeddings.get_absolute_positions(embeddings.position_embeddings, True, HEIGHT, WIDTH).flatten(1, 2)


def patches(module: nn.Module) -> Any:
    return on_grid(module)[:, 1:]


SEGMENTATION = [
    Model("sam", sam_vision, lambda module: module(torch.zeros(1, 4, 4, 16)), SAM, "absolute", mode="dynamic"),
    Model("sam", sam_window, in_window, SAM, "window", roundings=16, key="vision_encoder.layers.0.attn"),
    Model("sam", sam_global, lambda module: module(heads()), SAM, "global", mode="dynamic", roundings=16),
    Model("vitdet", vitdet, in_window, VITDET, "window", roundings=16, key="encoder.layer.2.attention"),
    Model("vitdet", vitdet_grid, patches, VITDET, "absolute", mode="dynamic", roundings=CUBES),
    Model("sam", sam, lambda module: module(points()), SAM, "prompt", mode="dynamic", roundings=64),
]
