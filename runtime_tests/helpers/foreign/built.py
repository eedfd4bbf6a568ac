"""Tiny models made, with weights at random that compress well, and what goes into them at a length."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from helpers.foreign.models import Tiny

STEP = 16
"""Weights are multiples of 1 / 16: about twenty values, of which an archive needs half a byte each."""
TRACED = 11
"""The length that files are traced at: a prime, and different from every size of a model."""
BATCH = 2
Feeds = dict[str, Tensor]


@dataclass(frozen=True)
class Kind:
    """What goes into a kind of model.

    Args:
        auto: the class of transformers that makes it.
        dynamic: the axes of each input that are dynamic, by name.
        feeds: what goes in at a length.
        unit: what a length counts; "" where there is one length alone.
    """

    auto: str
    dynamic: Mapping[str, Mapping[int, str]]
    feeds: Callable[[int], Feeds]
    unit: str


class Alone(nn.Module):
    """A model that takes its inputs in order and gives its first output."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names
        # a cache would come out as further outputs, and exporters differ in how they flatten it
        cached = "use_cache" in inspect.signature(model.forward).parameters
        self.more: dict[str, object] = {"use_cache": False} if cached else {}

    def forward(self, first: Tensor, second: Tensor | None = None, third: Tensor | None = None) -> Tensor:
        """Return the first output."""
        values = [value for value in (first, second, third) if value is not None]
        return cast(Tensor, self.model(**dict(zip(self.names, values, strict=True)), **self.more)[0])


@dataclass(frozen=True)
class Made:
    """A model, made.

    Args:
        bare: the model of transformers, for exporters that want one.
        alone: the same, its inputs in order and its first output alone.
        kind: what goes in.
    """

    bare: nn.Module
    alone: Alone
    kind: Kind


def _ids(length: int, rows: int = BATCH) -> Tensor:
    """Return ids above those with a meaning, other ones in each row: drawn once, so that lengths share beginnings."""
    # ids below 3 are padding, begin and end in the configs
    draw = torch.Generator().manual_seed(3)
    return torch.randint(3, 64, (rows, 400), generator=draw)[:, :length].contiguous()


def _tokens(length: int) -> Feeds:
    return {"input_ids": _ids(length), "attention_mask": torch.ones(BATCH, length, dtype=torch.int64)}


def _numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(4))


def _whisper(length: int) -> Feeds:
    return {"input_features": _numbers(BATCH, 8, 48), "decoder_input_ids": _ids(length)}


def _seq2seq(length: int) -> Feeds:
    return {**_tokens(length), "decoder_input_ids": _ids(length)}


def _frames(length: int) -> Feeds:
    """Return as many samples as two convolutions of kernel 3 and stride 2 make this many frames of."""
    return {"input_values": _numbers(BATCH, ((length - 1) * 2 + 3 - 1) * 2 + 3)}


def _grid(length: int) -> Feeds:
    """Return an image of `length` by `length + 1` patches."""
    return {"pixel_values": _numbers(BATCH, 3, 8 * length, 8 * length + 8)}


def _masked(length: int) -> Feeds:
    # sides differ, so that rows and columns cannot be taken for each other
    sides = (16 * length, 16 * length + 16)
    return {"pixel_values": _numbers(BATCH, 3, *sides), "pixel_mask": torch.ones(BATCH, *sides, dtype=torch.int64)}


def _vits(length: int) -> Feeds:
    ones = torch.ones(BATCH, length)
    return {"input_ids": _ids(length), "padding_mask": ones[..., None], "attention_mask": ones.long()}


def _steps(length: int) -> Feeds:
    steps = torch.tensor([length, 3 * length])
    return {"sample": _numbers(BATCH, 3, 8, 8), "timestep": steps}


BY_TOKEN = {0: "batch", 1: "sequence"}
SIDES = {0: "batch", 2: "height", 3: "width"}
TOKENS = {"input_ids": BY_TOKEN, "attention_mask": BY_TOKEN}
KINDS: Mapping[str, Kind] = {
    "decoder": Kind("AutoModelForCausalLM", TOKENS, _tokens, "tokens"),
    "tokens": Kind("AutoModel", TOKENS, _tokens, "tokens"),
    "seq2seq": Kind("AutoModelForSeq2SeqLM", {**TOKENS, "decoder_input_ids": {1: "decoded"}}, _seq2seq, "tokens"),
    "whisper": Kind(
        "AutoModelForSpeechSeq2Seq", {"input_features": {}, "decoder_input_ids": {1: "decoded"}}, _whisper, "tokens"
    ),
    "pixels": Kind(
        "AutoModel", {"pixel_values": {0: "batch"}}, lambda _: {"pixel_values": _numbers(BATCH, 3, 32, 32)}, ""
    ),
    "grid": Kind("AutoModel", {"pixel_values": SIDES}, _grid, "patches"),
    "masked_pixels": Kind(
        "AutoModel", {"pixel_values": SIDES, "pixel_mask": {0: "batch", 1: "height", 2: "width"}}, _masked, "places"
    ),
    "frames": Kind("AutoModel", {"input_values": {0: "batch", 1: "samples"}}, _frames, "frames"),
    "vits": Kind("", {**TOKENS, "padding_mask": BY_TOKEN}, _vits, "tokens"),
    "steps": Kind("", {"sample": {0: "batch"}, "timestep": {0: "batch"}}, _steps, "steps"),
}


def _bare(tiny: Tiny) -> nn.Module:
    """Return a model of a config."""
    import transformers

    if tiny.kind == "steps":
        import diffusers

        return cast(nn.Module, diffusers.UNet2DModel(**tiny.config))
    config = transformers.AutoConfig.for_model(tiny.model_type, **_with_backbone(tiny))
    if tiny.kind == "vits":
        from transformers.models.vits.modeling_vits import VitsTextEncoder

        return cast(nn.Module, VitsTextEncoder(cast(transformers.VitsConfig, config)))
    auto = getattr(transformers, KINDS[tiny.kind].auto)
    settings = {key: tiny.config[key] for key in ("attn_implementation",) if key in tiny.config}
    return cast(nn.Module, auto.from_config(config, **settings))


def _with_backbone(tiny: Tiny) -> dict[str, object]:
    """Return the settings of a config, with a tiny ResNet of two stages where it wants a backbone."""
    if tiny.model_type != "detr":
        return {key: value for key, value in tiny.config.items() if key != "attn_implementation"}
    import transformers

    sizes = {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "layer_type": "basic"}
    resnet = transformers.AutoConfig.for_model("resnet", **sizes, out_features=["stage2"])
    return {**tiny.config, "backbone_config": resnet}


def config_of(tiny: Tiny) -> dict[str, object]:
    """Return the config.json of a model of transformers, as its folder on a hub has it."""
    import transformers

    config = transformers.AutoConfig.for_model(tiny.model_type, **_with_backbone(tiny))
    return cast(dict[str, object], json.loads(config.to_json_string(use_diff=False)))


def make(tiny: Tiny) -> Made:
    """Return a model whose weights are drawn from a fixed seed and rounded; biases that start at zero are drawn too."""
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    bare = _bare(tiny).eval()
    # biases start at zero, and a zero would hide what stands before it
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in bare.parameters():
            if not parameter.requires_grad:
                continue  # a sinusoidal table that is stored as a weight
            if not parameter.any():
                parameter.normal_(std=0.2)
            parameter.copy_((parameter * STEP).round() / STEP)
    kind = KINDS[tiny.kind]
    return Made(bare, Alone(bare, tuple(kind.feeds(TRACED))).eval(), kind)
