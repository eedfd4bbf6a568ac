"""Schemes and their parameters, as JSON and as tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from posenc.parameters import ABSENT, REQUIRED, Parameter
from posenc.scheme import Scheme


def describe(scheme: Scheme) -> dict[str, object]:
    """Return a scheme with its parameters, as JSON values."""
    return {
        "name": scheme.name,
        "summary": scheme.summary,
        "formula": scheme.formula,
        "paper": scheme.paper,
        "models": list(scheme.models),
        "positions": scheme.positions,
        "unsupported": scheme.unsupported.reasons(),
        "not_read_back": dict(scheme.unsupported.reading),
        "samples": [dict(sample) for sample in scheme.samples],
        "parameters": [_described(parameter) for parameter in scheme.parameters.values()],
    }


def _described(parameter: Parameter) -> dict[str, object]:
    # JSON has no word for a required value
    default = None if parameter.default in (REQUIRED, ABSENT) else parameter.default
    described = {
        "name": parameter.name,
        "type": parameter.type_name,
        "default": list(default) if isinstance(default, tuple) else default,
        "help": parameter.help,
    }
    return described | {"needed_by_some": True} if parameter.default is ABSENT else described


def print_schemes(console: Console, schemes: Iterable[Scheme]) -> None:
    """Print schemes, each with a table of its parameters."""
    for scheme in schemes:
        console.print(Text(f"{scheme.name}: {scheme.summary}", style="bold"))
        console.print(Text(f"  {scheme.paper}; positions: {scheme.positions}"))
        if scheme.formula:
            console.print(Text(f"  {scheme.formula}"))
        if scheme.models:
            console.print(Text(f"  used by {', '.join(scheme.models)}"))
        for form, reason in scheme.unsupported.reasons().items():
            console.print(Text(f"  no {form}: {reason}"))
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
        table.add_column(overflow="fold", min_width=24)
        for parameter in scheme.parameters.values():
            table.add_row(*(Text(cell) for cell in (typed(parameter), parameter.type_name, parameter.help)))
        console.print(table)
        console.print()


def typed(parameter: Parameter) -> str:
    """Return a parameter as one types it, with its default if it has one."""
    value = parameter.default
    if value is REQUIRED or value is ABSENT:
        return f"-p {parameter.name}="
    text = ",".join(map(str, value)) if isinstance(value, tuple) else "none" if value is None else str(value)
    return f"-p {parameter.name}={text}"
