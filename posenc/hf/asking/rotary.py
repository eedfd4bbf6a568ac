"""A rotary model is asked: our queries and keys are rotated by its own functions, at our positions.

What rotates them, and by which angles, is seen in a call of the model without weights, by `tracing`. So nothing here
knows which class or which function is whose.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc.call import positions_of
from posenc.hf.asking.load import Loaded, load, modeling_of, said
from posenc.hf.asking.model import CannotAsk, Model, Question
from posenc.ports import Array, Feeds, Integers, Port, Positions, Values, carrying
from posenc.spec import Spec

if TYPE_CHECKING:
    from posenc.hf.asking.tracing import Layer, Rotated, Traced, Turn

ASIDE = re.compile(r"Indexer|Compress", re.IGNORECASE)
"""Owners of rotations beside those of the attention itself."""
PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)
"""Sizes that a batch and a length may have while their axes are looked for."""


@dataclass(frozen=True)
class LayerSeen:
    """What a layer does with queries and keys.

    like: the first layer that does the same, itself if none before it does; None for one that does not rotate.
    words: the functions that rotate. error: why the call did not come to the end of this layer, or nothing.
    """

    like: int | None
    words: str
    layer_type: str
    error: str = ""


def model_of(question: Question) -> Model:
    """Return the rotations of a layer of the model: of the one that is asked, else of the first that rotates.

    Raises CannotAsk, in one line, where the model cannot be built, or none of its layers rotates in a way that is seen.
    """
    trace, loaded = _trace(question)
    layer = _layer_of(trace, question)
    turns = _turns(trace.layers[layer] if layer >= 0 else trace.loose)
    note = "" if question.layer is not None or question.layer_type else _differing(_seen(trace))
    rotation = Rotation(trace, layer, _head_dim(question), tuple(_axes(turns, trace)), _several(question))
    call, unit = _call(question, rotation), rotation.at_zero()
    return Model(_words(trace, turns), loaded.library, call, rotation.permutation(), note, float(unit.max()))


def layers_of(question: Question) -> list[LayerSeen]:
    """Return what each layer of a model does with its queries and keys, at the first positions."""
    trace, _ = _trace(question)
    return _seen(trace)


def _differing(layers: Sequence[LayerSeen]) -> str:
    """Return in words which layers do not do what the first that rotates does; nothing where all do, or none does."""
    first = next((layer.like for layer in layers if layer.like is not None), None)
    still = [i for i, layer in enumerate(layers) if layer.like is None and not layer.error]
    others = [i for i, layer in enumerate(layers) if layer.like not in (None, first)]
    parts = [
        f"layers {_listed(some)} {does}"
        for some, does in ((still, "do not rotate"), (others, "rotate otherwise"))
        if some
    ]
    return f"this is layer {first}; {' and '.join(parts)}" if parts and first is not None else ""


def _listed(numbers: Sequence[int]) -> str:
    """Return the first of some numbers in words, and how many more there are."""
    more = f" and {len(numbers) - 8} more" if len(numbers) > 8 else ""
    return ", ".join(map(str, numbers[:8])) + more


def _seen(trace: Traced) -> list[LayerSeen]:
    seen: list[list[Turn]] = []
    types = getattr(trace.model.config, "layer_types", None) or []
    layers = []
    for i, layer in enumerate(trace.layers):
        turns = _turns(layer)
        like = next((j for j, other in enumerate(seen) if turns and _alike(turns, other)), i) if turns else None
        seen.append(turns)
        layers.append(LayerSeen(like, _words(trace, turns), str(types[i]) if i < len(types) else "", layer.error))
    return layers


@dataclass(frozen=True)
class Axes:
    """Where batch, heads and length lie in a place of a rotation; None for an axis that it has not."""

    batch: int | None
    heads: int | None
    length: int
    width: int
    first: int


@dataclass(frozen=True)
class Rotation:
    """The rotations of one layer, of queries and of keys.

    head_dim: features of a head of ours. axes: of the place of queries, and of that of keys.
    several: how many positions a token has, where it is not one.
    """

    trace: Traced
    layer: int
    head_dim: int
    axes: tuple[Axes, ...]
    several: tuple[int, ...] = ()

    def at_zero(self) -> Array:
        """Return the magnitudes of what becomes of each feature of a head at position 0: (feature, head_dim)."""
        ones = np.eye(self.head_dim, dtype=np.float32)[:, None, None, :]  # (feature, 1, 1, head_dim)
        return np.abs(self.rotate(ones, np.zeros((*self.several, self.head_dim, 1), np.int64), 0)[:, 0, 0])

    def permutation(self) -> tuple[int, ...]:
        """Return which feature of the model's heads is which of ours; () where they stand alike, or none is.

        Nothing is rotated at position 0: what goes in as feature i comes out where the model has it.
        """
        rows = self.at_zero()
        at = rows.argmax(-1)
        is_one = rows.shape[0] == rows.shape[1] and (np.count_nonzero(rows > 1e-6, axis=-1) == 1).all()
        if not is_one or len(set(at)) < len(at) or (at == np.arange(len(at))).all():
            return ()
        return tuple(map(int, at))

    def rotate(self, x: Array, positions: Integers, which: int) -> Array:
        """Return heads as the model rotates them, in its order of features.

        x: (batch, heads, seq, head_dim). positions: (batch, seq), or (axes, batch, seq). which: 0 queries, 1 keys.
        A head of another width than the model's is cut, or filled with zeros, and has the model's width then.
        """
        from posenc.hf.asking.tracing import takes_positions

        if not takes_positions(self.trace.model):
            return self._counted(x, positions, which)
        return self._at(x, positions, which)

    def _at(self, x: Array, positions: Integers | None, which: int) -> Array:
        import torch

        batch, _, length, _ = x.shape
        told = None if positions is None else torch.from_numpy(np.ascontiguousarray(positions))
        error = self.trace.call(batch, length, told, max(self.layer, 0))
        layer = self.trace.loose if self.layer < 0 else self.trace.layers[self.layer : self.layer + 1]
        turns = _turns(layer if not isinstance(layer, list) else layer[0]) if layer else []
        if len(_places(turns)) <= which and len(_places(turns)) != 1:
            raise CannotAsk(f"the model does not rotate here: {error or 'no function was called'}")
        turn, place = _places(turns)[min(which, len(_places(turns)) - 1)]
        axes = self.axes[min(which, len(self.axes) - 1)]
        return _rotated(turn, place, axes, _wide(x, axes, turn))

    def _counted(self, x: Array, positions: Integers, which: int) -> Array:
        """Rotate where the model counts positions itself, from 0: each token stands in a row at its position."""
        if positions.ndim > 2:
            raise CannotAsk("the model counts positions itself, and tokens have several here")
        batch, heads, _, width = x.shape
        order = _occurrences(positions)
        rows = int(order.max()) + 1
        whole = np.zeros((batch, rows, heads, int(positions.max()) + 1, width), np.float32)
        at = np.arange(batch)[:, None], order
        whole[at[0], at[1], :, positions] = np.moveaxis(x, 1, 2)
        rotated = self._at(whole.reshape(batch, rows * heads, -1, width), None, which)
        rotated = rotated.reshape(batch, rows, heads, rotated.shape[2], rotated.shape[-1])
        return np.moveaxis(rotated[at[0], at[1], :, positions], 1, 2)


def _occurrences(positions: Integers) -> Integers:
    """Return of each token how many before it in its row have its position: (batch, seq)."""
    equal = positions[:, :, None] == positions[:, None, :]
    return np.tril(equal, -1).sum(-1)


def _trace(question: Question) -> tuple[Traced, Loaded]:
    """Return the first model of a config, or of its language model, in which something is rotated."""
    from posenc.hf.asking.tracing import model_classes, traced

    loaded = load(question.content, question.part)
    reasons = []
    for candidate in _candidates(loaded):
        for kind in model_classes(candidate):
            try:
                trace = traced(candidate, kind)
            except CannotAsk as error:
                reasons.append(str(error))
                continue
            error = _probe(trace, _several(question))
            if any(_turns(layer) for layer in (*trace.layers, trace.loose)):
                return trace, candidate
            reasons.append(f"{kind.__name__} rotates nothing that is seen{error and f' ({error})'}")
    name = type(loaded.config).__name__
    raise CannotAsk(reasons[0] if reasons else f"{loaded.library} has no model for {name} alone")


def _candidates(loaded: Loaded) -> list[Loaded]:
    """Return a config, and that of its language model where it has one."""
    text = loaded.config.get_text_config() if hasattr(loaded.config, "get_text_config") else loaded.config
    if text is loaded.config:
        return [loaded]
    return [loaded, Loaded(loaded.whole, text, modeling_of(text), loaded.library)]


def _several(question: Question) -> tuple[int, ...]:
    """Return how many positions a token has, where it is not one."""
    ports = carrying(question.inputs, Positions)
    return () if not ports or len(ports[0].axes) < 3 else (int(ports[0].axes[0].size or 1),)


def _probe(trace: Traced, several: tuple[int, ...]) -> str:
    """Call a model whole, with sizes that are unlike all of its own."""
    import torch

    batch, length = _sizes(trace)
    return trace.call(batch, length, torch.arange(length).expand(*several, batch, length))


def _sizes(trace: Traced) -> tuple[int, int]:
    """Return a batch and a length that no size of the config is."""
    own = {value for value in trace.model.config.to_dict().values() if isinstance(value, int)}
    batch, length = [size for size in PRIMES if size not in own][:2]
    return batch, length


def _layer_of(trace: Traced, question: Question) -> int:
    """Return the layer that is asked, by default the first that rotates; -1 for what rotates outside of layers."""
    layer, kind = question.layer, question.layer_type
    if layer is None and kind:
        types = list(getattr(trace.model.config, "layer_types", None) or [])
        layer = next((i for i, name in enumerate(types) if name == kind and _turns(trace.layers[i])), None)
        if layer is None:
            raise CannotAsk(f"no layer of the model is of type {kind}, and rotates")
    if layer is None:
        return next((i for i, seen in enumerate(trace.layers) if _turns(seen)), -1)
    if not 0 <= layer < len(trace.layers):
        raise CannotAsk(f"the model has layers 0 to {len(trace.layers) - 1}, not {layer}")
    if not _turns(trace.layers[layer]):
        why = trace.layers[layer].error
        raise CannotAsk(f"layer {layer} does not rotate{why and f': {why}'}")
    return layer


def _turns(layer: Layer) -> list[Turn]:
    """Return the rotations of an attention's own queries and keys."""
    turns = [turn for turn in layer.turns if turn.places]
    return [turn for turn in turns if not ASIDE.search(turn.owner)] or turns


