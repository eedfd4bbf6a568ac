"""Modules changed for an exporter: on a shallow copy, which shares all weights, never on the live module."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

    Swap = Callable[[nn.Module], nn.Module]


def rewritten(module: nn.Module, swap: Swap) -> nn.Module:
    """Return a module in which `swap` was applied to every module, from the leaves up.

    A module without changes inside stays itself, not a copy; a module that stands in two places is swapped once.

    Args:
        module: The module, which is not changed.
        swap: A module to the module in its place, which may be the same.
    """
    return _rewritten(module, swap, {})


def _rewritten(module: nn.Module, swap: Swap, done: dict[nn.Module, nn.Module]) -> nn.Module:
    if module not in done:
        children = {name: _rewritten(child, swap, done) for name, child in module._modules.items() if child is not None}
        copied = module
        if any(child is not module._modules[name] for name, child in children.items()):
            copied = shallow_copy(module)
            copied._modules.update(children)
        done[module] = swap(copied)
    return done[module]


def shallow_copy(module: nn.Module) -> nn.Module:
    """Return a copy that shares parameters, buffers and children, and can be given other attributes and children."""
    copied = copy.copy(module)
    # copy.copy shares this dict with the module
    copied.__dict__["_modules"] = dict(module._modules)
    return copied
