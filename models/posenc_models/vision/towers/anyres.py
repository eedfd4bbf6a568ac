"""Images cut into tiles by the best of several resolutions, whose features are packed without padding, by look-ups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from posenc.lookup import at_least
from posenc_models.vision.towers.frames import places_present
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
        image, tile = places_present(tiles, functions.capacity)
        packed = pixel_values.flatten(0, 1)[image * functions.capacity + tile]
        return original(self, packed, image_sizes, *args, **kwargs)

    return get_image_features


def packing_tiles(functions: GridFunctions) -> Callable[..., Any]:
    """Return a method that packs features of tiles, which come as one tensor, with a new line behind each row."""

    def pack_image_features(
        self: Any,
        image_features: Sequence[Tensor],
        image_sizes: Tensor,
        *_: Any,
        image_newline: Tensor,
        vision_aspect_ratio: str = "",
        **__: Any,
    ) -> tuple[list[Tensor], None]:
        features = image_features[0]
        side = self.config.vision_config.image_size // self.config.vision_config.patch_size
        cut = _cut(self.config, image_sizes)
        room = int(vision_aspect_ratio.removeprefix("anyres_max_")) * side**2 if vision_aspect_ratio else None
        packed = _packed(cut, side, functions.capacity, room)
        rows = torch.cat([features.flatten(0, 1), image_newline.to(features.dtype).unsqueeze(0)])
        index = packed.sources.masked_fill(packed.ends.unsqueeze(-1), features.shape[0] * side**2)
        if room is None:
            return [rows[index[:, 0]]], None
        return [(rows[index] * packed.weights.to(rows.dtype).unsqueeze(-1)).sum(1)], None

    return pack_image_features


class _Packed(NamedTuple):
    """Rows of features at each place of all images: the whole image, then its tiles, (rows, 4) but for `ends`.

    Attributes:
        sources: Four rows of which a place has something; the first alone where nothing is resized.
        weights: How much of each.
        ends: Whether the place is a new line, (rows,).
    """

    sources: Tensor
    weights: Tensor
    ends: Tensor


def _packed(cut: Cut, side: int, tiles_at_most: int, room: int | None) -> _Packed:
    """Return where features of images cut into tiles come from; larger ones are resized to `room` for features."""
    begins = ((cut.rows * cut.columns + 1).cumsum(0) - cut.rows * cut.columns - 1) * side**2
    high, wide = cut.rows * side - 2 * cut.top, cut.columns * side - 2 * cut.left
    rows, columns = (high, wide) if room is None else _resized(high, wide, room)
    capacity = side**2 * tiles_at_most + side * (tiles_at_most - 1)
    image, place = places_present(side**2 + rows * (columns + 1), capacity)
    width = columns[image] + 1
    tiled, within = place >= side**2, at_least(place - side**2, 0)
    column = within % width
    down = _taps(within // width, rows[image], high[image])
    right = _taps(column.minimum(width - 2), columns[image], wide[image])
    index, weights = [], []
    for row, of_row in down:
        for other, of_column in right:
            y, x = row + cut.top[image], other + cut.left[image]
            tile = y // side * cut.columns[image] + x // side + 1
            index.append(torch.where(tiled, tile * side**2 + y % side * side + x % side, place) + begins[image])
            weights.append(of_row * of_column)
    return _Packed(torch.stack(index, 1), torch.stack(weights, 1), tiled & (column == width - 1))


def _resized(rows: Tensor, columns: Tensor, room: int) -> tuple[Tensor, Tensor]:
    """Return rows and columns of images, smaller where these are more than 1.1^2 times the room."""
    ratio = (rows.to(torch.float64) * columns / room).sqrt()
    smaller = [torch.where(ratio > 1.1, _floor_divided(side, ratio), side) for side in (rows, columns)]
    return smaller[0], smaller[1]


def _floor_divided(number: Tensor, ratio: Tensor) -> Tensor:
    """Return whole quotients as Python has them: a quotient rounded to the next whole number would be another."""
    wide = number.to(torch.float64)
    whole = (wide - torch.fmod(wide, ratio)) / ratio
    return (whole + 0.5).floor().long()


def _taps(place: Tensor, size: Tensor, source: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return the two places of another size between which a place lies, with their weights."""
    scale = source.to(torch.float32) / at_least(size, 1).to(torch.float32)
    at = (scale * (place.to(torch.float32) + 0.5) - 0.5).clamp(min=0)
    low = at.long()
    high = torch.where(low < source - 1, low + 1, low)
    return [(low, 1 - (at - low)), (high, at - low)]


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


def cuts_tiles(part: nn.Module) -> bool:
    """Return whether a part of a model packs features of tiles, and says their resolutions."""
    config = getattr(part, "config", None)
    return (
        hasattr(part, "pack_image_features")
        and hasattr(part, "image_newline")
        and hasattr(config, "image_grid_pinpoints")
    )
