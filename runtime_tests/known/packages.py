"""Classes of packages, as installed: positional-encodings, rotary-embedding-torch, x-transformers, diffusers."""

from typing import Any

from diffusers.models import embeddings as diffusers
from positional_encodings import torch_encodings
from rotary_embedding_torch import RotaryEmbedding
from torch import Tensor, nn
from transformers import BertConfig, Dinov2Config, LlamaConfig, T5Config, Wav2Vec2Config
from transformers.models.bert.modeling_bert import BertEmbeddings
from transformers.models.dinov2.modeling_dinov2 import Dinov2Embeddings
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.t5.modeling_t5 import T5Attention
from transformers.models.wav2vec2.modeling_wav2vec2 import Wav2Vec2PositionalConvEmbedding
from x_transformers import x_transformers

from known import Known

DIM = 16


def sums(axes: int) -> nn.Module:
    kinds = (torch_encodings.PositionalEncoding1D, torch_encodings.PositionalEncoding2D)
    return torch_encodings.Summer(kinds[axes - 1](DIM))


def encoding_1d() -> nn.Module:
    return torch_encodings.PositionalEncoding1D(DIM)


def encoding_3d() -> nn.Module:
    return torch_encodings.PositionalEncoding3D(12)


class Rotated(nn.Module):
    """rotary-embedding-torch, as its README has it."""

    def __init__(self, xpos: bool = False) -> None:
        super().__init__()
        self.rotary, self.xpos = RotaryEmbedding(DIM, use_xpos=xpos), xpos

    def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        if self.xpos:
            return self.rotary.rotate_queries_and_keys(q, k)
        return self.rotary.rotate_queries_or_keys(q), self.rotary.rotate_queries_or_keys(k)


def x_absolute() -> nn.Module:
    return x_transformers.AbsolutePositionalEmbedding(DIM, 128)


def x_sinusoidal() -> nn.Module:
    return x_transformers.ScaledSinusoidalEmbedding(DIM)


class XRotary(nn.Module):
    """x-transformers' rotary angles, by the length of x."""

    def __init__(self) -> None:
        super().__init__()
        self.rotary = x_transformers.RotaryEmbedding(DIM)

    def forward(self, x: Tensor) -> tuple[Tensor, Any]:
        return self.rotary.forward_from_seq_len(x.shape[1])


class XBias(nn.Module):
    """x-transformers' biases, by the shape of scores."""

    def __init__(self, kind: str = "relative") -> None:
        super().__init__()
        makes = {
            "relative": lambda: x_transformers.RelativePositionBias(0.25, False, 32, 128, 4),
            "dynamic": lambda: x_transformers.DynamicPositionBias(DIM, heads=4, depth=2),
            "alibi": lambda: x_transformers.AlibiPositionalBias(4, 4),
        }
        self.bias = makes[kind]()

    def forward(self, scores: Tensor) -> Tensor:
        return scores + self.bias(scores.shape[-2], scores.shape[-1])


def timesteps() -> nn.Module:
    return diffusers.Timesteps(DIM, True, 0)


