"""Encodings of rows: a row for each position, added to x or returned."""

import math
from dataclasses import replace

from posenc.call import Formula
from posenc.encoding import Encoding, RowSource, Tolerance, eps
from posenc.joins.rows import RowsOutput, join_rows
from posenc.maker import Claims, encoding
from posenc.spec import Spec
from posenc.where import tokens


def encode(source: RowSource, spec: Spec, output: RowsOutput, *, formula: Formula) -> Encoding:
    """Return the encoding that a source of rows makes with the positions of a spec and an output.

    Args:
        formula: A call -> the output in float64.

    Raises:
        UnsupportedSpec: The combination has no meaning.
    """
    where = tokens(spec, source.end, max(1, len(output.ends)), output.ends)
    return encoding(spec, where, _claims(source, spec, output), join_rows(source, where, spec, output), formula)


def _claims(source: RowSource, spec: Spec, output: RowsOutput) -> Claims:
    """Return what a source says of its rows, beside an x that may be scaled."""
    of_x = _of_scaled_x(spec, output)
    return Claims(
        error=lambda case: _scaled(source.tolerance(case.max_position), output.scale).plus(of_x),
        graph_error=lambda case: _scaled(source.eager_tolerance(case.max_position), output.scale),
        tables=lambda: replace(source.tables(), scale_x=output.scale_x),
        probes=source.probes,
        half_safe=source.half_safe,
    )


def _scaled(tolerance: Tolerance, scale: float) -> Tolerance:
    """Return how far rows times a scale may be off: their error grows with the scale, their ulp with its binade."""
    return replace(tolerance, atol=tolerance.atol * 2.0 ** math.ceil(math.log2(abs(scale))))


def _of_scaled_x(spec: Spec, output: RowsOutput) -> Tolerance:
    """Return the cost of x times its scale: both the scale and the product, at most |y| + |row|, are rounded."""
    if output.scale_x == 1.0:
        return Tolerance()
    grain = eps(spec.angle_dtype)
    return Tolerance(rtol=grain, atol=grain * abs(output.scale))
