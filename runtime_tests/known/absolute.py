"""Absolute encodings: sinusoids, learned rows, positions counted from ids or masks. Rewritten small, not copied."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from known import Known


def sinusoids(positions: Tensor, dim: int, base: float = 10000.0) -> Tensor:
    inv_freq = torch.exp(torch.arange(0, dim, 2, dtype=torch.float32) * (-math.log(base) / dim))
    angles = positions[..., None].float() * inv_freq
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


class Annotated(nn.Module):
    """The Annotated Transformer: rows of a buffer, without a gradient, and dropout."""

    pe: Tensor

    def __init__(self, dim: int = 16, longest: int = 512) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("pe", sinusoids(torch.arange(longest), dim)[None])

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.dropout(x + self.pe[:, : x.size(1)].requires_grad_(False))
        return y


class SequenceFirst(nn.Module):
    """PyTorch's word-language tutorial: (seq, batch, dim)."""

    pe: Tensor

    def __init__(self, dim: int = 16, longest: int = 512) -> None:
        super().__init__()
        self.register_buffer("pe", sinusoids(torch.arange(longest), dim)[:, None])

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[: x.size(0)]


class Fairseq(nn.Module):
    """fairseq: positions from ids, a table that grows and follows the device of an empty buffer."""

    _float_tensor: Tensor

    def __init__(self, dim: int = 16, padding: int = 1, longest: int = 1024) -> None:
        super().__init__()
        self.dim, self.padding = dim, padding
        self.weights = self.table(longest, dim, padding)
        self.register_buffer("_float_tensor", torch.FloatTensor(1))

    @staticmethod
    def table(rows: int, dim: int, padding: int) -> Tensor:
        half = dim // 2
        angles = torch.arange(rows).float()[:, None] * torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
        table = torch.cat([angles.sin(), angles.cos()], 1)
        table[padding] = 0
        return table

    def forward(self, ids: Tensor) -> Tensor:
        batch, length = ids.size()
        most = self.padding + 1 + length
        if self.weights is None or most > self.weights.size(0):
            self.weights = self.table(most, self.dim, self.padding)
        self.weights = self.weights.to(self._float_tensor)
        tokens = ids.ne(self.padding).int()
        positions = (torch.cumsum(tokens, 1).type_as(tokens) * tokens).long() + self.padding
        return self.weights.index_select(0, positions.view(-1)).view(batch, length, -1).detach()


class Bert(nn.Module):
    """BERT: words, segments and positions summed and normed; the positions are rows of a buffer."""

    position_ids: Tensor

    def __init__(self, dim: int = 16, longest: int = 128) -> None:
        super().__init__()
        self.words, self.rows, self.segments = nn.Embedding(50, dim), nn.Embedding(longest, dim), nn.Embedding(2, dim)
        self.norm = nn.LayerNorm(dim)
        self.register_buffer("position_ids", torch.arange(longest)[None])

    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        rows = self.rows(self.position_ids[:, : ids.size(1)])
        y: Tensor = self.norm(self.words(ids) + self.segments(segments) + rows)
        return y


class Roberta(nn.Module):
    """RoBERTa: positions count what is no padding, from the padding's id on."""

    def __init__(self, dim: int = 16, longest: int = 128, padding: int = 1) -> None:
        super().__init__()
        self.padding = padding
        self.words = nn.Embedding(50, dim, padding_idx=padding)
        self.rows = nn.Embedding(longest, dim, padding_idx=padding)

    def forward(self, ids: Tensor) -> Tensor:
        tokens = ids.ne(self.padding).int()
        positions = (torch.cumsum(tokens, 1).type_as(tokens) * tokens).long() + self.padding
        y: Tensor = self.words(ids) + self.rows(positions)
        return y


class Longformer(Roberta):
    """Longformer: RoBERTa's embeddings, padded to whole windows of attention, without a branch."""

    def forward(self, ids: Tensor) -> Tensor:
        window = 8
        missing = (window - ids.shape[1] % window) % window
        return super().forward(functional.pad(ids, (0, missing), value=self.padding))


class Opt(nn.Embedding):
    """OPT: positions from an attention mask, and an offset of two rows."""

    def __init__(self, longest: int = 128, dim: int = 16) -> None:
        super().__init__(longest + 2, dim)

    def forward(self, attention_mask: Tensor) -> Tensor:
        mask = attention_mask.long()
        return super().forward((torch.cumsum(mask, 1) * mask).long() - 1 + 2)


