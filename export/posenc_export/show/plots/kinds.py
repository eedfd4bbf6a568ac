"""The kinds of schemes, by the ports of their encodings: the parts of a list of schemes."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.encoding import Encoding
from posenc.ports import Port, Values, axes_of, carrying
from posenc.scheme import Scheme
from posenc_export.show.plots.encodings import argument_of, encodings_of

TABLES, ROTARY, BIASES, FEATURES = "Tables and grids", "Rotary", "Biases on scores", "Numbers to features"
KINDS = (TABLES, ROTARY, BIASES, FEATURES)
PLACES = 1000
"""A length at which 2 n, 2 n - 1 and n + 1 are told apart."""


def kind_of(scheme: Scheme) -> str:
    """Return which of KINDS a scheme is, by what it is mainly for."""
    return kind_of_encodings(encodings_of(scheme, None, scheme.samples[0]))


def kind_of_encodings(encodings: Sequence[Encoding]) -> str:
    """Return which of KINDS the encodings of a scheme are."""
    ports = [(port, encoding) for encoding in encodings for port in encoding.outputs]
    if any(_is_of_scores(port) or _is_of_distances(port, encoding) for port, encoding in ports):
        return BIASES
    if any(map(_rotates, encodings)):
        return ROTARY
    return FEATURES if any(map(argument_of, encodings)) else TABLES


def _is_of_scores(port: Port) -> bool:
    """Whether a port has two lengths, of queries and keys, and no features."""
    kinds = [axis.kind for axis in port.axes]
    return kinds.count("length") > 1 and "features" not in kinds


def _is_of_distances(port: Port, encoding: Encoding) -> bool:
    """Whether a port has a row for each distance of two places: 2 n or 2 n - 1 rows of n places."""
    # every axis of the inputs has n places
    sizes = {axis.name: PLACES for axis in axes_of(encoding.inputs)}
    return any(axis.size_in(sizes) in (2 * PLACES - 1, 2 * PLACES) for axis in port.axes if axis.name)


def _rotates(encoding: Encoding) -> bool:
    """Whether several values go in, and come out in the same shapes."""
    values = carrying(encoding.inputs, Values)
    return len(values) > 1 and [port.axes for port in values] == [port.axes for port in encoding.outputs]
