"""What a module is called with, and which places of tokens a call gives: here, ids that come in."""

from collections.abc import Sequence
from itertools import product
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from posenc_models.config.foreign import HfModule
from posenc_models.replacing.diffusion.asking import form_of
from posenc_models.replacing.diffusion.columns import Places

Call = tuple[object, ...]
"""The arguments of a call."""
FAR = 1000
"""Places on an axis that are tried, where the module has as many."""
LIMITS = ("max_seq_len", "max_pos", "axes_lens")
"""Attributes that say how many places there are on an axis."""
NTK = ("t_ntk_factor", "h_ntk_factor", "w_ntk_factor")
"""Factors of the base, 10000, in the module of Cosmos."""


class Where(nn.Module):
    """How a module's calls give places.

    Attributes:
        names: how the arguments of its forward are called.
        kind: the kind of its form, where the shape of what it returns does not tell it.
        has: attributes by which it is known among modules that are called alike.
    """

    names: ClassVar[tuple[str, ...]]
    kind: ClassVar[str | None] = None
    has: ClassVar[tuple[str, ...]] = ()

    def __init__(self, module: HfModule) -> None:
        super().__init__()
        self.last = last_place(module)

    @classmethod
    def of_module(cls, module: HfModule, names: tuple[str, ...]) -> Self | None:
        """Return it for a module, or None where the module is called otherwise."""
        return cls(module) if names == cls.names and all(hasattr(module, name) for name in cls.has) else None

    def probe(self) -> Call:
        """Return a call whose tokens have the first places beyond 0 on each axis alone."""
        raise NotImplementedError

    def tried(self) -> list[Call]:
        """Return calls of many sizes."""
        raise NotImplementedError

    def dtype(self, *args: object, **kwargs: object) -> torch.dtype | None:
        """Return the dtype that a call asks for; else None."""
        return None

    def finish(self, returned: Any, *args: object, **kwargs: object) -> object:
        """Return what the model's module would, from the cosines and sines at all places."""
        return returned


def last_place(module: HfModule) -> int:
    """Return the last place on an axis that is tried: the module may have a table up to it."""
    limits = [getattr(module, name) for name in LIMITS if hasattr(module, name)]
    sizes = [size for limit in limits for size in (limit if isinstance(limit, Sequence) else [limit])]
    return min([FAR, *(int(size) - 1 for size in sizes)])


def bases_of(module: HfModule) -> list[float]:
    """Return the numbers of a module that the base of its frequencies may be."""
    numbers = [value for value in vars(module).values() if isinstance(value, (int, float)) and value > 1]
    return [*map(float, numbers), *(10000.0 * getattr(module, name) for name in NTK if hasattr(module, name))]


def grid(axes: Sequence[Tensor]) -> Places:
    """Return places on the axes of a grid: (size,) each -> (sizes or 1, ...) each."""
    return [place.view([-1 if at == axis else 1 for at in range(len(axes))]) for axis, place in enumerate(axes)]


def sizes_tried(axes: int, last: int) -> list[list[int]]:
    """Return grids of many sizes: single tokens, oblong ones, and long ones on each axis."""
    small = [[1] * axes, [1, 2, 3, 4][:axes], [5, 9, 7, 3][:axes], [3, 24, 40, 5][:axes]]
    far = [[last + 1 if axis == at else 2 for at in range(axes)] for axis in range(axes)]
    return [[min(size, last + 1) for size in sizes] for sizes in (*small, *far)]


class Ids(Where):
    """Places that come in: (tokens, axes), or with a batch before; (tokens,) where there is a single axis."""

    names = ("ids",)

    def __init__(self, module: HfModule) -> None:
        super().__init__(module)
        self.axes, self.batch, self.whole = _axes_of(module)

    @classmethod
    def of_module(cls, module: HfModule, names: tuple[str, ...]) -> Self | None:
        """Return it for a module with any name of its ids."""
        return cls(module) if names in (("ids",), ("position_ids",), ("pos",)) else None

    def forward(self, *args: Tensor, **kwargs: Tensor) -> Places:
        """Return the places: (..., axes) -> (...) each."""
        (ids,) = (*args, *kwargs.values())
        return [ids] if self.axes == 0 else list(ids.unbind(-1))

    def probe(self) -> Call:
        """Return ids of 0, and of the first place on each axis; less than 1 where places may have fractions."""
        rows = torch.cat([torch.zeros(2, max(self.axes, 1)), torch.eye(max(self.axes, 1))])
        return (self._ids(rows if self.whole else rows / 8),)

    def tried(self) -> list[Call]:
        """Return ids up to the last place, other ones on each axis; with fractions and below 0 where it takes them."""
        rows = torch.linspace(0, self.last, 61).floor().unsqueeze(1).repeat(1, max(self.axes, 1))
        mixed = torch.stack([rows[:, axis].roll(7 * axis) for axis in range(rows.shape[1])], 1)
        calls = [rows[:1], rows[:7], mixed, rows.flip(0)]
        calls += [] if self.whole else [-mixed, mixed + 0.37, rows * 0.731 - 300]
        return [(self._ids(call),) for call in calls]

    def _ids(self, rows: Tensor) -> Tensor:
        rows = rows.to(torch.int64) if self.whole else rows
        rows = rows if self.axes else rows.squeeze(1)
        return torch.stack([rows, rows]) if self.batch else rows


def _axes_of(module: HfModule) -> tuple[int, bool, bool]:
    """Return how many axes ids have (0: (tokens,)), whether a batch stands before, and whether they must be whole."""
    widths = getattr(module, "axes_dim", getattr(module, "axes_dims", None))
    expected = [0, 3, 4, 2, 1] if widths is None else [len(widths)]
    for whole, axes, batch in product((False, True), expected, (False, True)):
        shape = [*([2] if batch else []), 5]
        ids = torch.zeros([*shape, *([axes] if axes else [])], dtype=torch.int64 if whole else torch.float32)
        try:
            form_of(module(ids), [torch.zeros(shape)], None)
        except Exception:
            continue
        return axes, batch, whole
    raise ValueError("no ids of up to four axes are taken; replace it by hand")