def _places(turns: Sequence[Turn]) -> list[tuple[Turn, int]]:
    return [(turn, i) for turn in turns for i in range(len(turn.places))]


def _words(trace: Traced, turns: Sequence[Turn]) -> str:
    """Return the classes and functions that answer."""
    kinds = [type(module).__name__ for module in trace.model.modules() if isinstance(module, trace.angle_classes)]
    functions = [turn.function.__name__ for turn in turns]
    return ", ".join(dict.fromkeys((*(kinds or [turn.owner for turn in turns]), *functions)))


def _alike(turns: Sequence[Turn], others: Sequence[Turn]) -> bool:
    """Return whether two layers rotate by the same functions of the same numbers."""
    if len(turns) != len(others):
        return False
    return all(
        a.function is b.function and a.places == b.places and _same(_constants(a), _constants(b))
        for a, b in zip(turns, others, strict=True)
    )


def _constants(turn: Turn) -> list[Any]:
    from posenc.hf.asking.tracing import Rotated

    return [value for value in (*turn.arguments, *turn.keywords.values()) if not isinstance(value, Rotated)]


def _same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    import torch

    def same(a: Any, b: Any) -> bool:
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            return a.shape == b.shape and bool(torch.equal(a, b))
        if isinstance(a, tuple) and isinstance(b, tuple):
            return _same(a, b)
        return type(a) is type(b) and (isinstance(a, torch.nn.Module) or bool(a == b))

    return len(some) == len(others) and all(map(same, some, others))


