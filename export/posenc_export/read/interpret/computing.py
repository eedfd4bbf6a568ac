"""Numbers that are computed: of positions at once, of constants when they are asked for."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from posenc_export.read.graph import Node
from posenc_export.read.interpret.budget import Stopped
from posenc_export.read.interpret.kinds import kinds_of
from posenc_export.read.interpret.meetings import is_float
from posenc_export.read.interpret.shapes import attributes_of
from posenc_export.read.interpret.state import SMALL, State, size_of
from posenc_export.read.kernels import NoKernel, TooLarge, compute
from posenc_export.read.values import Array, Constant, Operand, Position, Unknown, Value

Operands = Sequence[Operand | None]
CACHED = 1 << 22
"""How many bytes of a constant that was computed are kept, so that it is not computed again."""
TABLES = 4
"""How many constants are kept open: cosines and sines, and what was made of them."""
SPENT = 1 << 12
"""How many bytes of a value are computed when the memory of a run is spent."""
TABLE = 8
"""How many integers are a table, and not a list of sizes."""


def constant(state: State, node: Node, operands: Operands) -> list[Value]:
    """Return outputs that follow from stored tensors alone: computed when asked for, or now where they are short."""
    stored = frozenset(name for operand in operands if operand for name in stored_in(operand))
    if node.op_type == "Constant":
        # numbers in a node are stored as those beside the nodes are
        stored = frozenset(node.outputs)
    singles = frozenset(name for operand in operands if operand for name in singles_in(operand))
    load = _loader(state, node, operands)
    sizes = [size_of(operand.value) for operand in operands if operand]
    kinds = kinds_of(state, node, operands)
    remembered, is_spent = state.remembered, state.remembered.size > state.budget.run_bytes
    # shapes follow from short constants, and short ones cost nothing, unless they are very many
    is_short = sum(sizes) <= SMALL and all(kind and math.prod(kind[0]) <= SMALL for kind in kinds)
    if not is_spent and (None in kinds or is_short):
        try:
            arrays = load()
        except ValueError as error:
            if None in kinds:
                return [Unknown(str(error))] * len(node.outputs)
        else:
            remembered.size += sum(array.nbytes for array in arrays)
            return [Constant(array.shape, array.dtype, _always(array), stored, singles) for array in arrays]
    return [
        Unknown(f"the shape of {node.op_type} is not known")
        if kind is None
        else Constant(kind[0], kind[1], _output(load, i), stored, singles)
        for i, kind in enumerate(kinds)
    ]


def computed(state: State, node: Node, operands: Operands) -> list[Position] | None:
    """Return what follows from positions and constants, or None where it is too large or has no kernel."""
    arrays: list[Array | None] = []
    for operand in operands:
        value = operand.value if operand else None
        if isinstance(value, Position):
            arrays.append(value.array)
        elif isinstance(value, Constant):
            try:
                arrays.append(loaded(value))
            except ValueError:  # larger than the budget, or external data that are not there
                return None
        elif operand is None:
            arrays.append(None)
        else:
            return None
    # Data that are positional are too large, and so is what follows from them
    constants = [operand.value if operand and isinstance(operand.value, Constant) else None for operand in operands]
    results = run_kernel(state, node, arrays, constants)
    if results is None:
        return None
    positions = [operand.value for operand in operands if operand and isinstance(operand.value, Position)]
    return [
        Position(
            array,
            frozenset(name for value in positions for name in value.inputs),
            any(value.sizes for value in positions),
            frozenset(name for operand in operands if operand for name in stored_in(operand)),
            frozenset(name for operand in operands if operand for name in singles_in(operand)),
        )
        for array in results
    ]


def run_kernel(
    state: State, node: Node, arrays: Sequence[Array | None], constants: Sequence[Constant | None]
) -> list[Array] | None:
    """Return what a node computes; None where there is no kernel or too much; raises Stopped where it refuses.

    Args:
        state: what is known.
        node: the node.
        arrays: its inputs.
        constants: the tensors among them that are stored: their numbers may lie in a file, which is not to stay open.
    """
    remembered = state.remembered
    kind = (node.op_type, node.domain, attributes_of(node), tuple(map(bool, node.outputs)))
    taken = [None if array is None else remembered.same(array) for array in arrays]
    key = remembered.key(kind, taken, constants)
    known = remembered.results(key)
    if known is not None:
        return known
    # when the memory of a run is spent, sizes still follow from each other
    budget = state.budget.value_bytes if remembered.size <= state.budget.run_bytes else SPENT
    try:
        return remembered.add(key, compute(node, state.graph.opsets, taken, budget))
    except (TooLarge, NoKernel):
        return None
    except (ValueError, IndexError, RuntimeError) as error:
        raise Stopped(" ".join(str(error).split())[:300], node.name) from None


@functools.lru_cache(maxsize=TABLES)
def loaded(value: Constant) -> Array:
    """Return the numbers of a constant; those of the last few are kept, since layers share tables."""
    return value.load()


def stored_in(operand: Operand) -> frozenset[str]:
    """Return the initializers in an input that are more than a list of sizes."""
    value = operand.value
    if isinstance(value, Position):
        return value.stored
    if isinstance(value, Constant) and size_of(value) > (1 if is_float(value) else TABLE):
        return value.stored
    return frozenset()


def singles_in(operand: Operand) -> frozenset[str]:
    """Return the stored single float numbers in an input."""
    value = operand.value
    if isinstance(value, Constant) and size_of(value) == 1 and is_float(value):
        return value.singles | value.stored
    return value.singles if isinstance(value, (Constant, Position)) else frozenset()


def _loader(state: State, node: Node, operands: Operands) -> Callable[[], list[Array]]:
    """Return what computes a node of constants, and keeps short results."""
    short: list[list[Array]] = []

    def load() -> list[Array]:
        if short:
            return short[0]
        arrays = [
            loaded(operand.value) if operand and isinstance(operand.value, Constant) else None for operand in operands
        ]
        try:
            results = compute(node, state.graph.opsets, arrays, state.budget.value_bytes)
        except (TooLarge, NoKernel) as error:
            raise ValueError(str(error)) from None
        except (IndexError, RuntimeError) as error:
            raise ValueError(f"{node.name}: {error}") from None
        size = sum(array.nbytes for array in results)
        if size <= CACHED and state.remembered.size <= state.budget.run_bytes:
            state.remembered.size += size
            short.append(results)
        return results

    return load


def _output(load: Callable[[], list[Array]], place: int) -> Callable[[], Array]:
    return lambda: load()[place]


def _always(array: Array) -> Callable[[], Array]:
    return lambda: array
