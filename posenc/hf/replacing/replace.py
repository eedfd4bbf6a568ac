"""Rotary modules of a Hugging Face transformers model, swapped for ours: the whole model then exports, at any length.

>>> replace_rotary(model)
{'model.rotary_emb': 'LlamaRotaryEmbedding (llama3)'}

Nothing here imports transformers. A rotary module is known by its behaviour, not by its class: its config is read, and
the cosines and sines that it returns must be those of the scheme that was read; otherwise it is refused, and the model
is left as it was. Ours keep nothing of a call: with dynamic NTK, where theirs remember the longest call, the
frequencies are those of the call's own length.
"""

import copy
import inspect
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from posenc.hf.foreign import HfModule
from posenc.hf.read import Reading, read_config
from posenc.hf.replacing.compare import Candidate, CosSinFunction, calls, fitting
from posenc.hf.replacing.modules import CosSin, KeepDtype, LayerCosSin, PatchCosSin, RotaryAttention, TextCosSin
from posenc.hf.rope.scaling import is_by_length
from posenc.scheme import build
from posenc.spec import Spec

ARRANGEMENTS = (
    {"width": "full", "layout": "halves"},
    {"width": "full", "layout": "interleaved"},
    {"width": "half", "layout": "halves"},
)
"""How rotary modules lay out the cosines of a head's pairs."""
END = 2**24
"""Positions are compared below it."""
AXES = 3
"""Positions of a token whose pairs are in sections: time, height and width."""


class Replacement(NamedTuple):
    """Our module in the place of a model's, and the frequencies of the latter in words."""

    module: nn.Module
    words: str


def replace_rotary(model: nn.Module, spec: Spec | None = None) -> dict[str, str]:
    """Swap the rotary modules of a transformers model for ours, in place: {name: class and rope type before}.

    Args:
        model: the model.
        spec: how ours compute, by default in mode "dynamic" by method "exact"; positions are those of the model.

    Raises ValueError, in one line, for a model without rotary modules and for a module that ours cannot stand in for:
    the model is then as it was.
    """
    spec = _explicit(spec or Spec(mode="dynamic", method="exact"))
    theirs = {name: m for name, m in model.named_modules(remove_duplicate=False) if _is_rotary(m)}
    if not theirs or "" in theirs:
        reason = "is itself a rotary module" if theirs else "has no rotary module"
        raise ValueError(f"{type(model).__name__} {reason}: expected a transformers model that holds one")
    ours = {id(m): _replacement(name, m, spec) for name, m in theirs.items()}
    for name, module in theirs.items():
        model.set_submodule(name, ours[id(module)].module.train(module.training))
    return {name: f"{type(m).__name__} ({ours[id(m)].words})" for name, m in theirs.items()}


def _explicit(spec: Spec) -> Spec:
    """Return the spec in which cosines and sines are computed: at the model's positions, cast later."""
    if spec.positions not in (None, "explicit"):
        raise ValueError(f"positions={spec.positions} was given: a model has its own, so leave it out")
    return replace(spec, positions="explicit", dtype="fp64" if spec.dtype == "fp64" else "fp32")


def _is_attention(module: HfModule) -> bool:
    """Return whether a module is an attention like GPT-J's, with a table of sines and cosines of its own."""
    return "embed_positions" in module._buffers


def _is_rotary(module: nn.Module) -> bool:
    return _is_attention(module) or "Rotary" in type(module).__name__


def _replacement(name: str, module: nn.Module, spec: Spec) -> Replacement:
    """Return our module in the place of a model's; raise ValueError, with its name, where ours cannot stand in."""
    try:
        return _attention(module, spec) if _is_attention(module) else _cos_sin(module, spec)
    except ValueError as error:
        raise ValueError(f"{name} ({type(module).__name__}) cannot be replaced: {error}") from None


def _attention(module: nn.Module, spec: Spec) -> Replacement:
    """Return RotaryAttention in the place of GPT-J's, whose table must hold the sines and cosines of its config."""
    if type(module).__name__ != "GPTJAttention":
        raise ValueError("expected GPTJAttention; load the model with attn_implementation='eager'")
    reading, table = _read(module, spec, {}), module.get_buffer("embed_positions")
    rotate = build("rope", spec, **{**reading.parameters, "tensor_layout": "bshd"}).module.to(table.device)
    ours = RotaryAttention(module, KeepDtype(rotate))
    candidate = Candidate(ours, partial(_rotation_of, rotate, reading.parameters))
    positions = [p.to(table.device) for p in _calls(spec, reading, len(table))]
    return Replacement(fitting(partial(_rows, table), [candidate], positions), "default")


def _rows(table: Tensor, positions: Tensor) -> CosSin:
    """Return cos and sin from a table of sines beside cosines."""
    sin, cos = table[positions].chunk(2, -1)
    return cos, sin


def _rotation_of(rotate: nn.Module, parameters: dict[str, int], positions: Tensor) -> CosSin:
    """Return the cosines and sines by which neighbouring features are rotated: where (1, 0) goes, pair by pair."""
    head_dim = parameters["head_dim"]
    rotary_dim = parameters.get("rotary_dim", head_dim)
    # (batch, seq, heads, head_dim)
    units = torch.zeros(1, positions.shape[1], 1, head_dim, dtype=torch.float64, device=positions.device)
    units[..., :rotary_dim:2] = 1  # (1, 0), pair by pair: rotated it is (cos, sin)
    query, _ = rotate(units, units, positions)
    return query[:, :, 0, :rotary_dim:2], query[:, :, 0, 1:rotary_dim:2]


