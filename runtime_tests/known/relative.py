"""Relative encodings: biases of distances, learned rows of them, and rows shifted. Rewritten small, not copied."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from known import Known


def distances(queries: int, keys: int) -> Tensor:
    return torch.arange(keys)[None, :] - torch.arange(queries)[:, None]


class T5Bias(nn.Module):
    """T5: buckets of distances, exact near, logarithmic far."""

    def __init__(self, heads: int = 4, buckets: int = 32, furthest: int = 128) -> None:
        super().__init__()
        self.buckets, self.furthest = buckets, furthest
        self.bias = nn.Embedding(buckets, heads)

    def bucket(self, distance: Tensor) -> Tensor:
        half = self.buckets // 2
        above = (distance > 0).long() * half
        distance = distance.abs()
        exact = half // 2
        far = torch.log(distance.float().clamp(min=1) / exact) / math.log(self.furthest / exact) * (half - exact)
        return above + torch.where(distance < exact, distance, (exact + far.long()).clamp(max=half - 1))

    def forward(self, scores: Tensor) -> Tensor:
        bias = self.bias(self.bucket(distances(scores.shape[2], scores.shape[3])))
        return scores + bias.permute(2, 0, 1)[None]


def slopes(heads: int) -> Tensor:
    near = 2 ** math.floor(math.log2(heads))
    powers = torch.pow(2.0, -8.0 / near * torch.arange(1, near + 1))
    more = torch.pow(2.0, -4.0 / near * torch.arange(1, 2 * (heads - near) + 1, 2)[: heads - near])
    return torch.cat([powers, more])


class MptAlibi(nn.Module):
    """MPT: a bias per head and key, kept for the longest length, added to scores; twelve heads."""

    alibi: Tensor

    def __init__(self, heads: int = 12, longest: int = 128) -> None:
        super().__init__()
        row = torch.arange(1 - longest, 1).float()
        self.register_buffer("alibi", (row[None, None] * slopes(heads)[:, None, None])[None])

    def forward(self, scores: Tensor) -> Tensor:
        return scores + self.alibi[..., -scores.size(-1) :]


class TwelveHeads(nn.Module):
    """ALiBi of twelve heads, as many as keys may have been traced with."""

    def __init__(self, heads: int = 12) -> None:
        super().__init__()
        self.slopes = slopes(heads).tolist()

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        away = distances(q.shape[1], k.shape[1]).abs().float()
        return q @ k.transpose(1, 2) - torch.tensor(self.slopes).view(-1, 1, 1, 1) * away


class BloomAlibi(nn.Module):
    """BLOOM: places counted from an attention mask, times slopes, a row per sequence and head."""

    def forward(self, attention_mask: Tensor) -> Tensor:
        batch, length = attention_mask.shape
        places = ((attention_mask.cumsum(-1) - 1) * attention_mask)[:, None, :]
        return (slopes(4)[..., None] * places).reshape(batch * 4, 1, length)


class TransformerXl(nn.Module):
    """Transformer-XL: sinusoids of distances, projected, shifted so that a row's own is in its place."""

    def __init__(self, dim: int = 16) -> None:
        super().__init__()
        self.project = nn.Linear(dim, dim, bias=False)
        self.register_buffer("inv_freq", 1 / (10000 ** (torch.arange(0.0, dim, 2.0) / dim)))

    def forward(self, q: Tensor) -> Tensor:
        batch, heads, length, _ = q.shape
        away = torch.arange(length - 1, -1, -1.0)
        angles = torch.outer(away, self.get_buffer("inv_freq"))
        rows = self.project(torch.cat([angles.sin(), angles.cos()], -1))
        scores = q @ rows.transpose(0, 1)
        padded = functional.pad(scores, (1, 0)).view(batch, heads, length + 1, length)
        return padded[:, :, 1:].view(batch, heads, length, length).tril()


class Conformer(nn.Module):
    """Conformer: positions from n-1 down to 1-n; a shift keeps of each row the n that are its own."""

    def __init__(self, dim: int = 16, longest: int = 128) -> None:
        super().__init__()
        self.middle = longest - 1
        angles = torch.arange(longest - 1, -longest, -1.0)[:, None] * torch.exp(torch.arange(0, dim, 2) * (-9.21 / dim))
        self.register_buffer("pe", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))

    def forward(self, q: Tensor) -> Tensor:
        batch, heads, n, _ = q.shape
        rows = self.get_buffer("pe")[self.middle - n + 1 : self.middle + n]
        scores = functional.pad(q @ rows.transpose(0, 1), (1, 0))
        return scores.view(batch, heads, 2 * n, n)[:, :, 1:].view(batch, heads, n, 2 * n - 1)[..., :n]


