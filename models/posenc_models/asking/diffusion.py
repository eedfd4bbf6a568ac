"""Models of diffusers: their modules of timesteps, and what they add to the patches of empty images and videos."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np
import torch

from posenc.ports import Array, Feeds
from posenc_models.asking.built import refusals, zeros
from posenc_models.asking.intercepting import intercepted
from posenc_models.asking.load import INSTALL, library_of
from posenc_models.asking.model import Answer, CannotAsk, Function, OwnModel, Question
from posenc_models.asking.running import answer, values_of
from posenc_models.config.encodings.parts import CLASS
from posenc_models.config.foreign import HfModule


def model_of(question: Question) -> OwnModel:
    """Return a model's module of timesteps, or of patches."""
    name, model = str(question.content[CLASS]), made(question)
    if question.reading.scheme == "timestep":
        return _steps(question, model)
    makers: dict[str, Callable[..., Array]] = {"sincos_2d": _patches, "sincos_3d": _video}

    def call(feeds: Feeds) -> Answer:
        x = feeds[question.inputs[0].name]
        rows = makers[question.reading.scheme](model, tuple(x.shape[1:-1]))
        # (1, patches, features) -> (1, [frames,] height, width, features)
        return answer(question, x + rows.reshape(1, *x.shape[1:]))

    return OwnModel(name, library_of("diffusers"), call, amplitude=1.0)


def made(question: Question) -> HfModule:
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
        return zeros(kind, **{key: value for key, value in question.content.items() if key in known})


def _steps(question: Question, model: HfModule) -> OwnModel:
    """Return the model's projection of timesteps, or of sizes and frames, which it adds to them."""
    is_addition = question.part.rpartition(".")[2] == "addition"
    # "time_proj" of all, "add_time_proj" of SDXL
    names = [name for name, module in model.named_modules() if type(module).__name__ in ("Timesteps", "QwenTimesteps")]
    meant = [name for name in names if name.rpartition(".")[2].startswith("add_") == is_addition]
    if not meant:
        raise CannotAsk(f"{type(model).__name__} has no projection of {'sizes' if is_addition else 'steps'}")
    module = model.get_submodule(meant[0])

    def call(feeds: Feeds) -> Answer:
        steps = torch.from_numpy(feeds[question.inputs[0].name])
        with in_float64():
            return answer(question, values_of(lambda: module(steps.double())))

    return OwnModel(f"{type(model).__name__}.{meant[0]}, in float64", library_of("diffusers"), call)


def in_float64() -> AbstractContextManager[object]:
    """Have a model's code compute in float64 where it says float32: angles of thousands of steps are noise in that."""

    def wide(function: Function, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        keywords = {key: torch.float64 if value is torch.float32 else value for key, value in kwargs.items()}
        in_place: Function = torch.Tensor.double if function is torch.Tensor.float else function
        return in_place(*args, **keywords)

    return intercepted(wide)


def _patches(model: HfModule, sides: tuple[int, ...]) -> Array:
    """Return what a model adds to the patches of an empty image; SD3's is a crop of a table."""
    embed = model.pos_embed
    height, width = (side * embed.patch_size for side in sides)
    if embed.pos_embed_max_size:
        return values_of(lambda: embed.cropped_pos_embed(height, width))
    return values_of(lambda: embed(torch.zeros(1, embed.proj.in_channels, height, width)))


def _video(model: HfModule, sides: tuple[int, ...]) -> Array:
    """Return what CogVideoX adds to the patches of a video, behind the text."""
    embed = model.patch_embed
    frames = (sides[0] - 1) * embed.temporal_compression_ratio + 1  # the first frame is not compressed
    height, width = (side * embed.patch_size for side in sides[1:])
    rows = values_of(lambda: embed._get_positional_embeddings(height, width, frames))
    return np.asarray(rows[:, embed.max_text_seq_length :], np.float32)
