"""What queries and keys turn by: cosines and sines of each pair of features, from positions.

A source of turns is a module called as `turns(positions) -> cos_q, sin_q, cos_k, sin_k`, each (..., pairs), with a
method `span(length, device)` for positions 0..length-1 with a batch axis. All but xPos turn queries and keys alike.
"""

import math
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from posenc.lookup import take

Turns = tuple[Tensor, Tensor, Tensor, Tensor]


class Fixed(nn.Module):
    """Turns by frequencies that no call changes: a lowering of `posenc.sincos.angle_addition`."""

    width: Final[int]

    def __init__(self, lowering: nn.Module, width: int) -> None:
        super().__init__()
        self.lowering = lowering
        self.width = width

    def forward(self, positions: Tensor) -> Turns:
        """Return cosines and sines for q and for k: (...) -> four times (..., pairs)."""
        sin, cos = self.lowering.pairs(positions)  # type: ignore[operator]
        return cos, sin, cos, sin

    def span(self, length: int, device: torch.device) -> Turns:
        """Return those of positions 0..length-1: four times (1, length, pairs)."""
        sin, cos = self.lowering.span(length, self.width).chunk(2, -1)  # type: ignore[operator]
        return cos, sin, cos, sin


class Switched(nn.Module):
    """Turns by one set of frequencies in calls up to a length, by another in longer ones (LongRoPE), without a branch.

    The lowering holds both sets, one after the other: (..., 2 pairs).
    """

    original: Final[int]

    def __init__(self, lowering: nn.Module, original: int) -> None:
        super().__init__()
        self.lowering = lowering
        self.original = original

    def forward(self, positions: Tensor) -> Turns:
        """Return cosines and sines for q and for k: (...) -> four times (..., pairs)."""
        sin, cos = self.lowering.pairs(positions)  # type: ignore[operator]
        is_long = positions.max() >= self.original
        short_cos, long_cos = cos.chunk(2, -1)
        short_sin, long_sin = sin.chunk(2, -1)
        cos, sin = torch.where(is_long, long_cos, short_cos), torch.where(is_long, long_sin, short_sin)
        return cos, sin, cos, sin

    def span(self, length: int, device: torch.device) -> Turns:
        """Return those of positions 0..length-1: four times (1, length, pairs)."""
        return self.forward(torch.arange(length, device=device).unsqueeze(0))


