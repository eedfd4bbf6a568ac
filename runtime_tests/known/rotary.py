"""Rotary encodings, as models have them: cached or not, pairs or halves, one axis or several. Rewritten small."""

import math

import torch
from torch import Tensor, nn

from known import Known

DIM = 16


def inv_freq(dim: int = DIM, base: float = 10000.0) -> Tensor:
    return 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))


def rotate_half(x: Tensor) -> Tensor:
    one, two = x.chunk(2, -1)
    return torch.cat([-two, one], -1)


def rotate_pairs(x: Tensor) -> Tensor:
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)


class LlamaCached(nn.Module):
    """LLaMA in transformers 4.3x: tables of cosines and sines that grow; x gives dtype, device and length alone."""

    cos_cached: Tensor
    sin_cached: Tensor

    def __init__(self, longest: int = 128) -> None:
        super().__init__()
        self.register_buffer("inv_freq", inv_freq())
        self.fill(longest)

    def fill(self, length: int) -> None:
        self.rows = length
        angles = torch.outer(torch.arange(length).float(), self.get_buffer("inv_freq"))
        angles = torch.cat([angles, angles], -1)
        self.register_buffer("cos_cached", angles.cos(), persistent=False)
        self.register_buffer("sin_cached", angles.sin(), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        length = x.shape[-2]
        if length > self.rows:
            self.fill(length)
        return self.cos_cached[:length].to(x.dtype), self.sin_cached[:length].to(x.dtype)


class Llama(nn.Module):
    """LLaMA in transformers 4.4x: no table; x gives the dtype alone."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("inv_freq", inv_freq())

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        expanded = self.get_buffer("inv_freq")[None, :, None].expand(position_ids.shape[0], -1, 1)
        with torch.autocast("cpu", enabled=False):
            angles = (expanded @ position_ids[:, None, :].float()).transpose(1, 2)
            angles = torch.cat([angles, angles], -1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


class Meta(nn.Module):
    """LLaMA as Meta wrote it: complex numbers of a buffer, times pairs that are seen as complex."""

    freqs_cis: Tensor

    def __init__(self, longest: int = 128) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(longest).float(), inv_freq())
        self.register_buffer("freqs_cis", torch.polar(torch.ones_like(angles), angles))

    def forward(self, q: Tensor) -> Tensor:
        pairs = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
        rotated = pairs * self.freqs_cis[: q.shape[1]].view(1, q.shape[1], 1, -1)
        return torch.view_as_real(rotated).flatten(3).type_as(q)


class GptJ(nn.Module):
    """GPT-J: pairs, part of a head, rows gathered by positions."""

    rows: Tensor

    def __init__(self, longest: int = 128, part: int = 8) -> None:
        super().__init__()
        self.part = part
        angles = torch.outer(torch.arange(longest).float(), inv_freq(part))
        self.register_buffer("rows", torch.cat([angles.sin(), angles.cos()], 1))

    def forward(self, q: Tensor, position_ids: Tensor) -> Tensor:
        rows = self.rows[None].repeat(position_ids.shape[0], 1, 1)
        picked = torch.gather(rows, 1, position_ids[..., None].repeat(1, 1, rows.shape[-1]))
        sin, cos = (half.repeat_interleave(2, -1)[:, :, None] for half in picked.chunk(2, -1))
        first, rest = q[..., : self.part], q[..., self.part :]
        return torch.cat([first * cos + rotate_pairs(first) * sin, rest], -1)


class NeoX(LlamaCached):
    """GPT-NeoX: halves, part of a head, for q and k."""

    def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        cos, sin = super().forward(q)
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


class Esm(nn.Module):
    """ESM: the tables of the last length are kept, and made anew for another."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("inv_freq", inv_freq())
        self.seen: int | None = None
        self.cos: Tensor | None = None

    def forward(self, q: Tensor) -> Tensor:
        length = q.shape[-2]
        if length != self.seen or self.cos is None:
            self.seen = length
            angles = torch.outer(torch.arange(length).type_as(self.get_buffer("inv_freq")), self.get_buffer("inv_freq"))
            angles = torch.cat([angles, angles], -1)
            self.cos, self.sin = angles.cos()[None, None], angles.sin()[None, None]
        return q * self.cos[:, :, :length] + rotate_half(q) * self.sin[:, :, :length]


class ChatGlm(nn.Module):
    """ChatGLM: one half of a head by the position, the other by the place in a block."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("inv_freq", inv_freq(DIM // 2))

    def forward(self, q: Tensor, position_ids: Tensor, block_positions: Tensor) -> Tensor:
        halves = []
        for x, positions in zip(q.chunk(2, -1), (position_ids, block_positions), strict=True):
            angles = positions[..., None].float() * self.get_buffer("inv_freq")
            angles = torch.cat([angles, angles], -1)[:, :, None]
            halves.append(x * angles.cos() + rotate_half(x) * angles.sin())
        return torch.cat(halves, -1)


class Eva(nn.Module):
    """EVA: a grid of fixed size, whose rows lie in buffers; the first token is none of it."""

    def __init__(self, side: int = 6) -> None:
        super().__init__()
        angles = (torch.arange(side).float()[:, None] * inv_freq(DIM // 2)).repeat_interleave(2, -1)
        rows, columns = torch.broadcast_tensors(angles[:, None], angles[None])
        grid = torch.cat([rows, columns], -1).reshape(-1, DIM)
        self.register_buffer("cos", grid.cos())
        self.register_buffer("sin", grid.sin())

    def forward(self, q: Tensor) -> Tensor:
        first, rest = q[:, :, :1], q[:, :, 1:]
        return torch.cat([first, rest * self.get_buffer("cos") + rotate_pairs(rest) * self.get_buffer("sin")], 2)


class MRope(nn.Module):
    """Qwen2-VL: three positions a token; sections of a head take their angles from each by turns."""

    def __init__(self, sections: tuple[int, ...] = (2, 3, 3)) -> None:
        super().__init__()
        self.sections = sections * 2
        self.register_buffer("inv_freq", inv_freq())

    def forward(self, q: Tensor, position_ids: Tensor) -> Tensor:
        angles = position_ids[..., None].float() * self.get_buffer("inv_freq")
        angles = torch.cat([angles, angles], -1)
        parts = [part[i % 3] for i, part in enumerate(angles.split(self.sections, -1))]
        mixed = torch.cat(parts, -1)[:, None]
        return q * mixed.cos() + rotate_half(q) * mixed.sin()


class YarnCached(LlamaCached):
    """YaRN: slow pairs interpolated, fast ones left, a factor on all; cached as LLaMA is."""

    def __init__(self, longest: int = 128, factor: float = 4.0) -> None:
        super().__init__(longest)
        ramp = ((torch.arange(DIM // 2) - 2) / 3.0).clamp(0, 1)
        plain = inv_freq()
        self.register_buffer("inv_freq", plain / factor * ramp + plain * (1 - ramp))
        self.scale = 0.1 * math.log(factor) + 1.0
        self.fill(longest)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = super().forward(x)
        return cos * self.scale, sin * self.scale


class XPos(nn.Module):
    """xPos with decay from the first token on: queries and keys scaled against one another."""

    def __init__(self, base: int = 512) -> None:
        super().__init__()
        self.base = base
        self.register_buffer("inv_freq", inv_freq())
        self.register_buffer("decay", (torch.arange(0, DIM, 2) + 0.4 * DIM) / (1.4 * DIM))

    def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.arange(q.shape[1]).float()
        angles = (places[:, None] * self.get_buffer("inv_freq")).repeat_interleave(2, -1)
        scale = (self.get_buffer("decay") ** (places[:, None] / self.base)).repeat_interleave(2, -1)
        cos, sin = angles.cos(), angles.sin()
        return (q * cos + rotate_pairs(q) * sin) * scale, (k * cos + rotate_pairs(k) * sin) / scale


class RoFormer(nn.Embedding):
    """RoFormer: sines and cosines as the weights of an embedding that is not trained."""

    def __init__(self, longest: int = 128) -> None:
        super().__init__(longest, DIM)
        angles = torch.outer(torch.arange(longest).float(), inv_freq())
        self.weight = nn.Parameter(torch.cat([angles.sin(), angles.cos()], 1), requires_grad=False)

    def forward(self, q: Tensor) -> Tensor:
        sin, cos = super().forward(torch.arange(q.shape[2])).chunk(2, -1)
        sin, cos = (torch.stack([half, half], -1).flatten(-2) for half in (sin, cos))
        return q * cos + rotate_pairs(q) * sin


HEADS = "float32[batch, 4, seq, 16]"
TOKENS = "float32[batch, seq, 4, 16]"
IDS = "position_ids: int64[batch, seq]"
UNREAD = "x is read for its shape, dtype or device alone"
ROWS = (
    Known("rotary:LlamaCached", (f"x: {HEADS}",), "x is not read", note=UNREAD, max_len=33, quick=True),
    Known("rotary:Llama", ("x: float32[batch, seq, 16]", IDS), "x gives the dtype alone", note=UNREAD),
    Known("rotary:Meta", (f"q: {TOKENS}",), "complex numbers"),
    Known("rotary:GptJ", (f"q: {TOKENS}", IDS), "gather, pairs"),
    Known("rotary:NeoX", (f"q: {HEADS}", f"k: {HEADS}"), "two outputs"),
    Known("rotary:Esm", (f"q: {HEADS}",), "keeps the last length"),
    Known("rotary:ChatGlm", (f"q: {TOKENS}", IDS, "block_positions: int64[batch, seq] positions"), "two positions"),
    Known("rotary:Eva", ("q: float32[batch, 4, 37, 16]",), "a grid of fixed size"),
    Known("rotary:MRope", (f"q: {HEADS}", "position_ids: int64[3, batch, seq]"), "three positions a token"),
    Known("rotary:LlamaCached", (f"x: {HEADS}",), "the table grows", params={"longest": 16}),
    Known("rotary:YarnCached", (f"x: {HEADS}",), "x is not read", note=UNREAD),
    Known("rotary:XPos", ("q: float32[batch, seq, 16]", "k: float32[batch, seq, 16]"), "powers of positions"),
    Known("rotary:RoFormer", (f"q: {HEADS}",), "weights of an embedding"),
)
