"""Pairs that turn by coordinates that come in, as the row and the column of each token: the scheme of such places.

A graph reads all coordinates of a token from one input. Which pair turns by which of them is known by then
(`posenc_export.read.sections`). Here their frequencies are laid out on a small grid, and asked for a scheme there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from posenc.formulas.fitting import Exact, Form, Observation, Parameter, find_scheme
from posenc.ports import Floats, Integers
from posenc_export.read.comparing.frequencies import rotation_in
from posenc_export.read.errors.by_position import larger_errors
from posenc_export.read.inspection import Errors, FoundEncoding

AXIS = "coordinate"
"""The parameter that says by which coordinate of a token pairs turn, counted from 0."""
SIDE = 9
"""Places along each axis of the grid."""
SPACING = 2.0**-23
"""Of frequencies that were measured in float32."""
MEASURED = 1e-5
"""By how much a frequency that was measured may be another, as a share."""
LAYOUTS = {"halves": "axis_halves", "interleaved": "interleaved"}
"""The layout of a head whose parts have a layout each."""


def of_sections(form: Form, rows: Sequence[int]) -> Form | None:
    """Return the form of whole heads whose pairs turn by coordinates; None where no scheme of places has it.

    Args:
        form: of pairs with frequencies of their own.
        rows: by which coordinate each pair turns.
    """
    parameters = form.parameters
    inv_freq, head, layout = (parameters.get(name) for name in ("inv_freq", "head_dim", "layout"))
    factor = parameters.get("attention_factor", 1.0)
    if not isinstance(inv_freq, tuple) or head != 2 * len(rows) or not _is_one(factor):
        return None
    measured = np.asarray(inv_freq, np.float64)
    found = _of_places(measured, rows, str(layout), 2 * len(rows))
    return None if found is None else replace(found, exact=_exact(found, measured, rows), differences=form.differences)


def _exact(form: Form, measured: Floats, rows: Sequence[int]) -> Exact | None:
    """Return cosines and sines in float64 of tokens whose coordinates are all one position.

    None where frequencies are not those of each axis on its own.
    """
    theta = form.parameters.get("rope_theta")
    bases = theta if isinstance(theta, tuple) else (theta,)
    count = max(rows) + 1
    if len(bases) not in (1, count):
        return None
    inv_freq = np.zeros(len(rows))
    for axis in range(count):
        own = np.flatnonzero(np.asarray(rows) == axis)
        base = bases[axis % len(bases)]
        if not isinstance(base, int | float):
            return None
        inv_freq[own] = float(base) ** -(np.arange(len(own)) / len(own))
    if not np.allclose(inv_freq, measured, rtol=MEASURED, atol=0.0):
        return None

    def exact(positions: Integers) -> Floats:
        angles = positions[:, None] * inv_freq
        return np.concatenate([np.cos(angles), np.sin(angles)], 1)

    return exact


def joined(encodings: Sequence[FoundEncoding]) -> tuple[FoundEncoding, ...]:
    """Return encodings, those that turn parts of the same heads by a coordinate each as one."""
    groups: dict[object, list[FoundEncoding]] = {}
    for encoding in encodings:
        own = id(encoding) if AXIS not in encoding.parameters else None
        key = (own, encoding.positions, encoding.layers, encoding.dtype, encoding.parameters.get("head_dim"))
        groups.setdefault(key, []).append(encoding)
    return tuple(entry for group in groups.values() for entry in _whole(group))


def _whole(group: Sequence[FoundEncoding]) -> Iterator[FoundEncoding]:
    """Yield the encoding that parts of heads are together, or the parts where no scheme has all of them."""
    parts = sorted(group, key=lambda part: _number(part.parameters, "first_feature"))
    found = _of_parts(parts) if len(parts) > 1 else None
    if found is None:
        yield from group
        return
    errors = [part.errors for part in parts]
    first = group[0]
    yield replace(
        first,
        name=found.name,
        parameters=dict(found.parameters),
        scheme=found.line,
        nodes=_together(part.nodes for part in group),
        tensors=_together(part.tensors for part in group),
        stored=_together(part.stored for part in group),
        error=max((part.error for part in group if part.error is not None), default=None),
        errors=_largest([entry for entry in errors if entry is not None]) if all(errors) else None,
        rounded=first.rounded if all(part.rounded == first.rounded for part in group) else (),
    )


def _of_parts(parts: Sequence[FoundEncoding]) -> Form | None:
    """Return the form of whole heads, of parts in the order of their features; None where parts leave some out."""
    frequencies: list[Floats] = []
    rows: list[int] = []
    layouts = {str(part.parameters.get("layout")) for part in parts}
    for part in parts:
        width = _number(part.parameters, "rotary_dim")
        angles = rotation_in(part).angles
        is_next = _number(part.parameters, "first_feature") == 2 * len(rows)
        if not is_next or len(angles) != 1 or not _is_one(angles[0][1]) or len(angles[0][0]) != width // 2:
            return None
        frequencies.append(angles[0][0])
        rows += [_number(part.parameters, AXIS)] * (width // 2)
    if len(layouts) != 1 or 2 * len(rows) != _number(parts[0].parameters, "head_dim"):
        return None
    layout = LAYOUTS.get(layouts.pop())
    return None if layout is None else _of_places(np.concatenate(frequencies), rows, layout, 2 * len(rows))


def _of_places(inv_freq: Floats, rows: Sequence[int], layout: str, head_dim: int) -> Form | None:
    """Return the form of pairs that turn by the places of a grid; None where no scheme has it."""
    count = max(rows) + 1
    if set(rows) != set(range(count)) or count < 2 or len(inv_freq) != len(rows):
        return None
    places = np.stack(np.meshgrid(*[np.arange(SIDE)] * count, indexing="ij"))
    # (axes, *places) of the axis of each pair -> (*places, pairs)
    angles = np.moveaxis(places[list(rows)], 0, -1) * inv_freq
    return find_scheme(Observation("rotation", np.exp(1j * angles), SPACING, layout=layout, head_dim=head_dim))


def _largest(errors: Sequence[Errors]) -> Errors:
    found = errors[0]
    for other in errors[1:]:
        found = larger_errors(found, other)
    return found


def _together(names: Iterator[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for each in names for name in each))


def _is_one(factor: Parameter) -> bool:
    """Return whether cosines and sines are multiplied by nothing, as far as a measured factor tells."""
    return isinstance(factor, int | float) and abs(factor - 1) <= MEASURED


def _number(parameters: Mapping[str, Parameter], name: str) -> int:
    value = parameters.get(name, 0)
    return value if isinstance(value, int) else 0
