"""A rotary module of diffusers, and ours in its place."""

import copy
import inspect
import re
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn

from posenc.spec import Spec
from posenc_models.config.foreign import HfModule
from posenc_models.replacing.called import Replacement
from posenc_models.replacing.diffusion.asking import columns_of, form_of
from posenc_models.replacing.diffusion.places import places_of
from posenc_models.replacing.diffusion.prove import proved

NAMED = re.compile(r"Rotary(Pos)?Embed|RoPE|Rope|PosEmbed$|EmbedND")
"""How diffusers names its rotary modules."""


def is_rotary(module: object) -> bool:
    """Return whether an object is a rotary module of diffusers, be it a torch module or not."""
    kind = type(module)
    return kind.__module__.startswith("diffusers.") and NAMED.search(kind.__name__) is not None


def untracked(model: nn.Module) -> Iterator[tuple[str, HfModule]]:
    """Yield the rotary modules in a model that torch does not know as modules, by their names: Z-Image's."""
    for name, module in model.named_modules(remove_duplicate=False):
        for attribute, value in vars(module).items():
            if not isinstance(value, nn.Module) and callable(value) and is_rotary(value):
                yield f"{name}.{attribute}" if name else attribute, value


def replacement(module: HfModule, spec: Spec) -> Replacement:
    """Return our module in the place of one of diffusers; raise ValueError, in one line, where there is none."""
    stored = set(module.state_dict()) - {"inv_freq"} if isinstance(module, nn.Module) else ()
    if stored:
        raise ValueError(f"a checkpoint holds its {', '.join(sorted(stored))}, which ours have not; replace it by hand")
    original = copy.deepcopy(module)
    names = inspect.signature(original.forward if isinstance(original, nn.Module) else original.__call__).parameters
    if len(names) != 1:
        raise ValueError(
            f"expected forward(ids) or forward(hidden_states), it has forward({', '.join(names)}); "
            "keep it, or replace it by hand"
        )
    # the base of its frequencies may be a number of its own
    bases = [float(value) for value in vars(original).values() if isinstance(value, (int, float)) and value > 1]
    where, ask = places_of(original), partial(_asked, original)
    with torch.no_grad():
        returned, places = ask(where.probe()), where(where.probe())
        form = form_of(returned, places)
        return proved(ask, where, columns_of(returned, places, bases), form, spec)


def _asked(original: HfModule, x: Tensor) -> object:
    """Return what a model's module returns; raise ValueError, in one line, where it raises anything."""
    try:
        returned: object = original(x)
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise ValueError(
            f"asked for cos and sin it raised {type(error).__name__}: {first}; replace it by hand"
        ) from error
    return returned
