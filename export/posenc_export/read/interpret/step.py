"""One node: what its outputs are, given what its inputs are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posenc_export.read.graph import Node
from posenc_export.read.interpret.computing import computed, constant
from posenc_export.read.interpret.fits import require_fit, require_inputs
from posenc_export.read.interpret.kinds import kinds_of
from posenc_export.read.interpret.meetings import is_meeting, is_weighted, looks_up
from posenc_export.read.interpret.movement import moved, unmoved
from posenc_export.read.interpret.networks import networks_of
from posenc_export.read.interpret.state import State, dtype_of, is_data, shape_of, size_of
from posenc_export.read.values import Constant, Data, Meeting, Network, Operand, Position, Unknown, Value

RANDOM = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}
COUNTING = {
    *("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Not", "CumSum", "ArgMax", "ArgMin", "NonZero"),
    *("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean", "Shape", "Size", "IsNaN", "Sign"),
}
"""Operators after which ids of tokens are no longer ids: what counts them, or compares them."""
OF_DATA = {"EmbedLayerNormalization", "QEmbedLayerNormalization", "RelativePositionBias"}
"""Operators that take words or stored rows, and say themselves what they do with them."""
Operands = Sequence[Operand | None]


def step(state: State, node: Node, operands: Operands) -> None:
    """Interpret a node that holds no graph; raises Stopped where it cannot run at these sizes."""
    require_inputs(node, state.graph.opsets)
    record = record_of(node, operands)
    values = [operand.value for operand in operands if operand]
    unknown = next((operand for operand in operands if operand and isinstance(operand.value, Unknown)), None)
    if unknown is not None:
        state.add(record, [Unknown(f"{node.op_type} of {unknown.tensor!r}, which is not known")] * len(node.outputs))
        return
    # what a node refuses is raised before its outputs stand anywhere
    require_fit(node, operands)
    meets = is_meeting(node, operands)
    if node.op_type in RANDOM:
        results: Sequence[Value] = as_data(state, node, operands)
    elif node.op_type in ("Shape", "Size"):
        results = [_sizes(node, operands)]
    elif all(isinstance(value, Constant) for value in values):
        results = constant(state, node, operands)
    elif any(is_data(value) for value in values):
        results = as_data(state, node, operands, networks_of(state, node, operands))
    else:
        meets = looks_up(node, operands) or is_weighted(node, operands)
        results = _of_positions(state, node, operands)
    if meets:
        state.meetings.append(record)
    _note_tokens(state, node)
    state.add(record, results)


def record_of(node: Node, operands: Operands) -> Meeting:
    """Return a node with the values that came in."""
    return Meeting(node.name, node.op_type, node.domain, tuple(operands), node.outputs, dict(node.attributes))


def as_data(
    state: State, node: Node, operands: Operands, networks: Sequence[Network | None] | None = None
) -> list[Value]:
    """Return outputs of which the shapes alone are known, and where their elements come from.

    Args:
        state: what is known.
        node: the node.
        operands: what comes in.
        networks: how the outputs are computed, where positions and weights alone come in.
    """
    results: list[Value] = []
    for i, kind in enumerate(kinds_of(state, node, operands)):
        if kind is None:
            results.append(Unknown(f"the shape of {node.op_type} is not known"))
            continue
        shape, dtype = kind
        # data that were computed are where the next moves start
        movement = moved(node, operands, shape, i) or unmoved(node.outputs[i], shape)
        results.append(Data(shape, dtype, movement, network=networks[i] if networks else None))
    return results


def _sizes(node: Node, operands: Operands) -> Value:
    """Return the shape of a value, or its size: a position value, unless the value is stored."""
    operand = operands[0]
    assert operand is not None
    shape = shape_of(operand.value) or ()
    # newer opsets take a part of the shape
    edges = (node.attributes.get(name) for name in ("start", "end"))
    cut = shape[slice(*(edge if isinstance(edge, int) else None for edge in edges))]
    array = np.array(cut if node.op_type == "Shape" else size_of(operand.value), np.int64)
    if isinstance(operand.value, Constant):
        return Constant(array.shape, array.dtype, lambda: array)
    return Position(array, sizes=True)


def _of_positions(state: State, node: Node, operands: Operands) -> Sequence[Value]:
    """Return what follows from positions and constants: numbers, unless words or weights come in."""
    indices = operands[1] if len(operands) > 1 else None
    # rows of words are data: which tokens come is for nobody to know
    words = looks_up(node, operands) and indices is not None and indices.tensor in state.tokens
    if words or node.op_type in OF_DATA:
        return as_data(state, node, operands)
    if is_weighted(node, operands) and not _is_chosen(state, operands):
        return as_data(state, node, operands, networks_of(state, node, operands))
    results = computed(state, node, operands)
    if results is not None:
        return results
    # too large, or no kernel: the shape is carried on
    kinds = kinds_of(state, node, operands)
    return [
        Unknown(f"{node.op_type} of positions was not computed") if kind is None else Data(*kind, positional=True)
        for kind in kinds
    ]


def _is_chosen(state: State, operands: Operands) -> bool:
    """Return whether a factor has a single 1 in each row, and zeros: a product with it takes rows, and mixes none."""
    for operand in operands:
        value = operand.value if operand else None
        if operand is None or not isinstance(value, Position) or operand.tensor in state.tokens:
            continue
        array = value.array
        if array.ndim > 1 and array.shape[-1] > 1 and np.isin(array, (0, 1)).all():
            return bool((np.count_nonzero(array, axis=-1) == 1).all())
    return False


def _note_tokens(state: State, node: Node) -> None:
    """Note outputs that are ids of tokens because an input is."""
    integers = [name for name in node.inputs if name in state.tokens]
    if integers and node.op_type not in COUNTING and not _is_table_of(state, node):
        state.tokens.update(name for name in node.outputs if name)


def _is_table_of(state: State, node: Node) -> bool:
    """Return whether ids are looked up, or are made floats: what comes out are no ids."""
    if node.op_type == "Cast":
        return False
    dtypes = [dtype_of(state.value(name)) for name in node.inputs[:1]]
    return node.op_type == "Gather" and node.inputs[0] not in state.tokens and dtypes[0] is not None
