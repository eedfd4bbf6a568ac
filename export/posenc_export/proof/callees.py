"""Modules and graphs that are called by names, and what they are given of pixels and of sounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from posenc.ports import Array, Port
from posenc_export.common.arrays import numpy_dtype

Call = Callable[[Mapping[str, Array]], Mapping[str, Array]]
"""A call of a module or of a graph: arrays by their names to arrays by their names."""


@dataclass(frozen=True)
class Callee:
    """A module or a graph that can be called.

    Args:
        call: calls it.
        inputs: what goes in.
    """

    call: Call
    inputs: tuple[Port, ...]


def numbers_from(port: Port, seeds: Array) -> Array:
    """Return pixels, or features of sounds, for each seed: (seeds, ...), the same on every machine, from -1 to 1."""
    size = int(np.prod([axis.size or 1 for axis in port.axes[1:]]))
    # a multiplicative hash of the place: NumPy's own generators may change
    drawn = ((np.arange(size, dtype=np.int64) + 1) * (2 * seeds[:, None] + 1) * 40503) % 65536
    values: Array = (drawn / 32768.0 - 1.0).astype(numpy_dtype(port.dtype))
    return values.reshape(len(seeds), *(axis.size or 1 for axis in port.axes[1:]))
