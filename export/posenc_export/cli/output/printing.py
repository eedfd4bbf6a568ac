"""The console, and JSON on stdout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from posenc_export.common.errors import HOLDS_COMMAND

if TYPE_CHECKING:
    from rich.console import Console


def print_json(data: Mapping[str, object]) -> None:
    """Print JSON, in which text that a build server would take for a command is escaped."""
    text = json.dumps(data, indent=1, allow_nan=False)
    click.echo(HOLDS_COMMAND.sub(lambda _: "\\u0023", text))


def console() -> Console:
    """Return a console on stdout; outside a terminal it is wide enough to keep cells of tables whole."""
    from rich.console import Console

    made = Console(highlight=False, soft_wrap=False)
    return made if made.is_terminal else Console(highlight=False, width=120)