class DynamicNTK(nn.Module):
    """Turns by frequencies of the call's own length, computed in the graph: no call changes them (dynamic NTK).

    Frequencies are computed in float64; exactly, so are angles, and whole turns are taken off there, before Sin and Cos
    in `dtype`; otherwise angles are in `dtype`, as in training code. Source: arXiv:2309.00071, section 3.3.
    """

    pair: Tensor  # 2 i / dim
    slope: Tensor  # of the stretch, by length; with `shift`, its value at 0
    shift: Tensor
    exponent: Tensor
    log_theta: Tensor
    turn: Tensor  # 2 pi
    original: Final[int]
    exact: Final[bool]

    def __init__(
        self, dim: int, rope_theta: float, *, factor: float, original: int, exact: bool, dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.original = original
        self.exact = exact
        self.dtype = dtype
        # Numbers are buffers: a graph would hold Python's in float32.
        constants = {
            "pair": np.arange(0, dim, 2) / dim,
            "slope": factor / original,
            "shift": factor - 1,
            "exponent": dim / (dim - 2),
            "log_theta": math.log(rope_theta),
            "turn": 2 * math.pi,
        }
        for name, value in constants.items():
            self.register_buffer(name, torch.tensor(value, dtype=torch.float64), persistent=False)

    def forward(self, positions: Tensor) -> Turns:
        """Return cosines and sines for q and for k: (...) -> four times (..., pairs)."""
        length = (positions.max() + 1).clamp(min=self.original).to(torch.float64)
        log_base = (length * self.slope - self.shift).log() * self.exponent + self.log_theta
        inv_freq = (self.pair * -log_base).exp()
        if self.exact:
            angles = positions.to(torch.float64).unsqueeze(-1) * inv_freq
            angles = (angles - (angles / self.turn).round() * self.turn).to(self.dtype)
        else:
            angles = positions.to(self.dtype).unsqueeze(-1) * inv_freq.to(self.dtype)
        cos, sin = angles.cos(), angles.sin()
        return cos, sin, cos, sin

    def span(self, length: int, device: torch.device) -> Turns:
        """Return those of positions 0..length-1: four times (1, length, pairs)."""
        return self.forward(torch.arange(length, device=device).unsqueeze(0))


class Axial(nn.Module):
    """Turns by several positions a token, each by its own pairs: (axes, ...) -> four times (..., pairs).

    order: where the pairs of the first axis, then of the second, ... belong; None where they follow one another.
    """

    order: Tensor
    ordered: Final[bool]

    def __init__(self, lowerings: list[nn.Module], widths: list[int], order: NDArray[np.int64] | None = None) -> None:
        super().__init__()
        self.lowerings = nn.ModuleList(lowerings)
        self.widths = widths
        self.ordered = order is not None
        taken = torch.from_numpy(np.argsort(order)) if order is not None else torch.zeros(0, dtype=torch.int64)
        self.register_buffer("order", taken, persistent=False)

    def forward(self, positions: Tensor) -> Turns:
        """Return cosines and sines for q and for k: (axes, ...) -> four times (..., pairs)."""
        sines: list[Tensor] = []
        cosines: list[Tensor] = []
        for axis, lowering in enumerate(self.lowerings):
            sin, cos = lowering.pairs(positions[axis])  # type: ignore[operator]
            sines.append(sin)
            cosines.append(cos)
        sin, cos = torch.cat(sines, -1), torch.cat(cosines, -1)
        if self.ordered:
            sin, cos = sin.index_select(-1, self.order), cos.index_select(-1, self.order)
        return cos, sin, cos, sin

    def grid(self, sizes: list[int]) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of every place of a grid: (height, width) -> twice (1, height, width, pairs)."""
        sines: list[Tensor] = []
        cosines: list[Tensor] = []
        for axis, lowering in enumerate(self.lowerings):
            rows = lowering.span(sizes[axis], self.widths[axis])  # type: ignore[operator]
            rows = rows.unsqueeze(2 - axis)  # (1, height, 1, 2 pairs), (1, 1, width, 2 pairs)
            sin, cos = rows.expand(-1, sizes[0], sizes[1], -1).chunk(2, -1)
            sines.append(sin)
            cosines.append(cos)
        return torch.cat(cosines, -1), torch.cat(sines, -1)


def centred(positions: Tensor, center: int, by_length: bool) -> Tensor:
    """Return positions counted from a center, or from half the call's length: ceil((largest position + 1) / 2)."""
    if by_length:
        return positions - torch.div(positions.max() + 2, 2, rounding_mode="floor")
    return positions - center


class Decay(nn.Module):
    """The scale of xPos, zeta^((position - center) / scale_base) for each pair, as a product of two digits' rows.

    center: a fixed position, or None for half the call's length. Positions from `limit` on, at which keys would
    overflow, are refused. Source: Sun et al., arXiv:2212.10554.
    """

    low: Tensor
    high: Tensor
    center: Final[int]
    by_length: Final[bool]
    limit: Final[int]
    reach: Final[int]
    block: Final[int] = 64

    def __init__(
        self, zeta: NDArray[np.float64], scale_base: float, *, center: int | None, reach: int, dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.center = center or 0
        self.by_length = center is None
        self.reach = reach
        self.limit = 2 * reach if center is None else center + reach
        for name, powers in (("low", np.arange(64)), ("high", np.arange(-reach, reach, 64))):
            rows = torch.from_numpy(zeta ** (powers[:, None] / scale_base))
            self.register_buffer(name, rows.to(dtype), persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """Return the scales of queries: (...) -> (..., pairs); those of keys are their inverses."""
        index = centred(positions, self.center, self.by_length) + self.reach
        index = index.masked_fill((positions < 0) | (positions >= self.limit) | (index < 0), 2 * self.reach)
        high = take(self.high, torch.div(index, self.block, rounding_mode="floor"), self.limit)
        return high * take(self.low, index.remainder(self.block), self.limit)


class PowerDecay(nn.Module):
    """The scale of xPos by Pow, as training code computes it."""

    zeta: Tensor
    scale_base: Final[float]
    center: Final[int]
    by_length: Final[bool]

    def __init__(self, zeta: NDArray[np.float64], scale_base: float, *, center: int | None, dtype: torch.dtype) -> None:
        super().__init__()
        self.scale_base = scale_base
        self.center = center or 0
        self.by_length = center is None
        self.register_buffer("zeta", torch.from_numpy(zeta).to(dtype), persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """Return the scales of queries: (...) -> (..., pairs); those of keys are their inverses."""
        power = centred(positions, self.center, self.by_length)
        return self.zeta.pow(power.to(self.zeta.dtype).unsqueeze(-1) / self.scale_base)


class Scaled(nn.Module):
    """Turns with a scale that keys have the inverse of, so that it fades with the distance alone (xPos)."""

    def __init__(self, turns: nn.Module, decay: nn.Module) -> None:
        super().__init__()
        self.turns = turns
        self.decay = decay

    def forward(self, positions: Tensor) -> Turns:
        """Return cosines and sines for q and for k: (...) -> four times (..., pairs)."""
        cos, sin, _, _ = self.turns(positions)
        scale = self.decay(positions)
        return cos * scale, sin * scale, cos / scale, sin / scale

    def span(self, length: int, device: torch.device) -> Turns:
        """Return those of positions 0..length-1: four times (1, length, pairs)."""
        return self.forward(torch.arange(length, device=device).unsqueeze(0))
