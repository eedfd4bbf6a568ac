"""Towers that take images padded to one frame, or to one number of patches, by look-ups of the patches they have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posenc_models.vision.towers.frames import patches_present, sizes_in_frame, sizes_up_to
from posenc_models.vision.towers.grid_functions import GridFunctions
from posenc_models.vision.towers.places import refused
from posenc_models.vision.towers.resized import resized
from posenc_models.vision.towers.segments import Segments


def packing(functions: GridFunctions) -> Callable[..., Any]:
    """Return a tower that attends to the patches of all images in a row, and takes images padded to one frame."""
    from transformers.utils.output_capturing import capture_outputs

    def forward(self: Any, pixel_values: Tensor, image_sizes: Tensor | None = None, **kwargs: Any) -> Any:
        embedded = self.patch_conv(pixel_values.to(dtype=self.patch_conv.weight.dtype))
        images, features, rows, columns = embedded.shape
        if image_sizes is None:
            sizes = torch.tensor([[rows, columns]], device=embedded.device).expand(images, 2)
        else:
            sizes = sizes_in_frame(image_sizes // self.patch_size, rows, columns)
        functions.capacity = rows * columns
        present = patches_present(sizes, functions.capacity)
        number = (present.image * rows + present.row) * columns + present.column
        packed = self.ln_pre(embedded.permute(0, 2, 3, 1).reshape(-1, features)[number].unsqueeze(0))
        positions = torch.stack([present.row, present.column], -1)
        return self.transformer(
            packed,
            attention_mask=Segments(present.image, present.begin).mask(packed.dtype),
            position_embeddings=self.patch_positional_embedding(packed, positions),
            **kwargs,
        )

    captured: Callable[..., Any] = capture_outputs(forward)
    return captured


def blocks_of_packed(functions: GridFunctions) -> Callable[..., Tensor]:
    """Return what merges neighboring patches of packed images: the features of a block are in the order of channels."""

    def forward(self: Any, image_features: Tensor, image_sizes: Tensor) -> Tensor:
        merge, sizes = self.spatial_merge_size, image_sizes // self.patch_size
        sizes = sizes + refused((sizes % merge).sum().unsqueeze(0))
        present = patches_present(sizes // merge, functions.capacity // merge**2)
        index = present.blocks(merge) + present.begin.unsqueeze(1) * merge**2
        merged: Tensor = self.merging_layer(image_features[index].transpose(1, 2).flatten(1))
        return merged

    return forward


def resizing(functions: GridFunctions) -> Callable[..., Tensor]:
    """Return embeddings of patches with a table of positions that is resized for each image."""

    def forward(self: Any, pixel_values: Tensor, sizes: Tensor) -> Tensor:
        embedded: Tensor = self.patch_embedding(pixel_values.to(dtype=self.patch_embedding.weight.dtype))
        side = self.position_embedding_size
        table = self.position_embedding.weight.reshape(side, side, -1)
        if embedded.dim() == 2:  # patches of all images in a row, and grids
            places = functions.places(sizes, self.config.spatial_merge_size)
            row, column = places.row_column(self.config.spatial_merge_size)
            return embedded + resized(table, row, places.rows, column, places.columns)
        rows, columns = sizes_up_to(sizes, embedded.shape[1]).unsqueeze(-1).unbind(1)
        place = torch.arange(embedded.shape[1], device=sizes.device).unsqueeze(0)
        place = place.masked_fill(place >= rows * columns, 0)  # padding is as the first patch
        return embedded + resized(table, place // columns, rows, place % columns, columns)

    return forward


def features_of_blocks(_: GridFunctions) -> Callable[..., Any]:
    """Return a method that projects blocks of patches, of images padded to one number of patches."""

    def get_image_features(
        self: Any, pixel_values: Tensor, spatial_shapes: Tensor, pixel_attention_mask: Tensor, **kwargs: Any
    ) -> Any:
        merge, capacity = self.multi_modal_projector.factor, pixel_values.shape[1]
        sizes = sizes_up_to(spatial_shapes, capacity, merge)
        sizes = sizes + refused((pixel_attention_mask.sum(1) != sizes.prod(1)).long().sum().unsqueeze(0))
        given = {"spatial_shapes": sizes, "pixel_attention_mask": pixel_attention_mask, "return_dict": True}
        outputs = self.vision_tower(pixel_values=pixel_values, **{**kwargs, **given})
        states = outputs.last_hidden_state
        present = patches_present(sizes // merge, capacity // merge**2)
        index = present.blocks(merge) + (present.image * capacity).unsqueeze(1)
        blocks = states.reshape(-1, states.shape[-1])[index].unflatten(1, (merge, merge))
        outputs.pooler_output = [self.multi_modal_projector(blocks).flatten(0, 2)]
        return outputs

    return get_image_features
