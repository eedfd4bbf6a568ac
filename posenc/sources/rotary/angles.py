"""Rotary angles: where the cosines and sines come from that queries and keys are rotated by.

A source of them is a module called as `angles(positions) -> cos_q, sin_q, cos_k, sin_k`, each (..., pairs), with
`arange(length, device)` for positions 0..length-1 with a batch axis. All but xPos rotate queries and keys alike.

`AxialAngles` (mrope, rope_2d) has one sincos method for each axis of positions, with the pairs of that axis only, and
a constant permutation where sections are interleaved. `LongRopeAngles` keeps both sets of frequencies side by side in
one sincos method and selects by the largest position: twice the rows, which are few beside q and k.
"""

from typing import Final, Protocol, TypeGuard

import numpy as np
import torch
from torch import Tensor, nn

from posenc.encoding import NoTables, Source, Tables, Tolerance
from posenc.ports import Integers
from posenc.sincos import SinCosMethod
from posenc.sources.rotary.side_by_side import side_by_side

CosSin = tuple[Tensor, Tensor, Tensor, Tensor]
BY_LENGTH = "its frequencies change with the length of a call: give --baked, for those of one length"


class RotaryAngles(Source, Protocol):
    """A source of rotary angles: positions from `end` on are refused, if that is not None."""

    @property
    def end(self) -> int | None:
        """Positions from here on are refused; None where none is."""

    @property
    def axes(self) -> int:
        """Positions that a token has."""

    @property
    def attention_factor(self) -> float:
        """What multiplies every cosine and sine."""

    def __call__(self, positions: Tensor) -> CosSin:
        """Return cosines and sines for q and for k: (...) or (axes, ...) -> four times (..., pairs)."""

    def arange(self, length: int, device: torch.device) -> CosSin:
        """Return those of positions 0..length-1: four times (1, length, pairs)."""

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far cosines and sines, before the attention factor, may be from the float64 reference.

        `vector` is what a scale of queries and keys may be off by, relative.
        """

    def tables(self) -> Tables:
        """Return what is stored; raise NoTables where that is not all that is needed."""


class StaticAngles(nn.Module):
    """Angles by frequencies that no call changes."""

    width: Final[int]

    def __init__(self, sincos: SinCosMethod) -> None:
        super().__init__()
        self.sincos = sincos
        self.width = sincos.width
        self.axes = 1
        self.end = sincos.end
        self.probes = sincos.probes
        self.half_safe = sincos.half_safe
        self.attention_factor = sincos.scale

    def forward(self, positions: Tensor) -> CosSin:
        """Return cosines and sines for q and for k: (...) -> four times (..., pairs)."""
        cos, sin = self.sincos.cos_sin(positions)
        return cos, sin, cos, sin

    def arange(self, length: int, device: torch.device) -> CosSin:
        """Return those of positions 0..length-1: four times (1, length, pairs)."""
        sin, cos = self.sincos.arange(length, self.width).chunk(2, -1)
        return cos, sin, cos, sin

    def tolerance(self, max_position: int) -> Tolerance:
        """Return what the sincos method may be off by."""
        return self.sincos.tolerance(max_position)

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return by how much a graph of the sincos method may differ."""
        return self.sincos.eager_tolerance(max_position)

    def tables(self) -> Tables:
        """Return the tables of the sincos method."""
        return self.sincos.tables()


class LongRopeAngles(StaticAngles):
    """Angles by one set of frequencies in calls up to a length, by another in longer ones (LongRoPE), without a branch.

    The sincos method holds both sets, one after the other: (..., 2 pairs). Source: arXiv:2402.13753.
    """

    original: Final[int]

    def __init__(self, sincos: SinCosMethod, original: int) -> None:
        super().__init__(sincos)
        self.original = original

    def forward(self, positions: Tensor) -> CosSin:
        """Return cosines and sines for q and for k: (...) -> four times (..., pairs)."""
        cos, sin = self.sincos.cos_sin(positions)
        is_long = positions.max() >= self.original
        short_cos, long_cos = cos.chunk(2, -1)
        short_sin, long_sin = sin.chunk(2, -1)
        cos, sin = torch.where(is_long, long_cos, short_cos), torch.where(is_long, long_sin, short_sin)
        return cos, sin, cos, sin

    def arange(self, length: int, device: torch.device) -> CosSin:
        """Return those of positions 0..length-1: four times (1, length, pairs)."""
        cos_q, sin_q, cos_k, sin_k = self.forward(torch.arange(length, device=device).unsqueeze(0))
        return cos_q, sin_q, cos_k, sin_k

    def tables(self) -> Tables:
        """Raise NoTables: a call's length chooses among the tables."""
        raise NoTables(BY_LENGTH)