class TimestepsAndNetwork(nn.Module):
    """What a U-Net makes of a timestep."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.network = diffusers.Timesteps(DIM, True, 0), diffusers.TimestepEmbedding(DIM, 32)

    def forward(self, t: Tensor) -> Tensor:
        return self.network(self.project(t))


def gaussian() -> nn.Module:
    return diffusers.GaussianFourierProjection(DIM, log=False)


def d_sinusoidal() -> nn.Module:
    return diffusers.SinusoidalPositionalEmbedding(DIM, 128)


def patch_embed() -> nn.Module:
    return diffusers.PatchEmbed(12, 12, 2, 3, DIM)


def flux() -> nn.Module:
    return diffusers.FluxPosEmbed(10000, [4, 6, 6])


def llama(rope_type: str = "default", **more: float) -> nn.Module:
    config = LlamaConfig(hidden_size=64, num_attention_heads=4, max_position_embeddings=32)
    config.rope_parameters = {"rope_type": rope_type, "rope_theta": 1e4, **more}
    return LlamaRotaryEmbedding(config)


def dynamic_ntk() -> nn.Module:
    return llama("dynamic", factor=2.0)


def bert() -> nn.Module:
    return BertEmbeddings(BertConfig(vocab_size=50, hidden_size=DIM, max_position_embeddings=128))


def dinov2() -> nn.Module:
    return Dinov2Embeddings(Dinov2Config(hidden_size=DIM, image_size=98, patch_size=14))


def wav2vec2() -> nn.Module:
    config = Wav2Vec2Config(hidden_size=DIM, num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4)
    return Wav2Vec2PositionalConvEmbedding(config)


class T5(nn.Module):
    """The bias of transformers' T5."""

    def __init__(self) -> None:
        super().__init__()
        config = T5Config(d_model=DIM, num_heads=4, d_kv=4)
        self.attention = T5Attention(config, has_relative_attention_bias=True)

    def forward(self, scores: Tensor) -> Tensor:
        return scores + self.attention.compute_bias(scores.shape[-2], scores.shape[-1])


X = ("x: float32[batch, seq, 16]",)
SQUARE = ("scores: float32[batch, 4, seq, seq]",)
T = ("t: float32[batch] in 0..1000",)
IMAGE = ("image: float32[batch, 3, height % 14, width % 14]",)
NUMBER = "makes a plain number of axis 'seq'"
UNREAD = "x is read for its shape, dtype or device alone"
QK = ("q: float32[batch, 4, seq, 16]", "k: float32[batch, 4, seq, 16]")
ROWS = (
    Known("packages:encoding_1d", X, "keeps its last table", note=UNREAD, max_len=33, quick=True),
    Known("packages:sums", X, "keeps its last table", params={"axes": 1}),
    Known("packages:sums", ("x: float32[batch, h, w, 16]",), "two axes", params={"axes": 2}),
    Known("packages:encoding_3d", ("x: float32[batch, h, w, z, 12]",), "three axes", note=UNREAD, max_len=24),
    Known("packages:Rotated", QK, "caches its frequencies"),
    Known("packages:Rotated", QK, "centred by the longest so far", "depends on earlier calls", params={"xpos": True}),
    Known("packages:x_absolute", X, "learned", note=UNREAD),
    Known("packages:x_sinusoidal", X, "an Einsum of two dtypes", refused="Einsum"),
    Known("packages:XRotary", X, "a float beside a tensor", refused="outputs must be tensors, got float"),
    Known("packages:XBias", SQUARE, "einx", refused=NUMBER),
    Known("packages:XBias", SQUARE, "einx", refused=NUMBER, params={"kind": "dynamic"}),
    Known("packages:XBias", SQUARE, "einx", refused=NUMBER, params={"kind": "alibi"}),
    Known("packages:timesteps", T, "its own float32 noise"),
    Known("packages:TimestepsAndNetwork", T, "a network after it"),
    Known("packages:gaussian", ("t: float32[batch] in 0..30000",), "angles of thousands of turns", refused="is noise"),
    Known("packages:d_sinusoidal", X, "rows of a buffer"),
    Known("packages:patch_embed", ("x: float32[batch, 3, 12, 12]",), "one grid"),
    Known("packages:flux", ("ids: float32[seq, 3] in 0..64",), "float64 on the way"),
    Known("packages:llama", (*X, "position_ids: int64[batch, seq]"), "x gives the dtype", note=UNREAD),
    Known(
        "packages:dynamic_ntk",
        (*X, "position_ids: int64[batch, seq]"),
        "a branch on positions",
        refused="posenc export rope -p rope_type=dynamic",
    ),
    Known("packages:bert", ("ids: int64[batch, seq] < 50",), "segments from a buffer"),
    Known("packages:dinov2", IMAGE, "interpolated unless it fits", max_len=140),
    Known("packages:wav2vec2", X, "a weight norm"),
    Known("packages:T5", SQUARE, "buckets"),
)
