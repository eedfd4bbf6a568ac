"""What is registered, for people and for programs."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from posenc.parameters import unpacked_type
from posenc.scheme import SCHEMES, Scheme
from posenc_export.cli.parameters import ABSENT, REQUIRED, Parameter, parameters_of

if TYPE_CHECKING:
    from rich.console import Console


def describe() -> list[dict[str, Any]]:
    """Return every scheme with its parameters, as JSON values."""
    return [
        {
            "name": scheme.name,
            "summary": scheme.summary,
            "paper": scheme.paper,
            "positions": scheme.positions,
            "unsupported": dict(scheme.unsupported),
            "parameters": [_parameter(p, scheme) for p in parameters_of(scheme.build).values()],
        }
        for scheme in SCHEMES.values()
    ]


def _parameter(parameter: Parameter, scheme: Scheme) -> dict[str, Any]:
    default = None if parameter.default in (REQUIRED, ABSENT) else parameter.default
    default = list(default) if isinstance(default, tuple) else default
    help_ = _help(scheme).get(parameter.name, "")
    told = {"name": parameter.name, "type": parameter.type_name, "default": default, "help": help_}
    return told | {"needed_by_some": True} if parameter.default is ABSENT else told


def _help(scheme: Scheme) -> dict[str, str]:
    """Return what the docstrings of a builder, and of what it unpacks, say of each parameter: `name: text`."""
    told = [inspect.getdoc(scheme.build) or "", inspect.getdoc(unpacked_type(scheme.build)) or ""]
    pairs = (line.partition(": ") for text in told for line in text.splitlines()[1:])
    return {name: text for name, colon, text in pairs if colon and name.isidentifier()}


def print_schemes(console: Console) -> None:
    """Print every scheme with a table of its parameters."""
    from rich.table import Table
    from rich.text import Text

    for scheme in describe():
        console.print(Text(f"{scheme['name']}: {scheme['summary']}", style="bold"))
        console.print(Text(f"  {scheme['paper']}; positions: {scheme['positions']}"))
        for what, reason in scheme["unsupported"].items():
            console.print(Text(f"  no {what}: {reason}"))
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
        table.add_column(overflow="fold", min_width=24)
        for one in scheme["parameters"]:
            table.add_row(*(Text(t) for t in (f"-p {one['name']}={_default(one)}", one["type"], one["help"])))
        console.print(table)
        console.print()


def _default(parameter: dict[str, Any]) -> str:
    """Return a default as it would be given; nothing for a parameter that is left out by default."""
    value = parameter["default"]
    if "needed_by_some" in parameter:
        return ""
    return ",".join(map(str, value)) if isinstance(value, list) else "none" if value is None else str(value)
