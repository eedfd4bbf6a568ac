"""A rotary model is asked: our queries and keys are rotated by its own functions, at our positions.

`tracing` sees these functions and their angles in a call of the model without weights: nothing here knows the name of
a class or a function.
"""

from dataclasses import replace

import numpy as np
import torch

from posenc.call import positions_of
from posenc.ports import Array, Feeds, Integers, Port, Positions, Values, carrying
from posenc_models.asking.calling import call_attentions, call_model
from posenc_models.asking.layers import LayerSeen, differing, layers_seen, words_of
from posenc_models.asking.load import Loaded, load, modeling_of
from posenc_models.asking.model import Answer, Call, CannotAsk, Disagrees, OwnModel, Question
from posenc_models.asking.rotation import LayerRotations, axes_of, calls_of, unlike_sizes
from posenc_models.asking.standing import model_classes, traced
from posenc_models.asking.tracing import MetaModel
from posenc_models.config.rope.defaults import text_type


def model_of(question: Question) -> OwnModel:
    """Return the rotations of the layer in question, or of the first layer that rotates.

    Raises CannotAsk, in one line, where the model cannot be built, or no rotation is seen in it.
    """
    trace, loaded = traced_model(question)
    return model_in(trace, loaded.library, question)


def model_in(trace: MetaModel, library: str, question: Question) -> OwnModel:
    """Return the rotations of the layer in question, in a model that was called whole just now."""
    layer = _layer_of(trace, question)
    calls = calls_of(trace.layers[layer] if layer >= 0 else trace.loose)
    note = "" if question.layer is not None or question.layer_type else differing(layers_seen(trace))
    rotation = LayerRotations(
        trace, layer, _head_dim(question), tuple(axes_of(calls, unlike_sizes(trace))), _several(question)
    )
    # DeepSeek V4 rotates the last features of wider heads
    if not rotation.moves() and rotation.moves_last():
        rotation = replace(rotation, last=True)
    elif not rotation.moves():
        raise CannotAsk(f"{type(trace.model).__name__} has the same angles at all positions where it is called alone")
    words, peak = words_of(trace, calls), float(rotation.at_zero().max())
    return OwnModel(words, library, _answers(question, rotation), rotation.permutation(), note, peak)


def layers_of(question: Question) -> list[LayerSeen]:
    """Return what each layer of a model does with its queries and keys, at the first positions."""
    trace, _ = traced_model(question)
    return layers_seen(trace)


def traced_model(question: Question) -> tuple[MetaModel, Loaded]:
    """Return the first model of a config, or of its language model, in which something is rotated."""
    loaded = load(question.content, question.part)
    reasons: list[CannotAsk] = []
    for candidate in _candidates(loaded):
        for kind in model_classes(candidate):
            try:
                trace = traced(candidate, kind, call_model)
            except CannotAsk as error:
                reasons.append(error)
                continue
            why = probe(trace, question)
            if not _rotates(trace) and (why or any(layer.error for layer in trace.layers)):
                trace.run = call_attentions  # the whole takes more than tokens
                why = probe(trace, question) or next((layer.error for layer in trace.layers), "")
            if _rotates(trace):
                return trace, candidate
            reasons.append(_at_rest(trace, kind.__name__, why, loaded.library))
    name = type(loaded.config).__name__
    if not reasons:
        raise CannotAsk(f"{loaded.library} has no model for {name} alone")
    # a model that came to its end and rotated nothing is an answer; one that failed on the way is none
    raise next((reason for reason in reasons if isinstance(reason, Disagrees)), reasons[0])


def _at_rest(trace: MetaModel, name: str, why: str, library: str) -> CannotAsk:
    """Return what to say of a model in which no rotation was seen: an answer only where all of it was called."""
    if why or not trace.layers:
        return CannotAsk(f"{name} rotates nothing that is seen{why and f' ({why})'}")
    return Disagrees(f"{name} of {library} was called whole, and rotates nothing: its attention has no rotary encoding")


def _rotates(trace: MetaModel) -> bool:
    return any(calls_of(layer) for layer in (*trace.layers, trace.loose))


def _candidates(loaded: Loaded) -> list[Loaded]:
    """Return the config, and that of its language model if it has one: the latter alone, where it is read."""
    text = loaded.config.get_text_config() if hasattr(loaded.config, "get_text_config") else loaded.config
    if text is loaded.config:
        return [loaded]
    of_text = Loaded(loaded.whole, text, modeling_of(text), loaded.library)
    is_read = text_type(loaded.config.model_type) == text.model_type
    return [of_text] if is_read else [loaded, of_text]


