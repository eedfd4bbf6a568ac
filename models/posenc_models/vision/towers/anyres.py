"""Images cut into tiles by the best of several resolutions, whose features are packed without padding, by look-ups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from posenc.lookup import at_least
from posenc_models.vision.towers.grid_functions import GridFunctions
from posenc_models.vision.towers.places import refused

ROUNDED = 5e-8
"""Half of the seventh decimal, to which models round a size before they cut it."""


class Cut(NamedTuple):
    """How images are cut into tiles, and what of them is no padding: (images,) each.

    Attributes:
        rows: How many rows of tiles.
        columns: How many columns.
        top: How many rows of features are padding above, and as many below.
        left: How many columns are padding at each side.
    """

    rows: Tensor
    columns: Tensor
    top: Tensor
    left: Tensor


def unstacked(functions: GridFunctions, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that is given the tiles of all images in a row, where there was padding to one number of them."""

    def get_image_features(self: Any, pixel_values: Tensor, image_sizes: Tensor, *args: Any, **kwargs: Any) -> Any:
        functions.capacity = pixel_values.shape[1]
        cut = _cut(self.config, image_sizes)
        tiles = cut.rows * cut.columns + 1
        tiles = tiles + refused((tiles > functions.capacity).long().sum().unsqueeze(0))
        present = torch.arange(functions.capacity, device=tiles.device) < tiles.unsqueeze(1)
        return original(self, _true(present, pixel_values.flatten(0, 1)), image_sizes, *args, **kwargs)

    return get_image_features


def packing_tiles(functions: GridFunctions) -> Callable[..., Any]:
    """Return a method that packs features of tiles, which come as one tensor, with a new line behind each row."""

    def pack_image_features(
        self: Any, image_features: Sequence[Tensor], image_sizes: Tensor, *_: Any, image_newline: Tensor, **__: Any
    ) -> tuple[list[Tensor], None]:
        features = image_features[0]
        side = self.config.vision_config.image_size // self.config.vision_config.patch_size
        cut = _cut(self.config, image_sizes)
        capacity = side**2 * functions.capacity + side * (functions.capacity - 1)
        index = _index(cut, side, capacity, features.shape[0] * side**2)
        rows = torch.cat([features.flatten(0, 1), image_newline.to(features.dtype).unsqueeze(0)])
        return [rows[index]], None

    return pack_image_features


def _index(cut: Cut, side: int, capacity: int, newline: int) -> Tensor:
    """Return which row of features comes at each place of all images, (rows,): the whole image, then its tiles."""
    tiles = cut.rows * cut.columns + 1
    begins = (tiles.cumsum(0) - tiles) * side**2
    rows, columns = cut.rows * side - 2 * cut.top, cut.columns * side - 2 * cut.left
    counts = side**2 + rows * (columns + 1)
    place = torch.arange(capacity, device=tiles.device).expand(counts.shape[0], capacity)
    present = place < counts.unsqueeze(1)
    width = (columns + 1).unsqueeze(1)
    within = at_least(place - side**2, 0)
    column = within % width
    down, right = within // width + cut.top.unsqueeze(1), column + cut.left.unsqueeze(1)
    tile = down // side * cut.columns.unsqueeze(1) + right // side + 1
    in_tile = tile * side**2 + down % side * side + right % side
    found = begins.unsqueeze(1) + torch.where(place < side**2, place, in_tile)
    ends = (column == width - 1) & (place >= side**2)
    return _true(present, found.masked_fill(ends, newline).flatten())


def _cut(config: Any, sizes: Tensor) -> Cut:
    """Return how images of such sizes in pixels, (images, 2), are cut."""
    side, whole = config.vision_config.image_size // config.vision_config.patch_size, config.vision_config.image_size
    given = at_least(sizes, 1)
    sides = torch.tensor(config.image_grid_pinpoints, device=sizes.device)[_best(config.image_grid_pinpoints, given)]
    rows, columns = (sides // whole).unbind(1)
    high, wide = given.to(torch.float64).unbind(1)
    height, width = rows * side, columns * side
    flat = wide / high > width.to(torch.float64) / height.to(torch.float64)
    new_height = (high * (width / wide) + ROUNDED).long()
    new_width = (wide * (height / high) + ROUNDED).long()
    top = ((height - new_height) // 2).masked_fill(~flat, 0)
    left = ((width - new_width) // 2).masked_fill(flat, 0)
    amiss = (sizes < 1).long().sum().unsqueeze(0)
    return Cut(rows + refused(amiss), columns, top, left)


def _best(listed: Sequence[Sequence[int]], sizes: Tensor) -> Tensor:
    """Return the number of the resolution that keeps most pixels of each image, and has fewest; the first of equals."""
    high, wide = sizes.to(torch.float64).unsqueeze(2).unbind(1)
    heights, widths = torch.tensor(listed, dtype=torch.float64, device=sizes.device).unbind(1)
    scale = torch.minimum(widths / wide, heights / high)
    kept = torch.minimum((wide * scale).long() * (high * scale).long(), sizes.prod(1, keepdim=True))
    area = torch.tensor([height * width for height, width in listed], device=sizes.device)
    last = max(height * width for height, width in listed) + 1
    order = torch.arange(len(listed), device=sizes.device)
    return ((kept * last - area) * len(listed) - order).argmax(1)


def _true(present: Tensor, rows: Tensor) -> Tensor:
    """Return the rows at which something is present."""
    (index,) = torch.nonzero(present.flatten(), as_tuple=True)
    if torch.compiler.is_exporting():
        torch._check(index.shape[0] > 1)
    return rows[index]


def cuts_tiles(part: nn.Module) -> bool:
    """Return whether a part of a model packs features of tiles, and says their resolutions."""
    config = getattr(part, "config", None)
    return hasattr(part, "pack_image_features") and hasattr(part, "image_newline") and hasattr(
        config, "image_grid_pinpoints"
    )
