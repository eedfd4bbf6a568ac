"""Rotary modules of a model of transformers or diffusers, swapped for ours: the model then exports, at any length.

>>> replace_rotary(model)
{'model.rotary_emb': 'LlamaRotaryEmbedding (llama3)'}

Nothing here imports either library. A rotary module is known by its behaviour, not by its class: its config is read, or
it is asked for its frequencies, and the cosines and sines that it returns must be those that were read; otherwise it is
refused, and the model is left as it was. Ours keep nothing of a call: with dynamic NTK, where theirs remember the
longest call, the frequencies are those of the call's own length.
"""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from posenc.scheme import build
from posenc.spec import BLOCK_ROWS, Spec
from posenc_models.config.foreign import HfModule
from posenc_models.config.read import Reading, read_config
from posenc_models.config.rope.scaling import is_by_length
from posenc_models.replacing.called import Replacement, calls_of, fresh, gives_complex, inv_freq_of, parts_of
from posenc_models.replacing.compare import Candidate, fitting
from posenc_models.replacing.diffusion.replace import is_rotary as is_of_diffusers
from posenc_models.replacing.diffusion.replace import replacement as of_diffusers
from posenc_models.replacing.diffusion.replace import untracked
from posenc_models.replacing.fusible import fusible as fusible_form
from posenc_models.replacing.logits import compared, doubled, logits_of, text_for
from posenc_models.replacing.modules import (
    ComplexCosSin,
    CosSin,
    KeepDtype,
    LayerCosSin,
    OrderedText,
    RotaryAttention,
    TextCosSin,
)
from posenc_models.replacing.ordered import axes_of, order_of, ordered
from posenc_models.replacing.patches import patches

ARRANGEMENTS = (
    {"width": "full", "layout": "halves"},
    {"width": "full", "layout": "interleaved"},
    {"width": "half", "layout": "halves"},
)
"""How rotary modules lay out the cosines of a head's pairs."""


def replace_rotary(
    model: nn.Module, spec: Spec | None = None, *, fusible: bool = False, logits: bool = False
) -> dict[str, str]:
    """Swap the rotary modules of a model for ours, in place: {name: class and rope type, or pairs and proof, before}.

    Args:
        model: the model, of transformers or of diffusers.
        spec: how ours compute, by default in mode "dynamic" by method "exact"; positions are those of the model.
        fusible: ours compute Cos and Sin of stored angles of `spec.max_len` positions, without a spec of as many as the
            model's config says: the form that `ort_fusions` of transformers' exporter put into GroupQueryAttention.
        logits: the logits of a causal language model are compared, too, with padding on the left and behind caches of
            two lengths: "logits" in what is returned says how near they are. It takes 20 calls of at most 24 tokens.

    Raises ValueError, in one line, for a model without rotary modules, for a module that ours cannot stand in for, and
    for logits that move by more than float32 angles explain: the model is then as it was.
    """
    rows = spec.max_len if spec else getattr(getattr(model, "config", None), "max_position_embeddings", Spec().max_len)
    # positions are looked up one by one: more stored rows would make no call faster
    spec = _explicit(spec or Spec(mode="dynamic", method="exact", table_rows=BLOCK_ROWS))
    theirs: dict[str, HfModule] = {n: m for n, m in model.named_modules(remove_duplicate=False) if _is_rotary(m)}
    theirs.update(untracked(model))
    if not theirs or "" in theirs:
        reason = "is itself a rotary module" if theirs else "has no rotary module"
        raise ValueError(
            f"{type(model).__name__} {reason}: expected a transformers model, or one of diffusers, that holds one"
        )
    for name in theirs:
        _check_whole_positions(model, name)
    ours = {id(m): _replacement(name, m, spec, rows if fusible else 0) for name, m in theirs.items()}
    said = {name: f"{type(m).__name__} ({ours[id(m)].words})" for name, m in theirs.items()}
    swap = partial(_put, model, {name: ours[id(m)].module for name, m in theirs.items()})
    if not logits:
        swap()
        return said
    read = text_for(model)
    before = [logits_of(model, part) for part in (read, doubled(read))]
    swap()
    try:
        return {**said, "logits": compared(model, read, *before)}
    except ValueError:
        _put(model, theirs)
        raise


def _check_whole_positions(model: nn.Module, name: str) -> None:
    """Raise ValueError where a rotary module is called at fractions, which its layer keeps: ours take whole numbers."""
    positions = getattr(model.get_submodule(name.rpartition(".")[0]), "position_ids", None)
    if isinstance(positions, torch.Tensor) and positions.is_floating_point():
        raise ValueError(f"{name} is called at fractions of positions, and ours takes whole ones: expected whole ones")


SETTINGS = ("config", "layer_types", "mrope_section")
"""What models read of their rotary modules: which is for which layer, and how many positions a token has."""


def _put(model: nn.Module, modules: Mapping[str, nn.Module | HfModule]) -> None:
    for name, module in modules.items():
        parent, _, attribute = name.rpartition(".")
        before = getattr(model.get_submodule(parent), attribute)
        for said in SETTINGS:
            if hasattr(before, said) and not hasattr(module, said):
                setattr(module, said, getattr(before, said))
        setattr(model.get_submodule(parent), attribute, module.train(model.training))


def _explicit(spec: Spec) -> Spec:
    """Return the spec in which cosines and sines are computed: at the model's positions, cast later."""
    if spec.positions not in (None, "explicit"):
        raise ValueError(f"positions={spec.positions} was given: a model has its own, so leave it out")
    return replace(spec, positions="explicit", dtype="fp64" if spec.dtype == "fp64" else "fp32")


