"""How a user's module is called: with inputs by position, for tensors in a row, whatever it takes and gives itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from posenc.ports import Port
from posenc_export.arrays import tensors_of

Wrap = Callable[[nn.Module], nn.Module]


class InARow(nn.Module):
    """A module whose last inputs go in by their names, and of whose outputs the tensors come out as a tuple."""

    def __init__(self, wrapped: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.wrapped, self.names = wrapped, names

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Call it; shapes are those of its inputs and outputs."""
        first = len(inputs) - len(self.names)
        named = dict(zip(self.names, inputs[first:], strict=True))
        return tuple(tensors_of(self.wrapped(*inputs[:first], **named)))


def in_a_row(module: nn.Module, ports: Sequence[Port], outputs: Callable[[nn.Module], object]) -> Wrap | None:
    """Return what makes a module one that exporters can call, where it is not one as it stands.

    outputs: calls a module on inputs of the ports.
    """
    names = by_name(module, [port.name for port in ports])

    def wrap(bare: nn.Module) -> nn.Module:
        return InARow(bare, names).eval()

    if names:
        return wrap
    leaves = pytree.tree_leaves(outputs(module))
    return None if all(isinstance(leaf, Tensor) for leaf in leaves) else wrap


def by_name(module: nn.Module, names: Sequence[str]) -> tuple[str, ...]:
    """Return the inputs, from some one on to the last, that `forward` takes by their names alone.

    So is one that stands in the place of another, which is optional.
    """
    parameters = list(inspect.signature(module.forward).parameters.values())
    known = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters) and len(known) < len(names):
        return ()
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for i, name in enumerate(names):
        other = i >= len(places) or (places[i].name != name and places[i].default is not inspect.Parameter.empty)
        if other and all(anything or later in known for later in names[i:]):
            return tuple(names[i:])
    return ()


def unwrapped(module: nn.Module) -> nn.Module:
    """Return the module that a user gave."""
    return module.wrapped if isinstance(module, InARow) else module
