"""Modules as people write them, of which a first version could not say what they give: `helpers.idioms:NAME`."""

import torch
from torch import Tensor, nn


class WritesIntoInput(nn.Module):
    """Adds its table to x in place, as many do."""

    pe: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("pe", torch.sin(torch.arange(512.0))[:, None] * torch.ones(8))

    def forward(self, x: Tensor) -> Tensor:
        x += self.pe[: x.shape[1]]
        return x


class WritesIntoSlice(WritesIntoInput):
    """Adds it to some features, and gives something else."""

    def forward(self, x: Tensor) -> Tensor:
        x[:, :, :4] += self.pe[: x.shape[1], :4]
        return x.mul(2.0)


class Doubles(nn.Module):
    """Doubles x in place, and gives a sum."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(2.0) + 1


class FloatInside(nn.Module):
    """Rotary angles by `.float()`, as diffusion models and conformers have them."""

    def forward(self, x: Tensor) -> Tensor:
        steps = torch.arange(x.shape[1], dtype=torch.float32, device=x.device)
        inv_freq = 1.0 / 10000 ** (torch.arange(0, 8, 2).float() / 8)
        angles = torch.outer(steps, inv_freq)
        both = torch.cat([angles, angles], -1)
        wide = x.float()
        return (wide * both.cos() + wide.flip(-1) * both.sin()).to(x.dtype)


class Factories(nn.Module):
    """Adds what each way to make a float32 tensor gives: they sum to 1.6 + length / 10."""

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        made: Tensor = torch.full((n,), 0.1, dtype=torch.float32) + torch.zeros(n, dtype=torch.float32)
        made = made + torch.ones(n).type("torch.FloatTensor") * 0.3 + torch.tensor(0.2)
        made = made + torch.arange(n).to(torch.float32) / 10 + x.new_full((n,), 0.7).type_as(made)
        made = made + torch.empty(n).fill_(0.3) + 0.1 * n - torch.arange(0, n, 1.0) * 0.1
        return x + made[:, None]


class HalfInside(nn.Module):
    """Rounds to float16 on the way."""

    def forward(self, x: Tensor) -> Tensor:
        return (x.half() / 3).to(x.dtype) + (x.bfloat16() / 3).float()


class PlainTable(nn.Module):
    """Keeps a table that is no buffer, multiplies by it, and counts in another one."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.eye(8)
        self.sums = torch.zeros(8)

    def forward(self, x: Tensor) -> Tensor:
        self.sums[:4].add_(1.0)
        return x @ self.table + self.sums


class Integers(nn.Module):
    """Gives integers that no float holds, and flags."""

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        return ids + (2**53 + 1), ids.to(torch.int32) > 0


class ComplexInside(nn.Module):
    """Rotates pairs as complex numbers, as LLaMA's first code does."""

    turns: Tensor

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(64.0), 1.0 / 10000 ** (torch.arange(0, 8, 2) / 8))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.turns[: x.shape[1]]).flatten(2).type_as(x)


class ComplexAtPositions(nn.Module):
    """Looks the turns of positions up, for all heads alike."""

    turns: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("turns", ComplexInside().turns)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.turns[positions].unsqueeze(-2)).flatten(3).type_as(x)


class ComplexOutput(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))


class SparseOutput(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.to_sparse()


class SaysMuch(nn.Module):
    """Refuses float64 in many words, with its place in memory."""

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype != torch.float32:
            raise TypeError(f"{object()} takes float32" + " alone" * 100)
        return x * 2


class BytesOutput(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"x": x, "flags": (x > 0).to(torch.uint8)}


class ReadsBits(nn.Module):
    """Takes the sign off numbers by their bits, which are others in float64."""

    def forward(self, x: Tensor) -> Tensor:
        return (x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32)


class RefusesFloat64(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.dtype != torch.float32:
            raise ValueError("expected float32")
        return x * 2


class CutsToSquare(nn.Module):
    """Cuts a map to the shorter of its sides: its output has a size that is neither's."""

    def forward(self, x: Tensor) -> Tensor:
        n = min(x.shape[1], x.shape[2])
        return x[:, :n, :n]


class AtLeastFour(nn.Module):
    """Has as many rows as x, and four at least."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.pad(x, (0, 0, 0, max(0, 4 - x.shape[1])))


class OneSequence(WritesIntoInput):
    """Gives the table of one sequence, whatever batch comes in."""

    def forward(self, x: Tensor) -> Tensor:
        return self.pe[None, : x.shape[1]] * 2.0


class LosesBatch(nn.Module):
    """Has an axis less where the batch is of one."""

    def forward(self, x: Tensor) -> Tensor:
        return x.squeeze(0)


class OddFrom30(nn.Module):
    """Gives a row less from length 30 on, which no small call shows."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 1:] if 30 <= x.shape[1] < 40 else x * 1


class Affine(nn.Module):
    """Takes what is of one size."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 3.0 + 1.0


class SumAndProduct(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {"sum": x + y, "mean": (x * y).mean()}


class AddsRows(nn.Module):
    """Adds rows of 64 positions to as many tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(64, 8)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        rows: Tensor = self.rows(positions)
        return x + rows


class AddsRowsFrom(AddsRows):
    """Adds those that follow a start."""

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        rows: Tensor = self.rows(torch.arange(x.shape[1]) + start)
        return x + rows
