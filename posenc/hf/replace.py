"""Rotary modules of a Hugging Face transformers model, swapped for ours: the whole model then exports, at any length.

>>> replace_rotary(model)
{'model.rotary_emb': 'LlamaRotaryEmbedding (llama3)'}

Nothing here imports transformers. A rotary module is known by what it has and does, not by its class: its config is
read, and the cosines and sines that it returns must be those of the scheme that was read. One that returns others is
refused, and the model is left as it was. Ours keep nothing of a call: with dynamic NTK, where theirs remember the
longest call, the frequencies are those of the call's own length.
"""

import copy
import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from posenc.hf.modules import CosSin, Kept, LayerTurns, PatchTurns, TextTurns, TurningAttention
from posenc.hf.read import Reading as Read
from posenc.hf.read import read_config
from posenc.rope_types import ROPE_TYPES
from posenc.scheme import Form, build, eps

Asked = Callable[[Tensor], CosSin]
ARRANGED = (
    {"width": "full", "layout": "halves"},
    {"width": "full", "layout": "interleaved"},
    {"width": "half", "layout": "halves"},
)
"""How rotary modules lay out the cosines of a head's pairs."""
LENGTHS = (7, 33, 4096)
"""Calls that a module is compared at, beside those around the length at which it switches."""
PROBES = 64
"""Positions of a call that are compared, from the first to the last."""


def replace_rotary(model: nn.Module, form: Form | None = None) -> dict[str, str]:
    """Swap the rotary modules of a transformers model for ours, in place: {name: what was there}.

    form: how ours compute, "dynamic" and "exact" unless told otherwise; positions are those that the model gives.
    Raises ValueError, in one line, for a model without rotary modules and for one that ours cannot stand in for: the
    model is then as it was.
    """
    form = _explicit(form or Form(mode="dynamic", method="exact"))
    found = {name: m for name, m in model.named_modules(remove_duplicate=False) if _is_rotary(m)}
    if not found or "" in found:
        told = "is itself a rotary module" if found else "has no rotary module"
        raise ValueError(f"{type(model).__name__} {told}: expected a transformers model that holds one")
    ours = {id(m): _replacement(name, m, form) for name, m in found.items()}
    for name, module in found.items():
        model.set_submodule(name, ours[id(module)][0].train(module.training))
    return {name: f"{type(m).__name__} ({ours[id(m)][1]})" for name, m in found.items()}


def _explicit(form: Form) -> Form:
    """Return the form in which cosines and sines are computed: at the model's positions, cast later."""
    if form.positions not in (None, "explicit"):
        raise ValueError(f"positions={form.positions} was given: a model tells its own, so leave it out")
    return replace(form, positions="explicit", dtype="fp64" if form.dtype == "fp64" else "fp32")


def _is_rotary(module: nn.Module) -> bool:
    return "embed_positions" in module._buffers or "Rotary" in type(module).__name__


def _replacement(name: str, module: nn.Module, form: Form) -> tuple[nn.Module, str]:
    """Return what stands in for a module, and what that one turned by; raise ValueError where nothing can."""
    try:
        return _attention(module, form) if "embed_positions" in module._buffers else _turns(module, form)
    except ValueError as error:
        raise ValueError(f"{name} ({type(module).__name__}) cannot be replaced: {error}") from None


def _attention(old: Any, form: Form) -> tuple[nn.Module, str]:
    """Return TurningAttention in the place of GPT-J's, whose table must hold the sines and cosines of its config."""
    if type(old).__name__ != "GPTJAttention":
        raise ValueError("expected GPTJAttention; load the model with attn_implementation='eager'")
    read, table = _read(old, form, {}), old.embed_positions
    rotate: Any = build("rope", form, **{**read.parameters, "tensor_layout": "bshd"}).module.to(table.device)
    calls = _calls(read, form, table.device, len(table))
    theirs, ours = partial(_looked_up, table), TurningAttention(old, Kept(rotate))
    return _fitting(theirs, [(ours, lambda positions: rotate.turns(positions)[:2])], calls), "default"


