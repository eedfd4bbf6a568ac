"""The kinds of schemes, by the families and ports of their encodings: the parts of a list of schemes."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.encoding import Encoding
from posenc.ports import Port
from posenc.scheme import Scheme
from posenc_export.show.plots.encodings import argument_of, encodings_of, has_distances

TABLES, ROTARY, BIASES, FEATURES = "Tables and grids", "Rotary", "Biases on scores", "Numbers to features"
KINDS = (TABLES, ROTARY, BIASES, FEATURES)
ROTARY_FAMILIES = ("rotary", "cos_sin")


def kind_of(scheme: Scheme) -> str:
    """Return which of KINDS a scheme is, by what it is mainly for."""
    return kind_of_encodings(encodings_of(scheme, None, scheme.samples[0]))


def kind_of_encodings(encodings: Sequence[Encoding]) -> str:
    """Return which of KINDS the encodings of a scheme are."""
    ports = [(port, encoding) for encoding in encodings for port in encoding.outputs]
    if any(_is_of_scores(port) or has_distances(port, encoding) for port, encoding in ports):
        return BIASES
    if any(encoding.family in ROTARY_FAMILIES for encoding in encodings):
        return ROTARY
    return FEATURES if any(map(argument_of, encodings)) else TABLES


def _is_of_scores(port: Port) -> bool:
    """Whether a port has two lengths, of queries and keys, and no features."""
    kinds = [axis.kind for axis in port.axes]
    return kinds.count("length") > 1 and "features" not in kinds
