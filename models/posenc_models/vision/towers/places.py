"""Where patches of images lie: their image, row and column, from the grids of all images and the number of patches."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from posenc.lookup import at_least, zero_or_refusal

BEYOND = 2**31
"""Time steps of the grid behind the last one, in which all patches lie that no grid has."""


SIZES_MISFIT = (
    "sizes do not fit pixel_values: expected as many patches as all images have together, and rows and columns that "
    "the model can merge"
)
"""What is said of sizes in eager mode; a graph's runtime says that a row is not there."""


class PatchPlaces(NamedTuple):
    """The place of each patch, (patches,) each, in the order in which patches of several images come.

    Attributes:
        image: Which image, or video.
        begin: The number of its first patch.
        step: The time step within it.
        cell: The number of the patch within its time step.
        rows: How many rows of patches its image has, 1 at least.
        columns: How many columns, 1 at least.
    """

    image: Tensor
    begin: Tensor
    step: Tensor
    cell: Tensor
    rows: Tensor
    columns: Tensor

    def frame_begin(self) -> Tensor:
        """Return the number of the first patch of the same time step."""
        return self.begin + self.step * self.rows * self.columns

    def row_column(self, merge: Tensor | int = 1) -> tuple[Tensor, Tensor]:
        """Return the row and column of each patch, where `merge` times `merge` neighbors come one after the other."""
        unit = merge * merge
        blocks = at_least(self.columns // merge, 1)
        block, within = self.cell // unit, self.cell % unit
        return block // blocks * merge + within // merge, block % blocks * merge + within % merge


def patch_places(grids: Tensor, patches: int, merge: int = 1) -> PatchPlaces:
    """Return the place of each patch.

    Args:
        grids: (images, 3): time steps, rows and columns; rows of zeros are no images.
        patches: How many there are. Where the grids have more or fewer, a row is looked up that is not there.
        merge: Rows and columns must be multiples of it.
    """
    # (images + 1, 3): behind the last grid there is one without an end, so that no list is empty
    given = torch.cat([grids.long(), grids.new_tensor([[BEYOND, merge, merge]], dtype=torch.int64)])
    counts = given[:, 0] * given[:, 1] * given[:, 2]
    ends = counts.cumsum(0)
    begins = ends - counts
    amiss = (begins[-1:] != patches).long() + (given < 0).long().sum() + (given[:, 1:] % merge).sum()
    number = torch.arange(patches, device=grids.device) + refused(amiss)
    image = (ends <= number.unsqueeze(-1)).sum(-1)
    # no size is 0, whatever went in: a division by 0 would end the process of a runtime
    _, rows, columns = at_least(given, 1)[image].unbind(-1)
    begin = begins[image]
    within, frame = number - begin, rows * columns
    return PatchPlaces(image, begin, within // frame, within % frame, rows, columns)


class WindowOrder(NamedTuple):
    """An order in which the patches of a window follow each other.

    Attributes:
        order: Which patch comes at each place, (patches,).
        begins: The place of the first patch of the same window, for each place, (patches,).
    """

    order: Tensor
    begins: Tensor


def window_order(places: PatchPlaces, side: int) -> WindowOrder:
    """Return the order of patches by windows of `side` times `side`, which are smaller at the right and lower edge.

    The place of a patch is that of the first in its row of windows, and how many lie in the windows before, and in its
    own window before it.
    """
    row, column = places.row_column()
    top, left = row // side * side, column // side * side
    height = _smaller(places.rows - top, side)
    width = _smaller(places.columns - left, side)
    first = places.frame_begin() + top * places.columns + height * left
    place = first + (row - top) * width + column - left
    number = torch.arange(place.shape[0], device=place.device)
    order = torch.zeros_like(place).scatter(0, place, number)
    return WindowOrder(order, first[order])


def block_order(places: PatchPlaces, merge: int) -> Tensor:
    """Return which patch, counted row by row, comes at each place if `merge` times `merge` neighbors come together."""
    row, column = places.row_column(merge)
    return places.frame_begin() + row * places.columns + column


def refused(amiss: Tensor) -> Tensor:
    """Return a zero, (1,), by a look-up that fails where something is amiss: in a graph, the runtime refuses it."""
    return zero_or_refusal(torch.zeros(1, 1, dtype=torch.int64, device=amiss.device), amiss, SIZES_MISFIT)


def _smaller(sizes: Tensor, side: int) -> Tensor:
    """Return the sizes, or `side` where they are larger."""
    return sizes.masked_fill(sizes > side, side)
