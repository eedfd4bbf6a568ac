"""Biases on scores, compared as attention sees them: what is the same for all keys of a query, softmax takes away."""

from __future__ import annotations

from collections.abc import Sequence

from posenc_export.read.comparing.parameters import ParameterDifference
from posenc_export.read.inspection import FoundEncoding, Inspection
from posenc_models.config.read import Reading

LINEAR = frozenset(("key", "last_key", "signed"))
"""Forms of ALiBi that differ by one number in each row of scores."""
BACKWARD = LINEAR | {"distance"}
"""Those that do where a query sees no key behind its own place."""


def sees_later(inspection: Inspection, encoding: FoundEncoding) -> bool | None:
    """Return whether the queries of an encoding's layers see later keys; None where layers differ, or nobody knows."""
    by_layer = {sight.layer: sight.later for sight in inspection.sights}
    found = {by_layer.get(layer) for layer in encoding.layers}
    return found.pop() if len(found) == 1 else None


def same_attention(inspection: Inspection, encoding: FoundEncoding, difference: ParameterDifference) -> bool:
    """Return whether two forms of ALiBi give one attention in an encoding's layers."""
    forms = {difference.got, difference.expected}
    return forms <= LINEAR or (forms <= BACKWARD and sees_later(inspection, encoding) is False)


def comparable(inspection: Inspection, encoding: FoundEncoding) -> bool:
    """Return whether it is known which keys the queries of an encoding's layers see."""
    return sees_later(inspection, encoding) is not None


def readings_of_sides(
    inspection: Inspection, encoding: FoundEncoding, readings: Sequence[Reading]
) -> Sequence[Reading]:
    """Return the readings that are for the keys that an encoding's queries see: of T5, an encoder's or a decoder's.

    All of them where the graph does not tell which, and where a config has one alone.
    """
    later = sees_later(inspection, encoding)
    if later is None or {reading.parameters.get("bidirectional") for reading in readings} != {True, False}:
        return readings
    return [reading for reading in readings if reading.parameters["bidirectional"] is later]
