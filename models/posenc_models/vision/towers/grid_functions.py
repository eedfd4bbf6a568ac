"""Functions of transformers that read sizes of images into lists, by arithmetic on numbers of patches instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from posenc_models.vision.towers.places import PatchPlaces, block_order, patch_places, window_order
from posenc_models.vision.towers.segments import OneSize, Segments


class GridFunctions:
    """The functions, for a call of a tower with so many patches.

    Args:
        patches: How many rows of patches the tower is given.
        of_videos: Whether they are of videos.
    """

    def __init__(self, patches: int, of_videos: bool = False) -> None:
        self.patches, self.of_videos = patches, of_videos
        self.capacity = 0  # how many patches an image can have, where they are padded to one frame
        self._places: dict[tuple[int, int], tuple[Tensor, PatchPlaces]] = {}

    def by_name(self) -> Mapping[str, Callable[..., Any]]:
        """Return the functions by the names that transformers has for those in whose place they are."""
        return {
            "get_vision_cu_seqlens": self.cu_seqlens,
            "get_vision_attention_seqlens": self.attention_seqlens,
            "get_vision_position_ids": self.position_ids,
            "get_vision_window_index": self.window_index,
            "get_vision_interpolation_indices_and_weights": self.interpolation,
            "get_vision_pixel_shuffle_index": self.pixel_shuffle,
            "image_size_to_num_patches": lambda **_: OneSize(),
        }

    def cu_seqlens(self, grid_thw: Tensor, merge_temporal: bool = False, **_: Any) -> Segments:
        """Return the parts in which patches attend: time steps, or whole videos."""
        places = self.places(grid_thw)
        return Segments(places.begin if merge_temporal else places.frame_begin(), grid_thw.prod(-1).cumsum(0))

    def attention_seqlens(
        self, grid_thw: Tensor, config: Any, merge_temporal: bool = False, **_: Any
    ) -> tuple[Segments, None]:
        """Return the parts in which patches attend, and no longest one: only flash attention asks for it."""
        return self.cu_seqlens(grid_thw, merge_temporal), None

    def position_ids(
        self, grid_thw: Tensor, spatial_merge_size: int | Tensor, include_temporal: bool = False, **_: Any
    ) -> Tensor:
        """Return the row and column of each patch, (patches, 2); before them its time step, (patches, 3), if wanted."""
        if isinstance(spatial_merge_size, int):
            places = self.places(grid_thw, spatial_merge_size)
            row_column = places.row_column(spatial_merge_size)
        else:
            places = self.places(grid_thw)
            row_column = places.row_column(spatial_merge_size[places.image])
        return torch.stack([places.step, *row_column] if include_temporal else row_column, -1)

    def window_index(
        self, grid_thw: Tensor, spatial_merge_size: int, window_size: int, patch_size: int, **_: Any
    ) -> tuple[Tensor, Segments]:
        """Return the order of merged patches by windows, (patches / merge^2,), and windows as parts of patches."""
        unit = spatial_merge_size**2
        merged = torch.stack([grid_thw[:, 0], *(grid_thw[:, 1:] // spatial_merge_size).unbind(-1)], -1)
        places = patch_places(merged, self.patches // unit)
        windows = window_order(places, window_size // spatial_merge_size // patch_size)
        begins = (windows.begins * unit).unsqueeze(-1).expand(-1, unit).reshape(-1)
        return windows.order, Segments(begins, grid_thw.prod(-1).cumsum(0))

    def interpolation(  # noqa: PLR0917  (models call it by position, too)
        self,
        grid_thw: Tensor,
        num_grid_per_side: int,
        mode: str = "bilinear",
        align_corners: bool = False,
        spatial_merge_size: int = 1,
        padding: str = "border",
        **_: Any,
    ) -> tuple[Tensor, Tensor]:
        """Return rows of a square table, and their weights, that make the embedding of each patch: (patches, taps)."""
        from transformers.vision_utils import _interpolation_axis_taps_weights as taps_and_weights

        places, side = self.places(grid_thw, spatial_merge_size), num_grid_per_side
        row, column = places.row_column(spatial_merge_size)
        down, down_weights = taps_and_weights(row, places.rows, side, mode, align_corners, padding)
        right, right_weights = taps_and_weights(column, places.columns, side, mode, align_corners, padding)
        indices = (down.unsqueeze(2) * side + right.unsqueeze(1)).flatten(1)
        return indices, (down_weights.unsqueeze(2) * right_weights.unsqueeze(1)).flatten(1)

    def pixel_shuffle(self, grid_thw: Tensor, merge_size: int, **_: Any) -> Tensor:
        """Return which patch, counted row by row, comes at each place if neighbors that are merged come together."""
        return block_order(self.places(grid_thw, merge_size), merge_size)

    def places(self, grid_thw: Tensor, merge: int = 1) -> PatchPlaces:
        """Return the place of each patch; asked again for the same grids, the same tensors."""
        key = id(grid_thw), merge
        if key not in self._places:
            self._places[key] = grid_thw, patch_places(grid_thw, self.patches, merge)
        return self._places[key][1]
