"""Parts of towers that rearrange the patches of each image by itself, by look-ups for all images at once instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from posenc.libraries import library_class
from posenc_models.vision.towers.anyres import cuts_tiles, packing_tiles, unstacked
from posenc_models.vision.towers.grid_functions import GridFunctions
from posenc_models.vision.towers.padded import blocks_of_packed, features_of_blocks, packing, resizing
from posenc_models.vision.towers.places import block_order, patch_places, refused

Method = tuple[type[nn.Module], str, Callable[..., Any]]
"""A class, the name of its method, and what takes the place of that."""


def methods_of(model: nn.Module, functions: GridFunctions) -> Iterator[Method]:
    """Return methods of a model's parts that loop over images, and what takes their place."""
    for kind, part in {library_class(part): part for part in model.modules()}.items():
        if all(hasattr(part, name) for name in ("merge_kernel_size", "pre_norm", "linear_1", "act", "linear_2")):
            yield kind, "forward", _merging(functions)
        if hasattr(part, "_temporal_slicing") and hasattr(part, "temporal_merge_size"):
            yield kind, "_temporal_slicing", _pairs(functions)
        if all(hasattr(part, name) for name in ("patch_conv", "ln_pre", "patch_positional_embedding", "transformer")):
            yield kind, "forward", packing(functions)
        if all(hasattr(part, name) for name in ("merging_layer", "spatial_merge_size", "patch_size")):
            yield kind, "forward", blocks_of_packed(functions)
        if hasattr(part, "resize_positional_embeddings") and hasattr(part, "position_embedding_size"):
            yield kind, "forward", resizing(functions)
        if hasattr(getattr(part, "multi_modal_projector", None), "pixel_unshuffle"):
            yield kind, "get_image_features", features_of_blocks(functions)
        if hasattr(part, "pixel_unshuffle") and hasattr(part, "encoder"):
            yield kind, "pixel_unshuffle", _unmerged
        if cuts_tiles(part):
            reads: Any = kind
            yield kind, "get_image_features", unstacked(functions, reads.get_image_features)
            yield kind, "pack_image_features", packing_tiles(functions)


def _unmerged(_: Any, hidden_states: Tensor, grid_thw: Tensor, merge_sizes: Tensor) -> Tensor:
    """Return the features of images that are not merged, as they are; a graph refuses others."""
    merged = (merge_sizes != 1).long().sum().unsqueeze(0)
    return hidden_states + refused(merged).to(hidden_states.dtype)


def _merging(functions: GridFunctions) -> Callable[..., Tensor]:
    """Return a projector that puts neighboring patches side by side, which come row by row."""

    def forward(self: Any, image_features: Tensor, image_grid_thw: Tensor) -> Tensor:
        side, _ = self.merge_kernel_size
        order = block_order(functions.places(image_grid_thw, side), side)
        rows = self.pre_norm(image_features)[order].reshape(-1, side * side * image_features.shape[-1])
        projected: Tensor = self.linear_2(self.act(self.linear_1(rows)))
        return projected

    return forward


def _pairs(functions: GridFunctions) -> Callable[..., Tensor]:
    """Return what puts two time steps side by side, of a video, and the one of an image beside itself."""

    def _temporal_slicing(self: Any, hidden_states: Tensor, grid_thw: Tensor) -> Tensor:
        if functions.of_videos:
            return _two_steps(hidden_states, grid_thw, self.spatial_merge_size)
        hidden_states = hidden_states + refused((grid_thw[:, 0] > 1).long().sum().unsqueeze(0)).to(hidden_states.dtype)
        return torch.cat([hidden_states, hidden_states], -1)

    return _temporal_slicing


def _two_steps(hidden_states: Tensor, grid_thw: Tensor, merge: int) -> Tensor:
    """Return each even time step with the odd one behind it: (rows / 2, 2 features); videos have both."""
    pairs = torch.stack([grid_thw[:, 0] // 2, grid_thw[:, 1] // merge, grid_thw[:, 2] // merge], -1)
    places = patch_places(pairs, hidden_states.shape[0] // 2)
    odd = refused((grid_thw[:, 0] % 2).sum().unsqueeze(0))
    frame = places.rows * places.columns
    first = 2 * places.begin + 2 * places.step * frame + places.cell + odd
    return torch.cat([hidden_states[first], hidden_states[first + frame]], -1)
