"""Networks as tutorials and small repositories that many people copy have them, written after their well-known code."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from helpers.foreign.models import BOTH, ROWS, learned, rotary
from helpers.foreign.truth import Held
from helpers.unseen.parts import (
    HEADS,
    IDS,
    SIZE,
    WIDTH,
    Layer,
    Network,
    X,
    each,
    in_order,
    sampled,
    tokens,
    vectors,
)
from scripts.unseen_files import BATCH, BY_TOKEN, NONE, Feeds, ids, numbers, sines


class NanoGpt(nn.Module):
    """nanoGPT: a table of positions, causal attention by torch's own function."""

    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(64, WIDTH), nn.Embedding(ROWS, WIDTH)
        self.layers, self.head = nn.ModuleList(Layer() for _ in range(2)), nn.Linear(WIDTH, 64, bias=False)

    def forward(self, idx: Tensor) -> Tensor:
        """Return a score for each word."""
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        for layer in each(self.layers):
            q, k, v = layer.split(x)
            x = layer.join(x, F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return cast(Tensor, self.head(x))


class MinGpt(nn.Module):
    """minGPT: a parameter of positions that is cut to the length, and a stored triangle as mask."""

    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.words, self.pos_emb = nn.Embedding(64, WIDTH), nn.Parameter(torch.randn(1, ROWS, WIDTH))
        self.layers, self.head = nn.ModuleList(Layer() for _ in range(2)), nn.Linear(WIDTH, 64, bias=False)
        self.register_buffer("mask", torch.tril(torch.ones(ROWS, ROWS)).view(1, 1, ROWS, ROWS))

    def forward(self, idx: Tensor) -> Tensor:
        """Return a score for each word."""
        length = idx.size(1)
        x = self.words(idx) + self.pos_emb[:, :length, :]
        for layer in each(self.layers):
            q, k, v = layer.split(x)
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            scores = scores.masked_fill(self.mask[:, :, :length, :length] == 0, float("-inf"))
            x = layer.join(x, F.softmax(scores, dim=-1) @ v)
        return cast(Tensor, self.head(x))


class Llama2C(nn.Module):
    """llama2.c: stored cosines and sines, cut to the length; neighbouring features are pairs."""

    freqs_cos: Tensor
    freqs_sin: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(64, WIDTH)
        self.layers, self.head = nn.ModuleList(Layer() for _ in range(2)), nn.Linear(WIDTH, 64, bias=False)
        freqs = 1.0 / (10000.0 ** (torch.arange(0, SIZE, 2)[: SIZE // 2].float() / SIZE))
        angles = torch.outer(torch.arange(ROWS), freqs).float()
        self.register_buffer("freqs_cos", torch.cos(angles), persistent=False)
        self.register_buffer("freqs_sin", torch.sin(angles), persistent=False)

    def turned(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return queries or keys turned: (batch, tokens, heads, features)."""
        real, imaginary = x.float().reshape(*x.shape[:-1], -1, 2).unbind(-1)
        cos, sin = cos.view(1, cos.shape[0], 1, -1), sin.view(1, sin.shape[0], 1, -1)
        return torch.stack([real * cos - imaginary * sin, real * sin + imaginary * cos], dim=-1).flatten(3)

    def forward(self, idx: Tensor) -> Tensor:
        """Return a score for each word."""
        x, length = self.words(idx), idx.size(1)
        cos, sin = self.freqs_cos[:length], self.freqs_sin[:length]
        for layer in each(self.layers):
            q, k, v = (part.transpose(1, 2) for part in layer.split(x))
            q, k = (self.turned(part, cos, sin).transpose(1, 2) for part in (q, k))
            x = layer.join(x, F.scaled_dot_product_attention(q, k, v.transpose(1, 2), is_causal=True))
        return cast(Tensor, self.head(x))


class GptFast(nn.Module):
    """gpt-fast: rows of (cosine, sine) by an input of positions, keys and values kept in a cache of one length."""

    freqs_cis: Tensor
    causal_mask: Tensor

    def __init__(self, base: float = 500000.0) -> None:
        super().__init__()
        self.words = nn.Embedding(64, WIDTH)
        self.layers, self.head = nn.ModuleList(Layer() for _ in range(2)), nn.Linear(WIDTH, 64, bias=False)
        freqs = 1.0 / (base ** (torch.arange(0, SIZE, 2)[: (SIZE // 2)].float() / SIZE))
        angles = torch.outer(torch.arange(ROWS), freqs)
        self.register_buffer("freqs_cis", torch.stack([torch.cos(angles), torch.sin(angles)], dim=-1))
        self.register_buffer("causal_mask", torch.tril(torch.ones(ROWS, ROWS, dtype=torch.bool)))

    def turned(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return queries or keys turned: (batch, tokens, heads, features)."""
        pairs, rows = x.float().reshape(*x.shape[:-1], -1, 2), rows.view(1, rows.size(0), 1, -1, 2)
        out = torch.stack(
            [
                pairs[..., 0] * rows[..., 0] - pairs[..., 1] * rows[..., 1],
                pairs[..., 1] * rows[..., 0] + pairs[..., 0] * rows[..., 1],
            ],
            -1,
        )
        return out.flatten(3).type_as(x)

    def forward(self, idx: Tensor, input_pos: Tensor, cache: Tensor) -> Tensor:
        """Return a score for each word; the cache is (layers, keys and values, batch, heads, rows, features)."""
        x, rows, mask = self.words(idx), self.freqs_cis[input_pos], self.causal_mask[None, None, input_pos]
        for number, layer in enumerate(each(self.layers)):
            q, k, v = (part.transpose(1, 2) for part in layer.split(x))
            q, k, v = (part.transpose(1, 2) for part in (self.turned(q, rows), self.turned(k, rows), v))
            keys = cache[number, 0].index_copy(2, input_pos, k)
            values = cache[number, 1].index_copy(2, input_pos, v)
            x = layer.join(x, F.scaled_dot_product_attention(q, keys, values, attn_mask=mask))
        return cast(Tensor, self.head(x))


class PositionalEncoding(nn.Module):
    """PyTorch's tutorial of nn.Transformer: 5,000 rows of sines, (rows, 1, width), added to (tokens, batch, width)."""

    pe: Tensor

    def __init__(self, width: int, max_len: int = 5000, first: bool = False) -> None:
        super().__init__()
        self.first = first
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        pe = torch.zeros(max_len, 1, width)
        pe[:, 0, 0::2], pe[:, 0, 1::2] = torch.sin(position * div_term), torch.cos(position * div_term)
        self.register_buffer("pe", pe.transpose(0, 1) if first else pe)

    def forward(self, x: Tensor) -> Tensor:
        """Return tokens with positions."""
        return x + (self.pe[:, : x.size(1)] if self.first else self.pe[: x.size(0)])


class Tutorial(nn.Module):
    """PyTorch's tutorial of language modelling with nn.Transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(64, WIDTH), PositionalEncoding(WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, WIDTH, dropout=0.0)
        self.body, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(WIDTH, 64)

    def forward(self, src: Tensor) -> Tensor:
        """Return a score for each word of (tokens, batch)."""
        x = self.places(self.words(src) * math.sqrt(WIDTH))
        mask = torch.triu(torch.full((src.size(0), src.size(0)), float("-inf")), diagonal=1)
        return cast(Tensor, self.head(self.body(x, mask)))


class Translator(nn.Module):
    """PyTorch's tutorial of translation: nn.Transformer with the same sines on both sides."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.other = nn.Embedding(64, WIDTH), nn.Embedding(64, WIDTH)
        self.places = PositionalEncoding(WIDTH, first=True)
        self.body = nn.Transformer(WIDTH, HEADS, 1, 1, WIDTH, dropout=0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, 64)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Return a score for each word."""
        mask = torch.triu(torch.full((tgt.size(1), tgt.size(1)), float("-inf")), diagonal=1)
        source, target = self.places(self.words(src)), self.places(self.other(tgt))
        return cast(Tensor, self.head(self.body(source, target, tgt_mask=mask)))


class AlibiOfPress(nn.Module):
    """ALiBi as its author wrote it for fairseq: slopes times the place of the key, on top of the causal mask."""

    slopes: Tensor

    def __init__(self, heads: int = 6) -> None:
        super().__init__()
        self.words = nn.Embedding(64, 96)
        self.layers, self.head = nn.ModuleList(Layer(96, heads) for _ in range(2)), nn.Linear(96, 64)
        self.register_buffer("slopes", torch.tensor(self.slopes_of(heads)))

    def slopes_of(self, heads: int) -> list[float]:
        """Return the slopes of the paper, for any number of heads."""
        if math.log2(heads).is_integer():
            start = 2 ** (-(2 ** -(math.log2(heads) - 3)))
            return [start * start**i for i in range(heads)]
        closest = 2 ** math.floor(math.log2(heads))
        return self.slopes_of(closest) + self.slopes_of(2 * closest)[0::2][: heads - closest]

    def forward(self, idx: Tensor) -> Tensor:
        """Return a score for each word."""
        x, length = self.words(idx), idx.size(1)
        places = torch.arange(length, device=idx.device)
        alibi = self.slopes[:, None, None] * places[None, None, :]
        mask = torch.triu(torch.full((length, length), float("-inf"), device=idx.device), 1) + alibi
        for layer in each(self.layers):
            q, k, v = layer.split(x)
            scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1)) + mask
            x = layer.join(x, scores.softmax(-1) @ v)
        return cast(Tensor, self.head(x))


class DetrDemo(nn.Module):
    """DETR in fifty lines: learned rows and columns side by side, learned queries, nn.Transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.conv = nn.Conv2d(3, 16, 8, 8), nn.Conv2d(16, WIDTH, 1)
        self.transformer = nn.Transformer(WIDTH, HEADS, 1, 1, WIDTH, dropout=0.0)
        self.query_pos = nn.Parameter(torch.rand(5, WIDTH))
        self.row_embed = nn.Parameter(torch.rand(50, WIDTH // 2))
        self.col_embed = nn.Parameter(torch.rand(50, WIDTH // 2))
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, image: Tensor) -> Tensor:
        """Return boxes."""
        h = self.conv(self.backbone(image).relu())
        rows, columns = h.shape[-2:]
        pos = torch.cat(
            [
                self.col_embed[:columns].unsqueeze(0).repeat(rows, 1, 1),
                self.row_embed[:rows].unsqueeze(1).repeat(1, columns, 1),
            ],
            dim=-1,
        )
        pos = pos.flatten(0, 1).unsqueeze(1)
        out = self.transformer(pos + h.flatten(2).permute(2, 0, 1), self.query_pos.unsqueeze(1).repeat(1, h.size(0), 1))
        return cast(Tensor, self.head(out).sigmoid())


class Ddpm(nn.Module):
    """A step's sines as in the annotated diffusion model, a network of them, and a small convolution."""

    def __init__(self, dim: int = 32) -> None:
        super().__init__()
        self.dim = dim
        self.mlp = nn.Sequential(nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, 8))
        self.first, self.second = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """Return the noise."""
        half = self.dim // 2
        step = math.log(10000) / (half - 1)
        embeddings = torch.exp(torch.arange(half, device=time.device) * -step)
        embeddings = time[:, None] * embeddings[None, :]
        embeddings = torch.cat((embeddings.sin(), embeddings.cos()), dim=-1)
        return cast(Tensor, self.second((self.first(x) + self.mlp(embeddings)[:, :, None, None]).relu()))


class MusicTransformer(nn.Module):
    """Relative attention by the skewing of Music Transformer: rows of the last distances, times queries, shifted."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(64, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.rows = nn.ParameterList(nn.Parameter(torch.randn(ROWS, SIZE)) for _ in range(2))
        self.head = nn.Linear(WIDTH, 64)

    def forward(self, idx: Tensor) -> Tensor:
        """Return a score for each word."""
        x, length = self.words(idx), idx.size(1)
        mask = torch.triu(torch.ones(length, length, device=idx.device), diagonal=1).bool()
        for layer, rows in zip(each(self.layers), self.rows, strict=True):
            q, k, v = layer.split(x)
            table = rows[ROWS - length :]
            padded = F.pad(q @ table.transpose(0, 1), (1, 0))
            batch, heads, count, more = padded.shape
            skewed = padded.reshape(batch, heads, more, count)[:, :, 1:, :]
            scores = (q @ k.transpose(-1, -2) + skewed) / math.sqrt(SIZE)
            x = layer.join(x, scores.masked_fill(mask, float("-inf")).softmax(-1) @ v)
        return cast(Tensor, self.head(x))


class NeoxOfFairscale(nn.Module):
    """Llama as Meta wrote it, of complex numbers made real, in an encoder that is padded on the left by a mask."""

    inv_freq: Tensor

    def __init__(self, theta: float = 1e6) -> None:
        super().__init__()
        self.words = nn.Embedding(64, WIDTH)
        self.layers, self.head = nn.ModuleList(Layer() for _ in range(2)), nn.Linear(WIDTH, 64)
        self.register_buffer("inv_freq", 1.0 / (theta ** (torch.arange(0, SIZE, 2).float() / SIZE)))

    def forward(self, idx: Tensor, attention_mask: Tensor) -> Tensor:
        """Return a score for each word, of positions counted by the mask."""
        x = self.words(idx)
        places = (attention_mask.cumsum(-1) - 1).clamp(min=0)
        angles = places[:, None, :, None].float() * self.inv_freq
        cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
        bias = torch.where(attention_mask[:, None, None, :] > 0, 0.0, -1e9)
        for layer in each(self.layers):
            q, k, v = layer.split(x)
            q, k = (
                part * cos + torch.cat((-part[..., SIZE // 2 :], part[..., : SIZE // 2]), -1) * sin for part in (q, k)
            )
            x = layer.join(x, (q @ k.transpose(-1, -2) / math.sqrt(SIZE) + bias).softmax(-1) @ v)
        return cast(Tensor, self.head(x))


class Bare(nn.Module):
    """Attention that turns queries and keys by the package rotary-embedding-torch, called as its page says."""

    def __init__(self, xpos: bool = False, **settings: Any) -> None:
        super().__init__()
        from rotary_embedding_torch import RotaryEmbedding

        self.xpos = xpos
        self.rotary = RotaryEmbedding(cache_if_possible=False, use_xpos=xpos, **settings)
        self.layers = nn.ModuleList(Layer() for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """Return tokens."""
        for layer in each(self.layers):
            q, k, v = layer.split(x)
            if self.xpos:
                q, k = self.rotary.rotate_queries_and_keys(q, k)
            else:
                q, k = self.rotary.rotate_queries_or_keys(q), self.rotary.rotate_queries_or_keys(k)
            x = layer.join(x, (q @ k.transpose(-1, -2) / math.sqrt(SIZE)).softmax(-1) @ v)
        return x


class Spectrogram(nn.Module):
    """A spectrum by stored cosines and sines, as front ends of speech have it, and a GRU: no positions."""

    real: Tensor
    imaginary: Tensor

    def __init__(self, size: int = 64) -> None:
        super().__init__()
        angles = 2 * math.pi * torch.outer(torch.arange(size // 2 + 1), torch.arange(size)) / size
        window = torch.hann_window(size)
        self.register_buffer("real", (torch.cos(angles) * window)[:, None])
        self.register_buffer("imaginary", (-torch.sin(angles) * window)[:, None])
        self.rnn, self.head = nn.GRU(size // 2 + 1, 16, batch_first=True), nn.Linear(16, 4)

    def forward(self, wave: Tensor) -> Tensor:
        """Return a score for each frame."""
        parts = (F.conv1d(wave[:, None], kernel, stride=16) for kernel in (self.real, self.imaginary))
        power = sum(part**2 for part in parts)
        return cast(Tensor, self.head(self.rnn((cast(Tensor, power) + 1e-6).log().transpose(1, 2))[0]))


class Vocoder(nn.Module):
    """Convolutions with snake activations, x + sin(ax)^2 / a, as BigVGAN and DAC have them: no positions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv1d(8, 16, 7, padding=3), nn.Conv1d(16, 1, 7, padding=3)
        self.up = nn.ConvTranspose1d(16, 16, 8, 4, 2)
        self.alpha = nn.ParameterList(nn.Parameter(torch.rand(1, 16, 1) + 0.5) for _ in range(2))

    def forward(self, mel: Tensor) -> Tensor:
        """Return a wave."""
        x = self.first(mel)
        x = self.up(x + torch.sin(self.alpha[0] * x) ** 2 / self.alpha[0])
        return cast(Tensor, self.last(x + torch.sin(self.alpha[1] * x) ** 2 / self.alpha[1]).tanh())


class Recommender(nn.Module):
    """Tables of users, things and hours, products and a network, as DLRM: rows of a table, and no positions."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, 16) for rows in (64, 48, 24))
        self.top = nn.Sequential(nn.Linear(16 * 3 + 9, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, chosen: Tensor) -> Tensor:
        """Return a score for each line of three numbers."""
        rows = torch.stack([table(chosen[:, at]) for at, table in enumerate(self.tables)], 1)
        products = (rows @ rows.transpose(1, 2)).flatten(1)
        return cast(Tensor, self.top(torch.cat([rows.flatten(1), products], -1)))


class Crnn(nn.Module):
    """Letters in images: convolutions, two recurrent layers, attention over columns without positions."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, (4, 2), 1), nn.ReLU())
        self.rnn = nn.LSTM(64, 32, 2, batch_first=True, bidirectional=True)
        self.attend, self.head = nn.MultiheadAttention(64, 2, batch_first=True), nn.Linear(64, 40)

    def forward(self, image: Tensor) -> Tensor:
        """Return scores of letters for each column."""
        x = self.body(image).permute(0, 3, 1, 2).flatten(2)
        x = self.rnn(x)[0]
        return cast(Tensor, self.head(x + self.attend(x, x, x, need_weights=False)[0]))


def cached(length: int) -> Feeds:
    """Return ids at places 5 and on, and a cache of 48 rows."""
    return {"idx": ids(length), "input_pos": torch.arange(length) + 5, "cache": numbers(2, 2, BATCH, HEADS, ROWS, SIZE)}


def left_padded(length: int) -> Feeds:
    """Return ids of which the first three of the second text are padding."""
    mask = torch.ones(BATCH, length, dtype=torch.int64)
    mask[1, :3] = 0
    return {"idx": ids(length), "attention_mask": mask}


XPOS: dict[str, Any] = {
    "head_dim": 32,
    "rope_theta": 10000.0,
    "layout": "interleaved",
    "scale_base": 512.0,
    "gamma": 0.4,
    "center": "length",
}
WRITTEN: tuple[Network, ...] = (
    Network("tutorial.nanogpt", NanoGpt, tokens, IDS, (learned(ROWS, WIDTH),), ("old 18", "new 24")),
    Network("tutorial.mingpt", MinGpt, tokens, IDS, (learned(ROWS, WIDTH),), ("old 11", "new 20")),
    Network("tutorial.llama2_c", Llama2C, tokens, IDS, (rotary(layout="interleaved", rows=ROWS),), ("old 14", "new")),
    Network(
        "tutorial.gpt_fast",
        GptFast,
        cached,
        {"idx": BY_TOKEN, "input_pos": {0: "sequence"}},
        (rotary(theta=500000.0, layout="interleaved", rows=ROWS),),
        ("old 18",),
    ),
    Network(
        "tutorial.nn_transformer",
        Tutorial,
        lambda n: {"src": ids(n).T.contiguous()},
        {"src": {0: "sequence", 1: "batch"}},
        (sines(WIDTH, 5000, layout="interleaved"),),
        ("old 16",),
    ),
    Network(
        "tutorial.translator",
        Translator,
        lambda n: {"src": ids(n), "tgt": ids(n + 2)},
        {"src": BY_TOKEN, "tgt": {0: "batch", 1: "decoded"}},
        tuple(sines(WIDTH, 5000, layout="interleaved", part=part) for part in ("encoder", "decoder")),
        ("old 17",),
    ),
    Network(
        "tutorial.alibi",
        AlibiOfPress,
        tokens,
        IDS,
        (Held("alibi", "key", {"heads": 6, "bias_max": 8.0}, BOTH),),
        ("old 14", "new 23"),
    ),
    Network(
        "tutorial.detr_demo",
        DetrDemo,
        lambda _: {"image": numbers(BATCH, 3, 32, 64)},
        {"image": {0: "batch", 2: "height", 3: "width"}},
        (
            Held("grid", "learned rows and columns", {"dim": WIDTH, "rows": 50, "order": "column_first"}),
            learned(5, WIDTH, part="decoder"),
        ),
        ("old 17",),
    ),
    Network(
        "tutorial.ddpm",
        Ddpm,
        lambda n: {"x": numbers(BATCH, 4, 8, 8), "time": torch.tensor([n, 3 * n])},
        {"x": {0: "batch"}, "time": {0: "batch"}},
        (sampled(32, False, 1.0),),
        ("old 11", "new"),
    ),
    Network(
        "tutorial.music",
        MusicTransformer,
        tokens,
        IDS,
        (Held("relative", "distances", {"head_dim": 32, "left": ROWS - 1, "right": 0, "rows": ROWS}, BOTH),),
        ("old 17", "new"),
    ),
    Network(
        "tutorial.left_padded",
        NeoxOfFairscale,
        left_padded,
        {"idx": BY_TOKEN, "attention_mask": BY_TOKEN},
        (rotary(theta=1e6),),
        ("old 17", "new 22"),
    ),
    Network(
        "rotary_embedding_torch.plain",
        lambda: Bare(dim=16),
        vectors(WIDTH),
        X,
        (rotary(layout="interleaved", rotary_dim=16),),
        ("old 17", "new"),
    ),
    Network(
        "rotary_embedding_torch.interpolated",
        lambda: Bare(dim=32, interpolate_factor=4.0),
        vectors(WIDTH),
        X,
        (rotary("linear", layout="interleaved", factor=4.0),),
        ("old 17",),
    ),
    Network(
        "rotary_embedding_torch.rescaled",
        lambda: Bare(dim=32, theta_rescale_factor=2.0),
        vectors(WIDTH),
        X,
        (rotary(layout="interleaved", theta=10000.0 * 2.0 ** (32 / 30)),),
        ("old 17",),
    ),
    Network(
        "rotary_embedding_torch.xpos",
        lambda: Bare(xpos=True, dim=32),
        vectors(WIDTH),
        X,
        (Held("rotary", "xpos", XPOS, BOTH),),
        ("old 17",),
    ),
    Network(
        "tutorial.spectrogram",
        Spectrogram,
        lambda n: {"wave": numbers(BATCH, 64 + 16 * n)},
        {"wave": {0: "batch", 1: "samples"}},
        NONE,
        ("old 17",),
    ),
    Network(
        "tutorial.vocoder",
        Vocoder,
        lambda n: {"mel": numbers(BATCH, 8, n)},
        {"mel": {0: "batch", 2: "frames"}},
        NONE,
        ("old 13", "new"),
    ),
    Network(
        "tutorial.recommender",
        Recommender,
        lambda _: {"chosen": ids(3).clamp(max=23)},
        {"chosen": {0: "batch"}},
        NONE,
        ("old 17", "new"),
    ),
    Network(
        "tutorial.crnn",
        Crnn,
        lambda _: {"image": numbers(BATCH, 3, 32, 64)},
        {"image": {0: "batch"}},
        NONE,
        ("old 17",),
    ),
)
NETWORKS: tuple[Network, ...] = tuple(map(in_order, WRITTEN))
