"""Networks of packages and of code that many people copy, for the fifth sample: classes and forms that no sample has.

Packages come again with other classes, or with other settings: x_transformers and litgpt, diffusers' Flux and
UNet2DConditionModel, which are exported in other ways, too.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from helpers.foreign.models import BASE, BOTH, ROWS, learned, rotary
from helpers.foreign.truth import Held
from helpers.unseen.parts import (
    GRID,
    HEADS,
    IDS,
    IMAGES,
    SINCOS,
    SIZE,
    SMALL,
    VIT,
    WIDTH,
    First,
    Layer,
    Network,
    X,
    diffused,
    each,
    flux,
    images,
    in_order,
    lit,
    llama_of_torchtune,
    of,
    of_places,
    on_axes,
    picture,
    plain,
    sampled,
    steps,
    tokens,
    vectors,
    windows,
    without_sounds,
    x_model,
)
from scripts.unseen_files import BATCH, BY_TOKEN, NONE, Feeds, distances, ids, numbers, ones, sines

MASKED = {"idx": BY_TOKEN, "attention_mask": BY_TOKEN}


def steep(heads: int) -> Tensor:
    """Return the slopes of ALiBi for a number of heads that is a power of two."""
    return torch.tensor([2 ** (-8 * (head + 1) / heads) for head in range(heads)])


class Decoder(nn.Module):
    """Words, two layers and a head; kinds of positions are added by those that inherit it."""

    def __init__(self, width: int = WIDTH, heads: int = HEADS) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(2))
        self.head = nn.Linear(width, 64, bias=False)


class JinaBert(Decoder):
    """Jina's embeddings, version 2: ALiBi to both sides, stored for all lengths, and the mean of words."""

    alibi: Tensor

    def __init__(self) -> None:
        super().__init__(96, 4)
        place = torch.arange(ROWS)
        far = (place[None, :] - place[:, None]).abs()
        self.register_buffer("alibi", (-steep(4)[:, None, None] * far)[None], persistent=False)

    def forward(self, idx: Tensor, attention_mask: Tensor) -> Tensor:
        """Return a vector of length 1 for each text."""
        x, length = self.words(idx), idx.shape[1]
        bias = (1.0 - attention_mask[:, None, None, :].float()) * -1e9 + self.alibi[:, :, :length, :length]
        for layer in each(self.layers):
            q, k, v = layer.split(x)
            x = layer.join(x, (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias).softmax(-1) @ v)
        kept = attention_mask[..., None].float()
        return F.normalize((x * kept).sum(1) / kept.sum(1), dim=-1)


class Baichuan(Decoder):
    """Baichuan 13B: ALiBi by the place of the key, counted as it is used, over a causal triangle."""

    def __init__(self) -> None:
        super().__init__(96, 8)

    def forward(self, idx: Tensor) -> Tensor:
        """Return a score for each word."""
        x, length = self.words(idx), idx.shape[1]
        triangle = torch.triu(torch.full((length, length), float("-inf")), 1)
        mask = triangle + steep(8)[:, None, None] * torch.arange(length)[None, None, :]
        for layer in each(self.layers):
            q, k, v = layer.split(x)
            x = layer.join(x, (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask).softmax(-1) @ v)
        return cast(Tensor, self.head(x))


