"""The encodings that recognisers name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Family = Literal[
    "rotary",
    "sinusoidal",
    "learned",
    "alibi",
    "t5",
    "relative",
    "window",
    "grid",
    "timestep",
    "temperature",
    "not recognised",
]
VALUES_TURNED = "values are turned: only queries and keys should be"
"""How a finding on values ends, which a config may allow."""
Parameter = bool | int | float | str | tuple[int, ...] | tuple[float, ...]


@dataclass(frozen=True)
class Form:
    """A closed form that numbers have.

    Args:
        family: the kind of encoding.
        name: the form within it: a rope type, a layout, "table" where there is no closed form.
        parameters: its parameters by the names that schemes of this project give them: rope_theta, factor,
            attention_factor, head_dim, rotary_dim, layout, rows, offset, num_heads and others.
        exact: the numbers in float64 at given positions; None where they follow no formula.
        also: other forms that fit as well, in words.
        moved: distances whose row is not the form's, or is up to how a runtime rounds half precision.
        scheme: the scheme whose formula gives the numbers, as it is typed; empty where a recogniser named them.
    """

    family: Family
    name: str
    parameters: Mapping[str, Parameter]
    exact: Callable[[NDArray[np.int64]], NDArray[np.float64]] | None = field(default=None, compare=False)
    also: tuple[str, ...] = ()
    moved: tuple[int, ...] = ()
    scheme: str = ""


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
