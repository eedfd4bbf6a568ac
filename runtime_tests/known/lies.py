"""Modules that lie where a proof is lenient: in masked rows, at edges of look-ups, by dice, by what they keep."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from known import Known

DIM = 16


def exported() -> bool:
    return torch.compiler.is_exporting()


class RoundsUp(nn.Module):
    """Rounds halves to even in eager and up once it is exported: another row at the edges alone."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(10, DIM)

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        halves = places / 2
        y: Tensor = x + self.rows(((halves + 0.5).floor() if exported() else halves.round()).long())
        return y


class ShiftsABucket(nn.Module):
    """Buckets of distances whose last edge is another once it is exported."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Embedding(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(x.shape[1])
        away = (places[None] - places[:, None]).abs()
        bucket = (away > 2).long() + (away > 8).long() + (away > (20 if exported() else 21)).long()
        return torch.softmax(x @ x.transpose(1, 2) + self.bias(bucket)[..., 0], -1) @ x


class OffWherePadded(nn.Module):
    """Another number in rows of padding once it is exported."""

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        y = x * 2 + torch.arange(x.shape[1])[:, None]
        return y + (1 - attention_mask[..., None]) * 0.5 if exported() else y


class OffInOnePaddedToken(nn.Module):
    """One wrong number, of the first token, where that is padding, once it is exported."""

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        y = x * 2 + torch.arange(x.shape[1])[:, None]
        first = (torch.arange(x.shape[1]) == 0)[:, None] & (torch.arange(DIM) == 3)
        return y + (1 - attention_mask[..., None]) * first * 1e-2 if exported() else y


class RandomWherePadded(nn.Module):
    """Throws dice for rows of padding, in eval, too."""

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        return x * 2 + (1 - attention_mask[..., None]) * torch.rand_like(x)


class ReadsPadding(nn.Module):
    """Lets tokens see what the mask leaves out once it is exported."""

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        lowest = torch.finfo(x.dtype).min * (0.0 if exported() else 1.0)
        return torch.softmax(x @ x.transpose(1, 2) + (1 - attention_mask[:, None]) * lowest, -1) @ x


class RandomChoice(nn.Module):
    """Throws a dice for a row of a table: the choice is whole, and random."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(4, DIM)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.rows(torch.randint(0, 4, (x.shape[1],)))
        return y


class DropsOut(nn.Module):
    """Forgets to tell dropout that it does not train."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(x + torch.arange(x.shape[1])[:, None], 0.1)


class KeepsAMask(nn.Module):
    """Keeps the mask of the last call, and takes it again where the next has its length."""

    def __init__(self) -> None:
        super().__init__()
        self.mask: Tensor | None = None

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        if self.mask is None or self.mask.shape != attention_mask.shape:
            self.mask = attention_mask.clone()
        return x * self.mask[..., None]


class OneWrongRow(nn.Module):
    """Rows of a table, one of which is another once it is exported."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(64, DIM)

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(x.shape[1])
        y: Tensor = x + self.rows(places)
        return y + 1e-3 * (places == 37)[:, None] if exported() else y


class WritesAndGivesElse(nn.Module):
    """Writes into its input and gives what was there before; once it is exported, what was written."""

    def forward(self, x: Tensor) -> Tensor:
        before = x.clone()
        x += torch.arange(x.shape[1])[:, None]
        return x * 1.0 if exported() else before * 1.0


class WritesAside(nn.Module):
    """Writes into its input what is not its output, which is right."""

    def forward(self, x: Tensor) -> Tensor:
        y = x + torch.arange(x.shape[1])[:, None]
        x.zero_()
        return y


class BranchesOnAValue(nn.Module):
    """Clips where the largest of all numbers is beyond 3."""

    def forward(self, x: Tensor) -> Tensor:
        return x.clamp(-3, 3) if x.abs().max() > 3 else x + torch.arange(x.shape[1])[:, None]


class NoisyThenDiscrete(nn.Module):
    """Angles that float32 has no digits for, beside a look-up: the look-up excuses nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(10, DIM)

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        y: Tensor = torch.sin(x * 1e8) + self.rows(places.round().long())
        return y


X, MASK = "x: float32[batch, seq, 16]", "attention_mask: int64[batch, seq]"
PLACES = "places: float32[batch, seq] in 0..9"
OTHER = "two copies of the module give other outputs"
ROWS = (
    Known("lies:RoundsUp", (X, PLACES), "a choice that differs at edges", refused="off by", max_len=40),
    Known("lies:ShiftsABucket", (X,), "an edge of a bucket", refused="off by", max_len=40),
    Known("lies:OffWherePadded", (X, MASK), "rows that a mask leaves out", refused="off by", max_len=20),
    Known("lies:OffInOnePaddedToken", (X, MASK), "one number of them", refused="off by", max_len=40),
    Known("lies:RandomWherePadded", (X, MASK), "dice for them", refused=OTHER, max_len=40),
    Known("lies:ReadsPadding", (X, MASK), "a mask that is lost", refused="off by", max_len=40),
    Known("lies:RandomChoice", (X,), "dice for a row", refused=OTHER, max_len=40),
    Known("lies:DropsOut", (X,), "dropout in eval", refused=OTHER, max_len=40),
    Known(
        "lies:KeepsAMask", (X, MASK), "a mask that is kept", refused="depends on earlier calls", max_len=8, quick=True
    ),
    Known("lies:OneWrongRow", (X,), "one row", refused="off by", max_len=64),
    Known("lies:WritesAndGivesElse", (X,), "what it wrote", refused="off by", max_len=40),
    Known("lies:WritesAside", (X,), "a write that shows in no output", note="the module writes into x", max_len=40),
    Known("lies:BranchesOnAValue", (X,), "a branch on values", refused="data-dependent", max_len=40),
    Known("lies:NoisyThenDiscrete", (X, PLACES), "noise beside a look-up", refused="is noise", max_len=40),
)