def _looked_up(table: Tensor, positions: Tensor) -> CosSin:
    """Return cos and sin from a table of sines beside cosines."""
    sin, cos = table[positions].chunk(2, -1)
    return cos, sin


def _turns(module: nn.Module, form: Form) -> tuple[nn.Module, str]:
    """Return what stands in for a module that gives cosines and sines, and what that one turned by."""
    arguments, kind = list(inspect.signature(module.forward).parameters), getattr(module, "rope_type", None)
    known = ["x", "position_ids", *(["layer_type"] if isinstance(kind, dict) else [])]
    if arguments != known or not hasattr(getattr(module, "config", None), "to_dict"):
        told = f"forward({', '.join(arguments)}) of rope type {kind!r}"
        raise ValueError(f"expected forward(x, position_ids), or with a layer_type, and a config; it has {told}")
    if isinstance(kind, dict):
        layers = {t: _text(module, form, t) for t in kind}
        told = ", ".join(f"{t} {what}" for t, (_, what) in layers.items())
        return LayerTurns({t: turns for t, (turns, _) in layers.items()}), told
    return _patches(module, form) if kind == "axial" else _text(module, form)


def _text(module: nn.Module, form: Form, layer_type: str | None = None) -> tuple[nn.Module, str]:
    """Return TextTurns in the place of a module, or of one of its layer types, and the rope type."""
    inv_freq = _inv_freq(module, "inv_freq" if layer_type is None else f"{layer_type}_inv_freq")
    width, x = 2 * inv_freq.numel(), torch.zeros(1, 1, 1, device=inv_freq.device)
    read = _read(module, form, {"head_dim": width, "rotary_dim": width}, layer_type)
    theirs = partial(_fresh, module, x, () if layer_type is None else (layer_type,))
    axes = 3 if read.scheme == "mrope" else None
    if axes is None and _takes_axes(theirs, x):
        raise ValueError("it takes several positions a token, and its rope_parameters have no mrope_section")
    ours = []
    for how in ARRANGED:
        found = build(read.scheme, form, **{**read.parameters, **how, "output": "cos_sin"})
        ours.append(TextTurns(Kept(found.module), axes).to(inv_freq.device))
    calls = [torch.stack([p, p.flip(1), p.roll(1)]) if axes else p for p in _calls(read, form, inv_freq.device)]
    told = read.parameters["rope_type"] + (", mrope" if axes else "")
    return _fitting(theirs, [(turns, partial(turns, x)) for turns in ours], calls), told


def _patches(module: Any, form: Form) -> tuple[nn.Module, str]:
    """Return PatchTurns in the place of a vision tower's module."""
    inv_freq = _inv_freq(module, "inv_freq")
    theta, head_dim = module.config.rope_parameters.get("rope_theta", 10000.0), 4 * inv_freq.numel()
    found = build("rope_2d", form, head_dim=head_dim, rope_theta=theta, output="cos_sin", width="full")
    turns, x = PatchTurns(Kept(found.module)).to(inv_freq.device), torch.zeros(1, 1, device=inv_freq.device)
    calls = [torch.cat([p, p.flip(1)]).t() for p in _calls(None, form, inv_freq.device)]
    return _fitting(partial(_fresh, module, x, ()), [(turns, partial(turns, x))], calls), "axial"


def _inv_freq(module: nn.Module, name: str) -> Tensor:
    """Return a module's frequencies, (pairs,): their number is how much of a head turns."""
    found = dict(module.named_buffers(recurse=False)).get(name)
    if found is None or found.dim() != 1:
        raise ValueError(f"it has no buffer {name} of one frequency a pair; replace it by hand")
    return found


