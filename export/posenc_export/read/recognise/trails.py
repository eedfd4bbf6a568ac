"""Where position values come from: the nodes before them, up to stored tables and inputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from posenc_export.read.values import Constant, Data, Meeting, Operand, Position, Run, Value

Array = NDArray[np.generic]
LARGEST = 1 << 26
"""How many numbers a stored table may have that is opened."""
LOOKUPS = ("Gather", "GatherND", "GatherBlockQuantized")
RESIZING = ("Resize", "Upsample", "GridSample")


@dataclass
class Trails:
    """The nodes before each tensor, as far as positions and constants go.

    Args:
        run: an interpreted graph.
        known: of tensors that were asked for before, the places of the look-ups and resizings before them.
    """

    run: Run
    known: dict[str, frozenset[int]] = field(default_factory=dict)

    def before(self, tensor: str) -> list[Meeting]:
        """Return the look-ups and resizings of tables that a position value was made by, in the graph's order."""
        return [self.run.nodes[place] for place in sorted(self._places(tensor))]

    def _places(self, tensor: str) -> frozenset[int]:
        """Return the places of such nodes; a stack of our own, since graphs are deeper than Python's."""
        stack = [tensor]
        while stack:
            name = stack[-1]
            place = self.run.produced.get(name)
            if name in self.known or place is None:
                self.known.setdefault(name, frozenset())
                stack.pop()
                continue
            node = self.run.nodes[place]
            parents = [] if is_data(self.run.values.get(name)) else [o.tensor for o in node.operands if o]
            # parents first: the node stays on the stack until they are known
            missing = [parent for parent in parents if parent not in self.known]
            if missing:
                stack.extend(missing)
                continue
            own = {place} if node.op_type in LOOKUPS + RESIZING and _has_table(node) else set()
            self.known[name] = frozenset(own).union(*(self.known[parent] for parent in parents))
            stack.pop()
        return self.known[tensor]


def is_data(value: Value | None) -> bool:
    """Return whether a value depends on data, or is not known."""
    return not isinstance(value, (Constant, Position))


def _has_table(node: Meeting) -> bool:
    """Return whether the first input is a table of floats, or was made of one."""
    first = node.operands[0] if node.operands else None
    if first is None:
        return False
    value = first.value
    if not isinstance(value, (Constant, Position)) or len(shape_of(value)) < 2:
        return False
    dtype = value.array.dtype if isinstance(value, Position) else value.dtype
    # tables of eight bits or four are dequantized after the look-up; longer integers are indices
    return is_float(value) or (dtype.itemsize == 1 and dtype.kind in "iuV")


def is_float(value: Value) -> bool:
    """Return whether a value has float numbers, of half precision too."""
    dtype = value.array.dtype if isinstance(value, Position) else getattr(value, "dtype", np.dtype(np.int64))
    return dtype.kind == "f" or "float" in dtype.name


def shape_of(value: Value) -> tuple[int, ...]:
    """Return the sizes of a value, none where they are not known."""
    if isinstance(value, Position):
        return tuple(value.array.shape)
    return value.shape if isinstance(value, (Constant, Data)) else ()


def numbers_of(value: Value | None) -> Array | None:
    """Return the numbers of a position value or a constant; None where it has none, or too many, or they are away."""
    if isinstance(value, Position):
        return value.array
    if not isinstance(value, Constant) or int(np.prod(value.shape, dtype=np.int64)) > LARGEST:
        return None
    try:
        return value.load()
    except ValueError:
        return None


def stored_of(*operands: Operand | None) -> tuple[str, ...]:
    """Return the names of the initializers that values are made of."""
    names: set[str] = set()
    for operand in operands:
        if operand is not None and isinstance(operand.value, (Constant, Position)):
            names |= operand.value.stored
    return tuple(sorted(names))


def arrays_of(run: Run, names: Iterable[str]) -> tuple[Array, ...]:
    """Return the arrays of initializers, those that have several numbers and can be loaded."""
    arrays = (numbers_of(run.values[name]) for name in names if name in run.values)
    return tuple(array for array in arrays if array is not None and array.ndim)


def made_of(run: Run, operand: Operand) -> tuple[Array, ...]:
    """Return what is stored of which a value was made: tables, then single numbers, of shape ()."""
    value = operand.value
    names = sorted(value.singles) if isinstance(value, (Constant, Position)) else []
    singles = (numbers_of(run.values[name]) for name in names if name in run.values)
    return (*arrays_of(run, stored_of(operand)), *(one.reshape(()) for one in singles if one is not None))


def is_quantized(run: Run, operand: Operand | None) -> bool:
    """Return whether a value is made of numbers of eight bits, or of four."""
    dtypes = [getattr(run.values.get(name), "dtype", np.dtype(np.int64)) for name in stored_of(operand)]
    return any(dtype.itemsize == 1 and dtype.kind in "iuV" and "float" not in dtype.name for dtype in dtypes)


def dtype_name(value: Value) -> str:
    """Return the name of an element type."""
    return value.array.dtype.name if isinstance(value, Position) else getattr(value, "dtype", np.dtype(bool)).name


def positions_of(run: Run, value: Value, indices: Array | None = None) -> str:
    """Return where positions come from: "range", the name of an input that holds them, or "mask NAME".

    Args:
        run: an interpreted graph.
        value: the position value.
        indices: the positions, where they are known.
    """
    inputs = sorted(value.inputs) if isinstance(value, Position) else []
    if not inputs:
        return "range"
    for name in inputs:
        fed = run.values.get(name)
        if isinstance(fed, Position) and _holds(name, fed.array, indices):
            return name
    # numbers that are the same for all tokens leave tokens out, or do not; ids are compared with that of padding
    masks = [name for name in inputs if is_even(run.values.get(name))]
    return f"mask {(masks or inputs)[0]}"


def is_even(fed: Value | None) -> bool:
    """Return whether an input is the same number for all tokens, as masks are where nothing is left out."""
    return isinstance(fed, Position) and fed.array.ndim > 0 and bool((fed.array == fed.array.flat[0]).all())


def _holds(name: str, fed: Array, indices: Array | None) -> bool:
    """Return whether an input holds positions: consecutive numbers, or as far apart as known indices."""
    if fed.dtype.kind not in "iuf" or fed.size < 1:
        return False
    numbers = fed.astype(np.float64)
    if indices is None or indices.size == 1:
        return fed.dtype.kind == "f" or fed.size == 1 or bool((np.diff(numbers, axis=-1) == 1).all())
    if numbers.size == 1:
        # a start, from which positions are counted; a mask of a single token is no such number
        return fed.ndim == 0 or bool((numbers != 1).all())
    if indices.size not in (numbers.size, numbers.shape[-1]):
        return False
    off = indices.astype(np.float64).reshape(-1) - numbers.reshape(-1)[: indices.size]
    return bool((off == off[0]).all())
