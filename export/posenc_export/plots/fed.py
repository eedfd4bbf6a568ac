"""The inputs of a call that is drawn, by what their ports carry."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from posenc.ports import Array, Extents, Indices, Mask, Port, Positions, Size, Start, Values, are_probabilities


def _first(port: Port, sizes: Mapping[str, int], fill: int) -> Array:
    return np.zeros(port.shape(sizes))


def _filled(port: Port, sizes: Mapping[str, int], fill: int) -> Array:
    shape = port.shape(sizes)
    return np.full(shape, 1 / shape[-1] if are_probabilities(port) else fill)


def _counted(port: Port, sizes: Mapping[str, int], fill: int) -> Array:
    shape = port.shape(sizes)
    return np.broadcast_to(np.arange(shape[-1]), shape)


def _unmasked(port: Port, sizes: Mapping[str, int], fill: int) -> Array:
    assert isinstance(port.carries, Mask)
    return np.full(port.shape(sizes), 0 if port.carries.additive or port.carries.causal else 1)


def _indices(port: Port, sizes: Mapping[str, int], fill: int) -> Array:
    assert isinstance(port.carries, Indices)
    return _counted(port, sizes, fill) % (port.carries.end or 1)


def _size(port: Port, sizes: Mapping[str, int], fill: int) -> Array:
    assert isinstance(port.carries, Size)
    return np.full(port.shape(sizes), sizes[port.carries.of])


def _ones(port: Port, sizes: Mapping[str, int], fill: int) -> Array:
    return np.ones(port.shape(sizes))


FED: Mapping[type[object], Callable[[Port, Mapping[str, int], int], Array]] = {
    Values: _filled,
    Start: _first,
    Positions: _counted,
    Mask: _unmasked,
    Indices: _indices,
    Size: _size,
    Extents: _ones,
}
