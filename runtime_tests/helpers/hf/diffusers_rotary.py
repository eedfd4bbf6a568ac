"""Every rotary module class of diffusers, made alone as its model makes it by default and given to `replace_rotary`."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import nn

from helpers.hf.rotary_classes import Answer, answer

NAMED = re.compile(
    r"^class (\w*(?:Rotary(?:Pos)?Embed\w*|RoPE(?:[13]D)?|Rope|PosEmbed|EmbedND3?|RopeEmbedder))\b", re.MULTILINE
)
"""How the classes are named."""
ALIASES = {"embeddings.FluxPosEmbed"}
"""Names that stand for a class elsewhere."""
LONGROPE = {"short_factor": [1.0] * 48, "long_factor": [2.0] * 48}
MORE: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    # the model takes factors from its checkpoint, and no default
    "transformer_omnigen.OmniGenSuScaledRotaryEmbedding": ((96,), {"rope_scaling": LONGROPE}),
    # models without a default, or whose default is of other layers
    "transformer_easyanimate.EasyAnimateRotaryPosEmbed": ((2, 64), {}),
    "transformer_hidream_image.HiDreamImageEmbedND": ((), {"theta": 10000, "axes_dim": [64, 32, 32]}),
    "transformer_qwenimage.QwenEmbedLayer3DRope": ((10000, [16, 56, 56]), {"scale_rope": True}),
    # defined, and used by no model of the library
    "transformer_bria.BriaPosEmbed": ((10000, [0, 64, 64]), {}),
}
"""Arguments of classes that no model makes by default."""


class Arguments(Exception):
    """What a class was called with."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.call = (args, kwargs)


@functools.cache
def classes() -> dict[str, str]:
    """Return every rotary module class, as MODULE.CLASS, with the module that defines it: read from the sources."""
    root = Path(str(importlib.import_module("diffusers").__file__)).parent
    homes: dict[str, str] = {}
    for path in sorted([*root.glob("models/**/*.py"), *root.glob("pipelines/**/*.py")]):
        for name in NAMED.findall(path.read_text(encoding="utf-8")):
            key = f"{path.stem}.{name}"
            if key not in ALIASES:
                homes[key] = "diffusers." + ".".join(path.relative_to(root).with_suffix("").parts)
    return homes


def called_with(kind: type, home: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what a class is called with by the first model of a module that makes one; raise LookupError without."""
    models = [
        model
        for _, model in inspect.getmembers(home, inspect.isclass)
        if issubclass(model, nn.Module) and hasattr(model, "from_config")
    ]

    def stop(_: object, *args: Any, **kwargs: Any) -> NoReturn:
        raise Arguments(args, kwargs)

    own, problems = kind.__init__, []  # type: ignore[misc]
    kind.__init__ = stop  # type: ignore[misc]
    try:
        for model in models:
            try:
                with torch.device("meta"):
                    model()
            except Arguments as arguments:
                return arguments.call
            except Exception as error:
                problems.append(error)
    finally:
        kind.__init__ = own  # type: ignore[misc]
    raise LookupError("no model of its module makes one by default" + "".join(f"; {p}" for p in problems[:1]))


def made(key: str, home: str) -> Any:
    """Return a class' module, made as a model makes it by default, or by its own defaults."""
    module = importlib.import_module(home)
    kind = getattr(module, key.rpartition(".")[2])
    if key in MORE:
        args, kwargs = MORE[key]
        return kind(*args, **kwargs)
    try:
        args, kwargs = called_with(kind, module)
    except LookupError as error:
        try:
            return kind()
        except TypeError:
            raise error from None
    return kind(*args, **kwargs)


def answers(keys: Iterable[str]) -> Iterator[Answer]:
    """Yield what came of each class."""
    homes = classes()
    for key in keys:
        yield answer(key, functools.partial(made, key, homes[key]))
