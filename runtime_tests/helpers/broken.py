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
        linear: Tensor = self.linear(x)
        return linear * self.scale + torch.sin(positions)[None, :, None]


class SaysItself(Good):
    posenc_inputs = ("x: float32[batch, seq, 8]",)
    posenc_outputs: tuple[str, ...] = ("embedded",)


class SaysTooMany(SaysItself):
    posenc_outputs = ("embedded", "another")


class SaysNothing(Good):
    posenc_inputs = ("x",)


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


class LongestSoFar(nn.Module):
    """Divides by the longest length so far: eager, called once, shows nothing of that."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0

    def forward(self, x: Tensor) -> Tensor:
        self.longest = max(self.longest, x.shape[1])
        return x / self.longest


class GrowingTable(nn.Module):
    """Right, though it keeps the longest table so far: no output depends on what it keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.zeros(0, 8)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] > len(self.table):
            angles = torch.arange(x.shape[1])[:, None] * 10000.0 ** (-torch.arange(0, 8, 2) / 8)
            self.table = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        return x + self.table[: x.shape[1]]


class StoresItsAttention(nn.Module):
    """Right: what it stores of a call is never read."""

    def forward(self, x: Tensor) -> Tensor:
        self.last = x.softmax(-1)
        return self.last * 2


class Random(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand_like(x)


class LittleRandom(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1e-5 * torch.rand_like(x)


class NoiseAlone(nn.Module):
    """Takes the sine of what float32 holds no digits of."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x * 1e7)


class CausalScores(nn.Module):
    """Right: masked scores are the least number of the dtype."""

    least = torch.finfo(torch.float32).min

    def forward(self, x: Tensor) -> Tensor:
        causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        return (x @ x.transpose(-1, -2)).masked_fill(~causal, self.least)


class InfiniteScores(CausalScores):
    least = -torch.inf


class WrongBesideMasks(CausalScores):
    """Is off by a ten-thousandth where nothing is masked, once it is exported: beside a mask that is little."""

    def forward(self, x: Tensor) -> Tensor:
        off = 1e-4 if torch.compiler.is_exporting() else 0.0
        return super().forward(x) + off


class Ids(nn.Module):
    """Gives integers: the positions of tokens."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.arange(x.shape[1])[None].expand(x.shape[0], -1)


class PlainSines(nn.Module):
    """Right, with angles in float32, which are off by what they are."""

    def forward(self, x: Tensor) -> Tensor:
        angles = torch.arange(x.shape[1])[:, None] * torch.exp(torch.arange(0, 8, 2) * (-9.21034 / 8))
        return x + torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


class Uncopyable(GrowingTable):
    """Right, and cannot be copied: its factory makes another."""

    def __deepcopy__(self, memo: object) -> nn.Module:
        raise TypeError("cannot pickle 'staticmethod' object")


uncopyable = Uncopyable()


class BakedLength(nn.Module):
    """Sums its positions in NumPy: run on symbols, that is the sum of the traced length; read, it is that of any."""

    def forward(self, x: Tensor) -> Tensor:
        positions = torch.arange(int(x.shape[1]), dtype=torch.float32)[None, : x.shape[1], None]
        total: float = positions.numpy().sum()
        return x + total


class Specialises(nn.Module):
    """Branches on the length: torch.export keeps the branch it met."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] <= 20:
            return x
        return -x


class PadsToEight(nn.Module):
    """Pads to a multiple of 8, and branches where nothing is to be padded: torch.export keeps the branch it met."""

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        if length % 8 != 0:
            x = nn.functional.pad(x, (0, 0, 0, 8 - length % 8), value=1.0)
        return x.flip(1).cumsum(1).flip(1)[:, :length]


class Cache(nn.Module):
    """Right: what a KV cache implies of its sizes is implied by the names of axes."""

    def forward(self, q: Tensor, past: Tensor, mask: Tensor) -> Tensor:
        return torch.cat([past, q], 1) * mask[..., None].to(q.dtype)


class MaybeEqual(nn.Module):
    """Adds a and b where they are as long as one another, else gives a."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b if a.shape[1] == b.shape[1] else a


class NoLonger(nn.Module):
    """Refuses an a that is longer than b."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        torch._check(a.shape[1] <= b.shape[1], lambda: "a is longer than b")
        return a + b.sum(1, keepdim=True)


class Static(nn.Module):
    """Fits one length only."""

    rows: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.randn(11, 8))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.rows


class LostInput(nn.Module):
    """Reads the start in eager alone."""

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        return x + 1.0 if torch.compiler.is_exporting() else x + 1.0 + start


class GivesNan(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.log()


class TwoOutputs(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x + 1.0, x.sum(-1)


def raises() -> nn.Module:
    raise RuntimeError("no weights here")


def ends() -> nn.Module:
    raise SystemExit(0)


def no_module() -> int:
    return 3


not_callable = 5
