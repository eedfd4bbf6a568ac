"""Modules that a first version of this package judged wrongly: `posenc-export helpers.unusual:NAME`."""

import math

import torch
from torch import Tensor, nn


class OneApart(nn.Module):
    """Doubles a where it is one longer than b: lengths alike, and those that a traced call has, never are."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a * 2 if a.shape[1] - b.shape[1] == 1 else a + b.sum(1, keepdim=True)


class SixteenRows(nn.Module):
    """Has 16 rows only, for either of its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(16, 8)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self._with_rows(a) + self._with_rows(b).sum(1, keepdim=True)

    def _with_rows(self, x: Tensor) -> Tensor:
        rows: Tensor = self.rows(torch.arange(x.shape[1]))
        return x + rows


class Grouped(nn.Module):
    """Gives what it takes: queries of some heads and keys of less."""

    def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return q + 1, k + 1


class Patches(nn.Module):
    """Takes images of whole patches only, of 14 by 14."""

    def forward(self, image: Tensor) -> Tensor:
        if image.shape[-1] % 14 or image.shape[-2] % 14:
            raise ValueError("no whole patches")
        return nn.functional.avg_pool2d(image, 14)


class Counts(nn.Module):
    """Gives integers that no float64 holds."""

    def forward(self, y: Tensor) -> Tensor:
        return y.cumsum(-1) + (2**60 + 1)


class HalfAsLong(nn.Module):
    """Gives the mean of every two tokens, rounded up: what torch.export says of it is not made of sums alone."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, : math.ceil(x.shape[1] / 2)] + x[:, -math.ceil(x.shape[1] / 2) :]


class EvenPairs(nn.Module):
    """Pads to pairs and cuts the padding off: right at every length, though the slice lies in one piece at some."""

    def forward(self, x: Tensor) -> Tensor:
        pairs = torch.arange((x.shape[1] + 1) // 2, dtype=x.dtype)
        return x + torch.stack([pairs, -pairs], -1).flatten()[: x.shape[1], None]


class PositionIds(nn.Module):
    """Positions themselves, as int64."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.arange(x.shape[1]).unsqueeze(0).expand(x.shape[0], -1)


class ScaledWithIds(nn.Module):
    """Large floats, whose tolerance is above 1, beside integers, for which there is none."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * 1e6, torch.arange(x.shape[1]).unsqueeze(0)


class FrozenLength(nn.Module):
    """Makes its positions one by one, by a number of Python."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tensor([float(i) for i in range(x.shape[1])])[:, None]


class UnreadInput(nn.Module):
    """Never reads the start."""

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        return x + 1.0


class PadsInVain(nn.Module):
    """Pads to a multiple of 8, by a remainder that is 0 where nothing is missing: the branch changes no number."""

    def forward(self, x: Tensor) -> Tensor:
        missing = -x.shape[1] % 8
        if missing:
            x = nn.functional.pad(x, (0, 0, 0, missing), value=1.0)
        return x.sum(1, keepdim=True)
