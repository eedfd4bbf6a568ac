"""Idioms of code that people write around an encoding: caches, static shapes, writes in place, casts, pooled masks."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from known import Known
from known.absolute import sinusoids
from known.rotary import inv_freq, rotate_half

DIM, HEADS = 16, 4


class InPlace(nn.Module):
    """Adds its rows to x itself, as tutorials do: what the caller holds is changed, too."""

    pe: Tensor

    def __init__(self, longest: int = 128) -> None:
        super().__init__()
        self.register_buffer("pe", sinusoids(torch.arange(longest), DIM)[None])

    def forward(self, x: Tensor) -> Tensor:
        x += self.pe[:, : x.shape[1]]
        return x


class InPlaceOfACopy(InPlace):
    """Adds them to what it has made itself: nobody's input is changed."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * math.sqrt(DIM)
        y += self.pe[:, : x.size(1)]
        return y


class FloatInside(nn.Module):
    """Norms and angles in float32, whatever comes in; cast back at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(DIM) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        angles = torch.arange(x.shape[1], dtype=torch.float32)[:, None] * inv_freq()
        return (self.weight * normed + torch.cat([angles.sin(), angles.cos()], -1)).type_as(x)


class TimestepMlp(nn.Module):
    """A diffusion block: timesteps to sinusoids to a network, which scales and shifts what is normed."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(DIM, 32), nn.SiLU(), nn.Linear(32, 2 * DIM))
        self.norm = nn.LayerNorm(DIM, elementwise_affine=False)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        frequencies = torch.exp(-math.log(10000) * torch.arange(0, DIM // 2, dtype=torch.float32) / (DIM // 2))
        angles = t[:, None].float() * frequencies[None]
        embedding = torch.cat([torch.cos(angles), torch.sin(angles)], -1)
        scale, shift = self.network(embedding)[:, None].chunk(2, -1)
        y: Tensor = self.norm(x) * (1 + scale) + shift
        return y


class ScalarTime(nn.Module):
    """Sinusoids of a number without any axis, as samplers hand it over."""

    def forward(self, t: Tensor) -> Tensor:
        return sinusoids(t, DIM)


class Growing(nn.Module):
    """LLaMA with a cache that grows: past keys and values go in, those of all tokens come out, rotated."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, DIM, bias=False)

    def forward(self, x: Tensor, past_k: Tensor, past_v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        n, past = x.shape[1], past_k.shape[2]
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        angles = torch.outer(torch.arange(past, past + n).float(), inv_freq(DIM // HEADS)).repeat(1, 2)
        q, k = (part * angles.cos() + rotate_half(part) * angles.sin() for part in (q, k))
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        later = torch.full((n, n + past), -torch.inf).triu(1 + past)
        y = (q @ k.transpose(-1, -2) / 2 + later).softmax(-1) @ v
        return self.out(y.transpose(1, 2).flatten(2)), k, v


class StaticCache(nn.Module):
    """A cache of one size: a step writes its keys at its position into a copy, and sees what is not later."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, start: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.qkv(x).chunk(3, -1)
        places = start + torch.arange(x.shape[1])
        keys, values = keys.index_copy(1, places, k), values.index_copy(1, places, v)
        scores = q @ keys.transpose(1, 2) / 4
        seen = torch.arange(keys.shape[1]) <= places[:, None]
        return scores.masked_fill(~seen, -torch.inf).softmax(-1) @ values, keys, values


class Quantised(nn.Module):
    """Continuous places rounded to a grid, rows looked up."""

    def __init__(self, steps: int = 10) -> None:
        super().__init__()
        self.steps, self.rows = steps, nn.Embedding(8 * steps + 1, DIM)

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        y: Tensor = x + self.rows((places * self.steps).round().long().clamp(0, 8 * self.steps))
        return y


class Pooled(nn.Module):
    """sentence-transformers: a mean over tokens, the mask multiplied."""

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        seen = attention_mask.unsqueeze(-1).expand(x.size()).float()
        return functional.normalize((x * seen).sum(1) / seen.sum(1).clamp(min=1e-9), dim=1)


class Multiplied(nn.Module):
    """A mask of floats that is multiplied, and no score."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return (x + torch.arange(x.shape[1])[:, None] / 8) * mask[..., None]


class Patches(nn.Module):
    """DINOv2's own code: a class token, and learned rows interpolated by cubic functions to the grid of the image."""

    def __init__(self, side: int = 5, patch: int = 4) -> None:
        super().__init__()
        self.side = side
        self.patches = nn.Conv2d(3, DIM, patch, stride=patch)
        self.first, self.rows = nn.Parameter(torch.randn(1, 1, DIM)), nn.Parameter(torch.randn(1, side**2 + 1, DIM))

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image)
        height, width = x.shape[-2:]
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x.flatten(2).transpose(1, 2)], 1)
        grid = self.rows[:, 1:].float().reshape(1, self.side, self.side, DIM).permute(0, 3, 1, 2)
        grid = functional.interpolate(grid, size=(height, width), mode="bicubic", align_corners=False)
        return x + torch.cat([self.rows[:, :1], grid.permute(0, 2, 3, 1).flatten(1, 2).to(x.dtype)], 1)


