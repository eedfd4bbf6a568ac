"""The encodings that recognisers name."""

from __future__ import annotations

from dataclasses import dataclass

from posenc.formulas.fitting import Form

VALUES_TURNED = "values are turned: only queries and keys should be"
"""How a finding on values ends, which a config may allow."""


@dataclass(frozen=True)
class Named:
    """An encoding that a graph holds: its form, and where it is.

    Args:
        form: what it is.
        nodes: the nodes in which it meets data, in the graph's order; a layer each, for an encoding of layers.
        tensors: the position values or tables that were recognised, by name.
        stored: the initializers that they are made of.
        dtype: the element type in which they meet data.
        rows: how many positions its table stores; None where it is computed.
        positions: where positions come from: the name of an input, "range", or "mask NAME".
        error: the largest absolute error against the form in float64 among the positions tried; None without a formula.
        shape: the shape of the value, where it is not recognised.
        sides: the encoding in short calls and that in long ones, where these read other tables; empty otherwise.
    """

    form: Form
    nodes: tuple[str, ...]
    tensors: tuple[str, ...]
    stored: tuple[str, ...]
    dtype: str
    rows: int | None
    positions: str
    error: float | None = None
    shape: tuple[int, ...] = ()
    sides: tuple[Named, ...] = ()
