"""Stored numbers made wrong: rows zeroed or swapped, elements moved, constants negated or one more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

from helpers.mutants.mutation import Kind, Mutation, Site
from posenc.ports import Array

FEW = 16
"""Integers up to so many are constants: shapes, axes, ends."""


@dataclass(frozen=True)
class Place:
    """Where a stored tensor is: an initializer, or the value of a Constant node."""

    index: int
    of_node: bool

    def proto(self, model: ModelProto) -> TensorProto:
        """Return the tensor itself."""
        value = (a.t for a in model.graph.node[self.index].attribute if a.name == "value") if self.of_node else ()
        tensor: TensorProto = next(iter(value), None) or model.graph.initializer[self.index]
        return tensor

    def name(self, model: ModelProto) -> str:
        """Return the name by which nodes read it."""
        return str(model.graph.node[self.index].output[0] if self.of_node else model.graph.initializer[self.index].name)

    def array(self, model: ModelProto) -> Array:
        """Return what it holds, to be changed."""
        return np.array(numpy_helper.to_array(self.proto(model)))

    def put(self, model: ModelProto, array: Array) -> None:
        """Store other numbers."""
        self.proto(model).CopyFrom(numpy_helper.from_array(array, self.proto(model).name))


def places(model: ModelProto) -> list[Place]:
    """Return where tensors are stored."""
    constants = [
        Place(i, True)
        for i, node in enumerate(model.graph.node)
        if node.op_type == "Constant" and any(a.name == "value" for a in node.attribute)
    ]
    return [*(Place(i, False) for i in range(len(model.graph.initializer))), *constants]


def is_table(array: Array) -> bool:
    """Return whether a tensor holds rows or elements, and is no constant of one number, or shape."""
    return array.size > (1 if array.dtype.kind == "f" else FEW)


def rows(model: ModelProto) -> Iterator[Site]:
    for place in places(model):
        if is_table(place.array(model)):
            yield from (partial(_changed, place, what, change) for what, change in OF_TABLES.items())


def constants(model: ModelProto) -> Iterator[Site]:
    for place in places(model):
        array = place.array(model)
        if array.size and not is_table(array):
            yield from (partial(_changed, place, what, change) for what, change in OF_CONSTANTS.items())


Change = Callable[[Array, np.random.Generator], str]
"""Changes an array in place; returns where and what, as "row 5"."""


def _changed(place: Place, what: str, change: Change, model: ModelProto, rng: np.random.Generator) -> Mutation | None:
    array = place.array(model)
    before = array.copy()
    where = change(array, rng)
    if array.tobytes() == before.tobytes():
        return None
    place.put(model, array)
    kind: Kind = "rows and elements" if is_table(array) else "constants and attributes"
    few = array.size <= FEW
    was, now = (str(before.tolist()), str(array.tolist())) if few else ("", "")
    return Mutation(kind, what, f"{place.name(model)}{where}", "", was, now)


def _zeroed(array: Array, rng: np.random.Generator) -> str:
    row = int(rng.integers(array.shape[0]))
    array[row] = 0
    return f"[{row}]"


def _swapped(array: Array, rng: np.random.Generator) -> str:
    one, other = (int(n) for n in rng.integers(array.shape[0], size=2))
    array[[one, other]] = array[[other, one]]
    return f"[{one}, {other}]"


def _moved(array: Array, rng: np.random.Generator) -> str:
    index = np.unravel_index(int(rng.integers(array.size)), array.shape)
    number = array[index]
    if array.dtype.kind == "f":
        array[index] = number * array.dtype.type(1.01) if number else array.dtype.type(0.01)
    else:
        array[index] = number + 1
    return str([int(i) for i in index])


def _negated(array: Array, rng: np.random.Generator) -> str:
    index = int(rng.integers(array.size))
    array.flat[index] = ~array.flat[index] if array.dtype.kind == "b" else -array.flat[index]
    return ""


def _one_more(array: Array, rng: np.random.Generator) -> str:
    index = int(rng.integers(array.size))
    number = array.flat[index]
    largest = array.dtype.kind in "iu" and number == np.iinfo(array.dtype).max
    array.flat[index] = ~number if array.dtype.kind == "b" else number - 1 if largest else number + 1
    return ""


OF_TABLES: Mapping[str, Change] = {"row zeroed": _zeroed, "rows swapped": _swapped, "element moved": _moved}
OF_CONSTANTS: Mapping[str, Change] = {"constant negated": _negated, "constant one more": _one_more}
