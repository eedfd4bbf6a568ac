"""Models of diffusers: their modules of steps, and what they add to the patches of images and videos of nothing."""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc.hf.asking.built import refusals, zeros
from posenc.hf.asking.load import INSTALL, library_of
from posenc.hf.asking.model import Arguments, CannotAsk, Function, HfModule, Keywords, Model, Question
from posenc.hf.asking.running import array, output_name, run_
from posenc.hf.encodings.parts import CLASS
from posenc.ports import Array, Feeds

if TYPE_CHECKING:
    from torch import nn


def model_of(question: Question) -> Model:
    """Return a model's module of steps, or of patches."""
    name, model = str(question.content[CLASS]), made(question)
    if question.reading.scheme == "timestep":
        return _steps(question, model)
    of_patches = {"sincos_2d": _patches, "sincos_3d": _video}[question.reading.scheme]

    def call(feeds: Feeds) -> dict[str, Array]:
        x = feeds[question.inputs[0].name]
        rows = of_patches(model, tuple(x.shape[1:-1])).reshape(1, *x.shape[1:])
        return {output_name(question): x + rows}

    return Model(name, library_of("diffusers"), call, amplitude=1.0)


def made(question: Question) -> Any:
    """Return the model of a config, all zeros; raise CannotAsk where diffusers has none, or its class refuses it."""
    name = str(question.content[CLASS])
    library = library_of("diffusers")
    try:
        import diffusers
    except ImportError:
        raise CannotAsk(f"diffusers is not installed: {INSTALL}") from None
    kind = getattr(diffusers, name, None)
    if kind is None:
        raise CannotAsk(f"{library} has no class {name}")
    with refusals(f"{name} of {library}"):
        known = inspect.signature(kind.__init__).parameters
        settings = {key: value for key, value in question.content.items() if key in known}
        return zeros(kind, **settings)


def _steps(question: Question, model: nn.Module) -> Model:
    """Return the model's projection of steps, or of what it adds to them: sizes, frames."""
    added = question.part.rpartition(".")[2] == "addition"
    names = [name for name, module in model.named_modules() if type(module).__name__ in ("Timesteps", "QwenTimesteps")]
    meant = [name for name in names if name.rpartition(".")[2].startswith("add_") == added]
    if not meant:
        raise CannotAsk(f"{type(model).__name__} has no projection of {'sizes' if added else 'steps'}")
    module = model.get_submodule(meant[0])

    def call(feeds: Feeds) -> dict[str, Array]:
        import torch

        steps = torch.from_numpy(feeds[question.inputs[0].name])
        with in_float64():
            return {output_name(question): array(run_(lambda: module(steps.double())))}

    words = f"{type(model).__name__}.{meant[0]}, in float64"
    return Model(words, library_of("diffusers"), call)


def in_float64() -> AbstractContextManager[object]:
    """Have a model's code compute in float64 where it says float32, in which angles of thousands of steps are noise."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):
        def __torch_function__(
            self, function: Function, types: object, args: Arguments = (), kwargs: Keywords = None
        ) -> object:
            keywords = {
                key: torch.float64 if value is torch.float32 else value for key, value in (kwargs or {}).items()
            }
            if function is torch.Tensor.float:
                function = torch.Tensor.double
            return function(*args, **keywords)

    return Mode()


def _patches(model: HfModule, sides: tuple[int, ...]) -> Array:
    """Return what a model adds to the patches of an image of nothing; SD3's is a crop of a table."""
    import torch

    embed = model.pos_embed
    height, width = (side * embed.patch_size for side in sides)
    if embed.pos_embed_max_size:
        return array(run_(lambda: embed.cropped_pos_embed(height, width)))
    return array(run_(lambda: embed(torch.zeros(1, embed.proj.in_channels, height, width))))


def _video(model: HfModule, sides: tuple[int, ...]) -> Array:
    """Return what CogVideoX adds to the patches of a video, behind the text."""
    embed = model.patch_embed
    frames = (sides[0] - 1) * embed.temporal_compression_ratio + 1
    height, width = (side * embed.patch_size for side in sides[1:])
    rows = array(run_(lambda: embed._get_positional_embeddings(height, width, frames)))
    return np.asarray(rows[:, embed.max_text_seq_length :], np.float32)