def _several(question: Question) -> tuple[int, ...]:
    """Return how many positions a token has; () where it has one."""
    ports = carrying(question.inputs, Positions)
    return () if not ports or len(ports[0].axes) < 3 else (int(ports[0].axes[0].size or 1),)


def probe(trace: MetaModel, question: Question) -> str:
    """Call a model whole, with sizes that are unlike all of its own; return why it did not come to its end."""
    batch, length = unlike_sizes(trace)
    return trace.call(batch, length, torch.arange(length).expand(*_several(question), batch, length))


def _layer_of(trace: MetaModel, question: Question) -> int:
    """Return the layer in question, by default the first that rotates; -1 for rotations outside of layers."""
    layer, kind = question.layer, question.layer_type
    if layer is None and kind:
        types = list(getattr(trace.model.config, "layer_types", None) or [])
        layer = next((i for i, name in enumerate(types) if name == kind and calls_of(trace.layers[i])), None)
        if layer is None:
            raise CannotAsk(f"no layer of the model is of type {kind}, and rotates")
    if layer is None:
        return next((i for i, seen in enumerate(trace.layers) if calls_of(seen)), -1)
    if not 0 <= layer < len(trace.layers):
        raise CannotAsk(f"the model has layers 0 to {len(trace.layers) - 1}, not {layer}")
    if not calls_of(trace.layers[layer]):
        why = trace.layers[layer].error
        raise CannotAsk(f"layer {layer} does not rotate{why and f': {why}'}")
    return layer


def _head_dim(question: Question) -> int:
    """Return the features of a head of ours."""
    return int(str(question.reading.parameters["head_dim"]))


def _answers(question: Question, rotation: LayerRotations) -> Call:
    """Return the function that gives the outputs of our encoding by the model's rotations."""
    permutation = list(rotation.permutation()) or slice(None)
    by_seq = question.reading.parameters.get("tensor_layout") == "bshd"
    names = [port.name for port in question.outputs]

    def rotated(x: Array, positions: Integers, role: int) -> Array:
        swapped = np.swapaxes(x, 1, 2) if by_seq else x  # (batch, heads, seq, head_dim)
        spread = np.broadcast_to(positions, (*positions.shape[:-2], x.shape[0], positions.shape[-1]))
        out = rotation.rotate(swapped.astype(np.float32), spread, role)[..., permutation]
        return np.swapaxes(out, 1, 2) if by_seq else out

    def call(feeds: Feeds) -> Answer:
        positions = positions_of(_rows(question.outputs), question.inputs, feeds)
        values = [feeds[port.name] for port in carrying(question.inputs, Values)]
        if values:
            return {name: rotated(x, positions, i) for i, (name, x) in enumerate(zip(names, values, strict=True))}
        return dict(zip(names, _cos_sin(question, rotation, positions), strict=True))

    return call


def _rows(outputs: tuple[Port, ...]) -> int:
    """Return how many positions a whole cache has; 0 where the output has the length of a call."""
    return outputs[0].axes[0].size or 0


def _cos_sin(question: Question, rotation: LayerRotations, positions: Integers) -> tuple[Array, Array]:
    """Return the cosines and sines by which the model rotates: where (1, 0) goes, pair by pair.

    A model that rotates backward takes it to (cos, -sin).
    """
    parameters = question.reading.parameters
    pairs = int(str(parameters.get("rotary_dim") or rotation.head_dim)) // 2
    step = 2 if parameters.get("layout") == "interleaved" else 1
    # features of the pairs: (i, i + 1), or (i, i + half)
    first = np.arange(pairs) * step
    second = first + (1 if step == 2 else pairs)
    at = positions if positions.ndim > 1 else positions[None]
    own = list(rotation.permutation()) or slice(None)

    def rotated(features: Integers) -> Array:
        x = np.zeros((at.shape[-2], 1, at.shape[-1], rotation.head_dim), np.float32)  # (batch, heads = 1, seq, dim)
        x[..., features] = 1
        return np.asarray(rotation.rotate(x, at, 0)[:, 0][..., own])

    out = rotated(first)
    if parameters.get("section_layout") == "features":
        of_second = rotated(second)  # where (0, 1) goes: each feature of a pair shows its own angle in one of the two
        cos_of, sin_of = [out[..., first], of_second[..., second]], [-of_second[..., first], out[..., second]]
        return np.concatenate(cos_of, -1), np.concatenate(sin_of, -1)
    rows = [out[..., first], -out[..., second] if parameters.get("direction") == "backward" else out[..., second]]
    if parameters.get("width") == "full":
        rows = [np.repeat(row, 2, -1) if step == 2 else np.concatenate([row, row], -1) for row in rows]
    cos, sin = (row if positions.ndim > 1 else row[0] for row in rows)
    return cos, sin