class Whisper(nn.Module):
    """Whisper: halves of sines and cosines in a parameter, added to frames that two convolutions made."""

    rows: Tensor

    def __init__(self, dim: int = 16, longest: int = 128) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(4, dim, 3, padding=1), nn.Conv1d(dim, dim, 3, stride=2, padding=1)
        angles = torch.arange(longest)[:, None] * torch.exp(-math.log(10000) / (dim // 2 - 1) * torch.arange(dim // 2))
        self.register_buffer("rows", torch.cat([angles.sin(), angles.cos()], 1))

    def forward(self, mel: Tensor) -> Tensor:
        x = functional.gelu(self.conv2(functional.gelu(self.conv1(mel)))).permute(0, 2, 1)
        return x + self.rows[: x.shape[1]]


class ConvolutionalPosition(nn.Module):
    """wav2vec 2.0: a grouped convolution with a weight norm; an even kernel's last frame is dropped."""

    def __init__(self, dim: int = 16, kernel: int = 8) -> None:
        super().__init__()
        conv = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=4)
        self.conv = nn.utils.parametrizations.weight_norm(conv, name="weight", dim=2)
        self.drop = int(kernel % 2 == 0)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x.transpose(1, 2))
        y = y[:, :, : -self.drop] if self.drop else y
        shown: Tensor = x + functional.gelu(y).transpose(1, 2)
        return shown


class Cape(nn.Module):
    """CAPE: positions centred and scaled; shifted at random in training alone."""

    content_scale: Tensor

    def __init__(self, dim: int = 16) -> None:
        super().__init__()
        self.register_buffer("content_scale", torch.tensor([float(dim) ** 0.5]))
        self.register_buffer("frequencies", torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim)))

    def forward(self, x: Tensor) -> Tensor:
        positions = torch.arange(x.shape[1], device=x.device).float()
        positions = positions - positions.mean()
        if self.training:
            positions = positions + torch.rand(1)
        angles = positions[:, None] * self.get_buffer("frequencies")
        return x * self.content_scale + torch.cat([angles.sin(), angles.cos()], -1)


class ClipText(nn.Module):
    """CLIP's text tower: learned rows, and one block under a causal mask."""

    def __init__(self, dim: int = 16, longest: int = 128) -> None:
        super().__init__()
        self.words, self.rows = nn.Embedding(50, dim), nn.Parameter(torch.randn(longest, dim) * 0.1)
        self.attention, self.norm = nn.MultiheadAttention(dim, 4, batch_first=True), nn.LayerNorm(dim)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.rows[: ids.shape[1]]
        mask = torch.full((ids.shape[1], ids.shape[1]), float("-inf")).triu(1)
        y = self.norm(x)
        attended: Tensor = self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + attended


class NoPosition(nn.Module):
    """NoPE: no encoding at all; causal attention alone tells positions apart."""

    def __init__(self, dim: int = 16) -> None:
        super().__init__()
        self.projections = nn.Linear(dim, 3 * dim)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.projections(x).unflatten(-1, (3, 4, 4)).permute(2, 0, 3, 1, 4)
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


X = ("x: float32[batch, seq, 16]",)
IDS = ("ids: int64[batch, seq] < 50",)
ROWS = (
    Known("absolute:Annotated", X, "the most copied of all"),
    Known("absolute:SequenceFirst", ("x: float32[seq, batch, 16]",), "the length is the first axis"),
    Known("absolute:Fairseq", IDS, "a table that grows, kept beside the buffers"),
    Known("absolute:Fairseq", IDS, "a table that grows while it is traced", params={"longest": 16}, max_len=33),
    Known("absolute:Bert", (*IDS, "segments: int64[batch, seq] < 2"), "positions from a buffer"),
    Known("absolute:Roberta", IDS, "positions from ids"),
    Known("absolute:Longformer", IDS, "pads to windows without a branch"),
    Known("absolute:Opt", ("attention_mask: int64[batch, seq]",), "positions from a mask"),
    Known("absolute:Whisper", ("mel: float32[batch, 4, T % 2]",), "frames are half as many as samples"),
    Known("absolute:ConvolutionalPosition", X, "a weight norm is a parametrization"),
    Known("absolute:Cape", X, "random in training alone"),
    Known("absolute:ClipText", IDS, "a causal mask made of the length"),
    Known("absolute:NoPosition", X, "causal attention without an encoding"),
)
