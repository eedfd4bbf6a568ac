"""The sinusoidal encoding of "Attention Is All You Need" (arXiv:1706.03762, section 3.5).

PE(p, 2i) = sin(p / base^(2i / d_model))        PE(p, 2i + 1) = cos(p / base^(2i / d_model))

Its authors' code, tensor2tensor, has the exponent i / (half - 1), half = d_model // 2 sines and as many cosines, and a
column of zeros where d_model is odd; fairseq and Whisper took that over.
"""

import math
from functools import partial
from typing import Annotated, Literal

from posenc.encoding import Encoding, RowSource
from posenc.formulas.sinusoidal import SinusoidParameters, reference
from posenc.joins.rows import RowsOutput
from posenc.ports import Floats
from posenc.ranges import NOT_ZERO, above, minimum
from posenc.scheme import scheme
from posenc.sincos import (
    check_table,
    inverse_frequencies,
    inverse_frequencies_to_base,
    self_adjusting_sincos,
    sincos_rows,
)
from posenc.sincos.zeros import with_zero_row
from posenc.sources.rows import additive
from posenc.spec import Spec
from posenc.weights import Weights


@scheme(
    "sinusoidal",
    paper="arXiv:1706.03762",
    formula="PE[p, 2i] = sin(p / base^(2i/d)), PE[p, 2i+1] = cos(p / base^(2i/d))",
    models=("Transformer", "Marian", "Pegasus", "M2M-100", "Whisper encoder"),
    samples=(
        {"d_model": 16},
        {"d_model": 7},
        {"d_model": 10, "layout": "halves", "spacing": "half", "padding_row": 1, "scale_x": "sqrt", "scale": 1.3},
    ),
)
def sinusoidal(
    spec: Spec,
    *,
    d_model: Annotated[int | Literal["auto"], minimum(1)] = 512,
    base: Annotated[float, above(1)] = 10000.0,
    layout: Literal["interleaved", "halves"] = "interleaved",
    spacing: Literal["paper", "half"] = "paper",
    output: Literal["add", "rows", "table"] = "add",
    strict_even: bool = False,
    padding_row: Annotated[int | None, minimum(0)] = None,
    scale_x: float | Literal["sqrt"] = 1.0,
    scale: Annotated[float, NOT_ZERO] = 1.0,
    weights: str | None = None,
    key: str | None = None,
) -> Encoding:
    """Sines and cosines of position / base^(2i / d_model).

    Args:
        d_model: features, odd ones too; "auto" takes them from each x (dynamic with --method trig only).
        base: wavelengths grow geometrically from 2 pi to base * 2 pi.
        layout: "interleaved" sin, cos, sin, cos, ... or "halves" all sines, then all cosines (Marian, fairseq,
            Whisper).
        spacing: of exponents: "paper" 2i / d_model, or "half" i / (d_model // 2 - 1), up to 1, with a last column of
            zeros where d_model is odd (fairseq, Whisper and tensor2tensor, in halves).
        output: "add" x + PE, "rows" PE at the positions, "table" the whole table with no input.
        strict_even: refuse an odd d_model.
        padding_row: the position whose row is zeros (fairseq's padding_idx, with --position-offset one more).
        scale_x: x * scale_x + PE; "sqrt" is the square root of d_model.
        scale: x + scale * PE.
        weights: a file of weights, or a model's folder, that a learned scale is read from: one number.
        key: its name there.
    """
    _check(d_model, strict_even, spacing)
    width = None if d_model == "auto" else d_model
    rows = SinusoidParameters(
        width, base, layout == "interleaved", spacing == "half", padding_row, _scale(scale, weights, key)
    )
    of_x = _scale_x(scale_x, width, output)
    formula = partial(
        reference, rows=rows, scale=scale if weights is None else rows.scale, scale_x=scale_x, add=output == "add"
    )
    returned = RowsOutput(output, width, scale_x=of_x, scale=rows.scale)
    return additive.encode(_source(spec, rows), spec, returned, formula=formula)


def _check(d_model: int | str, strict_even: bool, spacing: str) -> None:
    if d_model == 1 and spacing == "half":
        raise ValueError("d_model must be at least 2 with spacing=half, got 1")
    if isinstance(d_model, int) and strict_even and d_model % 2:
        raise ValueError(f"d_model must be even with strict_even, got {d_model}")
    if d_model == "auto" and spacing == "half":
        raise ValueError("d_model=auto computes the paper's frequencies: give a number with spacing=half")


def _scale(scale: float, weights: str | None, key: str | None) -> float:
    """Return the factor of rows: the parameter, or a number in a file."""
    if weights is not None and scale != 1.0:
        raise ValueError(f"scale is read from {weights}: leave scale={scale} out")
    number = Weights(weights, key).number(scale)
    NOT_ZERO.check(scale=number)
    return number


def _scale_x(scale_x: float | str, width: int | None, output: str) -> float:
    """Return the factor of x."""
    if scale_x == "sqrt" and width is None:
        raise ValueError("scale_x=sqrt needs the number that d_model is: it is auto")
    number = math.sqrt(width or 1) if isinstance(scale_x, str) else scale_x
    if not number or not math.isfinite(number):
        raise ValueError(f"scale_x must be a finite number other than 0, or sqrt, got {number}")
    if number != 1.0 and output != "add":
        raise ValueError(f"scale_x multiplies x, which output={output} does not have: leave it out")
    return number


def _source(spec: Spec, rows: SinusoidParameters) -> RowSource:
    if rows.width is None:
        source = self_adjusting_sincos(spec, rows.base, interleaved=rows.interleaved, scale=rows.scale)
        return with_zero_row(source, rows.padding_row)
    check_table(spec, rows.width)  # before the frequencies, which are as wide
    frequencies: Floats = (inverse_frequencies_to_base if rows.half else inverse_frequencies)(rows.width, rows.base)
    return sincos_rows(
        spec, frequencies, width=rows.width, scale=rows.scale, interleaved=rows.interleaved, zero_row=rows.padding_row
    )
