"""What the networks of all samples are made of: ways to export, what goes in, parts that several of them share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor, nn

from helpers.foreign.models import BOTH, ROWS, rotary
from helpers.foreign.truth import Held
from scripts.unseen_files import (
    BATCH,
    BY_TOKEN,
    TRACED,
    WIDE,
    Axes,
    Called,
    Feeds,
    Inputs,
    Model,
    ids,
    numbers,
    ones,
)

OLD, OLDER, OLDEST, LATE = "old 17", "old 14", "old 12", "old 20"
NEW, NEWER, OWN = "new", "new 23", "transformers.exporters"


def of_places(layout: str = "halves") -> Held:
    """Return a rotation by row and column, in heads of 32 features."""
    return Held("rotary", "rope_2d", {"head_dim": 32, "rope_theta": 10000.0, "layout": layout}, BOTH)


def sections(model_type: str, parts: list[int], ways: tuple[str, ...], layout: str = "halves", **more: Any) -> Model:
    """Return the text part of a model of pictures, whose tokens have three positions."""
    settings = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": parts, **more.pop("settings", {})}
    held = rotary("mrope", layout=layout, sections=parts)
    return Model("three_positions", model_type, {**WIDE, "rope_parameters": settings, **more}, (held,), ways)


OPERATORS = ["nms", "qnms", "roi_align", "ps_roi_align", "roi_pool", "ps_roi_pool", "qroi_align", "deform_conv2d"]
OPERATORS += [f"_{name}_backward" for name in OPERATORS if name not in ("nms", "qnms", "qroi_align")]


@dataclass(frozen=True)
class Network:
    """A network of a package.

    Args:
        name: package and class, for the name of its file.
        make: makes it; its forward takes the feeds in order.
        feeds: what goes in at a length.
        axes: the dynamic axes of the inputs.
        held: the encodings, as its package's code has them.
        ways: how it is exported.
    """

    name: str
    make: Callable[[], nn.Module]
    feeds: Callable[[int], Feeds]
    axes: Axes
    held: tuple[Held, ...]
    ways: tuple[str, ...]


class First(nn.Module):
    """A module, or a method of it, that takes its inputs in order, and gives its first output that is a tensor."""

    def __init__(self, module: nn.Module, method: str = "forward", names: tuple[str, ...] = (), **more: object) -> None:
        super().__init__()
        self.module, self.method, self.names, self.more = module, method, names, more

    def forward(self, *values: Tensor) -> Tensor:
        """Return the first output."""
        called = getattr(self.module, self.method)
        named = dict(zip(self.names, values[len(values) - len(self.names) :], strict=True))
        out = called(*values[: len(values) - len(self.names)], **named, **self.more)
        while not isinstance(out, Tensor):
            out = next(iter(out.values())) if isinstance(out, dict) else out[0]
        return out


def of(path: str) -> Any:
    """Return a class or function of a package: "package.module:name"."""
    module, name = path.split(":")
    return getattr(import_module(module), name)


def plain(path: str, *args: object, **more: object) -> Callable[[], nn.Module]:
    """Return what makes a class of a package with arguments, and has its first output alone."""
    return lambda: First(of(path)(*args, **more))


def operators_of_torchvision() -> None:
    """Name torchvision's operators where its library does not load, so that the rest of it can be imported."""
    if find_spec("torchvision") and not hasattr(torch.ops.torchvision, "nms"):
        library = torch.library.Library("torchvision", "DEF")
        for name in OPERATORS:
            library.define(f"{name}(Tensor x) -> Tensor")
        KEPT.append(library)


KEPT: list[object] = []
"""Libraries of operators: they go when nobody holds them."""


def made(network: Network, way: str = "") -> Called:
    """Return a network of random weights, with no weight at zero, the same for each way to export."""
    torch.backends.mha.set_fastpath_enabled(False)  # has no ONNX form
    torch.manual_seed(0)
    module = network.make().eval()
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad and not parameter.any():
                parameter.normal_(std=0.2)
    return Called(module, module, network.feeds, network.axes)


def images(_: int) -> Feeds:
    """Return images of 32 by 32."""
    return {"image": numbers(BATCH, 3, 32, 32)}


def tokens(length: int) -> Feeds:
    """Return ids alone."""
    return {"tokens": ids(length)}


def vectors(width: int) -> Callable[[int], Feeds]:
    """Return sequences of vectors of a width."""
    return lambda length: {"x": numbers(BATCH, length, width)}


IMAGES: Axes = {"image": {0: "batch"}}
IDS: Axes = {"tokens": BY_TOKEN}
X: Axes = {"x": BY_TOKEN}
SMALL: dict[str, Any] = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2, "num_classes": 4}


def picture(name: str, path: str, held: tuple[Held, ...], ways: tuple[str, ...], **more: Any) -> Network:
    """Return a network of images of one size."""
    return Network(name, plain(path, **more), images, IMAGES, held, ways)


