"""Whole blocks of attention, each with its own encoding inside. Rewritten small, not copied."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from known import Known
from known.relative import distances, slopes
from known.rotary import inv_freq, rotate_half

DIM, HEADS = 16, 4


class Block(nn.Module):
    """A norm, queries, keys and values, and what is attended added to x; a block says its scores."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(DIM), nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, DIM // HEADS)).permute(2, 0, 3, 1, 4)
        return q, k, v

    def attended(self, x: Tensor, scores: Tensor, v: Tensor) -> Tensor:
        y: Tensor = self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return x + y


class Alibi(Block):
    """ALiBi under a causal mask of minus infinity and a mask of padding of the lowest number."""

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        n = x.shape[1]
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        scores = scores + slopes(HEADS)[:, None, None] * distances(n, n)
        scores = scores + torch.full((n, n), torch.finfo(x.dtype).min).triu(1)
        scores = scores.masked_fill(attention_mask[:, None, None] == 0, torch.finfo(x.dtype).min)
        return self.attended(x, scores, v)


class T5(Block):
    """T5: a norm in float32, no scale, buckets of logarithms, a mask that is multiplied by the lowest number."""

    def __init__(self, buckets: int = 8, furthest: int = 32) -> None:
        super().__init__()
        self.bias, self.weight = nn.Embedding(buckets, HEADS), nn.Parameter(torch.ones(DIM))
        self.buckets, self.furthest = buckets, furthest

    def normed(self, x: Tensor) -> Tensor:
        variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + 1e-6))

    def bucket(self, distance: Tensor) -> Tensor:
        half = self.buckets // 2
        exact = half // 2
        away = distance.abs()
        far = torch.log(away.float() / exact) / math.log(self.furthest / exact) * (half - exact)
        far = torch.min(exact + far.to(torch.long), torch.full_like(away, half - 1))
        return (distance > 0).long() * half + torch.where(away < exact, away, far)

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        q, k, v = self.heads(self.normed(x))
        bias = self.bias(self.bucket(distances(x.shape[1], x.shape[1]))).permute(2, 0, 1)[None]
        left_out = (1.0 - attention_mask[:, None, None].to(x.dtype)) * torch.finfo(x.dtype).min
        return self.attended(x, q @ k.transpose(-1, -2) + bias + left_out, v)


