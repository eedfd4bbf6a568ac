"""What a builder's signature says of its parameters, `**given: Unpack[SomeTypedDict]` included, and checks by it."""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, Unpack, get_args, get_origin, get_type_hints


def unpacked_type(function: Callable[..., Any]) -> Any:
    """Return the TypedDict of a function's `**given: Unpack[SomeTypedDict]`, or None."""
    for name, p in inspect.signature(function).parameters.items():
        if p.kind is inspect.Parameter.VAR_KEYWORD:
            hint = get_type_hints(function).get(name)
            return get_args(hint)[0] if get_origin(hint) is Unpack else None
    return None


def unpacked(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the parameters that `**given: Unpack[SomeTypedDict]` stands for: {name: annotation}."""
    typed_dict = unpacked_type(function)
    return get_type_hints(typed_dict) if typed_dict is not None else {}


def alternatives(kind: Any) -> list[Any]:
    """Return the types of a union, or the one type that there is."""
    if get_origin(kind) in (Union, types.UnionType):
        return [one for part in get_args(kind) for one in alternatives(part)]
    return [kind]


def type_name(kind: Any) -> str:
    """Return a type as people write it: int, a or b, true or false, a list of float."""
    return " or ".join(_name(one) for one in alternatives(kind))


def _name(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(str(choice) for choice in get_args(kind))
    if get_origin(kind) is tuple:
        return f"a list of {type_name(get_args(kind)[0])}"
    known = {type(None): "none", bool: "true or false", Any: "any"}
    return known.get(kind) or str(kind.__name__)


def checked(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments as a function's annotations want them; raise ValueError, in one line, where not.

    Whole floats fit int, lists and tuples fit tuples; true and false are no numbers.
    """
    hints = {**get_type_hints(function), **unpacked(function)}
    return {name: _fit(name, value, hints[name]) if name in hints else value for name, value in values.items()}


def _fit(name: str, value: Any, kind: Any) -> Any:
    for one in alternatives(kind):
        try:
            return _as(value, one)
        except ValueError:
            continue
    raise ValueError(f"{name} must be {type_name(kind)}, got {value!r}")


def _as(value: Any, kind: Any) -> Any:
    """Return a value as one type; raise ValueError where it is none."""
    if get_origin(kind) is Literal:
        # equal is not enough: 1 == True
        fits = any(value == choice and type(value) is type(choice) for choice in get_args(kind))
    elif get_origin(kind) is tuple:
        if not isinstance(value, (list, tuple)) or not value:
            raise ValueError
        return tuple(_as(one, get_args(kind)[0]) for one in value)
    elif kind in (int, float):
        return _number(value, kind)
    else:
        fits = kind is Any or isinstance(value, kind)
    if not fits:
        raise ValueError
    return value


def _number(value: Any, kind: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError
    if kind is float and (isinstance(value, float) or abs(value) < 2**63):
        return value
    if not math.isfinite(value) or value != int(value) or abs(value) > 2**63:
        raise ValueError
    return int(value)
