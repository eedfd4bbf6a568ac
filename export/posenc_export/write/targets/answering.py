"""Whether a module answers a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from posenc.ports import Port
from posenc_export.bundle.case import Case
from posenc_export.common.arrays import call_on_arrays
from posenc_export.common.errors import check_machine
from posenc_export.write.targets.feeds import feeds_for

if TYPE_CHECKING:
    from torch import nn


def answers(module: nn.Module, ports: Sequence[Port], case: Case, seed: int) -> bool:
    """Return whether a module gives anything in a case; ToolFailed where the machine is why it does not."""
    feeds = feeds_for(tuple(ports), case, seed)
    try:
        call_on_arrays(module, [feeds[port.name] for port in ports])
    except Exception as error:
        check_machine(error)
        return False
    return True