class Shaw(Block):
    """Shaw et al.: vectors of clipped distances for keys and for values."""

    def __init__(self, furthest: int = 6) -> None:
        super().__init__()
        self.furthest = furthest
        self.keys, self.values = (nn.Embedding(2 * furthest + 1, DIM // HEADS) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        index = distances(x.shape[1], x.shape[1]).clamp(-self.furthest, self.furthest) + self.furthest
        scores = q @ k.transpose(-1, -2) + torch.einsum("bhqd,qkd->bhqk", q, self.keys(index))
        weights = (scores / math.sqrt(q.shape[-1])).softmax(-1)
        attended = weights @ v + torch.einsum("bhqk,qkd->bhqd", weights, self.values(index))
        y: Tensor = self.out(attended.transpose(1, 2).flatten(2))
        return x + y


class Rotary(Block):
    """Rotary inside: tables of a buffer, keys shared by heads, PyTorch's own attention under a mask of bools."""

    def __init__(self, longest: int = 128) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(longest).float(), inv_freq(DIM // HEADS)).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def rotated(self, x: Tensor) -> Tensor:
        n = x.shape[2]
        return x * self.get_buffer("cos")[:n] + rotate_half(x) * self.get_buffer("sin")[:n]

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        k, v = (part[:, ::2].repeat_interleave(2, 1) for part in (k, v))
        causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        seen = causal & attention_mask[:, None, None].bool()
        y = functional.scaled_dot_product_attention(self.rotated(q), self.rotated(k), v, attn_mask=seen)
        added: Tensor = self.out(y.transpose(1, 2).flatten(2))
        return x + added


class Swin(Block):
    """Swin: windows of 4 x 4 shifted by 2 over a grid of 8 x 8, a table of distances, other regions masked by -100."""

    def __init__(self, side: int = 8, window: int = 4) -> None:
        super().__init__()
        self.side, self.window, self.shift = side, window, window // 2
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, HEADS))
        places = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        away = places[:, :, None] - places[:, None] + window - 1
        self.register_buffer("index", away[0] * (2 * window - 1) + away[1])
        region = torch.bucketize(torch.arange(side), torch.tensor([side - window, side - self.shift]), right=True)
        regions = self.windows((3 * region[:, None] + region)[None, ..., None]).squeeze(-1)
        self.register_buffer("left_out", (regions[:, None] != regions[:, :, None]) * -100.0)

    def windows(self, x: Tensor) -> Tensor:
        """(batch, side, side, c) to (batch windows, window window, c)."""
        many = self.side // self.window
        y = x.view(x.shape[0], many, self.window, many, self.window, x.shape[-1])
        return y.permute(0, 1, 3, 2, 4, 5).reshape(-1, self.window**2, x.shape[-1])

    def forward(self, x: Tensor) -> Tensor:
        batch, many = x.shape[0], self.side // self.window
        shifted = torch.roll(x.unflatten(1, (self.side, self.side)), (-self.shift, -self.shift), (1, 2))
        rows = self.windows(shifted)
        q, k, v = self.heads(rows)
        bias = self.table[self.get_buffer("index")].permute(2, 0, 1)
        scores = (q @ k.transpose(-1, -2) + bias).unflatten(0, (batch, many**2))
        scores = (scores + self.get_buffer("left_out")[None, :, None]).flatten(0, 1)
        y = self.attended(rows, scores, v).view(batch, many, many, self.window, self.window, DIM)
        grid = y.permute(0, 1, 3, 2, 4, 5).reshape(batch, self.side, self.side, DIM)
        return torch.roll(grid, (self.shift, self.shift), (1, 2)).flatten(1, 2)


class TransformerXl(Block):
    """Transformer-XL: keys of a memory before those of x, sinusoids of distances, two biases, a shift by a view."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(DIM, DIM, bias=False)
        self.u, self.w = (nn.Parameter(torch.randn(HEADS, 1, DIM // HEADS)) for _ in range(2))

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        q, k, v = self.heads(torch.cat([memory, x], 1))
        queries, keys = x.shape[1], k.shape[2]
        q = q[:, :, -queries:]
        angles = torch.outer(torch.arange(keys - 1, -1, -1.0), inv_freq())
        rows = self.project(torch.cat([angles.sin(), angles.cos()], -1)).unflatten(-1, (HEADS, -1)).transpose(0, 1)
        shifted = functional.pad((q + self.w) @ rows.transpose(-1, -2), (1, 0))
        shifted = shifted.view(-1, HEADS, keys + 1, queries)[:, :, 1:].view(-1, HEADS, queries, keys)
        scores = ((q + self.u) @ k.transpose(-1, -2) + shifted) / math.sqrt(q.shape[-1])
        later = torch.ones(queries, keys).triu(1 + memory.shape[1]).bool()
        return self.attended(x, scores.masked_fill(later, -torch.inf), v)


class NanoGpt(Block):
    """nanoGPT: learned positions, a causal mask that is cut from a buffer, weights of words that are the head's."""

    def __init__(self, longest: int = 128, vocabulary: int = 50) -> None:
        super().__init__()
        self.words, self.rows = nn.Embedding(vocabulary, DIM), nn.Embedding(longest, DIM)
        self.register_buffer("bias", torch.ones(longest, longest).tril()[None, None])

    def forward(self, ids: Tensor) -> Tensor:
        n = ids.size(1)
        x = self.words(ids) + self.rows(torch.arange(n, dtype=torch.long, device=ids.device))
        q, k, v = self.heads(x)
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.get_buffer("bias")[:, :, :n, :n] == 0, float("-inf"))
        return functional.linear(self.attended(x, scores, v), self.words.weight)


class Banded(Block):
    """Attention of a band: 8 keys to the left, rows of padding without a key made 0 instead of NaN."""

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        away = distances(x.shape[1], x.shape[1])
        seen = (away <= 0) & (away > -8) & attention_mask[:, None, None].bool()
        scores = (q @ k.transpose(-1, -2) / 2).masked_fill(~seen, -torch.inf)
        weights = torch.nan_to_num(scores.softmax(-1))
        y: Tensor = self.out((weights @ v).transpose(1, 2).flatten(2))
        return x + y


X, MASK = "x: float32[batch, seq, 16]", "attention_mask: int64[batch, seq]"
ROWS = (
    Known("blocks:Alibi", (X, MASK), "distances, two masks", max_len=40),
    Known("blocks:T5", (X, MASK), "a bucket's edge before a softmax", max_len=40),
    Known("blocks:Shaw", (X,), "keys and values", max_len=40),
    Known("blocks:Rotary", (X, MASK), "queries of padding without a key", max_len=40),
    Known("blocks:Swin", ("x: float32[batch, 64, 16]",), "shifted windows"),
    Known("blocks:TransformerXl", (X, "memory: float32[batch, past, 16]"), "a memory", max_len=40),
    Known("blocks:NanoGpt", ("ids: int64[batch, seq] < 50",), "tied weights", max_len=40),
    Known("blocks:Banded", (X, MASK), "NaN made 0", max_len=40),
)
