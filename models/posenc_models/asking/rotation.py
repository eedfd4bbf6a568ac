"""The rotations that were seen in a layer, called for heads of ours: where batch, heads and length are in them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from posenc.ports import Array, Integers
from posenc_models.asking.calling import takes_positions
from posenc_models.asking.load import said
from posenc_models.asking.model import CannotAsk, Disagrees
from posenc_models.asking.tracing import MetaModel, RotaryCall, RotatedArgument, TracedLayer
from posenc_models.config.foreign import HfModule

ASIDE = re.compile(r"Indexer|Compress", re.IGNORECASE)
"""Owners of rotations beside those of the attention itself, as in DeepSeek V3.2 and V4."""
PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)
"""Sizes that a batch and a length may have while their axes are looked for."""


@dataclass(frozen=True)
class RotationAxes:
    """Where batch, heads and length lie in a place of a rotation; None for an axis that does not exist."""

    batch: int | None
    heads: int | None
    length: int
    width: int
    first: int


@dataclass(frozen=True)
class LayerRotations:
    """The rotations of a layer: of its queries and of its keys.

    Args:
        trace: the model, and how it is called.
        layer: the number of the layer; -1 for rotations outside of layers.
        head_dim: the features of a head of ours.
        axes: those of the place of queries, and those of the place of keys.
        several: how many positions a token has, where it has several.
        last: whether heads of ours are the last features of the model's.
    """

    trace: MetaModel
    layer: int
    head_dim: int
    axes: tuple[RotationAxes, ...]
    several: tuple[int, ...] = ()
    last: bool = False

    def at_zero(self) -> Array:
        """Return the magnitudes of a head's features at position 0, for a 1 in each: (feature, head_dim)."""
        ones = np.eye(self.head_dim, dtype=np.float32)[:, None, None, :]  # (feature, 1, 1, head_dim)
        return np.abs(self.rotate(ones, np.zeros((*self.several, self.head_dim, 1), np.int64), 0)[:, 0, 0])

    def moves(self) -> bool:
        """Return whether heads differ between positions 0 and 1."""
        return bool(self._moving(self.head_dim).any())

    def moves_last(self) -> bool:
        """Return whether the model's heads are wider, and the last features alone depend on the position."""
        width = self.axes[0].width
        if width <= self.head_dim:
            return False
        moving = self._moving(width)
        return len(moving) == width and bool(moving[-self.head_dim :].any()) and not moving[: -self.head_dim].any()

    def _moving(self, width: int) -> Array:
        """Return for each feature of a head of ones whether it differs between positions 0 and 1."""
        ones = np.ones((1, 1, 2, width), np.float32)
        rotated = self.rotate(ones, np.broadcast_to(np.arange(2), (*self.several, 1, 2)), 0)
        return np.asarray(rotated[0, 0, 0] != rotated[0, 0, 1])

    def permutation(self) -> tuple[int, ...]:
        """Return the model's feature for each of ours; () where their order is the same, or cannot be seen.

        Nothing is rotated at position 0: feature i goes in, and comes out where the model has it.
        """
        rows = self.at_zero()
        at = rows.argmax(-1)
        is_one = rows.shape[0] == rows.shape[1] and (np.count_nonzero(rows > 1e-6, axis=-1) == 1).all()
        if not is_one or len(set(at)) < len(at) or (at == np.arange(len(at))).all():
            return ()
        return tuple(map(int, at))

    def rotate(self, x: Array, positions: Integers, role: int) -> Array:
        """Return heads as the model rotates them, in its order of features.

        A head of another width than the model's is cut, or filled with zeros, and has the model's width then.

        Args:
            x: (batch, heads, seq, head_dim).
            positions: (batch, seq), or (axes, batch, seq).
            role: 0 for queries, 1 for keys.
        """
        if self.axes[min(role, len(self.axes) - 1)].batch is None and len(x) > 1:
            rows = range(len(x))
            return np.concatenate([self.rotate(x[i : i + 1], positions[..., i : i + 1, :], role) for i in rows])
        if not takes_positions(self.trace):
            return self._counted(x, positions, role)
        return self._at(x, positions, role)

    def _at(self, x: Array, positions: Integers | None, role: int) -> Array:
        """Call the model at positions, and its last rotation of this role again, for our heads."""
        batch, _, length, _ = x.shape
        position_ids = None if positions is None else torch.from_numpy(np.array(positions))
        why = self.trace.call(batch, length, position_ids, max(self.layer, 0))
        layers = [self.trace.loose] if self.layer < 0 else self.trace.layers[self.layer : self.layer + 1]
        places = _places([call for layer in layers for call in calls_of(layer)])
        if not places:
            raise CannotAsk(f"the model does not rotate here: {why or 'no function was called'}")
        call, place = places[min(role, len(places) - 1)]
        axes = self.axes[min(role, len(self.axes) - 1)]
        rotated = _rotated(call, place, axes, _wide(x, axes, call, self.last))
        return rotated[..., -x.shape[-1] :] if self.last else rotated

    def _counted(self, x: Array, positions: Integers, role: int) -> Array:
        """Rotate where the model counts positions itself, from 0: each token stands in a row at its position."""
        if positions.ndim > 2:
            raise CannotAsk("the model counts positions itself, and tokens have several here")
        batch, heads, _, width = x.shape
        # a position that occurs twice needs a second row: (batch, rows, heads, end, head_dim)
        order = _occurrences(positions)
        rows = int(order.max()) + 1
        whole = np.zeros((batch, rows, heads, int(positions.max()) + 1, width), np.float32)
        at = np.arange(batch)[:, None], order
        whole[at[0], at[1], :, positions] = np.moveaxis(x, 1, 2)
        rotated = self._at(whole.reshape(batch, rows * heads, -1, width), None, role)
        rotated = rotated.reshape(batch, rows, heads, rotated.shape[2], rotated.shape[-1])
        return np.moveaxis(rotated[at[0], at[1], :, positions], 1, 2)


