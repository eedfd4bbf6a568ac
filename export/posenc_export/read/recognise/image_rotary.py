"""Rotary angles of places in an image, half of the pairs by row: fractions of the grid (DINOv3), or counts (EVA-02)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form, Parameter, spacing_of_dtype
from posenc.formulas.parts.sinusoids import Complexes, Geometric, geometric, unwrapped
from posenc.formulas.parts.windows import sides_of
from posenc_export.read.recognise.claims import Claim, claim, gathered
from posenc_export.read.recognise.named import Named
from posenc_export.read.recognise.trails import is_data, numbers_of, shape_of, stored_of
from posenc_export.read.values import Meeting, Operand, Run

Floats = NDArray[np.float64]
MOST_TOKENS = 5
"""Tokens of a class and registers that stand before the places, at most."""


def image_rotary_of(run: Run, claimed: set[str]) -> list[Named]:
    """Return the rotary encodings of places in an image.

    Args:
        run: an interpreted graph.
        claimed: tensors that other encodings are named by.
    """
    products = [product for product in map(_product, run.meetings) if product and product[1].tensor not in claimed]
    return gathered(item for pair in pairwise(_shared(products)) for item in _claims(run, pair))


def _shared(products: list[tuple[Meeting, Operand]]) -> Iterator[tuple[Meeting, Operand]]:
    """Yield products, those by the same numbers with the same tensor: a trace stores them once for each use."""
    first: dict[tuple[tuple[int, ...], bytes], Operand] = {}
    for meeting, operand in products:
        array = numbers_of(operand.value)
        key = (shape_of(operand.value), b"" if array is None else np.ascontiguousarray(array).tobytes())
        yield meeting, operand if array is None else first.setdefault(key, operand)


def _product(meeting: Meeting) -> tuple[Meeting, Operand] | None:
    """Return a product of data with rows of cosines or sines, and the rows; None for other nodes."""
    if meeting.op_type != "Mul" or len(meeting.operands) != 2:
        return None
    # at a fixed size of images the angles are constants
    rows = [o for o in meeting.operands if o and not is_data(o.value) and sum(n > 1 for n in shape_of(o.value)) == 2]
    data = [o for o in meeting.operands if o and is_data(o.value)]
    return (meeting, rows[0]) if rows and data else None


def _claims(run: Run, products: tuple[tuple[Meeting, Operand], tuple[Meeting, Operand]]) -> Iterator[Claim]:
    """Give the claims of two products, by cosines and by sines, in either order."""
    values = [operand.value for _, operand in products]
    if np.prod(shape_of(values[0])) != np.prod(shape_of(values[1])):
        return
    arrays = [np.squeeze(array) for array in map(numbers_of, values) if array is not None]
    if len(arrays) < 2 or arrays[0].shape != arrays[1].shape or arrays[0].ndim != 2:
        return
    # which of the two are cosines is told by the form: sines of the first count are 0
    form = angles_form(arrays[0], arrays[1]) or angles_form(arrays[1], arrays[0])
    if form is not None:
        stored = stored_of(*(operand for _, operand in products))
        for meeting, operand in products:
            yield replace(claim(run, form, meeting, operand), stored=stored)


def angles_form(cos: NDArray[np.generic], sin: NDArray[np.generic]) -> Form | None:
    """Return the form of cosines and sines of places (places, head_dim); None where they have another.

    It is "dinov3" where places are fractions of the grid, and "rope_2d" where rows and columns are counted.
    """
    spacing = spacing_of_dtype(cos.dtype)
    circles = cos.astype(np.float64) + 1j * sin.astype(np.float64)
    width = circles.shape[1] // 2
    if width < 4 or width % 2 or np.abs(np.abs(circles) - 1).max() > 1e-3 + 4 * spacing:
        return None
    for layout, first, second in (
        ("halves", circles[:, :width], circles[:, width:]),
        ("interleaved", circles[:, 0::2], circles[:, 1::2]),
    ):
        if not np.array_equal(first, second):
            continue
        parameters: dict[str, Parameter] = {"head_dim": 2 * width, "layout": layout}
        base = _base_of(first, spacing, _base_of_axis)
        if base is not None:
            return Form("rotary", "dinov3", {**parameters, "rope_theta": base})
        # tokens of a class and registers are turned by angles of their own, or by none
        for tokens in range(min(MOST_TOKENS, len(first) - 4) + 1):
            base = _base_of(first[tokens:], spacing, _base_of_counts)
            if base is not None:
                before: dict[str, Parameter] = {"class_tokens": tokens} if tokens else {}
                return Form("rotary", "rope_2d", {**parameters, "rope_theta": base, **before})
    return None


def _base_of(circles: Complexes, spacing: float, of_axis: Callable[[Complexes, float], float | None]) -> float | None:
    """Return rope_theta of pairs (places, pairs), the first half by row, the others by column.

    Args:
        circles: cosine + i sine of each.
        spacing: of their dtype.
        of_axis: returns rope_theta of the pairs of an axis.
    """
    half = circles.shape[1] // 2
    for height, width in sides_of(len(circles)):
        # (places, pairs) -> (height, width, pairs)
        grid = circles.reshape(height, width, -1)
        rows, columns = grid[:, 0, :half], grid[0, :, half:]
        if np.allclose(grid[..., :half], rows[:, None], atol=1e-6) and np.allclose(
            grid[..., half:], columns, atol=1e-6
        ):
            bases = {of_axis(axis, spacing) for axis in (rows, columns)}
            return bases.pop() if len(bases) == 1 else None
    return None


def _base_of_counts(circles: Complexes, spacing: float) -> float | None:
    """Return rope_theta of an axis (places, pairs) whose places are 0, 1, 2, ...; None where rows differ from it."""
    count, pairs = circles.shape
    if count < 2 or pairs < 2 or np.abs(circles[0] - 1).max() > 4 * spacing:
        return None
    for form in geometric(np.angle(circles[1]), pairs, max(4 * spacing, 1e-4)):
        exact = np.exp(1j * np.arange(count)[:, None] * form.of_pairs(pairs))
        if form.scale == 1.0 and form.shift == 0.0 and np.abs(exact - circles).max() <= 1e-3 + 16 * spacing:
            return form.base
    return None


def _base_of_axis(circles: Complexes, spacing: float) -> float | None:
    """Return rope_theta of an axis (places, pairs) whose places are from -1 to 1; None where rows differ from it."""
    count, pairs = circles.shape
    angle = 2 * np.pi * (2 * (np.arange(count) + 0.5) / count - 1)
    fitted = geometric(unwrapped(np.angle(circles[-1]), float(angle[-1])), pairs, max(4 * spacing, 1e-4))
    for form in (*fitted, Geometric(1.0, 100.0, pairs, 0.0, True)):
        exact = np.exp(1j * angle[:, None] * form.of_pairs(pairs))
        if form.scale == 1.0 and form.shift == 0.0 and np.abs(exact - circles).max() <= 1e-3 + 16 * spacing:
            return form.base
    return None
