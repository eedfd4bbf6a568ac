"""Chains of Sin and Cos in an interpreted graph: at which whole positions, with which frequencies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from posenc_export.common.errors import BadInput
from posenc_export.read.errors.rounding import frequencies_of
from posenc_export.read.extend.held import Array, Floats
from posenc_export.read.recognise.named import Named
from posenc_export.read.values import Meeting, Position, Run

DEEPEST = 4000
"""Nodes that are gone back from a table to the Sin and Cos that made it."""
ALIKE = 0.02
"""How far frequencies may be off, relative to them: bfloat16 holds them to 0.004, and multiplies them so."""
WAVES = ("Cos", "Sin")


@dataclass(frozen=True)
class Fitting:
    """How angles are positions times frequencies.

    Args:
        squeezed: axes of size 1 that go from the positions.
        unsqueezed: axes of size 1 that come to the positions, so that they have the axes of the angles but the last.
        expanded: whether rows are repeated along one of these, as angles are for a batch.
        pairs: the pair of the closed form, for each column of the angles.
    """

    squeezed: tuple[int, ...] = ()
    unsqueezed: tuple[int, ...] = ()
    expanded: bool = False
    pairs: tuple[int, ...] = ()


@dataclass(frozen=True)
class Wave:
    """A node Sin or Cos.

    Args:
        node: what is interpreted of it.
        angles: the tensor of its angles.
        positions: the tensor of whole positions that these come from.
        fitting: how they do.
    """

    node: Meeting
    angles: str
    positions: str
    fitting: Fitting


def waves_of(run: Run, named: Named) -> list[Wave]:
    """Return the nodes Sin and Cos that an encoding comes from; BadInput where they are not of whole positions.

    Args:
        run: the graph at a length and a batch that differ, and are not 1.
        named: the encoding, with a closed form.
    """
    assert named.form.exact is not None
    inv_freq, _ = frequencies_of(named.form.exact)
    nodes = {node.outputs[0]: node for tensor in named.tensors for node in _waves_before(run, tensor)}
    if not {node.op_type for node in nodes.values()}.issuperset(WAVES):
        raise BadInput(f"{named.nodes[0]}: its numbers come from no Sin and Cos of the graph: --exact swaps those")
    return [_wave(run, node, inv_freq) for node in nodes.values()]


def _waves_before(run: Run, tensor: str) -> Iterator[Meeting]:
    """Yield the nodes Sin and Cos that a value was made by, none behind another one."""
    for node in _makers(run, tensor):
        if node.op_type in WAVES and not node.domain:
            yield node


def _makers(run: Run, tensor: str, through: bool = False) -> Iterator[Meeting]:
    """Yield the nodes before a tensor whose outputs are position values, the nearest first.

    Args:
        run: an interpreted graph.
        tensor: where to begin.
        through: whether to go on behind Sin and Cos.
    """
    waiting, seen = [tensor], {tensor}
    while waiting and len(seen) < DEEPEST:
        name = waiting.pop(0)
        if name not in run.produced or not isinstance(run.values.get(name), Position):
            continue
        node = run.nodes[run.produced[name]]
        yield node
        for operand in node.operands if through or node.op_type not in WAVES else ():
            if operand is not None and operand.tensor not in seen:
                seen.add(operand.tensor)
                waiting.append(operand.tensor)


def _wave(run: Run, node: Meeting, inv_freq: Floats) -> Wave:
    """Return a node with the positions that its angles are multiples of."""
    operand = node.operands[0]
    if operand is None or not isinstance(operand.value, Position):
        raise BadInput(f"{node.node}: its angles are not known")
    angles = operand.value.array.astype(np.float64)
    # the farthest one comes from an input or a range, and was not rounded yet
    for name, array in reversed(list(_whole(run, operand.tensor))):
        fitted = _fitted(angles, array, inv_freq)
        if fitted is not None:
            return Wave(node, operand.tensor, name, fitted)
    raise BadInput(f"{node.node}: its angles are no whole positions times frequencies: --exact cannot swap it")


def _whole(run: Run, tensor: str) -> Iterator[tuple[str, Array]]:
    """Yield the tensors before angles that hold whole numbers."""
    names = dict[str, None]()
    for node in _makers(run, tensor, through=True):
        names.update((operand.tensor, None) for operand in node.operands if operand is not None)
    for name in names:
        value = run.values.get(name)
        if isinstance(value, Position) and value.array.ndim and value.array.dtype.kind in "iuf":
            numbers = value.array.astype(np.float64)
            if numbers.size > 1 and np.isfinite(numbers).all() and (numbers == np.rint(numbers)).all():
                yield name, value.array


def _fitted(angles: Floats, positions: Array, inv_freq: Floats) -> Fitting | None:
    """Return how angles are positions times frequencies; None where they are not."""
    fitting = _aligned(angles.shape[:-1], positions.shape)
    if fitting is None:
        return None
    lines = np.expand_dims(np.squeeze(positions.astype(np.float64), fitting.squeezed), fitting.unsqueezed)
    flat, whole = angles.reshape(-1, angles.shape[-1]), np.broadcast_to(lines, angles.shape[:-1]).reshape(-1)
    if not np.any(whole == 1):
        return None
    pairs = _pairs(flat[np.flatnonzero(whole == 1)[0]], inv_freq)
    if pairs is None or np.abs(flat - whole[:, None] * inv_freq[pairs]).max() > ALIKE * max(np.abs(flat).max(), 1e-9):
        return None
    return replace(fitting, pairs=tuple(pairs.tolist()))


def _aligned(angles: tuple[int, ...], positions: tuple[int, ...]) -> Fitting | None:
    """Return which axes of size 1 go from positions and come to them, so that they are broadcast to angles."""
    if angles == positions:
        return Fitting()
    rest = [size for size in positions if size != 1]
    unsqueezed, expanded = [], False
    for axis in reversed(range(len(angles))):
        if rest and rest[-1] == angles[axis]:
            rest.pop()
        else:
            unsqueezed.append(axis)
            expanded = expanded or angles[axis] != 1
    squeezed = tuple(axis for axis, size in enumerate(positions) if size == 1)
    return None if rest else Fitting(squeezed, tuple(sorted(unsqueezed)), expanded)


def _pairs(frequencies: Floats, inv_freq: Floats) -> NDArray[np.int64] | None:
    """Return the pair of each column, in one of the usual orders."""
    count = len(inv_freq)
    for pairs in (np.arange(count), np.tile(np.arange(count), 2), np.repeat(np.arange(count), 2)):
        if len(pairs) == len(frequencies):
            off = np.abs(frequencies - inv_freq[pairs])
            if (off <= ALIKE * np.abs(inv_freq[pairs]) + 1e-6).all():
                return pairs
    return None
