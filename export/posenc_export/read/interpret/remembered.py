"""What was computed before in a run: layers compute the same cosines again, which are then the same array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from posenc_export.read.values import Array, Constant

SHORT = 1 << 15
"""Bytes of an array that is known again by its numbers; a larger one is known by where it is."""


@dataclass
class Remembered:
    """Arrays of a run, and what nodes made of them.

    Args:
        size: bytes of all arrays that were made.
    """

    size: int = 0
    _short: dict[tuple[object, ...], Array] = field(default_factory=dict)
    _results: dict[tuple[object, ...], list[Array]] = field(default_factory=dict)
    _alive: dict[int, object] = field(default_factory=dict)

    def same(self, array: Array) -> Array:
        """Return an array with the same numbers that was there before, or the array itself."""
        if array.nbytes > SHORT or array.dtype.hasobject:
            return array
        return self._short.setdefault((array.shape, array.dtype, array.tobytes()), array)

    def key(
        self, kind: tuple[object, ...], arrays: Sequence[Array | None], constants: Sequence[Constant | None]
    ) -> tuple[object, ...]:
        """Return what tells a computation from others: what is done, and with which arrays.

        Args:
            kind: what is done.
            arrays: its inputs, as `same` returns them.
            constants: the tensors among them that are stored.
        """
        marks = []
        for array, constant in zip(arrays, constants, strict=True):
            # a large stored tensor is known by itself: its numbers lie in a file, which nothing here keeps open
            thing = constant if constant is not None and array is not None and array.nbytes > SHORT else array
            # a number of an object says nothing once the object is gone
            self._alive[id(thing)] = thing
            marks.append(id(thing))
        return (*kind, *marks)

    def results(self, key: tuple[object, ...]) -> list[Array] | None:
        """Return what a computation gave before; None where it was not made."""
        return self._results.get(key)

    def add(self, key: tuple[object, ...], arrays: Sequence[Array]) -> list[Array]:
        """Note what a computation gave, and return it."""
        for array in arrays:
            owner = array
            while isinstance(owner.base, np.ndarray):
                owner = owner.base
            if id(owner) not in self._alive:
                self._alive[id(owner)] = owner
                self.size += owner.nbytes
        self._results[key] = [self.same(array) for array in arrays]
        return self._results[key]
