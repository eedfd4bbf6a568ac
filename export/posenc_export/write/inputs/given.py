"""Inputs as Python gives them: ports, texts of ports, and names of a file that a target has under others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from posenc.ports import Port
from posenc_export.common.errors import BadInput, bad_input
from posenc_export.write.inputs.ports import assumptions, parse_ports
from posenc_export.write.inputs.renames import parse_rename

Inputs: TypeAlias = "str | Port | Sequence[str | Port]"


def ports_of(inputs: Inputs) -> tuple[tuple[Port, ...], tuple[str, ...]]:
    """Return the ports, texts read as `-i` reads them, and the assumptions about texts, a sentence each.

    Raises BadInput for anything else, and for a text that describes no port.
    """
    items = _items(inputs)
    wrong = [item for item in items if not isinstance(item, str | Port)] if isinstance(items, Sequence) else [inputs]
    if wrong:
        raise BadInput(f"inputs must be ports, or texts as 'x: float32[batch, seq, 512]', got {wrong[0]!r}")
    texts = tuple(item for item in items if isinstance(item, str))
    with bad_input():
        made, notes = iter(parse_ports(texts)), assumptions(texts)
    return tuple(item if isinstance(item, Port) else next(made) for item in items), notes


def renames_of(inputs: Inputs) -> tuple[tuple[str | Port, ...], dict[str, str]]:
    """Return ports, or their texts, and apart from them names in a file with the target's names."""
    items = _items(inputs)
    names = {item: renamed for item in items if isinstance(item, str) and (renamed := parse_rename(item))}
    return tuple(item for item in items if item not in names), dict(names.values())


def _items(inputs: Inputs) -> Sequence[str | Port]:
    return (inputs,) if isinstance(inputs, str | Port) else inputs