def _axes(turns: Sequence[Turn], trace: Traced) -> list[Axes]:
    """Return the axes of what is rotated: of queries, and of keys where they are a place of their own."""
    batch, length = _sizes(trace)
    places = [place for turn in turns for place in turn.places][:2]
    return [_axes_of(place, batch, length) for place in places]


def _axes_of(place: Rotated, batch: int, length: int) -> Axes:
    """Return where batch, heads and length are among the axes of a place; raise CannotAsk where they are not."""
    outer = place.shape[:-1]
    if length not in outer or len(outer) > 3:
        raise CannotAsk(
            f"the model rotates an array of {' x '.join(map(str, place.shape))}, of which no axis is a length"
        )
    at = {"length": outer.index(length), "batch": outer.index(batch) if batch in outer else None}
    rest = [i for i in range(len(outer)) if i not in at.values()]
    return Axes(at["batch"], rest[0] if rest else None, outer.index(length), place.shape[-1], place.first)


def _wide(x: Array, axes: Axes, turn: Turn) -> Array:
    """Return heads in the model's own width, if it is not ours: cut, or with zeros behind."""
    own = axes.width if turn.head_dim is None or axes.first else max(axes.width, turn.head_dim)
    is_part = axes.width == x.shape[-1] or own == x.shape[-1]
    if is_part or axes.first + axes.width < x.shape[-1]:
        return x
    wide = np.zeros((*x.shape[:-1], own), np.float32)
    shared = min(own, x.shape[-1])
    wide[..., :shared] = x[..., :shared]
    return wide