class AxialAngles(nn.Module):
    """Angles by several positions a token, each by its own pairs: (axes, ...) -> four times (..., pairs).

    order: where the pairs of the first axis, then of the second, ... belong; None where they follow one another.
    """

    order: Tensor
    ordered: Final[bool]

    def __init__(self, methods: list[SinCosMethod], order: Integers | None = None) -> None:
        super().__init__()
        self.methods = nn.ModuleList(methods)  # type: ignore[arg-type]
        self.widths = [method.width for method in methods]
        self.axes = len(methods)
        self.end = methods[0].end
        self.probes = methods[0].probes
        self.half_safe = methods[0].half_safe
        self.attention_factor = methods[0].scale
        self.ordered = order is not None
        place = torch.from_numpy(np.argsort(order)) if order is not None else torch.zeros(0, dtype=torch.int64)
        self.register_buffer("order", place, persistent=False)

    def forward(self, positions: Tensor) -> CosSin:
        """Return cosines and sines for q and for k: (axes, ...) -> four times (..., pairs)."""
        sines: list[Tensor] = []
        cosines: list[Tensor] = []
        for axis, method in enumerate(self.methods):
            cos, sin = method.cos_sin(positions[axis])  # type: ignore[operator]
            sines.append(sin)
            cosines.append(cos)
        sin, cos = torch.cat(sines, -1), torch.cat(cosines, -1)
        if self.ordered:
            sin, cos = sin.index_select(-1, self.order), cos.index_select(-1, self.order)
        return cos, sin, cos, sin

    def arange(self, length: int, device: torch.device) -> CosSin:
        """Return those of tokens whose positions are the same along every axis: four times (1, length, pairs)."""
        cos_q, sin_q, cos_k, sin_k = self.forward(torch.arange(length, device=device).expand(self.axes, 1, length))
        return cos_q, sin_q, cos_k, sin_k

    def grid(self, sizes: list[int]) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of every place of a grid: (height, width) -> twice (1, height, width, pairs)."""
        sines: list[Tensor] = []
        cosines: list[Tensor] = []
        for axis, method in enumerate(self.methods):
            rows = method.arange(sizes[axis], self.widths[axis])  # type: ignore[operator]
            rows = rows.unsqueeze(2 - axis)  # (1, height, 1, 2 pairs), (1, 1, width, 2 pairs)
            sin, cos = rows.expand(-1, sizes[0], sizes[1], -1).chunk(2, -1)
            sines.append(sin)
            cosines.append(cos)
        return torch.cat(cosines, -1), torch.cat(sines, -1)

    def tolerance(self, max_position: int) -> Tolerance:
        """Return what the sincos methods, all of one kind, may be off by."""
        return self._methods()[0].tolerance(max_position)

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return by how much a graph of the sincos methods may differ."""
        return self._methods()[0].eager_tolerance(max_position)

    def tables(self) -> Tables:
        """Return the tables of all axes, side by side in the order of the pairs."""
        return side_by_side([method.tables() for method in self._methods()], self.order if self.ordered else None)

    def _methods(self) -> list[SinCosMethod]:
        return list(self.methods)  # type: ignore[arg-type]


def is_axial(angles: RotaryAngles) -> TypeGuard[AxialAngles]:
    """Return whether a token has several positions, each with its own pairs: then a grid of tokens has angles, too."""
    return angles.axes > 1
