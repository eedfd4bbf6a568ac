"""Exporters call with inputs by position, and take tensors in a row: a wrapper for user's modules that do otherwise."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from posenc.ports import Port
from posenc_export.common.arrays import tensors_of

Wrap = Callable[[nn.Module], nn.Module]


class InARow(nn.Module):
    """A module whose last inputs go in by their names, and of whose outputs the tensors come out as a tuple."""

    def __init__(self, wrapped: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.wrapped, self.names = wrapped, names

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Call it; shapes are those of its inputs and outputs."""
        first = len(inputs) - len(self.names)  # the rest goes in by name
        named = dict(zip(self.names, inputs[first:], strict=True))
        return tuple(tensors_of(self.wrapped(*inputs[:first], **named)))


def in_a_row(module: nn.Module, ports: Sequence[Port], outputs: Callable[[nn.Module], object]) -> Wrap | None:
    """Return what wraps a module for exporters; None where they can call it as it stands.

    Args:
        module: A copy, which is called.
        ports: What goes in.
        outputs: Calls a module on inputs of the ports.
    """
    names = by_name(module, [port.name for port in ports])

    def wrap(bare: nn.Module) -> nn.Module:
        return InARow(bare, names).eval()

    if names:
        return wrap
    leaves = pytree.tree_leaves(outputs(module))
    return None if all(isinstance(leaf, Tensor) for leaf in leaves) else wrap


def by_name(module: nn.Module, names: Sequence[str]) -> tuple[str, ...]:
    """Return the last inputs, those that `forward` takes by their names alone.

    An input in the place of an optional parameter of another name is taken by its name, too.
    """
    parameters = list(inspect.signature(module.forward).parameters.values())
    known = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters) and len(known) < len(names):
        return ()
    # inputs go in by position as far as names and places agree
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for i, name in enumerate(names):
        is_elsewhere = i >= len(places) or (places[i].name != name and places[i].default is not inspect.Parameter.empty)
        if is_elsewhere and all(anything or later in known for later in names[i:]):
            return tuple(names[i:])
    return ()


def unwrapped(module: nn.Module) -> nn.Module:
    """Return the module that a user gave."""
    return module.wrapped if isinstance(module, InARow) else module
