"""What rope types take, for what reads it from a config: nothing else in this folder uses their registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

from posenc.hf.settings import Setting
from posenc.parameters import checked
from posenc.rope_types import ROPE_TYPES, Scaling

ROPE_TYPE_NAMES: tuple[str, ...] = tuple(ROPE_TYPES)
SCALING_NAMES: frozenset[str] = frozenset(Scaling.__annotations__)
"""The names of the parameters of all rope types."""


def is_by_length(rope_type: str) -> bool:
    """Return whether the frequencies of a rope type depend on the length of a call."""
    return ROPE_TYPES[rope_type].by_length


def parameters_of(rope_type: str) -> Mapping[str, bool]:
    """Return the parameters of a rope type, and for each whether it must be there."""
    return {name: p.default is p.empty for name, p in ROPE_TYPES[rope_type].parameters.items()}


def scaling_value(name: str, setting: Setting) -> object:
    """Return a parameter as schemes take it; raise ValueError, with its path, where it is of another type."""
    try:
        value: object = checked(_scaling, {name: setting.value})[name]
    except ValueError as error:
        raise ValueError(str(error).replace(name, setting.path, 1)) from None
    return value


def _scaling(**scaling: Unpack[Scaling]) -> None:
    """Stand for what takes the parameters of all rope types."""
