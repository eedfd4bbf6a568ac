"""Names of ports and axes: a port's name is also the name of a file, and of a variable in C++."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from posenc.ports import Port
from posenc_export.common.errors import BadInput

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DOTTED = re.compile(rf"{NAME.pattern}(\.[A-Za-z0-9_]+)*")
"""Names of ports: those of caches have dots, as `past_key_values.0.key` has."""

ENDS = ("rows", "reference")
"""What golden data of a port end in, behind its name and a dot."""


def check_names(ports: Iterable[Port]) -> None:
    """Raise BadInput if the name of a dynamic axis or a term of its sum is no identifier; a port's may have dots."""
    for port in ports:
        _check_name("a port", port.name, DOTTED)
        if (last := port.name.rpartition(".")[2]) in ENDS and last != port.name:
            raise BadInput(f"a port is named {port.name!r}: golden data have names that end in .{last}; rename it")
        for axis in port.axes:
            if not isinstance(axis.name, str):
                _check_name(f"an axis of {port.name}", axis.name)
            for name in axis.terms if axis.is_dynamic or axis.name else ():
                _check_name(f"an axis of {port.name}", name)


def check_inputs(ports: Sequence[Port]) -> None:
    """Raise BadInput where two inputs have one name, or a name is no identifier."""
    names = [port.name for port in ports]
    check_names(ports)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"two inputs are named {twice!r}: rename one")


def _check_name(named: str, name: object, pattern: re.Pattern[str] = NAME) -> None:
    if not isinstance(name, str) or not pattern.fullmatch(name):
        raise BadInput(f"{named} is named {name!r}: expected letters, digits and _, with no digit first; rename it")
