"""A call of a kernel: a node, its arrays, its attributes by type, and the memory that its outputs may take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from posenc_export.read.graph import Node
from posenc_export.read.values import Array, Shape

BUDGET = 2**26
"""Bytes that the outputs of a node may take."""
WORK = 64
"""Products of matrices may take that many multiplications for each byte of the budget."""


class TooLarge(ValueError):
    """The outputs of a node would take more memory than the budget."""


class NoKernel(ValueError):
    """Nothing here computes an operator."""


class Elsewhere(NoKernel):
    """A kernel leaves a form of its operator to other implementations."""


@dataclass(frozen=True)
class KernelCall:
    """A node on concrete arrays.

    Args:
        node: the node.
        version: of its operator's domain.
        arrays: its inputs in order; None for an input that is left out.
        budget: bytes that its outputs may take.
    """

    node: Node
    version: int
    arrays: Sequence[Array | None]
    budget: int = BUDGET

    def has(self, place: int) -> bool:
        """Return whether there is an input at a place."""
        return place < len(self.arrays) and self.arrays[place] is not None

    def array(self, place: int) -> Array:
        """Return the input at a place; ValueError where it is left out."""
        array = self.arrays[place] if place < len(self.arrays) else None
        if array is None:
            raise ValueError(f"{self.node.op_type} needs input {place}, which node {self.node.name!r} leaves out")
        return array

    def present(self) -> list[Array]:
        """Return the inputs that are not left out."""
        return [array for array in self.arrays if array is not None]

    def integers(self, name: str, place: int | None = None) -> tuple[int, ...] | None:
        """Return a list of integers, in an input for newer operators and an attribute for older; None without one."""
        if place is not None and self.has(place):
            return tuple(int(number) for number in self.array(place).reshape(-1).tolist())
        value = self.node.attributes.get(name)
        if value is None:
            return None
        if not isinstance(value, list | tuple) or not all(isinstance(number, int) for number in value):
            raise ValueError(f"{self.node.op_type} has {value!r} for {name}, and needs a list of integers")
        return tuple(value)

    def integer(self, name: str, default: int) -> int:
        """Return an attribute that is an integer."""
        value = self.node.attributes.get(name, default)
        if not isinstance(value, int):
            raise ValueError(f"{self.node.op_type} has {value!r} for {name}, and needs an integer")
        return value

    def number(self, name: str, default: float) -> float:
        """Return an attribute that is a number."""
        value = self.node.attributes.get(name, default)
        if not isinstance(value, int | float):
            raise ValueError(f"{self.node.op_type} has {value!r} for {name}, and needs a number")
        return float(value)

    def text(self, name: str, default: str) -> str:
        """Return an attribute that is a text."""
        return str(self.node.attributes.get(name, default))

    def scalar(self, place: int) -> Array:
        """Return an input that has one element, as a scalar."""
        array = self.array(place)
        if array.size != 1:
            raise ValueError(f"{self.node.op_type} needs one number for input {place}, which has shape {array.shape}")
        return array.reshape(())

    def room(self, shape: Sequence[int], dtype: np.dtype[np.generic]) -> Shape:
        """Return the shape of an output; TooLarge where it would take more than the budget."""
        sizes = tuple(int(size) for size in shape)
        if any(size < 0 for size in sizes):
            raise ValueError(f"{self.node.op_type} would give a negative size: {list(sizes)}")
        # Python's integers do not overflow, as int64 would at 2^60 elements
        size = prod(sizes) * np.dtype(dtype).itemsize
        if size > self.budget:
            raise TooLarge(
                f"{self.node.op_type} would give {list(sizes)}, {size} bytes, above the {self.budget} allowed"
            )
        return sizes

    def work(self, multiplications: int) -> None:
        """Raise TooLarge where products would take longer than the budget allows."""
        if multiplications > WORK * self.budget:
            raise TooLarge(f"{self.node.op_type} would take {multiplications} multiplications, above what is allowed")

    def axis(self, rank: int, default: int, name: str = "axis") -> int:
        """Return the attribute of an axis, from 0."""
        return place_of(self.integer(name, default), rank, self.node.op_type)

    def axes(self, numbers: Sequence[int], rank: int) -> tuple[int, ...]:
        """Return axes from 0; ValueError where there is no such axis, or one is listed twice."""
        axes = tuple(place_of(number, rank, self.node.op_type) for number in numbers)
        if len(set(axes)) < len(axes):
            raise ValueError(f"{self.node.op_type} lists an axis twice: {list(numbers)}")
        return axes


Kernel = Callable[[KernelCall], list[Array]]
Ints = NDArray[np.int64]


def place_of(axis: int, rank: int, operator: str) -> int:
    """Return an axis from 0; ValueError where there is none."""
    if not -rank <= axis < rank:
        raise ValueError(f"{operator} takes axis {axis} of {rank}")
    return axis % rank


def wide(array: Array) -> Array:
    """Return numbers in an element type in which sums of them are computed: float32 for half precision."""
    # ml_dtypes' small floats are of no kind that NumPy calls floating
    is_half = array.dtype.itemsize <= 2 and not np.issubdtype(array.dtype, np.integer) and array.dtype != np.bool_
    return array.astype(np.float32) if is_half else array