def _cos_sin(module: HfModule, spec: Spec) -> Replacement:
    """Return our module in the place of one that gives cosines and sines."""
    arguments, kind = list(inspect.signature(module.forward).parameters), getattr(module, "rope_type", None)
    known = ["x", "position_ids", *(["layer_type"] if isinstance(kind, dict) else [])]
    if arguments != known or not hasattr(getattr(module, "config", None), "to_dict"):
        actual = f"forward({', '.join(arguments)}) of rope type {kind!r}"
        raise ValueError(f"expected forward(x, position_ids), or with a layer_type, and a config; it has {actual}")
    if isinstance(kind, dict):
        layers = {layer_type: _text(module, spec, layer_type) for layer_type in kind}
        words = ", ".join(f"{layer_type} {layer.words}" for layer_type, layer in layers.items())
        return Replacement(LayerCosSin({name: layer.module for name, layer in layers.items()}), words)
    return _patches(module, spec) if kind == "axial" else _text(module, spec)


def _text(module: HfModule, spec: Spec, layer_type: str | None = None) -> Replacement:
    """Return TextCosSin in the place of a module, or of one of its layer types."""
    inv_freq = _inv_freq(module, "inv_freq" if layer_type is None else f"{layer_type}_inv_freq")
    width, x = 2 * inv_freq.numel(), torch.zeros(1, 1, 1, device=inv_freq.device)
    reading = _read(module, spec, {"head_dim": width, "rotary_dim": width}, layer_type)
    original = partial(_fresh, module, x, () if layer_type is None else (layer_type,))
    axes = AXES if "sections" in reading.parameters else None
    if axes is None and _takes_axes(original, x):
        raise ValueError("it takes several positions a token, and its rope_parameters have no mrope_section")
    ours = [TextCosSin(cosines, axes).to(inv_freq.device) for cosines in _arrangements(reading, spec)]
    candidates = [Candidate(module, partial(module, x)) for module in ours]
    positions = [p.to(inv_freq.device) for p in _calls(spec, reading)]
    if axes is not None:  # three different positions a token: (3, 1, n)
        positions = [torch.stack([p, p.flip(1), p.roll(1)]) for p in positions]
    words = reading.parameters["rope_type"] + (", mrope" if axes else "")
    return Replacement(fitting(original, candidates, positions), words)


def _arrangements(reading: Reading, spec: Spec) -> list[nn.Module]:
    """Return our modules for the cosines and sines of a reading, one for each arrangement."""
    parameters = {**reading.parameters, "output": "cos_sin"}
    return [KeepDtype(build(reading.scheme, spec, **{**parameters, **more}).module) for more in ARRANGEMENTS]


def _patches(module: HfModule, spec: Spec) -> Replacement:
    """Return PatchCosSin in the place of a vision tower's module."""
    inv_freq = _inv_freq(module, "inv_freq")
    theta, head_dim = module.config.rope_parameters.get("rope_theta", 10000.0), 4 * inv_freq.numel()
    cosines = build("rope_2d", spec, head_dim=head_dim, rope_theta=theta, output="cos_sin", width="full").module
    ours, x = PatchCosSin(KeepDtype(cosines)).to(inv_freq.device), torch.zeros(1, 1, device=inv_freq.device)
    # rows, and columns in the other order: (patches, 2)
    positions = [torch.cat([p, p.flip(1)]).t().to(inv_freq.device) for p in _calls(spec)]
    return Replacement(fitting(partial(_fresh, module, x, ()), [Candidate(ours, partial(ours, x))], positions), "axial")


def _inv_freq(module: HfModule, name: str) -> Tensor:
    """Return a module's frequencies, (pairs,): their number tells how much of a head is rotated."""
    inv_freq: Tensor | None = dict(module.named_buffers(recurse=False)).get(name)
    if inv_freq is None or inv_freq.dim() != 1:
        raise ValueError(f"it has no buffer {name} of one frequency a pair; replace it by hand")
    return inv_freq


def _read(module: HfModule, spec: Spec, overrides: dict[str, int], layer_type: str | None = None) -> Reading:
    """Return the reading of a module's config; raise ValueError where ours have no such form."""
    config, sections = module.config.to_dict(), getattr(module, "mrope_section", None)
    rope = config.get("rope_parameters")
    if sections and isinstance(rope, dict):  # Qwen2-VL's module takes them from a default of its own
        config["rope_parameters"] = {"mrope_section": list(sections), **rope}
    reading = read_config(config, layer_type, overrides, angles_alone=not _is_attention(module))
    if spec.mode == "baked" and is_by_length(reading.parameters["rope_type"]):
        raise ValueError(f"rope_type {reading.parameters['rope_type']} depends on a call's length: give mode='dynamic'")
    return reading


def _takes_axes(original: CosSinFunction, x: Tensor) -> bool:
    """Return whether a module makes one cosine of three positions a token; others would return three."""
    # Qwen2-VL: three positions a token, one cosine
    positions = torch.zeros(3, 1, 2, dtype=torch.int64, device=x.device)
    try:
        cos, _ = original(positions)
        return cos.dim() == 3
    except Exception:
        return False


def _fresh(module: HfModule, x: Tensor, layer: tuple[str, ...], positions: Tensor) -> CosSin:
    """Return the cosines and sines of a copy of a module: some modules remember earlier calls."""
    cos_sin: CosSin = copy.deepcopy(module)(x, positions, *layer)
    return cos_sin


def _calls(spec: Spec, reading: Reading | None = None, end: int = END) -> list[Tensor]:
    """Return the positions to compare at, of each call: the frequencies of a reading may switch between them."""
    end = min(end, spec.max_len) if spec.mode == "baked" else end
    parameters = {} if reading is None else reading.parameters
    if not is_by_length(parameters.get("rope_type", "default")):
        return calls(end)
    # longrope switches at its original context, dynamic NTK at its context
    return calls(end, parameters.get("original_max_position_embeddings", parameters.get("max_position_embeddings")))
