"""What rope types take, for what reads it from a config: nothing else in this folder uses their registry."""

from collections.abc import Mapping

from posenc.parameters import REQUIRED, fit
from posenc.rope_types import ROPE_TYPES, scaling_parameters
from posenc_models.config.settings import Setting


def rope_type_names() -> tuple[str, ...]:
    """Return the names of all rope types."""
    return tuple(ROPE_TYPES)


def scaling_names() -> frozenset[str]:
    """Return the names of the parameters of all rope types."""
    return frozenset(scaling_parameters())


def is_by_length(rope_type: str) -> bool:
    """Return whether the frequencies of a rope type depend on the length of a call."""
    return bool(ROPE_TYPES[rope_type].by_length)


def parameters_of(rope_type: str) -> Mapping[str, bool]:
    """Return the parameters of a rope type, and whether each is required."""
    return {name: p.default is REQUIRED for name, p in ROPE_TYPES[rope_type].parameters.items()}


def scaling_value(name: str, setting: Setting) -> object:
    """Return a parameter as schemes take it; raise ValueError, with its path, for a value of another type."""
    try:
        return fit(scaling_parameters()[name], setting.value)
    except ValueError as error:
        raise ValueError(str(error).replace(name, setting.path, 1)) from None