class Encoder(nn.Module):
    """An encoder of one size, as phones and TensorRT take it: every axis is a number."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.randn(1, 10, DIM))
        self.layer = nn.TransformerEncoderLayer(DIM, HEADS, 32, batch_first=True, norm_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x + self.rows)
        return y


class Conformer(nn.Module):
    """A conformer block: half a network, attention of distances, a gated convolution under a batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.feed = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, 32), nn.SiLU(), nn.Linear(32, DIM))
        self.norm, self.qkv, self.out = nn.LayerNorm(DIM), nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.rows, self.u = nn.Linear(DIM, DIM, bias=False), nn.Parameter(torch.randn(2, HEADS, 1, DIM // HEADS))
        self.wide, self.narrow = nn.Conv1d(DIM, 2 * DIM, 1), nn.Conv1d(DIM, DIM, 1)
        self.deep, self.batch_norm = nn.Conv1d(DIM, DIM, 7, padding=3, groups=DIM), nn.BatchNorm1d(DIM)

    def attention(self, x: Tensor, seen: Tensor) -> Tensor:
        n = x.shape[1]
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        rows = self.rows(sinusoids(torch.arange(n - 1, -n, -1), DIM)).unflatten(-1, (HEADS, -1)).transpose(0, 1)
        away = functional.pad((q + self.u[1]) @ rows.transpose(-1, -2), (1, 0))
        away = away.view(-1, HEADS, 2 * n, n)[:, :, 1:].view(-1, HEADS, n, 2 * n - 1)[..., :n]
        scores = ((q + self.u[0]) @ k.transpose(-1, -2) + away) / 2
        weights = scores.masked_fill(~seen, -10000.0).softmax(-1).masked_fill(~seen, 0.0)
        y: Tensor = self.out((weights @ v).transpose(1, 2).flatten(2))
        return y

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + 0.5 * self.feed(x)
        x = x + self.attention(x, mask[:, None, None].bool())
        y = functional.glu(self.wide((x * mask[..., None]).transpose(1, 2)), 1)
        y = functional.silu(self.batch_norm(self.deep(y * mask[:, None])))
        return x + self.narrow(y).transpose(1, 2)


X, MASK = "x: float32[batch, seq, 16]", "attention_mask: int64[batch, seq]"
PAST = "float32[batch, 4, past, 4]"
WRITES = "the module writes into x"
ROWS = (
    Known("idioms:InPlace", (X,), "x += pe", max_len=40, note=WRITES),
    Known("idioms:InPlaceOfACopy", (X,), "y += pe", max_len=40),
    Known("idioms:FloatInside", (X,), ".float() inside", max_len=40),
    Known("idioms:TimestepMlp", (X, "t: float32[batch] in 0..1000"), "timesteps as floats", max_len=40),
    Known("idioms:ScalarTime", ("t: float32[] in 0..1000",), "no axis at all"),
    Known("idioms:Growing", (X, f"past_k: {PAST}", f"past_v: {PAST}"), "a cache in and out", max_len=40),
    Known(
        "idioms:StaticCache",
        (
            "x: float32[batch, 1, 16]",
            *(f"{name}: float32[batch, 32, 16]" for name in ("keys", "values")),
            "start: int64[1] in 0..31",
        ),
        "a cache of one size",
        max_len=32,
    ),
    Known("idioms:Quantised", (X, "places: float32[batch, seq] in 0..8"), "a look-up of rounded numbers", max_len=40),
    Known("idioms:Pooled", (X, MASK), "a mean over tokens", max_len=40),
    Known("idioms:Multiplied", (X, "mask: float32[batch, seq]"), "no additive mask", max_len=40),
    Known("idioms:Patches", ("image: float32[batch, 3, height % 4, width % 4]",), "cubic functions", max_len=48),
    Known("idioms:Encoder", ("x: float32[1, 10, 16]",), "fixed sizes"),
    Known("idioms:Conformer", (X, "mask: int64[batch, seq]"), "a batch norm that is folded", max_len=40),
)
