"""Patches of images that are padded to one frame: those that there are, one after the other."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from posenc.lookup import at_least
from posenc_models.vision.towers.places import refused


class PatchesPresent(NamedTuple):
    """Patches of all images, without padding, (patches,) each.

    Attributes:
        image: Which image.
        row: The row within it.
        column: The column within it.
        begin: The number of the first patch of the image.
        columns: How many columns of patches the image has.
    """

    image: Tensor
    row: Tensor
    column: Tensor
    begin: Tensor
    columns: Tensor

    def blocks(self, merge: int) -> Tensor:
        """Return which patches of its image lie in each, a block of `merge` times `merge`: (patches, merge^2)."""
        steps = torch.arange(merge, device=self.row.device)
        rows = (self.row * merge).reshape(-1, 1, 1) + steps.unsqueeze(1)
        columns = (self.column * merge).reshape(-1, 1, 1) + steps
        return (rows * (self.columns * merge).reshape(-1, 1, 1) + columns).flatten(1)


def patches_present(sizes: Tensor, capacity: int) -> PatchesPresent:
    """Return the patches of images.

    Args:
        sizes: (images, 2), rows and columns of patches.
        capacity: As many patches, or more, as any image has.
    """
    counts = sizes[:, 0] * sizes[:, 1]
    begins = counts.cumsum(0) - counts
    image, place = places_present(counts, capacity)
    columns = at_least(sizes, 1)[image, 1]
    return PatchesPresent(image, place // columns, place % columns, begins[image], columns)


def places_present(counts: Tensor, capacity: int) -> tuple[Tensor, Tensor]:
    """Return the image, and the place in it, of all places that are there, (places,) each.

    Args:
        counts: How many each image has, (images,).
        capacity: As many, or more, as any image has.
    """
    present = torch.arange(capacity, device=counts.device) < counts.unsqueeze(1)
    image, place = torch.nonzero(present, as_tuple=True)
    if torch.compiler.is_exporting():
        torch._check(image.shape[0] > 1)  # as of any free axis: a trace decides by it, and a graph does not ask
    return image, place


def sizes_in_frame(sizes: Tensor, rows: int, columns: int, merge: int = 1) -> Tensor:
    """Return the sizes of images, (images, 2); a graph refuses those outside of a frame, and those it cannot merge."""
    frame = torch.stack([torch.full_like(sizes[:, 0], rows), torch.full_like(sizes[:, 1], columns)], 1)
    return sizes + refused(_amiss(sizes, merge) + (sizes > frame).long().sum().unsqueeze(0))


def sizes_up_to(sizes: Tensor, capacity: int, merge: int = 1) -> Tensor:
    """Return the sizes of images, (images, 2); a graph refuses those of more patches, and those it cannot merge."""
    many = (sizes[:, 0] * sizes[:, 1] > capacity).long().sum()
    return sizes + refused(_amiss(sizes, merge) + many.unsqueeze(0))


def _amiss(sizes: Tensor, merge: int) -> Tensor:
    """Return 0, (1,), where all sizes are some, and can be merged."""
    return ((sizes < 1).long().sum() + (sizes % merge).sum()).unsqueeze(0)