def windows(form: str, *stages: tuple[int, list[int], tuple[int, ...]], **more: Any) -> tuple[Held, ...]:
    """Return a bias of windows for each stage: heads, window, layers."""
    return tuple(
        Held("window", form, {"heads": heads, "window": window, **more}, layers) for heads, window, layers in stages
    )


def lit(**more: Any) -> Callable[[], nn.Module]:
    """Return what makes a GPT of LitGPT."""
    config = {
        "block_size": ROWS,
        "vocab_size": 64,
        "padded_vocab_size": 64,
        "n_layer": 2,
        "n_head": 2,
        "n_embd": 64,
        "intermediate_size": 64,
        **more,
    }
    return lambda: First(of("litgpt.model:GPT")(of("litgpt.config:Config")(**config)))


def x_model(**more: Any) -> Callable[[], nn.Module]:
    """Return what makes a decoder of x-transformers."""
    layers = {"dim": 32, "depth": 2, "heads": 2, "attn_dim_head": 32, **more}
    return lambda: First(
        of("x_transformers:TransformerWrapper")(
            num_tokens=64, max_seq_len=ROWS, attn_layers=of("x_transformers:Decoder")(**layers)
        )
    )


def llama_of_torchtune(path: str, **more: Any) -> Callable[[], nn.Module]:
    """Return what makes a decoder of torchtune."""
    return plain(path, vocab_size=64, num_layers=2, num_heads=2, num_kv_heads=1, embed_dim=64, max_seq_len=ROWS, **more)


class Frames(nn.Module):
    """An encoder of speech that takes frames and how many there are of each."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        """Return what it gives for frames of which all are valid."""
        lengths = torch.zeros(x.shape[0], dtype=torch.long) + x.shape[1]
        return cast(Tensor, self.module(x, lengths)[0])


GRID: dict[str, Any] = {"dim": 32, "base": 10000.0, "layout": "halves", "spacing": "paper"}


def steps(length: int) -> Feeds:
    """Return noisy images and a number of a step for each."""
    return {"sample": numbers(BATCH, 4, 8, 8), "timestep": torch.tensor([length, 3 * length])}


def diffused(
    name: str, held: tuple[Held, ...], ways: tuple[str, ...], feeds: Callable[[int], Feeds], **config: Any
) -> Network:
    """Return a network of diffusers."""
    names = tuple(feeds(5))
    return Network(
        f"diffusers.{name}",
        lambda: First(of(f"diffusers:{name}")(**config), names=names, return_dict=False),
        feeds,
        {},
        held,
        ways,
    )


def sampled(width: int, flip: bool, shift: float) -> Held:
    """Return the features of a step."""
    form = "halves, cosines first" if flip else "halves"
    return Held("timestep", form, {"dim": width, "flip_sin_to_cos": flip, "downscale_freq_shift": shift})


def flux(_: int) -> Feeds:
    """Return what goes into Flux: patches of a picture, words, a step, and a place for each."""
    rows, columns = torch.meshgrid(torch.arange(4.0), torch.arange(11.0), indexing="ij")
    places = torch.stack([torch.zeros_like(rows), rows, columns], -1).reshape(-1, 3)
    return {
        "hidden_states": numbers(1, 44, 4),
        "encoder_hidden_states": numbers(1, 6, 32),
        "pooled_projections": numbers(1, 32),
        "timestep": torch.tensor([0.5]),
        "img_ids": places,
        "txt_ids": torch.zeros(6, 3),
    }


VIT: dict[str, Any] = {
    "image_size": 32,
    "patch_size": 8,
    "num_classes": 4,
    "dim": 32,
    "depth": 2,
    "heads": 2,
    "mlp_dim": 32,
}


SINCOS: dict[str, Any] = {"dim": 32, "base": 10000.0, "order": "column_first", "layout": "halves", "spacing": "paper"}

HEADS, SIZE = 2, 32
WIDTH = HEADS * SIZE


class Layer(nn.Module):
    """Attention with hooks for positions, and a network for each token."""

    def __init__(self, width: int = WIDTH, heads: int = HEADS) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def split(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return queries, keys and values: (batch, heads, tokens, features)."""
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).split(width, dim=2)
        return tuple(part.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in parts)

    def join(self, x: Tensor, attended: Tensor) -> Tensor:
        """Return tokens after attention and the network."""
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        return x + cast(Tensor, self.mlp(self.second(x)))


def each(layers: nn.ModuleList) -> list[Layer]:
    """Return layers one by one."""
    return cast("list[Layer]", list(layers))


def in_order(network: Network) -> Network:
    """Return a network whose inputs are taken in order, whatever their names."""

    def make() -> nn.Module:
        made = network.make()
        return made if isinstance(made, First) else First(made)

    return replace(network, make=make)


