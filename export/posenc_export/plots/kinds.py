"""What schemes are for, by the ports of their encodings: the parts that a list of schemes has."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.encoding import Encoding
from posenc.ports import Port, Values, axes_of, carrying
from posenc.scheme import Scheme
from posenc_export.plots.encodings import argument_of, encodings_of

TABLES, ROTARY, BIASES, FEATURES = "Tables and grids", "Rotary", "Biases on scores", "Numbers to features"
KINDS = (TABLES, ROTARY, BIASES, FEATURES)
PLACES = 1000
"""A length that tells twice as many from one more."""


def kind_of(scheme: Scheme) -> str:
    """Return which of KINDS a scheme is of: it may give more than that, as cosines and sines alone."""
    return kind_of_encodings(encodings_of(scheme, None, scheme.samples[0]))


def kind_of_encodings(encodings: Sequence[Encoding]) -> str:
    """Return which of KINDS the encodings of a scheme are of."""
    if any(_is_of_scores(port) or _is_of_distances(port, one) for one in encodings for port in one.outputs):
        return BIASES
    if any(_rotates(one) for one in encodings):
        return ROTARY
    return FEATURES if any(argument_of(one) for one in encodings) else TABLES


def _is_of_scores(port: Port) -> bool:
    """Whether a port has queries and keys: two lengths, and no features."""
    kinds = [axis.kind for axis in port.axes]
    return kinds.count("length") > 1 and "features" not in kinds


def _is_of_distances(port: Port, encoding: Encoding) -> bool:
    """Whether a port has a row for each difference of two places: twice as many as there are places, or one less."""
    sizes = {axis.name: PLACES for axis in axes_of(encoding.inputs)}
    return any(axis.size_in(sizes) in (2 * PLACES - 1, 2 * PLACES) for axis in port.axes if axis.name)


def _rotates(encoding: Encoding) -> bool:
    """Whether several values go in, and come out in shapes of their own."""
    values = carrying(encoding.inputs, Values)
    return len(values) > 1 and [port.axes for port in values] == [port.axes for port in encoding.outputs]
