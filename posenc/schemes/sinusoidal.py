"""The sinusoidal encoding of "Attention Is All You Need" (arXiv:1706.03762, section 3.5).

PE(p, 2i) = sin(p / base^(2i / d_model))        PE(p, 2i + 1) = cos(p / base^(2i / d_model))
"""

from functools import partial
from typing import Literal

import numpy as np

from posenc.call import Call
from posenc.encoding import Encoding, RowSource
from posenc.families import additive
from posenc.ports import Array
from posenc.scheme import scheme
from posenc.sincos import check_table, inverse_frequencies, self_adjusting_sincos, sincos
from posenc.spec import Spec


@scheme("sinusoidal", paper="arXiv:1706.03762", samples=({"d_model": 16}, {"d_model": 7}))
def sinusoidal(
    spec: Spec,
    *,
    d_model: int | Literal["auto"] = 512,
    base: float = 10000.0,
    layout: Literal["interleaved", "halves"] = "interleaved",
    output: Literal["add", "rows", "table"] = "add",
    strict_even: bool = False,
) -> Encoding:
    """Sines and cosines of position / base^(2i / d_model).

    d_model: features, odd ones too; "auto" takes them from each x (dynamic with --method trig only).
    base: wavelengths grow geometrically from 2 pi to base * 2 pi.
    layout: "interleaved" sin, cos, sin, cos, ... or "halves" all sines, then all cosines.
    output: "add" x + PE, "rows" PE at the positions, "table" the whole table with no input.
    strict_even: refuse an odd d_model.
    """
    _check(d_model, base, strict_even)
    width = None if d_model == "auto" else d_model
    source = _source(spec, width, base, layout == "interleaved")
    formula = partial(reference, d_model=width, base=base, halves=layout == "halves", add=output == "add")
    return additive.encode(source, spec, additive.Output(output, width), formula=formula)


def _check(d_model: int | str, base: float, strict_even: bool) -> None:
    if isinstance(d_model, int) and d_model < 1:
        raise ValueError(f"d_model must be at least 1, got {d_model}")
    if isinstance(d_model, int) and strict_even and d_model % 2:
        raise ValueError(f"d_model must be even with strict_even, got {d_model}")
    if not (base > 1 and np.isfinite(base)):
        raise ValueError(f"base must be a finite number above 1, got {base}")


def _source(spec: Spec, width: int | None, base: float, interleaved: bool) -> RowSource:
    if width is None:
        return self_adjusting_sincos(spec, base, interleaved=interleaved)
    check_table(spec, width)  # before the frequencies, which are as wide
    return sincos(spec, inverse_frequencies(width, base), width=width, interleaved=interleaved)


def reference(call: Call, *, d_model: int | None, base: float, halves: bool, add: bool) -> tuple[Array]:
    """Return the output in float64 from the formula alone, at the positions that are wanted."""
    d = call.values[0].shape[2] if d_model is None else d_model
    column = np.arange(d)
    pair, is_cosine = column // 2, column % 2 == 1
    if halves:
        sines = (d + 1) // 2
        pair, is_cosine = np.where(column < sines, column, column - sines), column >= sines
    positions = call.positions[..., call.picked, None].astype(np.float64)
    angle = positions / np.power(float(base), 2.0 * pair / d)
    y = np.where(is_cosine, np.cos(angle), np.sin(angle))
    return (call.values[0][:, call.picked].astype(np.float64) + y if add and call.values else y,)
