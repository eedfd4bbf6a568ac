"""Modules that are wrong in ways that exporters do not notice, and one that is right."""

import torch
from torch import Tensor, nn


class Good(nn.Module):
    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        positions = torch.arange(x.shape[1], device=x.device, dtype=x.dtype)
        return self.linear(x) * self.scale + torch.sin(positions)[None, :, None]


class Needs(Good):
    def __init__(self, width: int) -> None:
        super().__init__()


class FrozenCache(nn.Module):
    """Keeps the table of its longest call: right in eager, a constant in an export that follows a call."""

    def __init__(self) -> None:
        super().__init__()
        self.cached: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        if self.cached is None or self.cached.shape[0] < length:
            self.cached = torch.sin(torch.arange(length, dtype=torch.float32))
        return x + self.cached[:length][None, :, None]


def warm_cache() -> nn.Module:
    module = FrozenCache()
    module(torch.zeros(1, 16, 8))
    return module


class CountsCalls(nn.Module):
    """Depends on how often it was called: the export differs after calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x + float(self.calls)


class BakedLength(nn.Module):
    """Makes its positions for the length it was traced at."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.arange(int(x.shape[1]), dtype=torch.float32)[None, : x.shape[1], None].numpy().sum()


class Specialises(nn.Module):
    """Branches on the length: torch.export keeps the branch it met."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] <= 20:
            return x
        return -x


class Static(nn.Module):
    """Fits one length only."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.randn(11, 8))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.rows


class LostInput(nn.Module):
    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        return x + 1.0


class GivesNan(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.log()


class TwoOutputs(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x + 1.0, x.sum(-1)


def raises() -> nn.Module:
    raise RuntimeError("no weights here")


def no_module() -> int:
    return 3


not_callable = 5
