"""Wrong functions: what they give is right but for its numbers."""

import functools
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch


def wrong(function: Callable[..., Any], note: Callable[[], None]) -> Callable[..., Any]:
    """Return a function that gives other numbers than one does, of the same kind and shape; each is noted."""

    @functools.wraps(function)
    def other(*args: Any, **kwargs: Any) -> Any:
        right = function(*args, **kwargs)
        value = moved(right)
        if value is not right:
            note()
        return value

    return other


def moved(value: Any) -> Any:
    """Return other numbers: floats a hundredth larger, and a thousandth, flags the others, integers as below.

    Rows of integers stand in the other order, or are one more where that changes nothing.
    """
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return _moved_array(value)
    if isinstance(value, (bool, np.bool_)):
        return not value
    if isinstance(value, float):
        return value * 1.01 + 0.001
    if isinstance(value, int):
        return value + 1
    if type(value) in (tuple, list):
        parts = [moved(part) for part in value]
        return type(value)(parts) if any(new is not old for new, old in zip(parts, value, strict=True)) else value
    if is_dataclass(value) and not isinstance(value, type):
        return _moved_fields(value)
    return value


def _moved_array(value: Any) -> Any:
    kind = str(value.dtype).removeprefix("torch.")
    if kind.startswith(("float", "bfloat")):
        return value * 1.01 + 0.001
    if kind == "bool":
        return ~value
    if not value.ndim:
        return value + 1
    back = value.flip(-1) if isinstance(value, torch.Tensor) else value[..., ::-1].copy()
    return value + 1 if bool((back == value).all()) else back


PLACES = ("arithmetic", "sources", "where", "schemes", "rope_types", "sincos")
"""Where what modules compute lies, in posenc."""


def _moved_fields(value: Any) -> Any:
    """Return a record with other numbers; what ports and tolerances say of numbers is left alone."""
    if type(value).__module__.split(".")[1] not in PLACES:
        return value
    numbers = {f.name: getattr(value, f.name) for f in fields(value)}
    other = {name: moved(v) for name, v in numbers.items() if isinstance(v, (float, np.ndarray, torch.Tensor))}
    return replace(value, **other) if other else value
