"""How `posenc inspect` reads files of models and exporters that the archives do not have: run by hand, not by pytest.

python runtime_tests/scripts/unseen_files.py make FOLDER [SECONDS]     # export, each in a process; go on later
python runtime_tests/scripts/unseen_files.py count FOLDER NAME [WORD..]  # read, write FOLDER/NAME/ and its .counted

The truth about each file stands in the tables here, by the config and the code of its model in transformers 5.23. No
inspection is asked for it. A file is right where ONNX Runtime agrees with the model at three lengths; an error of
`inspect` is a false one where its file is right.
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import log
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from torch import Tensor, nn

from helpers.foreign.exporters import transformers_exporter, without_traces
from helpers.foreign.models import BASE, BOTH, ROWS, Settings, learned, rotary
from helpers.foreign.scored import matched, merged
from helpers.foreign.truth import End, Held, Truth
from posenc_export.read.inspection import FoundEncoding

EXPORT_SECONDS = 60
TRACED, LENGTHS = 11, (11, 7, 19)
"""The length that files are traced at, and those at which they are run."""
BATCH = 2
Feeds = dict[str, Tensor]
Axes = Mapping[str, Mapping[int, str]]
NONE: tuple[Held, ...] = ()


@dataclass(frozen=True)
class Model:
    """A tiny model: what goes in, its type and config, and the encodings that its config and its code say it holds."""

    kind: str
    model_type: str
    config: Mapping[str, object]
    held: tuple[Held, ...]
    ways: tuple[str, ...]


WIDE = {**BASE, "hidden_size": 64, "intermediate_size": 64, "num_key_value_heads": 2, "head_dim": 32}
OLD, OLDER, NEW, OWN = "old 17", "old 14", "new", "transformers.exporters"
MOE: Mapping[str, Any] = {
    "num_local_experts": 2,
    "num_experts": 2,
    "num_experts_per_tok": 1,
    "experts_implementation": "batched_mm",
}


def turned(
    model_type: str,
    ways: tuple[str, ...],
    *,
    theta: float = 10000.0,
    layout: str = "halves",
    part: float = 1.0,
    layers: tuple[int, ...] = BOTH,
    kind: str = "decoder",
    **more: Any,
) -> Model:
    """Return a model of rotary heads of 32 features, of which a part is turned."""
    settings = {"rope_type": "default", "rope_theta": theta, "partial_rotary_factor": part}
    config = {**WIDE, "rope_parameters": settings, **more}
    held = rotary(theta=theta, layout=layout, layers=layers, head_dim=32, rotary_dim=int(32 * part))
    return Model(kind, model_type, config, (held,), ways)


def sines(
    width: int, rows: int | None, layout: str = "halves", spacing: str = "paper", part: str = "", **more: object
) -> Held:
    """Return rows of sines of base 10000; a layout may say that cosines come first, as in "halves, cosines first"."""
    pairs = layout.split(",", 1)[0]
    settings: dict[str, object] = {"d_model": width, "base": 10000.0, "layout": pairs, "spacing": spacing, **more}
    settings |= {} if rows is None else {"rows": rows}
    return Held("sinusoidal", layout, cast(Settings, settings), part=part)


def table(kind: str, model_type: str, ways: tuple[str, ...], rows: int, offset: int = 0, **more: object) -> Model:
    """Return a model with a learned table, 32 features wide."""
    return Model(kind, model_type, {**BASE, **more}, (learned(rows, offset=offset),), ways)


def buckets(heads: int, count: int, far: int, both: bool, part: str = "") -> Held:
    """Return T5's bias."""
    settings: Settings = {"heads": heads, "num_buckets": count, "max_distance": far, "bidirectional": both}
    return Held("t5", "buckets", settings, BOTH, part)


def distances(far: int, layers: tuple[int, ...]) -> Held:
    """Return rows of distances up to `far` that heads of 16 features are multiplied with: of rows, or of columns."""
    settings: Settings = {"head_dim": 16, "left": far, "right": far, "rows": 2 * far + 1}
    return Held("relative", "distances", settings, layers)


