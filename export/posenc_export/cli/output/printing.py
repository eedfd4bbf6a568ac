"""JSON on stdout."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

from posenc_export.errors import HOLDS_COMMAND


def print_json(data: Mapping[str, object]) -> None:
    """Print JSON, in which text that a build server would take for a command is escaped."""
    text = json.dumps(data, indent=1, allow_nan=False)
    click.echo(HOLDS_COMMAND.sub(lambda _: "\\u0023", text))
