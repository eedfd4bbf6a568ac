"""Where positions come from, and what is stored of what they meet data with."""

from __future__ import annotations

import numpy as np

from posenc_export.read.values import Constant, Operand, Position, Run, Value


def positions_from(run: Run, value: Value) -> str:
    """Return where the positions of a value come from: the name of an input, "range", or "mask NAME"."""
    # what depends on sizes alone is counted by the graph itself
    inputs = sorted(value.inputs) if isinstance(value, Position) else []
    arrays = {name: source.array for name in inputs if isinstance(source := run.values.get(name), Position)}
    # ids rise; masks of tokens that are all there are ones
    for name, array in arrays.items():
        if array.dtype.kind in "iu" and array.ndim and np.all(np.diff(array, axis=-1) == 1) and array.shape[-1] > 1:
            return name
    for name, array in arrays.items():
        if array.ndim > 1 and np.all(array == array.flat[0]):
            return f"mask {name}"
    return inputs[0] if inputs else "range"


def stored_names(operand: Operand) -> tuple[str, ...]:
    """Return the initializers that an operand is made of."""
    value = operand.value
    if not isinstance(value, Constant | Position):
        return ()
    return tuple(sorted(value.stored)) or ((operand.tensor,) if isinstance(value, Constant) else ())
