"""Modules with encodings of positions that models have, as small as they can be."""

import torch
from torch import Tensor, nn


class Rotary(nn.Module):
    """Queries are rotated by halves, at the positions of a length."""

    inv_freq: Tensor

    def __init__(self, layout: str = "half") -> None:
        super().__init__()
        self.query, self.layout = nn.Linear(32, 32), layout
        self.embed = nn.Embedding(64, 32)
        self.register_buffer("inv_freq", 10000.0 ** (-torch.arange(4) / 4))

    def forward(self, input_ids: Tensor) -> Tensor:
        batch, length = input_ids.shape
        q = self.query(self.embed(input_ids)).view(batch, length, 4, 8).transpose(1, 2)
        angles = torch.arange(length)[:, None].float() * self.inv_freq
        if self.layout == "half":
            cos, sin = (torch.cat([turn, turn], -1) for turn in (angles.cos(), angles.sin()))
            return torch.add(q * cos, torch.cat([-q[..., 4:], q[..., :4]], -1) * sin)
        cos, sin = (turn.repeat_interleave(2, -1) for turn in (angles.cos(), angles.sin()))
        pairs = q.reshape(batch, 4, length, 4, 2)
        turned = torch.cat([-pairs[..., 1:], pairs[..., :1]], 4).reshape(batch, 4, length, 8)
        return torch.add(q * cos, turned * sin)


class Learned(nn.Module):
    """A row of a learned table is added to that of each token; the first rows may be left to padding."""

    def __init__(self, rows: int = 48, offset: int = 0) -> None:
        super().__init__()
        self.words, self.places, self.offset = nn.Embedding(64, 16), nn.Embedding(rows, 16), offset

    def forward(self, input_ids: Tensor) -> Tensor:
        places = torch.arange(input_ids.shape[1]) + self.offset
        return torch.add(self.words(input_ids), self.places(places))


class Alibi(nn.Module):
    """The biases of ALiBi are stored for a length, and the last ones are taken: MPT's code."""

    bias: Tensor

    def __init__(self, rows: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, 32)
        slopes = 2.0 ** -torch.arange(1, 5)
        self.register_buffer("bias", slopes[:, None, None] * torch.arange(1 - rows, 1))

    def forward(self, input_ids: Tensor) -> Tensor:
        q = self.embed(input_ids).view(*input_ids.shape, 4, 8).transpose(1, 2)
        scores = q @ q.transpose(-1, -2)
        rows, length = self.bias.shape[-1], scores.shape[-1]
        return torch.softmax(scores + self.bias[:, :, rows - length :], -1)


class Relative(nn.Module):
    """Sines of distances times a weight meet queries, from a table of twice the length: a conformer's code."""

    table: Tensor

    def __init__(self, rows: int = 40) -> None:
        super().__init__()
        self.rows, self.embed, self.weight = rows, nn.Embedding(64, 32), nn.Linear(32, 32, bias=False)
        angles = torch.arange(1 - rows, rows)[:, None] * 10000.0 ** (-torch.arange(16) / 16)
        self.register_buffer("table", torch.cat([angles.sin(), angles.cos()], -1))

    def forward(self, input_ids: Tensor) -> Tensor:
        batch, length = input_ids.shape
        q = self.embed(input_ids).view(batch, length, 4, 8).transpose(1, 2)
        rows = self.weight(self.table[self.rows - length : self.rows + length - 1])
        places = rows.view(-1, 4, 8).transpose(0, 1)
        shifted = nn.functional.pad(q @ places.transpose(-1, -2), (1, 0))
        shifted = shifted.view(batch, 4, shifted.shape[-1], length)[:, :, 1:].view(batch, 4, length, -1)
        return torch.softmax(q @ q.transpose(-1, -2) + shifted[..., :length], -1)
