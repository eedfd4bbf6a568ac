"""Rotary angles of places in an image, half of the pairs by row: fractions of the grid (DINOv3), or counts (EVA-02)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from posenc.formulas.fitting import Form, Observation, find_scheme, looked_at, spacing_of_dtype
from posenc.formulas.parts.windows import sides_of
from posenc.ports import Array
from posenc_export.read.recognise.claims import Claim, claim, gathered
from posenc_export.read.recognise.named import Named
from posenc_export.read.recognise.trails import is_data, numbers_of, shape_of, stored_of
from posenc_export.read.values import Meeting, Operand, Run

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
    with looked_at(*(operand.tensor for _, operand in products)):
        form = angles_form(arrays[0], arrays[1]) or angles_form(arrays[1], arrays[0])
    if form is not None:
        stored = stored_of(*(operand for _, operand in products))
        for meeting, operand in products:
            yield replace(claim(run, form, meeting, operand), stored=stored)


def angles_form(cos: Array, sin: Array) -> Form | None:
    """Return the form of cosines and sines of the places of an image (places, head_dim); None where they have another.

    Tokens of a class and registers before them are turned by angles of their own, or by none.
    """
    circles = cos.astype(np.float64) + 1j * sin.astype(np.float64)
    width = circles.shape[1] // 2
    if width < 4 or width % 2:
        return None
    for layout, first, second in (
        ("halves", circles[:, :width], circles[:, width:]),
        ("interleaved", circles[:, 0::2], circles[:, 1::2]),
    ):
        if not np.array_equal(first, second):
            continue
        spacing = spacing_of_dtype(cos.dtype)
        for tokens in range(min(MOST_TOKENS, len(first) - 4) + 1):
            for sides in sides_of(len(first) - tokens):
                grid = first[tokens:].reshape(*sides, width)
                seen = Observation("rotation", grid, spacing, layout=layout, head_dim=2 * width)
                form = find_scheme(seen)
                # axes of other widths, and periods, are read with all of their nodes where no file has named them
                if form is None or "axes_dim" in form.parameters or "rope_theta" not in form.parameters:
                    continue
                if tokens:
                    return replace(form, parameters={**form.parameters, "class_tokens": tokens}, scheme="")
                return form
    return None