class Shaw(nn.Module):
    """Shaw et al.: a vector per clipped distance, for keys."""

    def __init__(self, dim: int = 16, furthest: int = 8) -> None:
        super().__init__()
        self.furthest = furthest
        self.rows = nn.Parameter(torch.randn(2 * furthest + 1, dim))

    def forward(self, q: Tensor) -> Tensor:
        n = q.shape[2]
        index = distances(n, n).clamp(-self.furthest, self.furthest) + self.furthest
        return torch.einsum("bhqd,qkd->bhqk", q, self.rows[index])


class MusicTransformer(nn.Module):
    """Music Transformer: learned rows of distances, skewed."""

    def __init__(self, dim: int = 16, longest: int = 128) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.randn(longest, dim))

    def forward(self, q: Tensor) -> Tensor:
        batch, heads, n, _ = q.shape
        scores = functional.pad(q @ self.rows[-n:].transpose(0, 1), (1, 0))
        return scores.reshape(batch, heads, n + 1, n)[:, :, 1:].tril()


class SwinBias(nn.Module):
    """Swin: a table of a window's distances, read by an index that is a buffer."""

    def __init__(self, window: int = 3, heads: int = 4) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads))
        places = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        away = (places[:, :, None] - places[:, None, :]).permute(1, 2, 0) + window - 1
        self.register_buffer("index", away[..., 0] * (2 * window - 1) + away[..., 1])

    def forward(self, scores: Tensor) -> Tensor:
        tokens = scores.shape[-1]
        bias = self.table[self.get_buffer("index").view(-1)].view(tokens, tokens, -1).permute(2, 0, 1)
        return scores + bias[None]


class Kerple(nn.Module):
    """KERPLE, logarithmic: two learned numbers a head."""

    def __init__(self, heads: int = 4) -> None:
        super().__init__()
        self.amplitude, self.rate = nn.Parameter(torch.rand(heads, 1, 1)), nn.Parameter(torch.rand(heads, 1, 1))

    def forward(self, scores: Tensor) -> Tensor:
        away = distances(scores.shape[-2], scores.shape[-1]).abs()
        return scores - self.amplitude.clamp(min=0.01) * torch.log1p(self.rate.clamp(min=0.01) * away)


class Fire(nn.Module):
    """FIRE: a small network of distances, each divided by its row's own position."""

    def __init__(self, heads: int = 4) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, heads))
        self.c, self.threshold = nn.Parameter(torch.tensor(0.1)), nn.Parameter(torch.tensor(16.0))

    def forward(self, scores: Tensor) -> Tensor:
        n = scores.shape[-1]
        places = torch.arange(n, dtype=torch.float32)
        away = (places[:, None] - places[None]).tril()
        least = torch.maximum(places, self.threshold.abs())[:, None]
        ratio = torch.log1p(self.c.abs() * away) / torch.log1p(self.c.abs() * least)
        return scores + self.network(ratio[..., None]).permute(2, 0, 1)


class Sandwich(nn.Module):
    """Sandwich: products of sinusoids, which depend on distances alone, times a slope per head."""

    def forward(self, scores: Tensor) -> Tensor:
        away = distances(scores.shape[-2], scores.shape[-1]).float()
        pairs = torch.arange(1, 9).float()
        row = (away[..., None] / 10000 ** (pairs / 8)).cos().sum(-1) - 8
        return scores + (8 / torch.arange(1, 5))[:, None, None] * row


SCORES = ("scores: float32[batch, 4, q:length, k:length]",)
SQUARE = ("scores: float32[batch, 4, seq, seq]",)
Q = ("q: float32[batch, 4, seq, 16]",)
ROWS = (
    Known("relative:T5Bias", SCORES, "buckets of logarithms"),
    Known("relative:MptAlibi", ("scores: float32[batch, 12, seq, seq]",), "rows from the end of a table"),
    Known(
        "relative:TwelveHeads",
        ("q: float32[batch, q_len, 16]", "k: float32[batch, k_len, 16]"),
        "a constant of twelve heads beside twelve keys",
        max_len=24,
    ),
    Known("relative:BloomAlibi", ("attention_mask: int64[batch, seq]",), "an axis that is a product of two"),
    Known("relative:TransformerXl", Q, "a shift by a view"),
    Known("relative:Conformer", Q, "a shift of twice as many"),
    Known("relative:Shaw", Q, "clipped distances"),
    Known("relative:MusicTransformer", Q, "skewed by a reshape"),
    Known("relative:SwinBias", ("scores: float32[batch, 4, 9, 9]",), "a window of fixed size"),
    Known("relative:Kerple", SQUARE, "logarithms of distances"),
    Known("relative:Fire", SQUARE, "a network of distances"),
    Known("relative:Sandwich", SQUARE, "sums of cosines"),
)
