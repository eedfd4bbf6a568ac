"""What an encoding is for, by its ports: the parts that a list of schemes has."""

from __future__ import annotations

from posenc.encoding import Encoding
from posenc.ports import Port, Values, carrying
from posenc_export.plots.forms import argument_of

TABLES, ROTARY, BIASES, FEATURES = "Tables and grids", "Rotary", "Biases on scores", "Numbers to features"
KINDS = (TABLES, ROTARY, BIASES, FEATURES)


def kind_of(encoding: Encoding) -> str:
    """Return which of KINDS an encoding is of."""
    if any(_is_of_scores(port) for port in encoding.outputs):
        return BIASES
    if argument_of(encoding) is not None:
        return FEATURES
    values = carrying(encoding.inputs, Values)
    rotated = len(values) > 1 and [port.axes for port in values] == [port.axes for port in encoding.outputs]
    return ROTARY if rotated else TABLES


def _is_of_scores(port: Port) -> bool:
    """Whether a port has queries and keys: two lengths, and no features."""
    kinds = [axis.kind for axis in port.axes]
    return kinds.count("length") > 1 and "features" not in kinds
