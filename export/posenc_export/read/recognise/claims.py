"""What recognisers say of the places in which positions meet data, gathered by what layers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form
from posenc_export.read.recognise.named import Named
from posenc_export.read.recognise.trails import dtype_name, positions_of, shape_of, stored_of
from posenc_export.read.values import Meeting, Operand, Run


@dataclass(frozen=True)
class Claim:
    """A place where an encoding meets data.

    Args:
        form: what it is.
        node: the node there.
        operand: the position value, as it comes in.
        stored: the initializers that it is made of.
        rows: how many positions its table stores.
        positions: where positions come from.
        error: the largest absolute error against the form.
    """

    form: Form
    node: Meeting
    operand: Operand
    stored: tuple[str, ...]
    rows: int | None
    positions: str
    error: float | None = None


def claim(
    run: Run,
    form: Form,
    node: Meeting,
    operand: Operand,
    *,
    indices: NDArray[np.generic] | None = None,
    rows: int | None = None,
) -> Claim:
    """Return a claim, with what the value itself says."""
    stored = stored_of(operand)
    return Claim(form, node, operand, stored, rows, positions_of(run, operand.value, indices))


@dataclass
class Shared:
    """Claims by the tensor that they are of: layers share tensors, which are named once.

    Args:
        known: by the tensor and how it is used; None where it has no name.
    """

    known: dict[tuple[str, str], Claim | None] = field(default_factory=dict)

    def claim(self, node: Meeting, operand: Operand, use: str, name: Callable[[], Claim | None]) -> Claim | None:
        """Return the claim of a node on a tensor, as it was named before, or as `name` names it."""
        key = (operand.tensor, use)
        if key not in self.known:
            self.known[key] = name()
        known = self.known[key]
        return None if known is None else replace(known, node=node)


def gathered(claims: Iterable[Claim]) -> list[Named]:
    """Return encodings: claims of the same form, the same tables and the same source of positions are the same."""
    groups: dict[tuple[object, ...], list[Claim]] = {}
    for item in claims:
        form = item.form
        # without a name the shape is all that tells values apart
        shape = shape_of(item.operand.value) if form.family == "not recognised" else ()
        key = (form.family, form.name, tuple(sorted(form.parameters.items())), item.stored, item.positions, shape)
        groups.setdefault(key, []).append(item)
    return [_named(group) for group in groups.values()]


def _named(group: list[Claim]) -> Named:
    """Return the encoding of claims that are the same."""
    # all have the same form and tables: the first is where the graph meets it first
    first = group[0]
    errors = [item.error for item in group if item.error is not None]
    return Named(
        first.form,
        tuple(dict.fromkeys(item.node.node for item in group)),
        tuple(dict.fromkeys(item.operand.tensor for item in group)),
        first.stored,
        dtype_name(first.operand.value),
        first.rows,
        first.positions,
        max(errors) if errors else None,
        shape_of(first.operand.value) if first.form.family == "not recognised" else (),
    )