class ChatGlm(Decoder):
    """ChatGLM 2: rows of (cosine, sine) turn neighbours in the first half of a head; tokens stand first."""

    rows: Tensor

    def __init__(self) -> None:
        super().__init__()
        half = SIZE // 2
        theta = 1.0 / (10000 ** (torch.arange(0, half, 2).float() / half))
        angles = torch.outer(torch.arange(ROWS).float(), theta)
        self.register_buffer("rows", torch.stack([angles.cos(), angles.sin()], -1), persistent=False)

    def turned(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return queries or keys turned: (tokens, batch, heads, features)."""
        count, _, heads, _ = x.shape
        width = rows.shape[-2] * 2
        x, rest = x[..., :width], x[..., width:]
        pairs, rows = x.reshape(count, -1, heads, width // 2, 2), rows.view(count, -1, 1, width // 2, 2)
        out = torch.stack(
            [
                pairs[..., 0] * rows[..., 0] - pairs[..., 1] * rows[..., 1],
                pairs[..., 1] * rows[..., 0] + pairs[..., 0] * rows[..., 1],
            ],
            -1,
        )
        return torch.cat((out.flatten(3), rest), dim=-1)

    def forward(self, idx: Tensor) -> Tensor:
        """Return a score for each word."""
        x, length = self.words(idx), idx.shape[1]
        rows = self.rows[None, :length].transpose(0, 1).contiguous()
        for layer in each(self.layers):
            q, k, v = layer.split(x)
            q, k = (self.turned(part.permute(2, 0, 1, 3), rows).permute(1, 2, 0, 3) for part in (q, k))
            x = layer.join(x, F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return cast(Tensor, self.head(x))


class FlashRotary(Decoder):
    """The rotary embedding of flash-attn without its kernels: cosines of half the width, a part of each head."""

    inv_freq: Tensor

    def __init__(self, width: int = 16, base: float = 25000.0) -> None:
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / (base ** (torch.arange(0, width, 2).float() / width)))

    def turned(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return queries or keys turned: (batch, tokens, heads, features)."""
        width = cos.shape[-1] * 2
        cos, sin = (torch.cat([part, part], -1)[:, None] for part in (cos, sin))
        part = x[..., :width]
        first, second = part.chunk(2, dim=-1)
        return torch.cat([part * cos + torch.cat((-second, first), dim=-1) * sin, x[..., width:]], dim=-1)

    def forward(self, idx: Tensor) -> Tensor:
        """Return a score for each word."""
        x = self.words(idx)
        angles = torch.outer(torch.arange(idx.shape[1], dtype=torch.float32), self.inv_freq)
        cos, sin = angles.cos(), angles.sin()
        for layer in each(self.layers):
            q, k, v = (part.transpose(1, 2) for part in layer.split(x))
            q, k = (self.turned(part, cos, sin).transpose(1, 2) for part in (q, k))
            x = layer.join(x, F.scaled_dot_product_attention(q, k, v.transpose(1, 2), is_causal=True))
        return cast(Tensor, self.head(x))


class MetaLlama(Decoder):
    """Llama 3 as Meta wrote it, with cosines and sines of a long table and keys of a cache before the new ones."""

    cos: Tensor
    sin: Tensor

    def __init__(self, theta: float = 500000.0) -> None:
        super().__init__(96, 4)
        freqs = 1.0 / (theta ** (torch.arange(0, 24, 2)[:12].float() / 24))
        angles = torch.outer(torch.arange(2 * ROWS), freqs)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, idx: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Return a score for each word; the cache is (layers, batch, heads, tokens, features)."""
        x, past, length = self.words(idx), keys.shape[3], idx.shape[1]
        cos, sin = self.cos[past : past + length], self.sin[past : past + length]
        mask = torch.triu(torch.full((length, length), float("-inf")), 1)
        mask = torch.cat([torch.zeros(length, past), mask], 1)
        for number, layer in enumerate(each(self.layers)):
            q, k, v = layer.split(x)
            q, k = (
                torch.stack(
                    [part[..., 0::2] * cos - part[..., 1::2] * sin, part[..., 0::2] * sin + part[..., 1::2] * cos], -1
                ).flatten(-2)
                for part in (q, k)
            )
            k, v = torch.cat([keys[number], k], 2), torch.cat([values[number], v], 2)
            x = layer.join(x, (q @ k.transpose(-1, -2) / math.sqrt(24) + mask).softmax(-1) @ v)
        return cast(Tensor, self.head(x))


class LinearGpt(Decoder):
    """Positions learned and longer than trained: rows are read by ids that come with the words, padded on the left."""

    def __init__(self) -> None:
        super().__init__()
        self.wpe = nn.Embedding(2 * ROWS, WIDTH)

    def forward(self, idx: Tensor, attention_mask: Tensor) -> Tensor:
        """Return a score for each word."""
        places = (attention_mask.cumsum(-1) - 1).masked_fill(attention_mask == 0, 1)
        x, length = self.words(idx) + self.wpe(places), idx.shape[1]
        triangle = torch.tril(torch.ones(length, length, dtype=torch.bool))
        mask = triangle[None, None] & (attention_mask[:, None, None, :] > 0)
        bias = torch.where(mask, 0.0, torch.finfo(torch.float32).min)
        for layer in each(self.layers):
            q, k, v = layer.split(x)
            x = layer.join(x, (q @ k.transpose(-1, -2) / math.sqrt(SIZE) + bias).softmax(-1) @ v)
        return cast(Tensor, self.head(x))


class WindowOfSwinIr(nn.Module):
    """SwinIR's restoration: windows of 4 by 4 with a table of biases, no change of size."""

    index: Tensor

    def __init__(self, width: int = 32, heads: int = 2, size: int = 4) -> None:
        super().__init__()
        self.size, self.heads = size, heads
        self.first, self.last = nn.Conv2d(3, width, 3, 1, 1), nn.Conv2d(width, 3, 3, 1, 1)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(2))
        self.tables = nn.ParameterList(nn.Parameter(torch.randn((2 * size - 1) ** 2, heads)) for _ in range(2))
        grid = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")).flatten(1)
        far = (grid[:, :, None] - grid[:, None, :]).permute(1, 2, 0) + size - 1
        self.register_buffer("index", far[..., 0] * (2 * size - 1) + far[..., 1])

    def forward(self, image: Tensor) -> Tensor:
        """Return an image."""
        x = self.first(image)
        batch, width, high, wide = x.shape
        size = self.size
        y = x.view(batch, width, high // size, size, wide // size, size).permute(0, 2, 4, 3, 5, 1)
        y = y.reshape(-1, size * size, width)
        for layer, table in zip(each(self.layers), self.tables, strict=True):
            q, k, v = layer.split(y)
            bias = table[self.index.view(-1)].view(size * size, size * size, -1).permute(2, 0, 1).contiguous()
            y = layer.join(y, (q * (width // self.heads) ** -0.5 @ k.transpose(-2, -1) + bias[None]).softmax(-1) @ v)
        y = y.view(batch, high // size, wide // size, size, size, width).permute(0, 5, 1, 3, 2, 4)
        return cast(Tensor, image + self.last(x + y.reshape(batch, width, high, wide)))


class DeformableSine(nn.Module):
    """Deformable DETR's sines of rows and columns, counted by a mask, from the middle of places, and an encoder."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.each_axis = width // 2
        self.conv = nn.Conv2d(3, width, 4, 4)
        layer = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, image: Tensor, mask: Tensor) -> Tensor:
        """Return tokens of an image; the mask is 1 where the image is."""
        x = self.conv(image)
        y_embed, x_embed = mask.cumsum(1), mask.cumsum(2)
        scale, eps = 2 * math.pi, 1e-6
        y_embed = (y_embed - 0.5) / (y_embed[:, -1:, :] + eps) * scale
        x_embed = (x_embed - 0.5) / (x_embed[:, :, -1:] + eps) * scale
        dim_t = torch.arange(self.each_axis, dtype=torch.float32)
        dim_t = 10000 ** (2 * torch.div(dim_t, 2, rounding_mode="floor") / self.each_axis)
        parts = []
        for places in (y_embed, x_embed):
            angles = places[..., None] / dim_t
            parts.append(torch.stack((angles[..., 0::2].sin(), angles[..., 1::2].cos()), dim=4).flatten(3))
        pos = torch.cat(parts, dim=3).permute(0, 3, 1, 2)
        return cast(Tensor, self.body((x + pos).flatten(2).transpose(1, 2)))


class PatchSeries(nn.Module):
    """A forecaster of patches of a series: stored sines, nn.TransformerEncoder, a head."""

    pe: Tensor

    def __init__(self, patch: int = 8, width: int = 32, rows: int = 12) -> None:
        super().__init__()
        self.patch, self.lift, self.head = patch, nn.Linear(patch, width), nn.Linear(rows * width, 8)
        place = torch.arange(rows).float()[:, None]
        step = (torch.arange(0, width, 2).float() * -(math.log(10000.0) / width)).exp()
        pe = torch.zeros(rows, width)
        pe[:, 0::2], pe[:, 1::2] = torch.sin(place * step), torch.cos(place * step)
        self.register_buffer("pe", pe[None])
        layer = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, series: Tensor) -> Tensor:
        """Return the next eight numbers of a series of 96."""
        mean, deviation = series.mean(1, keepdim=True), series.std(1, keepdim=True) + 1e-5
        x = self.lift(((series - mean) / deviation).unfold(1, self.patch, self.patch)) + self.pe
        return cast(Tensor, self.head(self.body(x).flatten(1)) * deviation + mean)


class Mel(nn.Module):
    """Whisper's encoder with mels of any length up to its table: the rows of sines are cut to it."""

    rows: Tensor

    def __init__(self, width: int = 64, rows: int = ROWS) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(8, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, 1)
        step = math.log(10000) / (width // 2 - 1)
        angles = torch.arange(rows)[:, None] * torch.exp(-step * torch.arange(width // 2))[None]
        self.register_buffer("rows", torch.cat([angles.sin(), angles.cos()], 1))
        self.layers = nn.ModuleList(Layer(width) for _ in range(2))

    def forward(self, mel: Tensor) -> Tensor:
        """Return frames."""
        x = F.gelu(self.second(F.gelu(self.first(mel)))).transpose(1, 2)
        x = x + self.rows[: x.shape[1]]
        for layer in each(self.layers):
            q, k, v = layer.split(x)
            x = layer.join(x, F.scaled_dot_product_attention(q, k, v))
        return x


class Kokoro(nn.Module):
    """What StyleTTS 2 and Kokoro begin with: an ALBERT of phonemes, then durations by a recurrent network."""

    def __init__(self) -> None:
        super().__init__()
        config = of("transformers:AlbertConfig")(
            **{**BASE, "embedding_size": 24, "num_attention_heads": 4, "hidden_size": 64}
        )
        self.bert = of("transformers:AlbertModel")(config)
        self.lstm = nn.LSTM(64, 32, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, 8)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return durations."""
        hidden = self.bert(input_ids, attention_mask=attention_mask)[0]
        return cast(Tensor, self.head(self.lstm(hidden)[0]).sigmoid().sum(-1))


class Colbert(nn.Module):
    """ColBERT: BERT, a smaller width for each word, made to length 1, and nothing for padding."""

    def __init__(self) -> None:
        super().__init__()
        config = of("transformers:BertConfig")(**{**BASE, "hidden_size": 48, "num_attention_heads": 3,
                                                  "max_position_embeddings": 64})  # fmt: skip
        self.bert, self.linear = of("transformers:BertModel")(config), nn.Linear(48, 16, bias=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return a vector for each word."""
        words = self.linear(self.bert(input_ids, attention_mask=attention_mask)[0])
        return F.normalize(words, dim=-1) * attention_mask[..., None]


class Ranked(nn.Module):
    """A reranker or a classifier of transformers: scores of a pair of texts."""

    def __init__(self, name: str, **config: Any) -> None:
        super().__init__()
        kind, task = name.split(":")
        self.model = of(f"transformers:{task}")(of(f"transformers:{kind}Config")(**config))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return scores."""
        return cast(Tensor, self.model(input_ids=input_ids, attention_mask=attention_mask)[0])


class Sdxl(nn.Module):
    """The UNet of SDXL: a step, and six numbers of the size of a picture, each by sines."""

    def __init__(self) -> None:
        super().__init__()
        self.net = of("diffusers:UNet2DConditionModel")(
            sample_size=8, block_out_channels=(16, 32), layers_per_block=1, norm_num_groups=8, cross_attention_dim=32,
            attention_head_dim=(2, 4), use_linear_projection=True, transformer_layers_per_block=(1, 2),
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), addition_embed_type="text_time",
            addition_time_embed_dim=8, projection_class_embeddings_input_dim=6 * 8 + 16,
        )  # fmt: skip

    def forward(self, sample: Tensor, timestep: Tensor, words: Tensor, text: Tensor, sizes: Tensor) -> Tensor:
        """Return the noise."""
        more = {"text_embeds": text, "time_ids": sizes}
        return cast(Tensor, self.net(sample, timestep, words, added_cond_kwargs=more, return_dict=False)[0])


def masked(length: int) -> Feeds:
    """Return ids, of which the second text ends three tokens earlier."""
    mask = torch.ones(BATCH, length, dtype=torch.int64)
    mask[1, -3:] = 0
    return {"idx": ids(length), "attention_mask": mask}


def left(length: int) -> Feeds:
    """Return ids, of which the second text begins three tokens later."""
    return {"idx": ids(length), "attention_mask": masked(length)["attention_mask"].flip(-1)}


def words(length: int) -> Feeds:
    """Return ids and a mask."""
    return {"input_ids": ids(length), "attention_mask": ones(length)}


def kept(length: int) -> Feeds:
    """Return ids and a cache of five tokens."""
    return {"idx": ids(length), "keys": numbers(2, BATCH, 4, 5, 24), "values": numbers(2, BATCH, 4, 5, 24)}


def place_mask(_: int) -> Feeds:
    """Return images and where they are on the canvas."""
    mask = torch.ones(BATCH, 8, 8)
    mask[1, 6:] = 0
    mask[1, :, 5:] = 0
    return {"image": numbers(BATCH, 3, 32, 32), "mask": mask}


TEXT = {"input_ids": BY_TOKEN, "attention_mask": BY_TOKEN}
PAST = {"idx": BY_TOKEN, "keys": {1: "batch", 3: "past"}, "values": {1: "batch", 3: "past"}}
WIDER: dict[str, Any] = {**BASE, "hidden_size": 48, "num_attention_heads": 3}
CAUSAL: dict[str, Any] = {
    **BASE,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_labels": 1,
}


def maxvit() -> nn.Module:
    """Return MaxViT as it was in TensorFlow: windows and grids, with biases by height and by width."""
    models = "timm.models.maxxvit"
    attended = of(f"{models}:MaxxVitTransformerCfg")(dim_head=16, rel_pos_type="bias_tf", window_size=(4, 4))
    config = of(f"{models}:MaxxVitCfg")(
        embed_dim=(16, 32), depths=(1, 1), block_type=("M", "M"), stem_width=8, transformer_cfg=attended
    )
    return cast(nn.Module, of(f"{models}:MaxxVit")(config, img_size=32, num_classes=4))


def mvit() -> nn.Module:
    """Return MViT 2 whose keys are as many as its queries: rows by distance, of rows and of columns."""
    config = of("timm.models.mvitv2:MultiScaleVitCfg")(
        depths=(2,), embed_dim=(32,), num_heads=(2,), stride_q=((1, 1),), stride_kv=((1, 1),), mlp_ratio=2.0
    )
    return cast(nn.Module, of("timm.models.mvitv2:MultiScaleVit")(config, img_size=32, num_classes=4))


class Speech(nn.Module):
    """SpeechBrain's Conformer of rotary attention."""

    def __init__(self) -> None:
        super().__init__()
        without_sounds()
        self.encoder = of("speechbrain.lobes.models.transformer.Conformer:ConformerEncoder")(
            num_layers=2, d_model=64, d_ffn=32, nhead=2, kernel_size=5, attention_type="RoPEMHA"
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return what it makes of frames."""
        return cast(Tensor, self.encoder(x)[0])


HALF: Held = Held("grid", "sincos_2d", {**GRID, "order": "column_first", "spacing": "half", "rows": 16})
XPOS: dict[str, Any] = {
    "head_dim": 32,
    "rope_theta": 10000.0,
    "layout": "interleaved",
    "scale_base": 512.0,
    "gamma": 0.4,
    "center": "length",
}
WRITTEN: tuple[Network, ...] = (
    Network(
        "tutorial.jina_v2",
        JinaBert,
        masked,
        MASKED,
        (Held("alibi", "distance", {"heads": 4, "bias_max": 8.0, "rows": ROWS}, BOTH),),
        ("old 15", "new"),
    ),
    Network(
        "tutorial.baichuan",
        Baichuan,
        lambda n: {"idx": ids(n)},
        {"idx": BY_TOKEN},
        (Held("alibi", "key", {"heads": 8, "bias_max": 8.0}, BOTH),),
        ("old 17", "new 22"),
    ),
    Network(
        "tutorial.chatglm2",
        ChatGlm,
        lambda n: {"idx": ids(n)},
        {"idx": BY_TOKEN},
        (rotary(layout="interleaved", rotary_dim=16, rows=ROWS),),
        ("old 17", "new"),
    ),
    Network(
        "tutorial.flash_rotary",
        FlashRotary,
        lambda n: {"idx": ids(n)},
        {"idx": BY_TOKEN},
        (rotary(theta=25000.0, rotary_dim=16),),
        ("old 18", "new 24"),
    ),
    Network(
        "tutorial.meta_llama",
        MetaLlama,
        kept,
        PAST,
        (rotary(theta=500000.0, head_dim=24, layout="interleaved", rows=2 * ROWS),),
        ("old 15", "new"),
    ),
    Network("tutorial.left_learned", LinearGpt, left, MASKED, (learned(2 * ROWS, WIDTH),), ("old 16", "new")),
    Network(
        "tutorial.swinir",
        WindowOfSwinIr,
        images,
        {"image": {0: "batch"}},
        windows("table", (2, [4, 4], BOTH)),
        ("old 17", "new"),
    ),
    Network(
        "tutorial.deformable_sine",
        DeformableSine,
        place_mask,
        {"image": {0: "batch"}, "mask": {0: "batch"}},
        (
            Held(
                "grid",
                "sine_2d",
                {"dim": 32, "temperature": 10000.0, "normalize": True, "scale": 2 * math.pi, "shift": -0.5},
            ),
        ),
        ("old 17", "new"),
    ),
    Network(
        "tutorial.patch_series",
        PatchSeries,
        lambda _: {"series": numbers(BATCH, 96)},
        {"series": {0: "batch"}},
        (sines(32, 12, layout="interleaved"),),
        ("old 17", "new"),
    ),
    Network(
        "tutorial.mel",
        Mel,
        lambda n: {"mel": numbers(BATCH, 8, 2 * n)},
        {"mel": {0: "batch", 2: "frames"}},
        (sines(64, ROWS, spacing="half"),),
        ("old 17", "new 22"),
    ),
    Network("kokoro.plbert", Kokoro, words, TEXT, (learned(ROWS, 24),), ("old 15", "new 23")),
    Network("colbert.bert", Colbert, words, TEXT, (learned(64, 48),), ("old 14", "new 23")),
    Network(
        "reranker.xlm_roberta",
        lambda: Ranked(
            "XLMRoberta:XLMRobertaForSequenceClassification", **{**WIDER, "pad_token_id": 1, "num_labels": 1}
        ),
        words,
        TEXT,
        (learned(ROWS, 48, offset=2),),
        ("old 18",),
    ),
    Network(
        "reranker.modernbert",
        lambda: Ranked(
            "ModernBert:ModernBertForSequenceClassification",
            **{
                **BASE,
                "hidden_size": 64,
                "num_attention_heads": 4,
                "local_attention": 16,
                "num_labels": 1,
                "layer_types": ["full_attention", "sliding_attention"],
                "cls_token_id": 1,
                "sep_token_id": 2,
                "rope_parameters": {
                    "full_attention": {"rope_type": "default", "rope_theta": 160000.0},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 160000.0},
                },
            },
        ),
        words,
        TEXT,
        (rotary(theta=160000.0, head_dim=16),),
        ("old 18", "new 23"),
    ),
    Network(
        "reranker.qwen3",
        lambda: Ranked(
            "Qwen3:Qwen3ForSequenceClassification",
            **CAUSAL,
            rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
        ),
        words,
        TEXT,
        (rotary(theta=1e6, head_dim=16),),
        ("old 18",),
    ),
    Network(
        "reranker.deberta",
        lambda: Ranked(
            "DebertaV2:DebertaV2ForSequenceClassification",
            **{
                **WIDER,
                "relative_attention": True,
                "pos_att_type": ["c2p", "p2c"],
                "position_buckets": 12,
                "max_position_embeddings": 96,
                "num_labels": 1,
            },
        ),
        words,
        TEXT,
        (
            learned(96, 48),
            Held("relative", "deberta", {"position_buckets": 12, "max_relative_positions": 96, "rows": 24}, BOTH),
        ),
        ("old 18",),
    ),
    Network(
        "ner.distilbert",
        lambda: Ranked(
            "DistilBert:DistilBertForTokenClassification",
            vocab_size=64,
            dim=48,
            n_heads=3,
            n_layers=2,
            hidden_dim=32,
            max_position_embeddings=64,
            sinusoidal_pos_embds=True,
        ),
        words,
        TEXT,
        (sines(48, 64, layout="interleaved"),),
        ("old 18", "new 24"),
    ),
)
CLASSES: tuple[Network, ...] = (
    picture(
        "timm.deepseek_vit",
        "timm.models.deepseek_vit:DeepseekVitClassifier",
        (of_places(),),
        ("new",),
        **{**SMALL, "embed_dim": 64},
    ),
    picture(
        "timm.qwen3_vit",
        "timm.models.qwen3_vit:Qwen3VitClassifier",
        (learned(16, 64), of_places()),
        ("old 17", "new"),
        pos_embed_grid_size=4,
        **{**SMALL, "embed_dim": 64},
    ),
    picture(
        "timm.convit", "timm.models.convit:ConVit", (learned(16, 64),), ("old 17", "new"), local_up_to_layer=0, **SMALL
    ),
    Network(
        "timm.maxvit_tf",
        maxvit,
        images,
        IMAGES,
        windows("table", (1, [4, 4], BOTH), (2, [4, 4], (2, 3))),
        ("old 17", "new"),
    ),
    Network("timm.mvitv2", mvit, images, IMAGES, (distances(7, BOTH),), ("old 17", "new")),
    *(
        Network(f"timm.{name}", plain("timm:create_model", name, num_classes=4), images, IMAGES, NONE, ("old 17",))
        for name in ("starnet_s050", "mobileone_s0", "regnetx_002", "efficientvit_b0")
    ),
    picture(
        "vit_pytorch.qk_norm",
        "vit_pytorch.simple_vit_with_qk_norm:SimpleViT",
        (HALF,),
        ("old 17", "new"),
        dim_head=16,
        **VIT,
    ),
    picture(
        "vit_pytorch.value_residual",
        "vit_pytorch.simple_vit_with_value_residual:SimpleViT",
        (HALF,),
        ("new",),
        dim_head=16,
        **VIT,
    ),
    picture("vit_pytorch.memory", "vit_pytorch.learnable_memory_vit:ViT", (learned(17),), ("old 17",), **VIT),
    picture(
        "vit_pytorch.normalized", "vit_pytorch.normalized_vit:nViT", (learned(16),), ("old 17",), dim_head=16, **VIT
    ),
    Network(
        "x_transformers.xpos",
        x_model(rotary_xpos=True, rotary_emb_dim=32),
        tokens,
        IDS,
        (Held("rotary", "xpos", XPOS, BOTH),),
        ("old 17", "new"),
    ),
    Network(
        "x_transformers.rescaled",
        x_model(rotary_pos_emb=True, rotary_emb_dim=32, rotary_base_rescale_factor=4.0),
        tokens,
        IDS,
        (rotary(layout="interleaved", theta=10000.0 * 4.0 ** (32 / 30)),),
        ("old 18",),
    ),
    Network(
        "torchtune.gemma",
        plain(
            "torchtune.models.gemma:gemma",
            vocab_size=64,
            num_layers=2,
            num_heads=2,
            head_dim=32,
            num_kv_heads=1,
            embed_dim=64,
            intermediate_dim=64,
            max_seq_len=ROWS,
        ),
        tokens,
        IDS,
        (rotary(layout="interleaved", rows=ROWS),),
        ("new",),
    ),
    Network(
        "torchtune.llama3_2",
        llama_of_torchtune(
            "torchtune.models.llama3_2:llama3_2", intermediate_dim=64, rope_base=500000, scale_factor=32
        ),
        tokens,
        IDS,
        (
            rotary(
                "llama3",
                layout="interleaved",
                theta=500000.0,
                rows=ROWS,
                factor=32.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=8192,
            ),
        ),
        ("new",),
    ),
    Network(
        "torchtune.clip_text",
        plain(
            "torchtune.models.clip._component_builders:clip_text_encoder",
            embed_dim=32,
            num_heads=2,
            num_layers=2,
            vocab_size=64,
            max_seq_len=24,
        ),
        lambda _: tokens(24),
        {"tokens": {0: "batch"}},
        (learned(24),),
        ("new",),
    ),
    Network(
        "litgpt.qwen3",
        lit(
            rotary_percentage=1.0,
            rope_base=1000000,
            n_query_groups=1,
            head_size=24,
            bias=False,
            norm_qk=True,
            norm_class_name="RMSNorm",
            mlp_class_name="LLaMAMLP",
        ),
        tokens,
        IDS,
        (rotary(theta=1e6, head_dim=24, rows=ROWS),),
        ("old 18", "new"),
    ),
    Network(
        "litgpt.stablelm",
        lit(rotary_percentage=0.25, n_head=4, parallel_residual=False),
        tokens,
        IDS,
        (rotary(head_dim=16, rotary_dim=4, rows=ROWS),),
        ("old 15",),
    ),
    Network("speechbrain.rope", Speech, vectors(64), X, (rotary(layout="interleaved"),), ("old 17", "new")),
    Network(
        "sdxl.unet",
        Sdxl,
        lambda n: {
            **steps(n),
            "words": numbers(BATCH, 6, 32),
            "text": numbers(BATCH, 16),
            "sizes": 64 * numbers(BATCH, 6).abs(),
        },
        {},
        (sampled(16, True, 0.0), sampled(8, True, 0.0)),
        ("old 18", "new 22"),
    ),
    diffused(
        "SanaTransformer2DModel",
        (Held("grid", "sincos_2d", {**SINCOS, "rows": 64}), sampled(256, True, 0.0)),
        ("old 17", "new"),
        lambda n: {
            "hidden_states": numbers(BATCH, 4, 8, 8),
            "encoder_hidden_states": numbers(BATCH, 6, 32),
            "timestep": torch.tensor([n, 3 * n]),
        },
        in_channels=4,
        out_channels=4,
        num_attention_heads=2,
        attention_head_dim=16,
        num_layers=1,
        num_cross_attention_heads=2,
        cross_attention_head_dim=16,
        cross_attention_dim=32,
        caption_channels=32,
        sample_size=8,
        patch_size=1,
        interpolation_scale=1,
    ),
    diffused(
        "FluxTransformer2DModel",
        (on_axes([8, 12, 12], "interleaved", layers=(0, 1, 2)), sampled(256, True, 0.0)),
        ("new 22",),
        flux,
        patch_size=1,
        in_channels=4,
        num_layers=2,
        num_single_layers=1,
        attention_head_dim=32,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        axes_dims_rope=[8, 12, 12],
    ),
    diffused(
        "ControlNetModel",
        (),
        ("old 17", "new"),
        lambda n: {
            **steps(n),
            "encoder_hidden_states": numbers(BATCH, 6, 32),
            "controlnet_cond": numbers(BATCH, 3, 16, 16),
        },
        block_out_channels=(16, 32),
        layers_per_block=1,
        norm_num_groups=8,
        cross_attention_dim=32,
        attention_head_dim=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        conditioning_embedding_out_channels=(8, 16),
    ),
    diffused(
        "AutoencoderTiny",
        NONE,
        ("old 17",),
        lambda _: {"sample": numbers(BATCH, 3, 32, 32)},
        encoder_block_out_channels=(8, 8),
        decoder_block_out_channels=(8, 8),
        num_encoder_blocks=(1, 1),
        num_decoder_blocks=(1, 1),
        latent_channels=4,
    ),
    Network(
        "monai.unetr",
        plain(
            "monai.networks.nets:UNETR",
            in_channels=1,
            out_channels=2,
            img_size=(32, 32),
            feature_size=4,
            hidden_size=24,
            mlp_dim=24,
            num_heads=2,
            spatial_dims=2,
        ),
        lambda _: {"scan": numbers(BATCH, 1, 32, 32)},
        {"scan": {0: "batch"}},
        (learned(4, 24),),
        ("old 17",),
    ),
    Network(
        "ultralytics.yolov8",
        lambda: First(of("ultralytics.nn.tasks:DetectionModel")("yolov8n.yaml", ch=3, nc=4, verbose=False)),
        lambda _: {"image": numbers(1, 3, 64, 64)},
        {},
        NONE,
        ("old 17",),
    ),
)
NETWORKS: tuple[Network, ...] = tuple(map(in_order, (*WRITTEN, *CLASSES)))