def _is_attention(module: HfModule) -> bool:
    """Return whether a module is an attention like GPT-J's, with a table of sines and cosines of its own."""
    return "embed_positions" in module._buffers


def _is_rotary(module: nn.Module) -> bool:
    if type(module).__module__.startswith("diffusers."):
        return is_of_diffusers(module)
    return _is_attention(module) or "Rotary" in type(module).__name__


def _replacement(name: str, module: HfModule, spec: Spec, rows: int) -> Replacement:
    """Return our module in the place of a model's; raise ValueError, with its name, where ours cannot stand in.

    Args:
        name: as the model has it.
        module: the model's.
        spec: how ours compute.
        rows: of stored angles, in the form that optimizers fuse; 0 for another form.
    """
    try:
        if is_of_diffusers(module):
            if rows:
                raise ValueError("fusible=True is the form of models of transformers: leave it out")
            return of_diffusers(module, spec)
        ours = _attention(module, spec) if _is_attention(module) else _cos_sin(module, spec)
        return ours._replace(module=fusible_form(ours.module, rows)) if rows else ours
    except ValueError as error:
        raise ValueError(f"{name} ({type(module).__name__}) cannot be replaced: {error}") from None


def _attention(module: HfModule, spec: Spec) -> Replacement:
    """Return RotaryAttention in the place of GPT-J's, whose table must hold the sines and cosines of its config."""
    if type(module).__name__ != "GPTJAttention":
        raise ValueError("expected GPTJAttention; load the model with attn_implementation='eager'")
    reading, table = _read(module, spec, {}), module.get_buffer("embed_positions")
    rotate = build("rope", spec, **{**reading.parameters, "tensor_layout": "bshd"}).module.to(table.device)
    ours = RotaryAttention(module, KeepDtype(rotate))
    candidate = Candidate(ours, partial(_rotation_of, rotate, reading.parameters))
    positions = [p.to(table.device) for p in calls_of(spec, reading, len(table))]
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
    signature, kind = inspect.signature(module.forward).parameters, getattr(module, "rope_type", None)
    # ESM's takes a layer_type that it makes no use of, and has no types
    layered = isinstance(kind, dict) and bool(kind)
    arguments = [name for name, p in signature.items() if layered or name != "layer_type" or p.default is p.empty]
    known = ["x", "position_ids", *(["layer_type"] if layered else [])]
    if arguments != known or not hasattr(getattr(module, "config", None), "to_dict"):
        actual = f"forward({', '.join(arguments)}) of rope type {kind!r}"
        raise ValueError(f"expected forward(x, position_ids), or with a layer_type, and a config; it has {actual}")
    if any(True for _ in module.parameters()):
        raise ValueError("it has parameters that are learnt, which ours have not")
    if stored := set(module.state_dict()) - {"inv_freq"}:  # MistralLarge4's scales frequencies by what is trained
        raise ValueError(f"a checkpoint holds its {', '.join(sorted(stored))}, which ours have not; replace it by hand")
    if isinstance(kind, dict) and layered:
        layers = {layer_type: _text(module, spec, layer_type) for layer_type in kind}
        words = ", ".join(f"{layer_type} {layer.words}" for layer_type, layer in layers.items())
        return Replacement(LayerCosSin({name: layer.module for name, layer in layers.items()}), words)
    return patches(module, spec) if kind == "axial" else _text(module, spec)


def _text(module: HfModule, spec: Spec, layer_type: str | None = None) -> Replacement:
    """Return TextCosSin in the place of a module, or of one of its layer types."""
    inv_freq = inv_freq_of(module, "inv_freq" if layer_type is None else f"{layer_type}_inv_freq")
    width, x = 2 * inv_freq.numel(), torch.zeros(1, 1, 1, device=inv_freq.device)
    reading = _read(module, spec, {"head_dim": width, "rotary_dim": width}, layer_type)
    original = partial(fresh, module, x, () if layer_type is None else (layer_type,))
    axes = axes_of(original, inv_freq.device)
    ours = _text_modules(reading, spec, axes)
    if axes is not None and (order := order_of(original, inv_freq, axes, last=False)) is not None:
        alone = {k: v for k, v in reading.parameters.items() if k not in ("sections", "section_layout")}
        ours.append(OrderedText(ordered(spec, alone, order), axes))
    if not ours:
        raise ValueError("its columns have no order of axes and frequencies that ours could have; replace it by hand")
    words = [reading.parameters["rope_type"], *(["mrope"] if axes else [])]
    if gives_complex(module, x):
        ours, words = [ComplexCosSin(m) for m in ours], [*words, "complex"]
    candidates = [Candidate(m, partial(parts_of, m.to(inv_freq.device), x)) for m in ours]
    context = getattr(module.config, "max_position_embeddings", None)
    positions = [p.to(inv_freq.device) for p in calls_of(spec, reading, context=context)]
    if axes is not None:  # different positions a token: (axes, 1, n)
        positions = [torch.stack([p, p.flip(1), p.roll(1), p.roll(3)][:axes]) for p in positions]
    return Replacement(fitting(original, candidates, positions), ", ".join(words))


def _text_modules(reading: Reading, spec: Spec, axes: int | None) -> list[nn.Module]:
    """Return our modules for the cosines and sines of a reading, of each arrangement, where a scheme has its axes."""
    # a scheme has time, height and width, in sections
    if axes != (3 if "sections" in reading.parameters else None):
        return []
    if reading.parameters.get("section_layout") == "features":
        return []  # columns in an order of their own: see `ordered`
    parameters = {**reading.parameters, "output": "cos_sin"}
    built = [build(reading.scheme, spec, **{**parameters, **more}).module for more in ARRANGEMENTS]
    return [TextCosSin(KeepDtype(cosines), axes) for cosines in built]


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
