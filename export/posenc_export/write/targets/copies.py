"""Copies of a user's module: the module itself is never called."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from posenc_export.common.errors import BadInput, first_line

if TYPE_CHECKING:
    from torch import nn

EMPTY = (dict, OrderedDict, set)
"""Types of tables of a module whose copies, where they are empty, are empty ones of the same type."""


class Copies:
    """Makes copies of a module, which share its parameters and nothing else.

    Args:
        module: The module.
        again: Makes another where it cannot be copied.
        by_weight: Whether there is no copy in float64: each weight is widened when it is read, and dropped again.

    Raises BadInput where neither makes another module.
    """

    def __init__(self, module: nn.Module, again: Callable[[], nn.Module], by_weight: bool = False) -> None:
        self.module, self.again, self.by_weight = module, again, by_weight
        self.can_copy = True
        try:
            _copied(module)
        except Exception as error:
            self.can_copy = False
            if again() is module:
                raise _no_copy(error) from error

    @cached_property
    def double(self) -> nn.Module:
        """The module in float64: made when it is first asked for, and once, since copies of it share its parameters."""
        try:
            wide = {id(parameter): _widened(parameter) for parameter in self.module.parameters()}
            return copy.deepcopy(self.module, wide).double()
        except Exception as error:
            raise _no_copy(error) from error

    def fresh(self) -> nn.Module:
        """Return a copy that was never called."""
        return _copied(self.module) if self.can_copy else self.again()

    def wide(self) -> nn.Module:
        """Return a copy for a call in float64. Its weights are float64, unless they are widened one by one."""
        if self.by_weight:
            return self.fresh()
        return _copied(self.double) if self.can_copy else self.again().double()


def _widened(parameter: nn.Parameter) -> nn.Parameter:
    """Return a parameter in float64: a copy in its own dtype would take half as much again."""
    from torch import nn

    if not parameter.is_floating_point():
        return copy.deepcopy(parameter)
    return nn.Parameter(parameter.detach().double(), requires_grad=parameter.requires_grad)


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
    """Return a copy that shares the parameters.

    Most of what a module holds are empty tables of hooks, which deepcopy would take apart one by one: it is told what
    becomes of each, and takes half the time. A copy of a module is asked for in every call that is recorded.
    """
    known: dict[int, object] = {id(parameter): parameter for parameter in module.parameters()}
    for part in module.modules():
        for held in vars(part).values():
            if type(held) in EMPTY and not held:
                known[id(held)] = type(held)()
    return copy.deepcopy(module, known)
