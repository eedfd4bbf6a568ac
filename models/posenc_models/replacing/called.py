"""What is asked of a model's rotary module, and what stands in its place."""

import copy
from typing import NamedTuple

import torch
from torch import Tensor, nn

from posenc.spec import Spec
from posenc_models.config.foreign import HfModule
from posenc_models.config.read import Reading
from posenc_models.config.rope.scaling import is_by_length
from posenc_models.replacing.compare import calls
from posenc_models.replacing.modules import CosSin

END = 2**24
"""Positions are compared below it."""


class Replacement(NamedTuple):
    """Our module in the place of a model's, and the frequencies of the latter in words."""

    module: nn.Module
    words: str


def inv_freq_of(module: HfModule, name: str) -> Tensor:
    """Return a module's frequencies, (pairs,): their number tells how much of a head is rotated."""
    inv_freq: Tensor | None = dict(module.named_buffers(recurse=False)).get(name)
    if inv_freq is None or inv_freq.dim() != 1:
        raise ValueError(f"it has no buffer {name} of one frequency a pair; replace it by hand")
    return inv_freq


def fresh(module: HfModule, x: Tensor, layer: tuple[str, ...], positions: Tensor) -> CosSin:
    """Return the cosines and sines of a copy of a module: some modules remember earlier calls."""
    return parts_of(copy.deepcopy(module), x, positions, *layer)


def parts_of(module: HfModule, x: Tensor, positions: Tensor, *layer: str) -> CosSin:
    """Return the cosines and sines that a module gives, be they the parts of complex numbers."""
    returned = module(x, positions, *layer)
    cos, sin = (returned.real, returned.imag) if _has_parts(returned) else returned
    return cos, sin


def _has_parts(returned: object) -> bool:
    return isinstance(returned, Tensor) and returned.is_complex()


def gives_complex(module: HfModule, x: Tensor) -> bool:
    """Return whether a module gives complex numbers."""
    try:
        return _has_parts(copy.deepcopy(module)(x, torch.zeros(1, 1, dtype=torch.int64, device=x.device)))
    except Exception:
        return False


def calls_of(spec: Spec, reading: Reading | None = None, end: int = END, context: int | None = None) -> list[Tensor]:
    """Return the positions to compare at, of each call, those of the longest one up to a model's context.

    Args:
        spec: how ours compute: a baked form ends with its rows.
        reading: of the config, whose frequencies may switch between two calls.
        end: positions are below it.
        context: how many positions the model has, where its config says so.
    """
    end = min(end, spec.max_len) if spec.mode == "baked" else end
    parameters = {} if reading is None else reading.parameters
    if not is_by_length(parameters.get("rope_type", "default")):
        return calls(end, context=context)
    # longrope switches at its original context, dynamic NTK at its context
    switch = parameters.get("original_max_position_embeddings", parameters.get("max_position_embeddings"))
    return calls(end, switch, context)
