"""Rotary angles of places that count from the center of an axis, as those of Qwen-Image's rows and columns do.

Place i of n is at i - (n - n // 2): -2 -1 0 1 of four, -3 -2 -1 0 1 of five. The cosine of a place is that of its
distance, and so is the sine but for its sign.
"""

import torch
from torch import Tensor

from posenc.arithmetic import spread
from posenc.encoding import NoTables, Tables
from posenc.joins.rotated import CosSin
from posenc.ports import Integers
from posenc.sincos import SinCosMethod
from posenc.sources.rotary.angles import AxialAngles, alike

BY_SIZE = "a place that counts from the center of an axis changes with the size of a call"


class CenteredAxialAngles(AxialAngles):
    """Angles of the places of a grid, some of whose axes count from their center.

    Args:
        centered: Which axes do; the methods of these give cosines and sines of distances.
    """

    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(self, methods: list[SinCosMethod], order: Integers | None, centered: list[bool]) -> None:
        super().__init__(methods, order)
        self.centered = centered

    def arange(self, sizes: list[int], device: torch.device) -> CosSin:
        """Return cosines and sines of every place of a grid: (1, *sizes, pairs) each."""
        sines: list[Tensor] = []
        cosines: list[Tensor] = []
        for axis, method in enumerate(self.methods):
            size = sizes[axis]
            if self.centered[axis]:
                # Each distance is looked up once; a single place is at -1, so that there is one more than places.
                distances = torch.arange(size + 1, dtype=self.count_dtype, device=device).unsqueeze(0)
                place = torch.arange(size, dtype=self.count_dtype, device=device) - (size - size // 2)
                cos, sin = method.cos_sin(distances)  # type: ignore[operator]
                cos, sin = cos.index_select(1, place.abs()), sin.index_select(1, place.abs())  # (1, size, pairs) each
                sin = torch.where((place < 0).unsqueeze(-1), -sin, sin)
            else:
                sin, cos = method.arange(size, self.widths[axis]).chunk(2, -1)  # type: ignore[operator]
            sines.append(spread(sin, axis, sizes))
            cosines.append(spread(cos, axis, sizes))
        sin, cos = torch.cat(sines, -1), torch.cat(cosines, -1)
        if self.ordered:
            sin, cos = sin.index_select(-1, self.order), cos.index_select(-1, self.order)
        return alike(cos, sin)

    def ends(self) -> tuple[int | None, ...]:
        """Return the end of the places of each axis: tables of distances have a row more."""
        axes = zip(super().ends(), self.centered, strict=True)
        return tuple(end - 1 if centered and end is not None else end for end, centered in axes)

    def tables(self) -> Tables:
        """Raise NoTables: the size of a call changes what is read of tables."""
        raise NoTables(BY_SIZE)
