"""How long a call somebody's module takes, found by trying: what max_len is to be where its table ends before it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from posenc.ports import Axis, Port, axes_of
from posenc_export.arrays import call_on_arrays
from posenc_export.bundle.case import Case
from posenc_export.errors import BadInput, ExportFailed, check_machine
from posenc_export.validation.planning.feeds import feeds_for

if TYPE_CHECKING:
    from torch import nn

FAILS = re.compile(r"^(the module itself fails .*?)(; lower --max-len .*|; if it takes others.*)?$", re.DOTALL)
"""What a failing call is said to be, and the advice that suits no table."""
CUT = "--max-len asks for more than it has"
"""What torch.export's own range of a length is said to come of."""
SHORTEST = 3
"""The least length of a table that an export can vary."""


@contextmanager
def advised(fresh: Callable[[], nn.Module], ports: Sequence[Port], max_len: int, seed: int) -> Iterator[None]:
    """Say up to which length a module takes calls where one of up to max_len fails, and it is its length that does."""
    try:
        yield
    except (BadInput, ExportFailed) as error:
        failing = FAILS.match(error.message)
        if failing is None and not error.message.endswith(CUT):
            raise
        end = max_length(fresh, ports, max_len, seed)
        if end is None:
            raise
        reason = failing[1] if failing else error.message
        raise type(error)(f"{reason}; it takes calls of up to {end}: give --max-len {end}") from error


def max_length(fresh: Callable[[], nn.Module], ports: Sequence[Port], max_len: int, seed: int) -> int | None:
    """Return the length up to which a module takes every call that is tried; None where there is no such length."""
    axes = [axis for port in ports for axis in port.dynamic.values()]
    if not any(axis.is_length for axis in axes) or not all(_is_plain(axis) for axis in axes):
        return None

    def takes(length: int) -> bool:
        sizes = {axis.name: length if axis.is_length else max(2, axis.least) for axis in axes_of(ports)}
        return _answers(fresh(), ports, sizes, seed)

    if takes(max_len) or not takes(2) or not takes(SHORTEST):
        return None
    low, high = SHORTEST, max_len
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if takes(middle) else (low, middle)
    beyond = [length for length in (low + 2, low + 3) if length < max_len]
    return low if takes(low - 1) and not any(takes(length) for length in beyond) else None


def _is_plain(axis: Axis) -> bool:
    """Return whether an axis may have any size: no multiple, no sum, no side of a grid."""
    return axis.kind != "grid" and axis.multiple == 1 and axis.most is None and axis.terms == (axis.name,)


def _answers(module: nn.Module, ports: Sequence[Port], sizes: Mapping[str, int], seed: int) -> bool:
    feeds = feeds_for(tuple(ports), Case("probe", sizes), seed)
    try:
        call_on_arrays(module, [feeds[port.name] for port in ports])
    except Exception as error:
        check_machine(error)
        return False
    return True
