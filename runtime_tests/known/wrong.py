"""Modules of which no right file can be made, or of which exporters make a wrong one without a word."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from known import Known


class SwitchesAtLength(nn.Module):
    """Other frequencies from a length on, by a branch: longrope, as models have it."""

    def forward(self, x: Tensor) -> Tensor:
        scale = 0.5 if x.shape[1] > 32 else 1.0
        return x + torch.arange(x.shape[1])[:, None] * scale


class PadsToEight(nn.Module):
    """Pads to a multiple of 8 where that is needed, and sums what is there."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] % 8:
            x = functional.pad(x, (0, 0, 0, 8 - x.shape[1] % 8), value=1.0)
        return x.sum(1, keepdim=True)


class PadsInVain(nn.Module):
    """The same by a remainder that is 0 where nothing is missing: the branch changes no number."""

    def forward(self, x: Tensor) -> Tensor:
        missing = -x.shape[1] % 8
        if missing:
            x = functional.pad(x, (0, 0, 0, missing), value=1.0)
        return x.sum(1, keepdim=True)


class BranchesRarely(nn.Module):
    """Branches on a remainder in vain, but for few lengths, at which it branches again."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] % 8 == 0 and x.shape[1] % 40 == 0:
            return x * 2
        return x + torch.arange(x.shape[1])[:, None]


class Random(nn.Module):
    """Shifts its positions at random in eval, too."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.sin(torch.arange(x.shape[1]) + torch.rand(1))[:, None]


class Noisy(nn.Module):
    """Angles far beyond what float32 has digits for."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x * 1e8)


class MaskedAtSome(nn.Module):
    """Masks one token too many at five of nine lengths, once it is exported."""

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        causal = torch.ones(n, n).tril()
        if torch.compiler.is_exporting():
            causal = causal * (torch.arange(n) * 5 % 9 < 8)[:, None]
        return causal @ x


class CachesByOrder(nn.Module):
    """Keeps the table of its first call, scaled by its length."""

    def __init__(self) -> None:
        super().__init__()
        self.first: int | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.first is None:
            self.first = x.shape[1]
        return x + torch.arange(x.shape[1])[:, None] / float(self.first)


class LongestNtk(nn.Module):
    """Dynamic NTK, as models have it: the base grows with the longest call so far."""

    def __init__(self, longest: int = 16) -> None:
        super().__init__()
        self.original, self.longest = longest, longest

    def forward(self, x: Tensor, position_ids: Tensor) -> Tensor:
        length = int(position_ids.max()) + 1
        if length > self.longest:
            self.longest, self.grown = length, True
        base = 10000.0 * (2.0 * self.longest / self.original - 1) ** (16 / 14)
        angles = position_ids[..., None] / base ** (torch.arange(0, 16, 2) / 16)
        return x * torch.cat([angles.cos(), angles.cos()], -1)


class CentredXPos(nn.Module):
    """xPos centred by the length, and by an integer of it: `len // 2` that becomes a number."""

    def forward(self, x: Tensor) -> Tensor:
        middle = torch.tensor(len(x[0]) // 2)
        power = (torch.arange(x.shape[1]) - middle) / 512
        return x * torch.tensor(0.9) ** power[:, None]


class LosesItsInput(nn.Module):
    """Reads the start in eager, and leaves it out once it is exported."""

    def forward(self, x: Tensor, offset: Tensor) -> Tensor:
        places = torch.arange(x.shape[1])
        return x + (places if torch.compiler.is_exporting() else places + offset)[:, None]


class FreezesItsLength(nn.Module):
    """Makes its rows for the length as a number of Python."""

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.tensor([math.sin(i) for i in range(x.shape[1])])
        return x + rows[:, None]


class CrossAttentionOnly(nn.Module):
    """Takes the shorter of two lengths by a branch."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a[:, : b.shape[1]] + b if a.shape[1] > b.shape[1] else a + b[:, : a.shape[1]]


class HalvesBeyond(nn.Module):
    """Off by a little at lengths that are multiples of 13, once it is exported."""

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        y = x + torch.arange(n)[:, None]
        return y + 1e-2 * (n // 13 * 13 == n) if torch.compiler.is_exporting() else y


def called() -> nn.Module:
    """A module that was called, and cannot be captured any more."""
    module = CachesByOrder()
    module(torch.zeros(1, 5, 16))
    return module


X = ("x: float32[batch, seq, 16]",)
KEPT = "the module branches on"
ROWS = (
    Known("wrong:SwitchesAtLength", X, "a branch on the length", refused=KEPT),
    Known("wrong:PadsToEight", X, "a branch on a remainder", refused=KEPT),
    Known("wrong:PadsInVain", X, "a branch that changes no number", note="torch.export assumed"),
    Known("wrong:BranchesRarely", X, "a branch within one that changes no number", refused=KEPT, quick=True),
    Known("wrong:Random", X, "random", refused="two copies of the module give other outputs"),
    Known("wrong:Noisy", X, "noise", refused="is noise"),
    Known("wrong:MaskedAtSome", X, "wrong once it is exported", refused="off by", max_len=33, quick=True),
    Known("wrong:CachesByOrder", X, "depends on the order of calls", refused="depends on earlier calls"),
    Known(
        "wrong:LongestNtk",
        (*X, "position_ids: int64[batch, seq]"),
        "a branch on positions",
        refused="posenc export rope -p rope_type=dynamic",
        quick=True,
    ),
    Known("wrong:LosesItsInput", (*X, "offset: int64[1] < 30"), "an input is lost", refused="'offset'"),
    Known("wrong:FreezesItsLength", X, "a length as a number", refused="makes a plain number of axis 'seq'"),
    Known(
        "wrong:CrossAttentionOnly",
        ("a: float32[batch, n, 16]", "b: float32[batch, m, 16]"),
        "a branch on two",
        refused=KEPT,
    ),
    Known("wrong:called", X, "what a call left", refused=""),
)
