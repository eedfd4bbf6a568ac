"""Encodings that are rows: one a position, added to x or returned."""

import math
from dataclasses import replace

from posenc.call import Formula
from posenc.encoding import Encoding, RowSource, Tolerance, eps
from posenc.joins.rows import Output, rows_join
from posenc.maker import Claims, encoding
from posenc.spec import Spec
from posenc.where import tokens


def encode(source: RowSource, spec: Spec, output: Output, *, formula: Formula) -> Encoding:
    """Return the encoding that a source of rows makes with the positions and the output asked for.

    Args:
        source: The rows.
        spec: What is asked for.
        output: What becomes of the rows.
        formula: A call -> the output in float64.

    Raises:
        UnsupportedSpec: The combination has no meaning.
    """
    where = tokens(spec, source.end, max(1, len(output.ends)), output.ends)
    return encoding(spec, where, _claims(source, spec, output), rows_join(source, where, spec, output), formula)


def _claims(source: RowSource, spec: Spec, output: Output) -> Claims:
    """Return what a source says of its rows, beside an x that is scaled."""
    of_x = _of_scaled_x(spec, output)
    return Claims(
        error=lambda case: _scaled(source.tolerance(case.max_position), output.scale).plus(of_x),
        graph_error=lambda case: _scaled(source.eager_tolerance(case.max_position), output.scale),
        tables=lambda: replace(source.tables(), scale_x=output.scale_x),
        probes=source.probes,
        half_safe=source.half_safe,
    )


def _scaled(tolerance: Tolerance, scale: float) -> Tolerance:
    """Return what rows times a scale may be off by: what they are off by grows with it, their grain to its binade."""
    return replace(tolerance, atol=tolerance.atol * 2.0 ** math.ceil(math.log2(abs(scale))))


def _of_scaled_x(spec: Spec, output: Output) -> Tolerance:
    """Return what x times its scale costs: the scale is rounded, and the product, which is at most y and a row."""
    if output.scale_x == 1.0:
        return Tolerance()
    grain = eps(spec.angle_dtype)
    return Tolerance(rtol=grain, atol=grain * abs(output.scale))