def _rotated(turn: Turn, which: int, axes: Axes, x: Array) -> Array:
    """Return heads rotated by a function of the model: (batch, heads, seq, width) -> the same."""
    first = axes.first if axes.width < x.shape[-1] else 0
    part = x[..., first : first + axes.width]
    if axes.heads is None:
        rotated = np.stack([_again(turn, which, axes, part[:, i : i + 1])[:, 0] for i in range(part.shape[1])], 1)
    else:
        rotated = _again(turn, which, axes, part)
    return np.concatenate([x[..., :first], rotated, x[..., first + axes.width :]], -1)


def _again(turn: Turn, which: int, axes: Axes, x: Array) -> Array:
    """Call a function of the model for what it did with queries, or with keys."""
    import torch

    order = sorted((i, at) for at, i in enumerate((axes.batch, axes.heads, axes.length)) if i is not None)
    absent = [at for at, i in enumerate((axes.batch, axes.heads, axes.length)) if i is None]
    given = torch.from_numpy(np.ascontiguousarray(x, np.float32)).permute(*(at for _, at in order), *absent, 3)
    shape = given.shape
    given = given.flatten(len(order), -2).squeeze(len(order)) if absent else given
    try:
        out = turn.again([given] * len(turn.places))[which].float()
    except Exception as error:
        raise CannotAsk(f"{turn.function.__name__} takes no heads of {x.shape[-1]} features: {said(error)}") from None
    back = out.reshape(*shape[:-1], out.shape[-1]).permute(*np.argsort([*(at for _, at in order), *absent, 3]).tolist())
    return back.numpy()


def _head_dim(question: Question) -> int:
    """Return the features of a head of ours."""
    return int(str(question.reading.parameters["head_dim"]))


def _call(question: Question, rotation: Rotation) -> Callable[[Feeds], Mapping[str, Array]]:
    """Return what gives the outputs of our encoding by the model's rotations."""
    permutation = list(rotation.permutation()) or slice(None)
    by_seq = question.reading.parameters.get("tensor_layout") == "bshd"
    names = [port.name for port in question.outputs]

    def rotated(x: Array, positions: Integers, which: int) -> Array:
        swapped = np.swapaxes(x, 1, 2) if by_seq else x
        spread = np.broadcast_to(positions, (*positions.shape[:-2], x.shape[0], positions.shape[-1]))
        out = rotation.rotate(swapped.astype(np.float32), spread, which)[..., permutation]
        return np.swapaxes(out, 1, 2) if by_seq else out

    def call(feeds: Feeds) -> Mapping[str, Array]:
        positions = positions_of(_spec(question.outputs), question.inputs, feeds)
        values = [feeds[port.name] for port in carrying(question.inputs, Values)]
        if values:
            return {name: rotated(x, positions, i) for i, (name, x) in enumerate(zip(names, values, strict=True))}
        rows = _cos_sin(question, rotation, positions)
        return dict(zip(names, rows, strict=True))

    return call


def _spec(outputs: tuple[Port, ...]) -> Spec:
    """Return a spec of as many positions as a whole cache has."""
    rows = outputs[0].axes[0].size
    return Spec() if rows is None else Spec(max_len=rows)


def _cos_sin(question: Question, rotation: Rotation, positions: Integers) -> tuple[Array, Array]:
    """Return the cosines and sines by which the model rotates: what becomes of the first feature of each pair."""
    parameters = question.reading.parameters
    pairs = int(str(parameters.get("rotary_dim") or rotation.head_dim)) // 2
    step = 2 if parameters.get("layout") == "interleaved" else 1
    first = np.arange(pairs) * step
    second = first + (1 if step == 2 else pairs)
    at = positions if positions.ndim > 1 else positions[None]
    x = np.zeros((*at.shape[-2:], 1, rotation.head_dim), np.float32).swapaxes(1, 2)
    x[..., first] = 1
    out = rotation.rotate(x, at, 0)[:, 0][..., list(rotation.permutation()) or slice(None)]
    rows = [out[..., first], out[..., second]]
    if parameters.get("width") == "full":
        rows = [np.repeat(row, 2, -1) if step == 2 else np.concatenate([row, row], -1) for row in rows]
    cos, sin = (row if positions.ndim > 1 else row[0] for row in rows)
    return cos, sin
