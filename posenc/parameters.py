"""Typed keyword parameters of a function: described by its signature and docstring, checked as values, read from text.

A parameter's type is its annotation: int, float, bool, str, None, unions of them, `tuple[int, ...]`, a Literal, or
`Annotated[str, REGISTRY]` for a name in a registry. `Annotated[int, minimum(1)]` says which numbers it may have.
`**more: Annotated[Value, describe]` stands for the parameters that `describe()` returns.
"""

from __future__ import annotations

import inspect
import math
import textwrap
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from posenc.ranges import NumberRange
from posenc.registry import Registry, did_you_mean
from posenc.spec import Spec

Value: TypeAlias = "bool | int | float | str | tuple[Value, ...] | None"
Parameters: TypeAlias = "dict[str, Parameter]"

REQUIRED: object = inspect.Parameter.empty
ABSENT: object = type("ABSENT", (), {})
BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
LARGEST = 2**63


@dataclass(frozen=True)
class Parameter:
    """A keyword parameter: its annotation, its default, and its text in the docstring.

    Args:
        default: REQUIRED without one; ABSENT if the parameter is not passed on unless it is given.
        range: the numbers that it may have; None for all.
    """

    name: str
    type: object
    default: object = REQUIRED
    help: str = ""
    range: NumberRange | None = None

    @property
    def type_name(self) -> str:
        """The type as people write it: int or auto, true or false, a list of float."""
        return " or ".join(_name(kind) for kind in _alternatives(self.type))

    @property
    def choices(self) -> tuple[object, ...]:
        """The values of a Literal, or the names in a registry; empty for other types."""
        return tuple(choice for kind in _alternatives(self.type) for choice in _choices(kind))

    @property
    def takes_any_text(self) -> bool:
        """Whether any text may be given: a path, a name in a file."""
        return str in _alternatives(self.type)


# ---- described -------------------------------------------------------------------------------------------------------


def parameters_of(function: Callable[..., object]) -> Parameters:
    """Return the parameters that can be given by name, without a leading Spec."""
    target = function.__init__ if inspect.isclass(function) else function
    hints, texts = _hints(target), help_of(function)
    described: Parameters = {}
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints.get(name, Any)
        if parameter.kind is inspect.Parameter.VAR_KEYWORD and get_origin(hint) is Annotated:
            described |= get_args(hint)[1]()
        elif parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD) and hint is not Spec:
            kind, allowed = _kind_and_range(hint)
            described[name] = Parameter(name, kind, parameter.default, texts.get(name, ""), allowed)
    return described


def defaults(known: Mapping[str, Parameter]) -> dict[str, object]:
    """Return the parameters that have a default, with it."""
    return {name: p.default for name, p in known.items() if p.default is not REQUIRED and p.default is not ABSENT}


def help_of(function: Callable[..., object]) -> dict[str, str]:
    """Return the text of each parameter in a docstring: lines `name: text` of a section Args:, or without one."""
    text = inspect.getdoc(function) or ""
    _, has_section, section = text.partition("\nArgs:\n")
    lines = textwrap.dedent(section.partition("\n\n")[0]) if has_section else text.partition("\n")[2]
    texts: dict[str, str] = {}
    last = ""
    for line in lines.splitlines():
        name, colon, words = line.partition(": ")
        if colon and name.isidentifier():
            texts[last := name] = words
        elif last and line.startswith(" "):  # goes on farther in
            texts[last] += " " + line.strip()
        else:
            last = ""
    return texts


def _hints(function: Callable[..., object]) -> dict[str, object]:
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:  # a user's annotations may name unknown types: then no type is known
        return {}


def _kind_and_range(hint: object) -> tuple[object, NumberRange | None]:
    """Return an annotation without its range, and the range."""
    if get_origin(hint) is Annotated and isinstance(get_args(hint)[1], NumberRange):
        return get_args(hint)
    return hint, None


# ---- checked ---------------------------------------------------------------------------------------------------------


def check(values: Mapping[str, object], known: Mapping[str, Parameter], owner: str) -> dict[str, Any]:
    """Return keyword arguments converted to their annotations.

    Whole floats fit int, and lists fit tuples; true and false are not numbers.
    Raises ValueError, in one line, for an unknown name and for a value of another type or out of its range.
    """
    _check_names(values, known, owner)
    return {name: fit(known[name], value) for name, value in values.items()}


def check_required(values: Mapping[str, object], known: Mapping[str, Parameter], owner: str) -> None:
    """Raise ValueError where a parameter without a default is missing."""
    missing = [name for name, p in known.items() if p.default is REQUIRED and name not in values]
    if missing:
        raise ValueError(f"{owner} needs {', '.join(missing)}: give -p {missing[0]}=VALUE")


