"""Every rotary module class of transformers, made alone of its default config and given to `replace_rotary`."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from helpers.hf.surveyed import LACKS
from posenc_models import replace_rotary

NAMED = re.compile(r"^class (\w*Rotary\w*Embedding)\b", re.MULTILINE)
"""How the classes are named."""
WORDS = ("replaced", "refused", "cannot be built")
MORE: dict[str, dict[str, Any]] = {
    "HunYuanVLRotaryEmbedding": {
        "head_dim": 128,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [16, 16, 16, 16]},
    },
}
"""What the default configs of some classes lack, where the type's own entry does not say it."""


class Answer(NamedTuple):
    """What came of a class: a word of `WORDS`, and the replacement in words or the reason."""

    name: str
    word: str
    why: str


@functools.cache
def classes() -> dict[str, str]:
    """Return the name of every rotary module class, with the module that defines it: read from the sources."""
    root = Path(str(importlib.import_module("transformers").__file__)).parent
    homes: dict[str, str] = {}
    for path in sorted(root.glob("models/*/modeling_*.py")):
        # the sources are only searched: to parse or to import them all takes much longer
        for name in NAMED.findall(path.read_text(encoding="utf-8")):
            homes[name] = f"transformers.models.{path.parent.name}.{path.stem}"
    return homes


def made(name: str, home: str) -> nn.Module:
    """Return a class' module, made of the default config that its own annotation names, or of a part of that config."""
    module = importlib.import_module(home)
    kind = getattr(module, name)
    _, parameter, *_ = inspect.signature(kind.__init__).parameters.values()
    annotation = parameter.annotation
    if annotation is inspect.Parameter.empty:
        raise LookupError("its __init__ does not say of which config it is made")
    annotation = getattr(module, annotation) if isinstance(annotation, str) else annotation
    config = annotation(**MORE.get(name, LACKS.get(annotation.model_type, {})))
    # some are annotated with the config of the whole model, and made of that of a part
    parts = [getattr(config, part, None) for part in getattr(config, "sub_configs", {})]
    problems = []
    for candidate in (config, *parts):
        try:
            made_of: nn.Module = kind(candidate)
        except Exception as error:
            problems.append(error)
        else:
            return made_of.eval()
    raise problems[0]


def answers(names: Iterable[str]) -> Iterator[Answer]:
    """Yield what came of each class."""
    homes = classes()
    for name in names:
        yield answer(name, functools.partial(made, name, homes[name]))


def answer(name: str, make: Callable[[], Any]) -> Answer:
    """Return whether `replace_rotary` replaces the module of a class, in a model that has nothing else."""
    torch.manual_seed(0)
    try:
        module = make()
    except Exception as error:
        return Answer(name, "cannot be built", f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}")
    holder = nn.Module()
    holder.rotary = module
    try:
        words = replace_rotary(holder)["rotary"]
    except ValueError as error:
        changed = "" if holder.rotary is module else " (and the model was changed)"
        return Answer(name, "refused", str(error).partition("cannot be replaced: ")[2] + changed)
    return Answer(name, "replaced", words.partition(" (")[2].removesuffix(")"))
