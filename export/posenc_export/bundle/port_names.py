"""Names of ports and axes: a port's name is also the name of a file, and of a variable in C++."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from posenc.ports import Port
from posenc_export.common.errors import BadInput

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_names(ports: Iterable[Port]) -> None:
    """Raise BadInput if the name of a port, a dynamic axis or a term of its sum is not an identifier."""
    for port in ports:
        _check_name("a port", port.name)
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


def _check_name(named: str, name: object) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadInput(f"{named} is named {name!r}: expected letters, digits and _, with no digit first; rename it")
