"""What the tensors of a graph are to the interpreter: constants, position values, data, or unknown.

A rotary table is a Constant, what is looked up in it at positions is a Position, the queries that it is multiplied with
are Data. The names of tensors say nothing; these kinds do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Constant:
    """A tensor that the file stores, or that is computed of stored ones alone; its numbers are read when asked for.

    Args:
        shape: its sizes.
        dtype: its element type, as NumPy or ml_dtypes has it.
        load: reads or computes the numbers; raises ValueError, in one line, where its external data are missing and
            where it is larger than the budget.
        stored: the names of the initializers that it is made of.
        singles: those of stored single float numbers that went into it.
    """

    shape: Shape
    dtype: np.dtype[np.generic]
    load: Callable[[], Array]
    stored: frozenset[str] = frozenset()
    singles: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Position:
    """A value that depends on shapes, ranges, ids and masks alone, computed.

    Args:
        array: its numbers.
        inputs: the names of the graph's inputs whose VALUES it depends on; none where it depends on sizes alone.
        sizes: whether it depends on the size of an input.
        stored: the names of the initializers that went into it: a table, frequencies.
        singles: those of stored single float numbers that did: a base, a learned number.
        through: the nodes of the network that made it, where weights did.
    """

    array: Array
    inputs: frozenset[str] = frozenset()
    sizes: bool = False
    stored: frozenset[str] = frozenset()
    singles: frozenset[str] = frozenset()
    through: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Network:
    """What weights make of positions alone: data to the nodes around it, and numbers to whoever asks.

    Args:
        depth: how many nodes it has, one behind the other.
        load: computes it; None where it is too large, or has no kernel.
    """

    depth: int
    load: Callable[[], Position | None]


@dataclass(frozen=True)
class Moved:
    """Where the elements of data come from, as long as they were only moved, copied or negated.

    Args:
        tensor: the name of the tensor that they were in before the first move.
        index: of each element, its place in that tensor, flattened; -1 where it is a constant that was filled in.
        sign: of each element, 1 or -1, in the shape of `index`; None where no element was negated.
    """

    tensor: str
    index: NDArray[np.int64]
    sign: NDArray[np.int8] | None = None


@dataclass(frozen=True)
class Data:
    """A value that depends on data or weights: its shape is known, its numbers are not.

    Args:
        shape: its sizes.
        dtype: its element type.
        moved: where its elements come from; None where it is too large to say. What no move made is moved from itself:
            its index counts.
        positional: whether it depends on positions alone, and was only too large to compute, or had no kernel.
        network: how it is computed, where weights made it of positions alone; None where data come in.
    """

    shape: Shape
    dtype: np.dtype[np.generic]
    moved: Callable[[], Moved] | None = field(default=None, compare=False)
    positional: bool = False
    network: Network | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Unknown:
    """A value of which not even the shape could be inferred, with the reason in words."""

    reason: str


Value = Constant | Position | Data | Unknown


@dataclass(frozen=True)
class Operand:
    """An input of a node: the tensor's name, and its value."""

    tensor: str
    value: Value


@dataclass(frozen=True)
class Meeting:
    """A node in which a position value meets data or a weight.

    Meetings are: a Position with Data in whatever operator computes with both; elementwise operators and Concat of a
    Constant of float numbers, longer than a scalar, with Data; MatMul, Gemm and Conv of a Position with a stored
    weight; a Gather of rows of a Constant at a Position; and operators that take tables or ids beside data
    (RotaryEmbedding of both domains, MRotaryEmbedding, GroupQueryAttention, PagedAttention, EmbedLayerNormalization,
    attention biases).

    Args:
        node: the name of the node, or "OpType#number" by its place in the file where it has none.
        op_type: its operator.
        domain: the operator's domain, "" for ONNX's own.
        operands: the node's inputs in order; None for an input that is left out.
        outputs: the names of the node's outputs.
        attributes: its attributes, as Python values.
    """

    node: str
    op_type: str
    domain: str
    operands: tuple[Operand | None, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """A graph interpreted at given sizes.

    Args:
        values: of each tensor, by its name; tensors of a subgraph that was entered are there too.
        meetings: in the order of the graph.
        produced: of each tensor, the place in `nodes` of the node that makes it.
        nodes: the nodes that were interpreted, in order, each with its operands and outputs.
        stopped: why the interpretation stopped, in words, and the node there; None where it went through. The last of
            `nodes` is that node, unless the budget was spent.
    """

    values: dict[str, Value]
    meetings: tuple[Meeting, ...]
    produced: dict[str, int]
    nodes: tuple[Meeting, ...]
    stopped: tuple[str, str] | None = None