SEQ = {
    "vocab_size": 64,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": ROWS,
    "init_std": 0.2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": 2,
}
T5 = {
    "vocab_size": 64,
    "d_model": 32,
    "d_kv": 16,
    "d_ff": 32,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 2,
    "pad_token_id": 0,
    "decoder_start_token_id": 0,
}
IMAGE = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 8,
    "initializer_range": 0.2,
}
SPEECH = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "initializer_range": 0.2,
    "vocab_size": 64,
    "conv_dim": [8, 8],
    "conv_kernel": [3, 3],
    "conv_stride": [2, 2],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4,
    "max_source_positions": ROWS,
}
GPT = {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": ROWS, "n_ctx": ROWS, "n_inner": 32}
HALF_HEADS: Mapping[str, Any] = {"hidden_size": 64, "head_dim": None}
"""For types whose heads are the width divided by their number: None leaves a key out."""


def both_tables(rows: int, offset: int = 0) -> tuple[Held, ...]:
    """Return a table of the encoder and one of the decoder."""
    return (learned(rows, offset=offset, part="encoder"), learned(rows, offset=offset, part="decoder"))


def both_sines(rows: int | None, **more: Any) -> tuple[Held, ...]:
    """Return the same sines for the encoder and the decoder."""
    return tuple(sines(32, rows, part=part, **more) for part in ("encoder", "decoder"))


def yarn_of_gpt_oss() -> Model:
    """Return GPT-OSS with its own YaRN, which is not cut to whole pairs."""
    scaling = {"factor": 32.0, "original_max_position_embeddings": 64, "beta_fast": 32.0, "beta_slow": 1.0}
    settings = {"rope_type": "yarn", "rope_theta": 150000.0, "truncate": False, **scaling}
    held = rotary(
        "yarn",
        theta=150000.0,
        head_dim=32,
        factor=32.0,
        original_max_position_embeddings=64,
        truncate=False,
        attention_factor=0.1 * log(32) + 1,
    )
    return Model("decoder", "gpt_oss", {**WIDE, **MOE, "rope_parameters": settings}, (held,), (NEW, OWN))


MLA = {
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "first_k_dense_replace": 2,
    "head_dim": 16,
    "n_routed_experts": 2,
}
NO_ROPE = {"num_key_value_heads": 2, "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 2}
DEPTHS = {"depths": [2, 1], "num_heads": [2, 4], "embed_dim": 16, "window_size": 4, "image_size": 32, "patch_size": 4}
SEGFORMER = {
    "num_encoder_blocks": 2,
    "depths": [1, 1],
    "sr_ratios": [2, 1],
    "hidden_sizes": [16, 32],
    "patch_sizes": [7, 3],
    "strides": [4, 2],
    "num_attention_heads": [1, 2],
    "mlp_ratios": [2, 2],
}
SMALL_CNN = {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "layer_type": "basic"}

MODELS: tuple[Model, ...] = (
    turned("stablelm", (OLD, NEW), part=0.25, **HALF_HEADS),
    turned("cohere", ("old 17 positions", OWN), layout="interleaved", **HALF_HEADS),
    table("tokens", "electra", (OLDER, NEW), ROWS, embedding_size=32),
    Model("seq2seq", "bart", SEQ, both_tables(ROWS + 2, 2), (OLD, NEW)),
    Model("pixels", "deit", IMAGE, (learned(18),), (OLDER, NEW)),
    Model("wave", "wav2vec2", SPEECH, NONE, (OLDER, NEW)),
    turned("mistral", ("old 14 cached", "new positions"), theta=1e6),
    Model("lstm", "", {}, NONE, (OLD, OLDER)),
    turned(
        "cohere2", (OLD, NEW), layout="interleaved", layers=(0,), layer_types=["sliding_attention", "full_attention"]
    ),
    Model(
        "falcon",
        "falcon",
        {**WIDE, "head_dim": None, "alibi": False, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
        (rotary(head_dim=32),),
        (OLDER, NEW),
    ),
    Model(
        "falcon",
        "falcon",
        {**WIDE, "head_dim": None, "num_attention_heads": 4, "alibi": True},
        (Held("alibi", "key", {"heads": 4, "bias_max": 8.0}, BOTH),),
        (OLD, NEW),
    ),
    table("tokens", "xlm-roberta", (OLDER, OWN), ROWS, 2, pad_token_id=1),
    Model("seq2seq", "m2m_100", SEQ, both_sines(ROWS + 2, spacing="half", offset=1), (OLD, NEW)),
    Model("pixels", "dinov2", IMAGE, (learned(17),), (OLDER, NEW)),
    turned("olmo", ("new cached", OLD)),
    turned("olmo2", ("old 14 positions", NEW)),
    turned("granite", ("new positions", OLDER)),
    turned("nemotron", (OLD, NEW), part=0.5, **HALF_HEADS),
    Model("cnn", "", {}, NONE, (OLD, NEW)),
    Model("seq2seq", "marian", SEQ, both_sines(ROWS), (OLD, NEW)),
    Model(
        "seq2seq",
        "mt5",
        T5,
        (buckets(2, 32, 128, True, part="encoder"), buckets(2, 32, 128, False, part="decoder")),
        (OLDER, NEW),
    ),
    Model(
        "pixels",
        "beit",
        {**IMAGE, "use_relative_position_bias": True},
        (Held("window", "table", {"heads": 2, "window": [4, 4], "class_token": True, "rows": 52}, BOTH),),
        (OLD, NEW),
    ),
    Model(
        "pixels",
        "swinv2",
        DEPTHS,
        tuple(
            Held("window", "continuous", {"heads": heads, "window": [4, 4], "pretrained_window": [4, 4]}, layers)
            for heads, layers in ((2, (0, 1)), (4, (2,)))
        ),
        (OLD, NEW),
    ),
    turned("phi", (OLDER, "new cached"), part=0.5, **HALF_HEADS),
    Model(
        "decoder",
        "codegen",
        {**GPT, "n_embd": 64, "n_head": 4, "rotary_dim": 8},
        (rotary(head_dim=16, rotary_dim=8, layout="interleaved", rows=ROWS),),
        (OLD, NEW),
    ),
    turned("persimmon", (OLD, NEW), part=0.5, theta=25000.0, **HALF_HEADS),
    turned("starcoder2", ("old 17 cached", OWN), **HALF_HEADS),
    turned("gemma", (OLD, NEW)),
    turned("gemma2", (OLDER, OWN), layer_types=["sliding_attention", "full_attention"]),
    turned("mixtral", (NEW, OWN), theta=1e6, **MOE),
    turned("qwen3", ("old 14 cached", "new cached"), theta=1e6),
    yarn_of_gpt_oss(),
    Model(
        "decoder",
        "deepseek_v3",
        {**WIDE, **MLA, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
        (rotary(layout="interleaved", head_dim=32, rotary_dim=16, first_feature=16),),
        (OLD, NEW),
    ),
    table("tokens", "albert", (OLD, NEW), ROWS, embedding_size=32),
    table("tokens", "distilbert", (OLDER, NEW), ROWS, dim=32, n_heads=2, n_layers=2, hidden_dim=32),
    Model(
        "tokens",
        "mpnet",
        {**BASE, "pad_token_id": 1, "relative_attention_num_buckets": 32},
        (learned(ROWS, offset=2), buckets(2, 32, 128, True)),
        (OLD, NEW),
    ),
    Model(
        "tokens",
        "deberta",
        {
            **BASE,
            "relative_attention": True,
            "pos_att_type": ["c2p", "p2c"],
            "max_relative_positions": 24,
            "position_biased_input": False,
        },
        (Held("relative", "clipped", {"left": 24, "right": 23, "rows": 48}, BOTH),),
        (OLD, NEW),
    ),
    Model(
        "tokens",
        "deberta-v2",
        {
            **BASE,
            "relative_attention": True,
            "pos_att_type": ["c2p", "p2c"],
            "position_buckets": 16,
            "position_biased_input": False,
        },
        (Held("relative", "deberta", {"position_buckets": 16, "max_relative_positions": ROWS, "rows": 32}, BOTH),),
        (OLD, NEW),
    ),
    Model("boxes", "layoutlm", {**BASE, "max_2d_position_embeddings": 64}, (learned(ROWS),), (OLD, NEW)),
    table("tokens", "longformer", (OLD, NEW), ROWS, 2, pad_token_id=1, attention_window=8),
    Model("seq2seq", "pegasus", SEQ, both_sines(ROWS), (OLDER, NEW)),
    Model(
        "decoder",
        "xglm",
        {**SEQ, "num_layers": 2, "attention_heads": 2, "ffn_dim": 32},
        (sines(32, ROWS + 2, spacing="half", offset=2),),
        (OLD, NEW),
    ),
    # both count from padding id + 1, here 1; the encoder of the second has no mask here: each frame is read as padding
    Model(
        "mel",
        "speech_to_text",
        {
            **SEQ,
            "max_source_positions": ROWS,
            "max_target_positions": ROWS,
            "input_feat_per_channel": 8,
            "conv_channels": 16,
            "num_conv_layers": 1,
            "conv_kernel_sizes": [3],
        },
        (sines(32, ROWS + 2, spacing="half", offset=1, part="decoder"),),
        (OLD, NEW),
    ),
    Model("wave", "hubert", SPEECH, NONE, (OLD, NEW)),
    Model(
        "wave",
        "wavlm",
        {**SPEECH, "num_buckets": 32, "max_bucket_distance": 128},
        (buckets(2, 32, 128, True),),
        (OLD, NEW),
    ),
    Model(
        "features",
        "wav2vec2-bert",
        {
            **SPEECH,
            "feature_projection_input_dim": 8,
            "position_embeddings_type": "relative_key",
            "left_max_position_embeddings": 8,
            "right_max_position_embeddings": 4,
        },
        (Held("relative", "clipped", {"left": 8, "right": 4, "rows": 13}, BOTH),),
        (OLD, NEW),
    ),
    Model("text_alone", "clip_text_model", BASE, (learned(ROWS),), (OLD, NEW)),
    Model("pixels", "clip_vision_model", IMAGE, (learned(17),), (OLD, NEW)),
    Model("pixels", "siglip_vision_model", IMAGE, (learned(16),), (OLDER, NEW)),
    Model(
        "pixels",
        "vitdet",
        {**IMAGE, "use_absolute_position_embeddings": True, "pretrain_image_size": 32},
        (learned(17),),
        (OLD, NEW),
    ),
    Model(
        "pixels", "dpt", {**IMAGE, "is_hybrid": False, "backbone_out_indices": [0, 1, 0, 1]}, (learned(17),), (OLDER,)
    ),
    Model(
        "tokens",
        "xlnet",
        {"vocab_size": 64, "d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 32},
        (Held("relative", "transformer_xl", {"d_model": 32, "base": 10000.0}, BOTH),),
        (OLD, NEW),
    ),
    Model(
        "decoder", "mamba", {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "state_size": 4}, NONE, (OLD,)
    ),
    Model(
        "decoder",
        "jamba",
        {
            **BASE,
            **NO_ROPE,
            **MOE,
            "mamba_d_state": 4,
            "use_mamba_kernels": False,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
        },
        NONE,
        (OLD,),
    ),
    Model(
        "seq2seq",
        "umt5",
        T5,
        (buckets(2, 32, 128, True, part="encoder"), buckets(2, 32, 128, False, part="decoder")),
        (OLD, NEW),
    ),
    turned("glm", (OLD, NEW), layout="interleaved", part=0.5),
    turned("glm4", (OLDER,), layout="interleaved", part=0.5),
    turned("helium", (OLD, NEW), layout="interleaved"),
    turned("ernie4_5", (NEW, "old 17 positions"), layout="interleaved", theta=500000.0),
    turned("arcee", (OLD, OWN)),
    turned("seed_oss", ("old 14 positions",)),
    turned("olmo3", (OLD,), theta=500000.0, layer_types=["sliding_attention", "full_attention"]),
    Model("decoder", "gpt_bigcode", GPT, (learned(ROWS),), (OLD, NEW)),
    Model(
        "decoder",
        "gpt_neo",
        {**BASE, "num_layers": 2, "num_heads": 2, "attention_types": [[["global", "local"], 1]]},
        (learned(ROWS),),
        (OLD, NEW),
    ),
    table("decoder", "biogpt", (OLD, NEW), ROWS + 2, 2),
    Model("decoder", "ctrl", {**GPT, "dff": 32}, (sines(32, ROWS),), (OLD, NEW)),
    turned(
        "llama4_text",
        (OLD,),
        layout="interleaved",
        num_local_experts=1,
        interleave_moe_layer_step=3,
        no_rope_layers=[1, 1],
    ),
    turned("nanochat", (OLD, NEW)),
    turned("apertus", (NEW,)),
    Model(
        "tokens",
        "esm",
        {**BASE, "position_embedding_type": "rotary", "mask_token_id": 3, "pad_token_id": 1},
        (rotary(head_dim=16),),
        (OLD, NEW),
    ),
    turned("eurobert", (OLDER, NEW), kind="tokens", theta=250000.0),
    table("tokens", "camembert", (OWN,), ROWS, 2, pad_token_id=1),
    table("tokens", "big_bird", (OLD,), ROWS, attention_type="original_full"),
    table("tokens", "convbert", (OLD, NEW), ROWS, embedding_size=32),
    table("tokens", "nystromformer", (OLD,), ROWS + 2, 2),
    table("tokens", "rembert", (OLDER,), ROWS, input_embedding_size=32),
    table("tokens", "megatron-bert", (OLD, NEW), ROWS),
    table("tokens", "fnet", (OLD,), ROWS),
    table("tokens", "roc_bert", (NEW,), ROWS),
    table("tokens", "squeezebert", (OLD,), ROWS, embedding_size=32, q_groups=1, k_groups=1, v_groups=1),
    Model("seq2seq", "blenderbot", SEQ, both_tables(ROWS), (OLD,)),
    Model("seq2seq", "blenderbot-small", SEQ, both_tables(ROWS), (NEW,)),
    Model("seq2seq", "mbart", SEQ, both_tables(ROWS + 2, 2), (OLD, NEW)),
    Model("seq2seq", "plbart", SEQ, both_tables(ROWS + 2, 2), (OLD,)),
    Model("pixels", "vit_msn", IMAGE, (learned(17),), (OLD,)),
    Model("pixels", "ijepa", IMAGE, (learned(16),), (NEW,)),
    Model("pixels", "dinov2_with_registers", IMAGE, (learned(17),), (OLD,)),
    Model(
        "pixels",
        "yolos",
        {**IMAGE, "image_size": [32, 32], "num_detection_tokens": 5, "use_mid_position_embeddings": False},
        (learned(22),),
        (OLD,),
    ),
    Model("pixels", "segformer", SEGFORMER, NONE, (OLD, NEW)),
    Model("pixels", "resnet", SMALL_CNN, NONE, (OLD, NEW)),
    Model(
        "pixels",
        "data2vec-vision",
        {**IMAGE, "use_relative_position_bias": True},
        (Held("window", "table", {"heads": 2, "window": [4, 4], "class_token": True, "rows": 52}, BOTH),),
        (OLDER,),
    ),
    Model("gru", "", {}, NONE, (OLD,)),
    turned("diffllama", (OLD,)),
    turned("exaone4", (OLD, NEW), sliding_window=None, layer_types=["full_attention", "full_attention"]),
    turned("hunyuan_v1_dense", (OLD, NEW)),
    turned("ministral", ("new positions",), layer_types=["sliding_attention", "full_attention"]),
    turned(
        "qwen2_moe", (NEW,), **{**HALF_HEADS, **MOE, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32}
    ),
    turned("olmoe", (NEW,), **{**HALF_HEADS, **MOE}),
    turned("granitemoe", (OLD,), **{**HALF_HEADS, **MOE}),
    turned("bitnet", (OLD,), **HALF_HEADS),
)


class Inputs(nn.Module):
    """A model that takes its inputs in order and gives its first output; the last are a cache of keys and values."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        import inspect

        self.model, self.names = model, names
        takes = inspect.signature(model.forward).parameters
        self.more: dict[str, object] = {"use_cache": False} if "use_cache" in takes else {}

    def forward(self, *values: Tensor) -> Tensor:
        """Return the first output."""
        given = dict(zip(self.names, values, strict=True))
        past = [given.pop(name) for name in self.names if name.startswith("past_key")]
        more = dict(self.more)
        if past:
            from transformers import DynamicCache

            cache = DynamicCache()
            for layer in range(len(past) // 2):
                cache.update(past[2 * layer], past[2 * layer + 1], layer)
            more = {"past_key_values": cache, "use_cache": True}
        output = self.model(**given, **more)
        return cast(Tensor, output if isinstance(output, Tensor) else output[0])


class Lstm(nn.Module):
    """Words, a recurrent network and a head."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.words, self.rnn, self.head = nn.Embedding(64, 16), kind(16, 16, batch_first=True), nn.Linear(16, 4)

    def forward(self, input_ids: Tensor) -> Tensor:
        """Return a score for each word."""
        return cast(Tensor, self.head(self.rnn(self.words(input_ids))[0]))


class Cnn(nn.Module):
    """Convolutions, norms, pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, 1, 1), nn.GELU()
        )
        self.head = nn.Linear(8, 4)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """Return scores."""
        return cast(Tensor, self.head(self.body(pixel_values).mean((2, 3))))


def ids(length: int) -> Tensor:
    """Return ids above those with a meaning."""
    draw = torch.Generator().manual_seed(3)
    return torch.randint(4, 64, (BATCH, 400), generator=draw)[:, :length].contiguous()


def numbers(*shape: int) -> Tensor:
    """Return floats drawn from a fixed seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(4))


def ones(length: int) -> Tensor:
    """Return a mask that leaves nothing out."""
    return torch.ones(BATCH, length, dtype=torch.int64)


def tokens(length: int) -> Feeds:
    """Return ids and a mask."""
    return {"input_ids": ids(length), "attention_mask": ones(length)}


def places(length: int) -> Tensor:
    """Return time, height and width of each token: of text first, then of a picture of three columns."""
    count = torch.arange(length)
    at = torch.stack([count.clamp(max=4), *(torch.where(count < 4, count, 4 + of) for of in (count // 3, count % 3))])
    return at[:, None].repeat(1, BATCH, 1)


def boxes(length: int) -> Feeds:
    """Return ids with a box on the page each."""
    box = ids(4 * length).reshape(BATCH, length, 4).sort(-1).values
    return {**tokens(length), "bbox": box}


def pixels(_: int) -> Feeds:
    """Return images of 32 by 32."""
    return {"pixel_values": numbers(BATCH, 3, 32, 32)}


BY_TOKEN = {0: "batch", 1: "sequence"}
TOKENS: Axes = {"input_ids": BY_TOKEN, "attention_mask": BY_TOKEN}


@dataclass(frozen=True)
class Kind:
    """What goes into a kind of model: the class that makes it, its dynamic axes, and its inputs at a length."""

    auto: str
    axes: Axes
    feeds: Callable[[int], Feeds]


def mel(length: int) -> Feeds:
    """Return spectra of two frames for each of the encoder's, and words of the decoder."""
    return {"input_features": numbers(BATCH, 2 * length, 8), "decoder_input_ids": ids(length)}


KINDS: Mapping[str, Kind] = {
    "decoder": Kind("AutoModelForCausalLM", TOKENS, tokens),
    "falcon": Kind("AutoModelForCausalLM", TOKENS, tokens),
    "tokens": Kind("AutoModel", TOKENS, tokens),
    "text_alone": Kind("AutoModel", {"input_ids": BY_TOKEN}, lambda n: {"input_ids": ids(n)}),
    "boxes": Kind("AutoModel", {**TOKENS, "bbox": BY_TOKEN}, boxes),
    "seq2seq": Kind(
        "AutoModelForSeq2SeqLM",
        {**TOKENS, "decoder_input_ids": {0: "batch", 1: "decoded"}},
        lambda n: {**tokens(n), "decoder_input_ids": ids(n + 2)},
    ),
    "mel": Kind(
        "AutoModelForSpeechSeq2Seq", {"input_features": {1: "frames"}, "decoder_input_ids": {1: "decoded"}}, mel
    ),
    "pixels": Kind("AutoModel", {"pixel_values": {0: "batch"}}, pixels),
    "wave": Kind(
        "AutoModel", {"input_values": {0: "batch", 1: "samples"}}, lambda n: {"input_values": numbers(BATCH, 4 * n + 3)}
    ),
    "features": Kind(
        "AutoModel", {"input_features": {0: "batch", 1: "frames"}}, lambda n: {"input_features": numbers(BATCH, n, 8)}
    ),
    "features16": Kind(
        "AutoModel",
        {"input_features": {0: "batch", 1: "frames"}, "attention_mask": {0: "batch", 1: "frames"}},
        lambda n: {"input_features": numbers(BATCH, 4 * n, 16), "attention_mask": ones(4 * n)},
    ),
    "mel_fixed": Kind("AutoModel", {"input_values": {0: "batch"}}, lambda _: {"input_values": numbers(BATCH, 32, 16)}),
    "wave16": Kind(
        "AutoModel", {"input_values": {2: "samples"}}, lambda n: {"input_values": numbers(BATCH, 1, 16 * n)}
    ),
    "moonshine": Kind(
        "AutoModelForSpeechSeq2Seq",
        {"input_values": {0: "batch", 1: "samples"}, "decoder_input_ids": {0: "batch", 1: "decoded"}},
        lambda n: {"input_values": numbers(BATCH, 512 * n), "decoder_input_ids": ids(n)},
    ),
    "codes": Kind(
        "MusicgenForCausalLM", {"input_ids": {1: "sequence"}}, lambda n: {"input_ids": ids(n).repeat_interleave(2, 0)}
    ),
    "video": Kind(
        "AutoModel", {"pixel_values": {0: "batch"}}, lambda _: {"pixel_values": numbers(BATCH, 4, 3, 32, 32)}
    ),
    "series": Kind("AutoModel", {"past_values": {0: "batch"}}, lambda _: {"past_values": numbers(BATCH, 32, 2)}),
    "three_positions": Kind(
        "AutoModel",
        {"input_ids": BY_TOKEN, "position_ids": {1: "batch", 2: "sequence"}},
        lambda n: {"input_ids": ids(n), "position_ids": places(n)},
    ),
    "lstm": Kind("", {"input_ids": BY_TOKEN}, lambda n: {"input_ids": ids(n)}),
    "gru": Kind("", {"input_ids": BY_TOKEN}, lambda n: {"input_ids": ids(n)}),
    "cnn": Kind("", {"pixel_values": {0: "batch", 2: "height", 3: "width"}}, pixels),
}


def bare(model: Model) -> nn.Module:
    """Return a model of random weights."""
    import transformers

    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    if not model.model_type:
        own: Mapping[str, Callable[[], nn.Module]] = {
            "lstm": lambda: Lstm(nn.LSTM),
            "gru": lambda: Lstm(nn.GRU),
            "cnn": Cnn,
        }
        return own[model.kind]().eval()
    # None is a setting of its own, but for the size of a head
    left_out = {"experts_implementation", *({"head_dim"} if model.config.get("head_dim", 0) is None else ())}
    settings = {name: value for name, value in model.config.items() if name not in left_out}
    config = transformers.AutoConfig.for_model(model.model_type, **settings)
    if "experts_implementation" in model.config:
        config._experts_implementation = str(model.config["experts_implementation"])
    auto, alone = getattr(transformers, KINDS[model.kind].auto), type(config).__name__.replace("Config", "Model")
    is_auto = hasattr(auto, "from_config") and (type(config) in auto._model_mapping or not hasattr(transformers, alone))
    own_class = getattr(transformers, alone, auto)
    made = (auto.from_config(config) if is_auto else own_class(config)).eval()
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.requires_grad and not parameter.any():
                parameter.normal_(std=0.2)
    return cast(nn.Module, made)


def given(model: Model, module: nn.Module, way: str, length: int) -> tuple[Feeds, Axes]:
    """Return the inputs of a way to export at a length, and their axes."""
    kind = KINDS[model.kind]
    feeds, axes = kind.feeds(length), dict(kind.axes)
    if "positions" in way:
        feeds["position_ids"], axes["position_ids"] = torch.arange(length).expand(BATCH, -1).contiguous(), BY_TOKEN
    if "cached" in way:
        past = 5
        config = cast(Any, module).config
        feeds["attention_mask"], axes["attention_mask"] = ones(length + past), {0: "batch", 1: "total"}
        feeds["position_ids"] = (torch.arange(length) + past).expand(BATCH, -1).contiguous()
        axes["position_ids"] = BY_TOKEN
        heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        for layer in range(2):
            for what in ("key", "value"):
                name = f"past_key_values.{layer}.{what}"
                feeds[name], axes[name] = numbers(BATCH, heads, past, size), {0: "batch", 2: "past"}
    return feeds, axes


@dataclass(frozen=True)
class Called:
    """A module that is exported: how it is called at a length, and which axes are dynamic.

    Args:
        alone: takes its inputs in order, and gives its first output.
        bare: what is exported by exporters that call it by names.
        feeds: what goes in at a length.
        axes: the dynamic axes of each input, with their names.
    """

    alone: nn.Module
    bare: nn.Module
    feeds: Callable[[int], Feeds]
    axes: Axes


def called_of(model: Model, way: str) -> Called:
    """Return a model of random weights, as a way to export wants it."""
    module = bare(model)
    feeds, axes = given(model, module, way, TRACED)
    alone = Inputs(module, tuple(feeds)).eval()
    return Called(alone, module, lambda length: given(model, module, way, length)[0], axes)


def export(making: Callable[[], Called], way: str, path: Path) -> None:
    """Export a module in one way, and write beside it how far ONNX Runtime is from the module at three lengths.

    A way is "old" by tracing, or "new" by torch.export, each with an opset, or the exporter of transformers.
    """
    called = making()
    feeds, axes = called.feeds(TRACED), called.axes
    scratch = path.with_suffix(".made")
    scratch.mkdir(exist_ok=True)
    made = scratch / "model.onnx"
    with torch.no_grad():
        if way.startswith("old"):
            torch.onnx.export(
                called.alone, tuple(feeds.values()), str(made), dynamo=False, input_names=list(feeds),
                output_names=["out"], opset_version=int(way.split()[1]),
                dynamic_axes={name: dict(of) for name, of in axes.items() if of},
            )  # fmt: skip
        elif way.startswith("new"):
            shapes = tuple(dict.fromkeys(axes.get(name, ()), torch.export.Dim.DYNAMIC) for name in feeds)
            opset = next((int(word) for word in way.split() if word.isdigit()), None)
            torch.onnx.export(
                called.alone, tuple(feeds.values()), str(made), dynamo=True, input_names=list(feeds),
                output_names=["out"], dynamic_shapes=(shapes,), external_data=False, verbose=False,
                opset_version=opset,
            )  # fmt: skip
        else:
            from types import SimpleNamespace

            whole = SimpleNamespace(bare=called.bare, alone=called.alone, kind=SimpleNamespace(feeds=lambda _: feeds))
            made = transformers_exporter(whole, scratch, None)  # type: ignore[arg-type]
        without_traces(made, path)
        judge(called, path)
    shutil.rmtree(scratch, ignore_errors=True)


def judge(called: Called, path: Path, limit: float = 1e-4) -> None:
    """Write beside a file how far ONNX Runtime is from the module at three lengths, and how far a right one may be."""
    with torch.no_grad():
        right = [how_far(called, path, length) for length in LENGTHS]
    path.with_suffix(".json").write_text(json.dumps({"right": right, "limit": limit}), encoding="utf-8")


def how_far(called: Called, path: Path, length: int) -> float | str:
    """Return the largest difference from the model at a length, as a share of the largest number; or why none."""
    import onnxruntime

    feeds = called.feeds(length)
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        names = {value.name for value in session.get_inputs()}
        got = session.run(None, {name: value.numpy() for name, value in feeds.items() if name in names})[0]
        wanted = called.alone(*feeds.values()).numpy()
        if got.shape != wanted.shape:
            return f"shape {got.shape}, expected {wanted.shape}"
        return float(np.abs(got - wanted).max() / np.abs(wanted).max())
    except Exception as error:
        return str(error).splitlines()[0][:200]


def optimized(making: Callable[[], Called], name: str, how: str, to: Path) -> None:
    """Write what an optimizer makes of the file of a name, which stands in the same folder."""
    from helpers.foreign.optimizers import OPTIMIZERS

    OPTIMIZERS[how](to.with_name(name), to)
    judge(making(), to, 0.05 if "float16" in how or how.startswith("quantize") else 1e-4)


@dataclass(frozen=True)
class Job:
    """A file to make, what it holds, and what makes it at a path; None where another environment makes it."""

    file: str
    held: tuple[Held, ...]
    make: Callable[[Path], None] | None


def jobs() -> Iterator[Job]:
    """Yield the files of this sample: each model by its first exporter, by its second, and some then optimized."""
    for round_ in range(2):
        for number, model in enumerate(MODELS):
            if round_ < len(model.ways):
                way = model.ways[round_]
                yield Job(
                    f"{title(number, model, way)}.onnx",
                    truth_in(model, way),
                    partial(export, partial(called_of, model, way), way),
                )
    for number, model in enumerate(MODELS[:30]):
        if number % 3 == 0:
            way, how = model.ways[0], "onnxslim" if number % 2 else "ORT extended"
            name = title(number, model, way)
            make = partial(optimized, partial(called_of, model, way), f"{name}.onnx", how)
            yield Job(f"{name}.{how.replace(' ', '-')}.onnx", truth_in(model, way), make)


def title(number: int, model: Model, way: str) -> str:
    """Return the name of the file of a model, without its ending."""
    return f"{number:03}-{model.model_type or model.kind}.{way.replace(' ', '-')}"


def child(job: Job, path: Path) -> None:
    """Make one file, in a process of its own."""
    try:
        if job.make:
            job.make(path)
    except BaseException as error:
        path.unlink(missing_ok=True)
        path.with_suffix(".failed").write_text(f"{type(error).__name__}: {str(error)[:300]}", encoding="utf-8")


def warm() -> None:
    """Import what every export imports, and export once, so that processes that fork begin warm."""
    import onnxscript  # noqa: F401
    import transformers
    import transformers.exporters.exporter_onnx

    __import__("onnxruntime")
    torch.onnx.export(Cnn().eval(), (numbers(1, 3, 8, 8),), "/tmp/unseen-warm.onnx", dynamo=True, verbose=False)
    transformers.AutoModel  # noqa: B018


def make(folder: Path, seconds: float, sample: Iterable[Job]) -> None:
    """Make the files that are not there yet, until the time is over."""
    folder.mkdir(parents=True, exist_ok=True)
    warm()
    ends, context = time.monotonic() + seconds, multiprocessing.get_context("fork")
    for job in sample:
        name, path = job.file, folder / job.file
        is_over = job.make is None or path.exists() or path.with_suffix(".failed").exists()
        if is_over or time.monotonic() > ends:
            continue
        begun = time.monotonic()
        process = context.Process(target=child, args=(job, path))
        process.start()
        process.join(EXPORT_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
            path.unlink(missing_ok=True)
            path.with_suffix(".failed").write_text(f"no file within {EXPORT_SECONDS} s", encoding="utf-8")
        state = "made" if path.exists() else "failed " + path.with_suffix(".failed").read_text()[:100]
        print(f"{time.monotonic() - begun:5.1f} s {name} {state}", flush=True)
        shutil.rmtree(path.with_suffix(".made"), ignore_errors=True)


@dataclass(frozen=True)
class Read:
    """What came of a file.

    Args:
        file: its name.
        right: whether ONNX Runtime agrees with the model at every length.
        encodings: how many it holds.
        named: how many of them are named with all parameters.
        missing: how many are named, but for parameters that are left out.
        part: how many are named with all parameters, but not in all their layers.
        unknown: how many are honestly said to be not recognised, or not judged.
        other: encodings that are named, and that the file does not hold so.
        silent: how many are met with neither a name nor a line.
        errors: findings that are errors.
        misses: what is not as it should be, in words.
        seconds: of CPU.
    """

    file: str
    right: bool
    encodings: int
    named: int
    missing: int
    part: int
    unknown: int
    other: int
    silent: int
    errors: tuple[str, ...]
    misses: tuple[str, ...]
    seconds: float


def read(path: Path, held: tuple[Held, ...], kept: Path) -> Read:
    """Return what inspect says of a file, against the truth about it; what a folder has of it is not read again."""
    from helpers.foreign.read import inspected
    from posenc_export.read.report.schema import inspection_json, inspection_read

    begun = time.process_time()
    kept.mkdir(exist_ok=True)
    before = kept / f"{path.stem}.json"
    inspection = inspection_read(before.read_bytes()) if before.exists() else inspected(path)
    seconds = time.process_time() - begun
    before.write_text(json.dumps(inspection_json(inspection), indent=1), encoding="utf-8")
    judged = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    right, limit = judged["right"], judged.get("limit", 1e-4)
    end = End(1, None, "", 0, None)
    truth = Truth(path.name, "", "", "", "", {}, "", 0, (), held, "float32", end)
    unknown = [entry for entry in inspection.encodings if entry.family == "not recognised"]
    # tables of layers are one encoding where their parameters are; an encoder's and a decoder's are two all the same
    alone = [entry for entry in inspection.encodings if entry.family in ("learned", "sinusoidal")]
    layered = [entry for entry in merged(inspection) if entry.family not in ("learned", "sinusoidal", "not recognised")]
    found = [*spread(alone), *layered]
    pairs = list(matched(truth, found, has_layers=inspection.attentions > 0))
    named = sum(not words for _, _, words in pairs)
    used = [seen for _, seen, _ in pairs if seen is not None]
    same = {(entry.family, entry.name, str(entry.parameters)) for entry in used}
    strange = [entry for entry in found if (entry.family, entry.name, str(entry.parameters)) not in same]
    differs = [words for _, seen, words in pairs if words and seen is not None]
    kinds = [kind_of_miss(words) for words in differs]
    left = [words for _, seen, words in pairs if seen is None]
    is_said = bool(unknown) or bool(inspection.not_judged)
    misses = [
        *differs,
        *left,
        *(f"also named: {e.family} {e.name} {dict(e.parameters)} {e.rows} {e.layers}" for e in strange),
    ]
    misses += [f"not recognised: {entry.shape} at {entry.where_it_meets}" for entry in unknown]
    misses += [f"stopped: {inspection.stopped}"] if inspection.stopped else []
    errors = tuple(f"{f.code} {f.where}: {f.detail}" for f in inspection.findings if f.severity == "error")
    is_right = all(isinstance(error, float) and error < limit for error in right)
    return Read(
        path.name,
        is_right,
        len(pairs),
        named,
        kinds.count("missing"),
        kinds.count("part"),
        max(0, len(left) - len(strange)) if is_said else 0,
        kinds.count("other") + len(strange),
        0 if is_said else max(0, len(left) - len(strange)),
        errors,
        (*misses, *errors, *(f"run: {error}" for error in right if isinstance(error, str) or not error < limit)),
        seconds,
    )


def kind_of_miss(words: str) -> str:
    """Return what differs of an encoding that is named: parameters "missing", layers ("part"), or "other"."""
    differences = words.split(": ", 1)[1].split("; ")
    if all(difference.startswith("layers ") for difference in differences):
        return "part"
    is_missing = all(" None, expected" in difference or difference.startswith("layers ") for difference in differences)
    return "missing" if is_missing else "other"


def spread(entries: Sequence[FoundEncoding]) -> list[FoundEncoding]:
    """Return encodings before all layers once for each node: one table may serve an encoder and a decoder."""
    return [replace(entry, nodes=(node,)) for entry in entries for node in entry.nodes or ("",)]


def truth_in(model: Model, way: str) -> tuple[Held, ...]:
    """Return what a file of an exporter holds: these image models resize their table wherever they are traced."""
    if (way.startswith("old") and model.model_type in RESIZED) or model.model_type in ("dpt", "yolos"):
        return (Held("grid", "interpolated", {"dim": 32, "rows": 16}),)
    if way == NEW and model.model_type == "swinv2":
        # the products of coordinates and weights are stored, a row for each difference: no coordinates are left
        return tuple(
            replace(held, form="table", parameters={"heads": held.parameters["heads"], "window": [4, 4]})
            for held in model.held
        )
    return model.held


RESIZED = ("dinov2", "vitdet", "dinov2_with_registers")
"""Models that ask in their code whether they are traced, and then resize even to the size that they have."""


def reads(folder: Path, words: Sequence[str], sample: Iterable[Job], kept: Path) -> Iterator[Read]:
    """Yield what came of each file of a folder whose name has one of some words."""
    for job in sample:
        name, path = job.file, folder / job.file
        if path.exists() and (not words or any(word in name for word in words)):
            try:
                yield read(path, job.held, kept)
            except Exception as error:  # a reader that fails on a file is counted as an error of the file
                why = f"{type(error).__name__}: {str(error)[:300]}"
                yield Read(name, True, len(job.held), 0, 0, 0, 0, 0, len(job.held), (why,), (why,), 0.0)


COLUMNS = ("encodings", "named", "missing", "part", "unknown", "other", "silent")
"""Numbers of a `Read` that are added up over files."""


def row(title: str, made: Sequence[Read]) -> str:
    """Return a row of the table of docs/reference/measured/reading.md."""
    false = sum(bool(entry.errors) and entry.right for entry in made)
    sums = {name: sum(getattr(entry, name) for entry in made) for name in COLUMNS}
    cells = (title, len(made), f"{sums['named']} of {sums['encodings']}", *(sums[name] for name in COLUMNS[2:]), false)
    return f"| {' | '.join(map(str, cells))} |"


def count(folder: Path, name: str, words: Sequence[str], sample: Iterable[Job]) -> None:
    """Read all files, keep what came of them, and print the rows of a table."""
    made = []
    for entry in reads(folder, words, sample, folder / name):
        made.append(entry)
        for miss in entry.misses:
            print(f"{entry.file}: {miss}", flush=True)
    if not words:
        content = json.dumps([asdict(entry) for entry in made], indent=1)
        (folder / f"{name}.counted").write_text(content, encoding="utf-8")
    print("| count | files | named with all parameters | a parameter missing | some layers | said to be unknown"
          " | named as another | silent | false errors |")  # fmt: skip
    print(row(f"{name}, all", made))
    print(row(f"{name}, right files", [entry for entry in made if entry.right]))


def main(sample: Iterable[Job]) -> None:
    """Make or count the files of a sample, as the words of the command say."""
    action, place = sys.argv[1], Path(sys.argv[2]).resolve()
    if action == "make":
        make(place, float(sys.argv[3]) if len(sys.argv) > 3 else 3600.0, sample)
    elif action == "count":
        count(place, sys.argv[3], sys.argv[4:], sample)
    else:
        raise SystemExit(f"{action} is none of make, count")


if __name__ == "__main__":
    main(jobs())