KINDS_OF_LAYERS = ["sliding_attention", "full_attention"]
MAMBA: dict[str, Any] = {
    "mamba_d_ssm": 32,
    "mamba_n_heads": 4,
    "mamba_d_head": 8,
    "mamba_d_state": 4,
    "mamba_chunk_size": 8,
    "mamba_n_groups": 1,
}


def two_bases(
    model_type: str,
    ways: tuple[str, ...],
    bases: tuple[float, float],
    *,
    part: float = 1.0,
    kind: str = "decoder",
    **more: Any,
) -> Model:
    """Return a model whose first layer looks near, and whose second looks far; the second turns a part of features."""
    near, far = bases
    each = {
        "sliding_attention": {"rope_type": "default", "rope_theta": near},
        "full_attention": {"rope_type": "default", "rope_theta": far, "partial_rotary_factor": part},
    }
    held = (rotary(theta=near, layers=(0,)), rotary(theta=far, layers=(1,), rotary_dim=int(32 * part)))
    config = {**WIDE, "layer_types": KINDS_OF_LAYERS, "sliding_window": 16, "rope_parameters": each, **more}
    return Model(kind, model_type, config, held, ways)


def of_sections(parts: list[int], order: str) -> dict[str, Any]:
    """Return how many pairs turn by time, height and width, and in which order: ERNIE's config has time last."""
    if order == "time_last":
        return {"sections": [parts[2], *parts[:2]], "section_layout": order}
    return {"sections": parts} | ({} if order == "sectioned" else {"section_layout": order})


def of_three(
    model_type: str,
    ways: tuple[str, ...],
    parts: list[int],
    section_layout: str,
    *,
    layout: str = "halves",
    layers: tuple[int, ...] = BOTH,
    theta: float = 10000.0,
    width: int = 32,
    **more: Any,
) -> Model:
    """Return a decoder whose tokens have three positions each, in some order of pairs."""
    settings = {"rope_type": "default", "rope_theta": theta, "mrope_section": parts, **more.pop("settings", {})}
    held = rotary(
        "mrope", layout=layout, theta=theta, layers=layers, rotary_dim=width, **of_sections(parts, section_layout)
    )
    return Model("three_positions", model_type, {**WIDE, "rope_parameters": settings, **more}, (held,), ways)


def on_axes(axes: list[int], layout: str, layers: tuple[int, ...] = BOTH, **more: Any) -> Held:
    """Return a rotation by the place on each axis of a grid, in heads of 32 features."""
    settings = {"head_dim": 32, "rope_theta": [10000.0], "layout": layout, "axes_dim": axes, **more}
    return Held("rotary", "rope_nd", settings, layers)


def hugging(
    model_type: str,
    path: str,
    given: tuple[Callable[[int], Feeds], Axes],
    held: tuple[Held, ...],
    ways: tuple[str, ...],
    /,
    **config: Any,
) -> Network:
    """Return a class of transformers, which no `AutoModel` makes, or whose inputs, with their axes, are its own."""
    feeds, axes = given

    def make() -> nn.Module:
        transformers = import_module("transformers")
        settings = transformers.AutoConfig.for_model(model_type, **config)
        module = of(f"transformers.models.{path}")(settings)
        with torch.no_grad():
            for parameter in module.parameters():
                if parameter.dim() > 1 and (parameter == parameter.flatten()[0]).all():
                    parameter.normal_(std=0.2)  # ones, as zeros, are no table
        return Inputs(module, tuple(feeds(TRACED)))

    return Network(model_type, make, feeds, axes, held, ways)


def with_mask(length: int) -> Feeds:
    """Return ids and a mask."""
    return {"input_ids": ids(length), "attention_mask": ones(length)}


def both_sides(length: int) -> Feeds:
    """Return ids of an encoder and of a decoder."""
    return {**with_mask(length), "decoder_input_ids": ids(length + 2)}


def pixels(_: int) -> Feeds:
    """Return images of 32 by 32."""
    return {"pixel_values": numbers(BATCH, 3, 32, 32)}


WORDS: Axes = {"input_ids": BY_TOKEN, "attention_mask": BY_TOKEN}
PAIR: Axes = {**WORDS, "decoder_input_ids": {0: "batch", 1: "decoded"}}
PIXELS: Axes = {"pixel_values": {0: "batch"}}
BACKBONE: dict[str, Any] = {"embedding_size": 8, "depths": [1, 1, 1, 1], "layer_type": "basic"}


class Absent(ModuleType):
    """A library of sounds that is not there, for packages that import it and do not call it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__spec__ = ModuleSpec(name, None, is_package=True)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (nn.Module,), {})


def without_sounds() -> None:
    """Put an empty library in the place of torchaudio, which has no build beside this torch."""
    parts = ("", ".transforms", ".functional", ".compliance", ".compliance.kaldi", ".models", ".backend")
    for name in (*(f"torchaudio{part}" for part in parts), "librosa", "librosa.filters", "rjieba", "pypinyin"):
        sys.modules.setdefault(name, Absent(name))
