"""Copies of a user's module: the module itself is never called."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

from posenc_export.common.errors import BadInput, first_line

if TYPE_CHECKING:
    from torch import nn


class Copies:
    """Makes copies of a module, which share its parameters and nothing else.

    Args:
        module: The module.
        again: Makes another where it cannot be copied.

    Raises BadInput where neither makes another module.
    """

    def __init__(self, module: nn.Module, again: Callable[[], nn.Module]) -> None:
        self.module, self.again = module, again
        self.double: nn.Module | None = None
        try:
            # converted once: copies of it share its parameters
            self.double = copy.deepcopy(module).double()
        except Exception as error:
            if again() is module:
                raise _no_copy(error) from error

    def fresh(self) -> nn.Module:
        """Return a copy that was never called."""
        return self.again() if self.double is None else _copied(self.module)

    def wide(self) -> nn.Module:
        """Return a copy in float64."""
        return self.again().double() if self.double is None else _copied(self.double)


def copy_of(module: nn.Module) -> nn.Module:
    """Return a copy; raise BadInput where it cannot be copied."""
    try:
        return copy.deepcopy(module)
    except Exception as error:
        raise _no_copy(error) from error


def _no_copy(error: Exception) -> BadInput:
    reason = f"{type(error).__name__}: {first_line(error)}"
    return BadInput(f"the module cannot be copied ({reason}): give a class or a function that makes it")


def _copied(module: nn.Module) -> nn.Module:
    return copy.deepcopy(module, {id(parameter): parameter for parameter in module.parameters()})
