"""-p KEY=VALUE: text to the typed keyword parameters of a function, checked by its signature."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from posenc.parameters import alternatives, type_name, unpacked

REQUIRED = inspect.Parameter.empty
ABSENT: Any = type("ABSENT", (), {"__doc__": "The default of a parameter that is not passed on unless it is given."})


@dataclass(frozen=True)
class Parameter:
    """A keyword parameter: its annotation and its default, or REQUIRED, or ABSENT where it need not be given."""

    name: str
    type: Any
    default: Any

    @property
    def type_name(self) -> str:
        """The type as people write it: int, "auto", a|b."""
        return type_name(self.type)


def parameters_of(function: Callable[..., Any]) -> dict[str, Parameter]:
    """Return the parameters that can be given by name, but for a leading Form."""
    signature = inspect.signature(function)
    target = function.__init__ if inspect.isclass(function) else function
    try:
        hints = get_type_hints(target)
    except Exception:
        hints = {}
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    found = {
        name: Parameter(name, hints.get(name, Any), p.default)
        for name, p in signature.parameters.items()
        if p.kind in kinds and hints.get(name) is not _form()
    }
    return found | {name: Parameter(name, kind, ABSENT) for name, kind in unpacked(function).items()}


def _form() -> Any:
    from posenc.scheme import Form

    return Form


def parse_parameters(texts: tuple[str, ...], known: Mapping[str, Parameter], owner: str) -> dict[str, Any]:
    """Turn KEY=VALUE texts into keyword arguments; raise ValueError, in one line, for what does not fit."""
    values: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"-p {text}: expected KEY=VALUE, as in -p d_model=512")
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"{owner} has no parameter {key!r}: {hint}it has {', '.join(known) or 'none'}")
        if key in values:
            raise ValueError(f"-p {key} is given twice")
        values[key] = convert(value, known[key])
    return values


def convert(text: str, parameter: Parameter) -> Any:
    """Turn a text into a value of the parameter's type; raise ValueError where it is none."""
    for kind in alternatives(parameter.type):
        try:
            return _as(text, kind)
        except ValueError:
            continue
    raise ValueError(f"{parameter.name} must be {parameter.type_name}, got {text!r}")


def _as(text: str, kind: Any) -> Any:
    if get_origin(kind) is Literal:
        for choice in get_args(kind):
            if text == str(choice):
                return choice
        raise ValueError
    if kind is bool:
        return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[_known_bool(text)]
    if kind in (int, float):
        return kind(text)
    if kind is type(None):
        if text.lower() == "none":
            return None
        raise ValueError
    if kind is str:
        return text
    if get_origin(kind) is tuple:
        return tuple(_as(part, get_args(kind)[0]) for part in text.strip("[]() ").split(","))
    return _guess(text)


def _known_bool(text: str) -> str:
    if text.lower() not in ("true", "yes", "1", "false", "no", "0"):
        raise ValueError
    return text.lower()


def _guess(text: str) -> Any:
    """Read a value for a parameter without an annotation: int, float, true or false, else text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "none": None}.get(text.lower(), text)
