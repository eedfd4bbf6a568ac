"""The longest call that a user's module takes, found by trying: what max_len must be where its table is shorter."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from posenc.ports import Axis, Port, axes_of
from posenc_export.bundle.case import Case
from posenc_export.common.errors import BadInput, ExportFailed
from posenc_export.write.targets.answering import answers

if TYPE_CHECKING:
    from torch import nn

FAILS = re.compile(r"^(the module itself fails .*?)(; lower --max-len .*|; if it takes others.*)?$", re.DOTALL)
"""The words on a failing call, without the advice that is of no use where a table ends."""
CUT = "--max-len asks for more than it has"
"""The end of the words on a length that torch.export itself keeps to a range."""
SHORTEST = 3
"""The least length of a table that an export can vary."""


@contextmanager
def advised(fresh: Callable[[], nn.Module], ports: Sequence[Port], max_len: int, seed: int) -> Iterator[None]:
    """Have the error of a call that fails for its length say up to which length the module takes calls."""
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
        return answers(fresh(), ports, Case("probe", sizes), seed)

    if takes(max_len) or not takes(2) or not takes(SHORTEST):
        return None
    low, high = SHORTEST, max_len  # it takes the first, and refuses the second
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if takes(middle) else (low, middle)
    # a module with gaps among its lengths has no such end
    beyond = [length for length in (low + 2, low + 3) if length < max_len]
    return low if takes(low - 1) and not any(takes(length) for length in beyond) else None


def _is_plain(axis: Axis) -> bool:
    """Return whether an axis may have any size: no multiple, no sum, no side of a grid."""
    return axis.kind != "grid" and axis.multiple == 1 and axis.most is None and axis.terms == (axis.name,)
