"""Sources of rotary angles: cosines and sines that queries and keys are rotated by.

Such a source is a module called as `angles(positions) -> CosSin`, with `arange(sizes, device)` for the places of a
call. All but xPos rotate queries and keys alike.
"""

import math
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from posenc.arithmetic import spread
from posenc.encoding import NoTables, Tables, Tolerance
from posenc.joins.rotated import CosSin
from posenc.ports import Integers
from posenc.sincos import ComputedSinCos, SinCosMethod
from posenc.sources.rotary.side_by_side import side_by_side

BY_LENGTH = "its frequencies change with the length of a call: give --baked, for those of one length"


def alike(cos: Tensor, sin: Tensor) -> CosSin:
    """Return cosines and sines that rotate queries and keys alike."""
    return CosSin(cos, sin, cos, sin)


def tolerance_of(method: SinCosMethod, max_position: int) -> Tolerance:
    """Return how far a sincos method may be off up to a position, whose angle may be larger than its number."""
    return method.tolerance(math.ceil(max(max_position, method.largest_angle(max_position))))


class MethodAngles(nn.Module):
    """Angles by a sincos method whose frequencies may depend on the length of a call: what such angles share."""

    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(self, sincos: SinCosMethod | ComputedSinCos, attention_factor: float = 1.0) -> None:
        super().__init__()
        self.sincos = sincos
        self.axes = 1
        self.end = sincos.end
        self.probes = sincos.probes
        self.half_safe = sincos.half_safe
        self.attention_factor = attention_factor

    def arange(self, sizes: list[int], device: torch.device) -> CosSin:
        """Return cosines and sines of positions 0..length-1: (1, length, pairs) each."""
        # (length,) -> (1, length)
        angles: CosSin = self.forward(torch.arange(sizes[0], dtype=self.count_dtype, device=device).unsqueeze(0))
        return angles

    def ends(self) -> tuple[int | None, ...]:
        """Return the end of the places along each axis of a grid."""
        return (self.end,)

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far the sincos method may be off."""
        return self.sincos.tolerance(max_position)

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph of the sincos method may be off."""
        return self.sincos.eager_tolerance(max_position)

    def tables(self) -> Tables:
        """Raise NoTables: the length of a call changes what tables would hold."""
        raise NoTables(BY_LENGTH)


class StaticAngles(MethodAngles):
    """Angles by frequencies that no call changes."""

    width: Final[int]

    def __init__(self, sincos: SinCosMethod) -> None:
        super().__init__(sincos, sincos.scale)
        self.sincos: SinCosMethod
        self.width = sincos.width

    def forward(self, positions: Tensor) -> CosSin:
        """Return cosines and sines: (...) -> (..., pairs) each."""
        cos, sin = self.sincos.cos_sin(positions)
        return alike(cos, sin)

    def arange(self, sizes: list[int], device: torch.device) -> CosSin:
        """Return cosines and sines of positions 0..length-1: (1, length, pairs) each."""
        # A row holds all sines, then all cosines: (1, length, 2 pairs) -> twice (1, length, pairs).
        sin, cos = self.sincos.arange(sizes[0], self.width).chunk(2, -1)
        return alike(cos, sin)

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far the sincos method may be off, at the largest angle."""
        return tolerance_of(self.sincos, max_position)

    def tables(self) -> Tables:
        """Return the tables of the sincos method."""
        return self.sincos.tables()


class LongRopeAngles(MethodAngles):
    """Angles by one set of frequencies in calls up to a length, by another in longer calls (arXiv:2402.13753).

    The sincos method holds both sets, one after the other: (..., 2 pairs). A graph computes both and selects, without a
    branch: these are few numbers beside q and k.
    """

    original: Final[int]

    def __init__(self, sincos: SinCosMethod, original: int) -> None:
        super().__init__(sincos, sincos.scale)
        self.sincos: SinCosMethod
        self.original = original

    def forward(self, positions: Tensor) -> CosSin:
        """Return cosines and sines: (...) -> (..., pairs) each."""
        cos, sin = self.sincos.cos_sin(positions)
        is_long = positions.max() >= self.original
        # (..., 2 pairs) -> twice (..., pairs)
        short_cos, long_cos = cos.chunk(2, -1)
        short_sin, long_sin = sin.chunk(2, -1)
        return alike(torch.where(is_long, long_cos, short_cos), torch.where(is_long, long_sin, short_sin))


class AxialAngles(nn.Module):
    """Angles by several positions a token, each with pairs of its own (mrope, rope_2d, rope_nd).

    Args:
        methods: A sincos method for each position, with its pairs alone.
        order: Where the pairs of the first axis, then of the second, ... belong; None where they follow one another.
    """

    order: Tensor
    ordered: Final[bool]
    axes: Final[int]

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
        """Return cosines and sines: (axes, ...) -> (..., pairs) each."""
        sines: list[Tensor] = []
        cosines: list[Tensor] = []
        for axis, method in enumerate(self.methods):
            cos, sin = method.cos_sin(positions[axis])  # type: ignore[operator]
            sines.append(sin)
            cosines.append(cos)
        return self.joined(cosines, sines)

    def arange(self, sizes: list[int], device: torch.device) -> CosSin:
        """Return cosines and sines of every place of a grid: (1, *sizes, pairs) each."""
        sines: list[Tensor] = []
        cosines: list[Tensor] = []
        for axis, method in enumerate(self.methods):
            rows = method.arange(sizes[axis], self.widths[axis])  # type: ignore[operator]
            sin, cos = spread(rows, axis, sizes).chunk(2, -1)
            sines.append(sin)
            cosines.append(cos)
        return self.joined(cosines, sines)

    def joined(self, cosines: list[Tensor], sines: list[Tensor]) -> CosSin:
        """Return those of all axes side by side: (..., pairs of an axis) -> (..., pairs)."""
        sin, cos = torch.cat(sines, -1), torch.cat(cosines, -1)
        if self.ordered:
            # Interleaved sections take pairs of the axes by turns.
            sin, cos = sin.index_select(-1, self.order), cos.index_select(-1, self.order)
        return alike(cos, sin)

    def ends(self) -> tuple[int | None, ...]:
        """Return the end of the places along each axis of a grid."""
        return tuple(method.end for method in self._methods())

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far the sincos methods, all of one kind, may be off: the largest angle, by the most."""
        return max((tolerance_of(method, max_position) for method in self._methods()), key=lambda bound: bound.atol)

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph of the sincos methods may be off."""
        return self._methods()[0].eager_tolerance(max_position)

    def tables(self) -> Tables:
        """Return the tables of all axes, side by side."""
        return side_by_side([method.tables() for method in self._methods()], self.order if self.ordered else None)

    def _methods(self) -> list[SinCosMethod]:
        return list(self.methods)  # type: ignore[arg-type]