def _occurrences(positions: Integers) -> Integers:
    """Return for each token how many before it in its row have the same position: (batch, seq)."""
    equal = positions[:, :, None] == positions[:, None, :]
    order: Integers = np.tril(equal, -1).sum(-1)
    return order


def unlike_sizes(trace: MetaModel) -> tuple[int, int]:
    """Return a batch and a length that are unlike all sizes of the config: an axis shows which it is."""
    model: HfModule = trace.model
    own = {value for value in model.config.to_dict().values() if isinstance(value, int)}
    batch, length = [size for size in PRIMES if size not in own][:2]
    return batch, length


def calls_of(layer: TracedLayer) -> list[RotaryCall]:
    """Return the rotations of an attention's own queries and keys."""
    calls = [call for call in layer.calls if call.places]
    return [call for call in calls if not ASIDE.search(call.owner)] or calls


def _places(calls: Sequence[RotaryCall]) -> list[tuple[RotaryCall, int]]:
    """Return each place of the calls, by its call and its number in that."""
    return [(call, i) for call in calls for i in range(len(call.places))]


def axes_of(calls: Sequence[RotaryCall], sizes: tuple[int, int]) -> list[RotationAxes]:
    """Return the axes of what is rotated, by (batch, length): of queries, and of keys where they have a place."""
    batch, length = sizes
    places = [place for call in calls for place in call.places][:2]
    return [_axes_of(place, batch, length) for place in places]


def _axes_of(place: RotatedArgument, batch: int, length: int) -> RotationAxes:
    """Return where batch, heads and length are among the axes of a place; raise CannotAsk where they are not."""
    outer = place.shape[:-1]
    if length not in outer or len(outer) > 3:
        raise CannotAsk(f"the model rotates an array of {' x '.join(map(str, place.shape))}, without a length axis")
    at = {length: outer.index(length), batch: outer.index(batch) if batch in outer else None}
    heads = next((i for i in range(len(outer)) if i not in at.values()), None)
    return RotationAxes(at[batch], heads, outer.index(length), place.shape[-1], place.first)


def _wide(x: Array, axes: RotationAxes, call: RotaryCall, last: bool = False) -> Array:
    """Return heads in the model's own width: cut, or with zeros behind them, or before them where they come last."""
    own, width = call.head_dim or axes.width, x.shape[-1]
    if width in (axes.width, own) or (call.head_dim is None and axes.width < width):
        return x
    wide = np.zeros((*x.shape[:-1], own), np.float32)
    shared = min(own, width)
    wide[..., slice(own - shared, own) if last else slice(shared)] = x[..., :shared]
    return wide


def _rotated(call: RotaryCall, role: int, axes: RotationAxes, x: Array) -> Array:
    """Return heads rotated by a function of the model: (batch, heads, seq, width) -> the same."""
    first = axes.first if axes.width < x.shape[-1] else 0
    part = x[..., first : first + axes.width]
    if axes.heads is None:  # the function rotates one head at a time
        rotated = np.stack([_again(call, role, axes, part[:, i : i + 1])[:, 0] for i in range(part.shape[1])], 1)
    else:
        rotated = _again(call, role, axes, part)
    return np.concatenate([x[..., :first], rotated, x[..., first + axes.width :]], -1)


def _why_not(call: RotaryCall, width: int) -> str:
    """Return in words whether a function of the model fails for its own heads, or for ours only."""
    try:
        call.again([torch.zeros(place.shape) for place in call.places])
    except Exception:
        return f"the model's own code fails for this config, in {call.function.__name__}"
    return f"{call.function.__name__} takes no heads of {width} features"


def _again(call: RotaryCall, role: int, axes: RotationAxes, x: Array) -> Array:
    """Call a function of the model as it was called for queries, or for keys, with our heads."""
    # ours is (batch, heads, length, width): its axes in the model's order, those that the model lacks behind them
    own = (axes.batch, axes.heads, axes.length)
    present = sorted((axis for axis in range(3) if own[axis] is not None), key=lambda axis: own[axis] or 0)
    order = (*present, *(axis for axis in range(3) if own[axis] is None), 3)
    heads = torch.from_numpy(np.array(x, np.float32)).permute(order)
    shape = heads.shape
    if len(present) < 3:  # absent axes have size 1
        heads = heads.flatten(len(present), -2).squeeze(len(present))
    try:
        out = call.again([heads] * len(call.places))[role].float()
    except Exception as error:
        raise Disagrees(f"{_why_not(call, x.shape[-1])}: {said(error)}") from None
    return out.reshape(*shape[:-1], out.shape[-1]).permute(*np.argsort(order).tolist()).numpy()
