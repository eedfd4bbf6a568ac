"""A rotary module of diffusers, and ours in its place."""

import copy
import inspect
import re
from collections.abc import Iterator

import torch
from torch import nn

from posenc.spec import Spec
from posenc_models.config.foreign import HfModule
from posenc_models.replacing.called import Replacement
from posenc_models.replacing.diffusion import coordinates, grids, images, own, sizes, where
from posenc_models.replacing.diffusion.asking import columns_of, form_of
from posenc_models.replacing.diffusion.prove import proved

NAMED = re.compile(r"Rotary(Pos)?Embed|RoPE|Rope|PosEmbed$|EmbedND")
"""How diffusers names its rotary modules."""
KINDS: tuple[type[where.Where], ...] = (
    grids.CroppedGrid,
    grids.RescaledGrid,
    grids.SkippedGrid,
    grids.VideoGrid,
    grids.Grid,
    sizes.Sizes,
    sizes.LayoutSizes,
    sizes.FrameSizes,
    sizes.FrameBatches,
    sizes.Indices,
    sizes.ShapeIndices,
    sizes.Length,
    sizes.StatesLength,
    sizes.Positions,
    sizes.AxisPositions,
    images.Images,
    images.LastImages,
    images.Layers,
    images.Mixed,
    coordinates.VideoFractions,
    coordinates.Seconds,
    where.Ids,
)
"""How modules are called: of several that are called alike, the first one that is proved is taken."""


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
    try:
        with torch.no_grad():
            return _replacement(original, _arguments(original), spec)
    except ValueError:
        raise
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise ValueError(
            f"asked for cos and sin it raised {type(error).__name__}: {first}; replace it by hand"
        ) from error


def _arguments(module: HfModule) -> tuple[str, ...]:
    """Return the names of the arguments of a module's forward, behind caches that wrap it."""
    call = module.forward if isinstance(module, nn.Module) else module.__call__
    names = tuple(inspect.signature(inspect.unwrap(call)).parameters)
    # a function behind a cache is not bound to its module
    return names[1:] if names[:1] == ("self",) else names


def _replacement(original: HfModule, names: tuple[str, ...], spec: Spec) -> Replacement:
    """Return our module in the place of the original, of the first kind of call that is proved."""
    if names == coordinates.Fractions.names:
        return coordinates.by_axes(original, spec)
    for (arguments, attribute), replacing in own.OWN.items():
        if names == arguments and hasattr(original, attribute):
            return replacing(original, spec)
    problems: list[Exception] = []
    for kind in KINDS:
        try:
            place = kind.of_module(original, names)
            if place is not None:
                return _by_probe(original, place, spec)
        except Exception as error:
            problems.append(error)
    raise (
        problems[0]
        if problems
        else ValueError(f"forward({', '.join(names)}) gives no places that are known; replace it by hand")
    )


def _by_probe(original: HfModule, place: where.Where, spec: Spec) -> Replacement:
    """Return our module with the frequencies and in the form that the original was asked for, proved."""
    if isinstance(place, coordinates.VideoFractions | coordinates.Seconds):
        return proved(original, place, place.columns, place.form, spec)
    returned, places = original(*place.probe()), place(*place.probe())
    form = form_of(returned, places, place.kind)
    return proved(original, place, columns_of(returned, places, place.kind, where.bases_of(original)), form, spec)