def _read(module: Any, form: Form, given: dict[str, Any], layer_type: str | None = None) -> Read:
    """Return what the config of a module says; raise ValueError where ours have no such form."""
    config, sections = module.config.to_dict(), getattr(module, "mrope_section", None)
    if sections and isinstance(config.get("rope_parameters"), dict):
        config["rope_parameters"] = {"mrope_section": list(sections), **config["rope_parameters"]}
    read = read_config(config, layer_type, given)
    if form.mode == "baked" and ROPE_TYPES[read.parameters["rope_type"]].by_length:
        raise ValueError(f"rope_type {read.parameters['rope_type']} depends on a call's length: give mode='dynamic'")
    return read


def _takes_axes(theirs: Asked, x: Tensor) -> bool:
    """Return whether a module makes one cosine of three positions a token; others would return three."""
    positions = torch.zeros(3, 1, 2, dtype=torch.int64, device=x.device)
    try:
        cos, _ = theirs(positions)
        return cos.dim() == 3
    except Exception:
        return False


def _fresh(module: nn.Module, x: Tensor, layer: tuple[str, ...], positions: Tensor) -> Any:
    """Ask a copy of a module, as some remember calls."""
    return copy.deepcopy(module)(x, positions, *layer)


def _calls(read: Read | None, form: Form, device: torch.device, longest: int = 2**24) -> list[Tensor]:
    """Return the positions to compare at, (1, n) each: of calls up to `longest`, around a switch of frequencies."""
    scaling = read.parameters if read and ROPE_TYPES[read.parameters["rope_type"]].by_length else {}
    switch = scaling.get("original_max_position_embeddings", scaling.get("max_position_embeddings"))
    lengths = {*LENGTHS, *((switch - 1, switch, switch + 1, 2 * switch + 3) if switch else ())}
    longest = min(longest, form.max_len) if form.mode == "baked" else longest
    spread = [np.geomspace(1, n, PROBES).astype(np.int64) - 1 for n in sorted({min(n, longest) for n in lengths})]
    return [torch.from_numpy(np.unique(positions)).unsqueeze(0).to(device) for positions in spread]


def _fitting(theirs: Asked, ours: list[tuple[nn.Module, Asked]], calls: list[Tensor]) -> nn.Module:
    """Return the first of ours that gives what theirs does; raise ValueError with the least difference if none does."""
    with torch.no_grad():
        told = [_told(theirs, positions) for positions in calls]
        found = [(_worst(told, [ask(positions) for positions in calls], calls), module) for module, ask in ours]
    (excess, difference), module = min(found, key=lambda one: one[0][0])
    if excess > 1:
        todo = "load the model in float32 and cast it after this, or replace it by hand"
        raise ValueError(f"its cosines and sines differ from those of its config by {difference}; {todo}")
    return module


def _told(theirs: Asked, positions: Tensor) -> CosSin:
    """Return the cosines and sines that a module of theirs gives; raise ValueError where it gives something else."""
    try:
        cos, sin = theirs(positions)
        return cos.to(torch.float64), sin.to(torch.float64)
    except Exception as error:
        what = (str(error).splitlines() or [""])[0]
        raise ValueError(
            f"asked for cos and sin it raised {type(error).__name__}: {what}; replace it by hand"
        ) from None


def _worst(told: list[CosSin], given: list[CosSin], calls: list[Tensor]) -> tuple[float, str]:
    """Return the worst difference, in what float32 angles allow, and in words: 4 roundings of the largest angle."""
    worst = (0.0, "nothing")
    for one, other, positions in zip(told, given, calls, strict=True):
        if one[0].shape != other[0].shape or one[1].shape != other[1].shape:
            return np.inf, f"their shape, {tuple(one[0].shape)} and not {tuple(other[0].shape)}"
        off = max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True))
        last, peak = int(positions.max()), max(1.0, float(other[0].abs().max()))
        budget = 4 * eps("float32") * max(last, 1) * peak
        excess = off / budget if np.isfinite(off) else np.inf
        worst = max(worst, (excess, f"{off:.2g} at positions up to {last}, where {budget:.2g} is allowed"))
    return worst
