"""Calls that a module is asked, at sizes that an assumption of torch.export leaves out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posenc.ports import Port, axes_of
from posenc_export.bundle.carries import kind_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from posenc.encoding import Encoding

Sizes = Mapping[str, int]
RESIDUES = (*range(3, 18), 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129)
"""Lengths at which modules branch: every user's module is tried at them."""
ATTEMPTS = 48
"""Sizes that break a guard and at which a module is run: small and large ones."""
FEW, LARGE = 5, 2**24
"""The first are tried whatever they cost; the others up to this many input elements times the longest axis."""


@dataclass(frozen=True)
class ModuleCalls:
    """What it takes to call a module at some sizes.

    Attributes:
        inputs: What goes in.
        fresh: Makes a copy of the module that was never called.
        probes: Lengths that the plan has beside those that every plan has.
    """

    inputs: tuple[Port, ...]
    fresh: Callable[[], nn.Module]
    probes: tuple[int, ...] = ()

    def run(self, inputs: Sequence[Tensor]) -> object:
        """Return what a copy of the module gives."""
        return self.fresh()(*inputs)

    def takes(self, sizes: Sizes) -> bool:
        """Return whether the module runs at these sizes."""
        import torch

        try:
            with torch.no_grad():
                self.run([_input(port, sizes) for port in self.inputs])
        except Exception:
            return False
        return True

    def elements(self, sizes: Sizes) -> int:
        """Return how many numbers go in."""
        return sum(math.prod(port.shape(sizes)) for port in self.inputs)

    def are_planned(self, sizes: Sizes) -> bool:
        """Return whether the plan has a call of these lengths: all alike, and one that every plan has, or a probe."""
        lengths = {sizes[axis.name] for axis in axes_of(self.inputs) if axis.is_length}
        return len(lengths) == 1 and lengths <= {1, 2, *RESIDUES, *self.probes}

    def taken(self, candidates: Sequence[Sizes], attempts: int = ATTEMPTS) -> list[Sizes]:
        """Return some of the candidates, small and large ones, at which the module runs."""

        def cost(sizes: Sizes) -> int:
            return self.elements(sizes) * max(sizes.values(), default=1)

        lengths = [axis.name for axis in axes_of(self.inputs) if axis.is_length]
        costly_first = sorted(candidates, key=cost, reverse=True)
        # one call for each set of lengths, the cheapest: it comes last, and stays in the dict
        cheapest = {tuple(sizes[name] for name in lengths): sizes for sizes in costly_first}
        ordered = sorted(cheapest.values(), key=cost)
        unique = [sizes for i, sizes in enumerate(ordered) if i < FEW or cost(sizes) <= LARGE]
        half = attempts // 2
        # the smaller half of the attempts, then as many in even steps up to the largest
        some = [*unique[:half], *unique[half :: max(1, len(unique) // half)]]
        return [sizes for sizes in some if self.takes(sizes)]


def calls_of(encoding: Encoding) -> ModuleCalls:
    """Return the calls of an encoding's module."""
    return ModuleCalls(encoding.inputs, lambda: encoding.uncalled().module, encoding.probes.lengths)


def _input(port: Port, sizes: Sizes) -> torch.Tensor:
    """Return an input that holds the least integer that it may; of floats zeros."""
    import torch

    least = kind_of(port.carries).least(port.carries, port, sizes) or 0  # zero may be no index of its tables
    return torch.full(port.shape(sizes), least, dtype=getattr(torch, port.dtype))