def fit(parameter: Parameter, value: object) -> object:
    """Return a value converted to a parameter's annotation; raise ValueError, in one line, where it does not fit."""
    return _first_that_fits(parameter, value, _from_value)


def _first_that_fits(parameter: Parameter, value: Any, read: Callable[[Any, object], object]) -> object:
    for kind in _alternatives(parameter.type):
        try:
            found = read(value, kind)
        except ValueError:
            continue
        _check_range(parameter, found)
        return found
    is_large = isinstance(value, int) and abs(value) > LARGEST
    span = f" from {-LARGEST} to {LARGEST - 1}" if is_large else ""
    raise ValueError(f"{parameter.name} must be {parameter.type_name}{span}, got {value!r}")


def _check_range(parameter: Parameter, value: object) -> None:
    """Raise ValueError where a number, or one of a list, is not in a parameter's range."""
    if parameter.range is None:
        return
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, (int, float)):
            parameter.range.check(**{parameter.name: number})


def _check_names(names: Iterable[str], known: Mapping[str, Parameter], owner: str) -> None:
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise ValueError(f"{owner} has no parameter {name!r}: {hint}it has {', '.join(known) or 'none'}")


def _from_value(value: object, kind: object) -> object:
    """Return a value converted to a type; raise ValueError where it does not fit."""
    if _choices(kind):
        # equality is not enough: 1 == True
        fits = any(value == choice and type(value) is type(choice) for choice in _choices(kind))
    elif get_origin(kind) is tuple:
        if not isinstance(value, (list, tuple)) or not value:
            raise ValueError
        return tuple(_from_value(item, get_args(kind)[0]) for item in value)
    elif kind in (int, float):
        return _number(value, kind)
    else:
        fits = not isinstance(kind, type) or isinstance(value, kind)
    if not fits:
        raise ValueError
    return value


def _number(value: object, kind: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError
    if kind is float and (isinstance(value, float) or abs(value) < LARGEST):
        return value
    if not math.isfinite(value) or value != int(value) or abs(value) > LARGEST:
        raise ValueError
    return int(value)


# ---- read from text --------------------------------------------------------------------------------------------------


def parse(texts: Iterable[str], known: Mapping[str, Parameter], owner: str) -> dict[str, Any]:
    """Turn KEY=VALUE texts into keyword arguments; raise ValueError, in one line, where one does not fit."""
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"-p {text}: expected KEY=VALUE, as in -p d_model=512")
        _check_names([name], known, owner)
        if name in values:
            raise ValueError(f"-p {name} is given twice")
        values[name] = _first_that_fits(known[name], value, _from_text)
    return values


def _from_text(text: str, kind: object) -> object:
    if _choices(kind):
        named = {str(choice): choice for choice in _choices(kind)}
        return named[text] if text in named else _fail()
    if kind is bool:
        return BOOLEANS[text.lower()] if text.lower() in BOOLEANS else _fail()
    if kind in (int, float):
        return int(text) if kind is int else float(text)
    if kind is type(None):
        return None if text.lower() == "none" else _fail()
    if get_origin(kind) is tuple:
        return tuple(_from_text(part, get_args(kind)[0]) for part in text.strip("[]() ").split(","))
    return text if kind is str else _guess(text)


def _fail() -> object:
    raise ValueError


def _guess(text: str) -> object:
    """Read a value for a parameter without an annotation: int, float, true or false, none, else text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "none": None}.get(text.lower(), text)


# ---- types -----------------------------------------------------------------------------------------------------------


def _alternatives(kind: object) -> list[object]:
    """Return the types of a union, or the type itself."""
    if get_origin(kind) in (Union, types.UnionType):
        return [leaf for part in get_args(kind) for leaf in _alternatives(part)]
    return [kind]


def _choices(kind: object) -> tuple[object, ...]:
    """Return the values of a Literal, or the names in a registry; empty for other types."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    registry = get_args(kind)[1] if get_origin(kind) is Annotated else None
    return tuple(registry) if isinstance(registry, Registry) else ()


def _name(kind: object) -> str:
    if _choices(kind):
        return " or ".join(map(str, _choices(kind)))
    if get_origin(kind) is tuple:
        return f"a list of {Parameter('', get_args(kind)[0]).type_name}"
    known = {type(None): "none", bool: "true or false", Any: "any"}
    return known.get(kind) or str(getattr(kind, "__name__", kind))  # type: ignore[call-overload]
