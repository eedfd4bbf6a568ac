"""Which places of tokens a call gives: a module of diffusers is called with ids of tokens, or with patches to count."""

from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor, nn

from posenc_models.config.foreign import HfModule
from posenc_models.replacing.diffusion.asking import form_of
from posenc_models.replacing.diffusion.columns import Places

FAR = 1000
"""Places on an axis that are tried, where the module has as many."""
LIMITS = ("max_seq_len", "max_pos", "axes_lens")
"""Attributes that say how many places there are on an axis."""


def places_of(module: HfModule) -> "Ids | PatchGrid":
    """Return how a module's argument gives places: patches are counted where it says how large they are."""
    return PatchGrid(module) if hasattr(module, "patch_size") else Ids(module)


def last_place(module: HfModule) -> int:
    """Return the last place on an axis that is tried: the module may have a table up to it."""
    limits = [getattr(module, name) for name in LIMITS if hasattr(module, name)]
    sizes = [size for limit in limits for size in (limit if isinstance(limit, Sequence) else [limit])]
    return min([FAR, *(int(size) - 1 for size in sizes)])


class Ids(nn.Module):
    """Places that come in: (tokens, axes), or with a batch before; (tokens,) where there is a single axis."""

    def __init__(self, module: HfModule) -> None:
        super().__init__()
        self.last = last_place(module)
        self.axes, self.batch, self.whole = _axes_of(module)

    def forward(self, ids: Tensor) -> Places:
        """Return the places of all tokens: (..., axes) -> (...) each."""
        return [ids] if self.axes == 0 else list(ids.unbind(-1))

    def probe(self) -> Tensor:
        """Return ids of 0, and of the first place on each axis; less than 1 where places may have fractions."""
        rows = torch.cat([torch.zeros(2, max(self.axes, 1)), torch.eye(max(self.axes, 1))])
        return self._ids(rows if self.whole else rows / 8)

    def tried(self) -> list[Tensor]:
        """Return ids up to the last place, other ones on each axis; with fractions and below 0 where it takes them."""
        rows = torch.linspace(0, self.last, 61).floor().unsqueeze(1).repeat(1, max(self.axes, 1))
        mixed = torch.stack([rows[:, axis].roll(7 * axis) for axis in range(rows.shape[1])], 1)
        calls = [rows[:1], rows[:7], mixed, rows.flip(0)]
        calls += [] if self.whole else [-mixed, mixed + 0.37, rows * 0.731 - 300]
        return [self._ids(call) for call in calls]

    def _ids(self, rows: Tensor) -> Tensor:
        rows = rows.to(torch.int64) if self.whole else rows
        rows = rows if self.axes else rows.squeeze(1)
        return torch.stack([rows, rows]) if self.batch else rows


class PatchGrid(nn.Module):
    """The grid of patches of hidden states: (batch, channels, height, width), or with frames before the height."""

    def __init__(self, module: HfModule) -> None:
        super().__init__()
        self.last = last_place(module)
        patch = module.patch_size
        if isinstance(patch, int):
            # an image has no frames
            frames = [module.patch_size_t] if hasattr(module, "patch_size_t") else []
            patch = [*frames, patch, patch]
        self.patch = [int(size) for size in patch]

    def forward(self, hidden_states: Tensor) -> Places:
        """Return the places of the patches on each axis: (size or 1, ...) each."""
        sizes, axes = zip(hidden_states.shape[2:], self.patch, strict=True), len(self.patch)
        numbers = [torch.arange(size // patch, device=hidden_states.device) for size, patch in sizes]
        return [at.view([-1 if other == axis else 1 for other in range(axes)]) for axis, at in enumerate(numbers)]

    def probe(self) -> Tensor:
        """Return hidden states of a few patches."""
        return self._states([3, 2, 5][-len(self.patch) :])

    def tried(self) -> list[Tensor]:
        """Return hidden states of single patches, of oblong grids, and of long ones on each axis."""
        axes = len(self.patch)
        small = [[1] * axes, [1, 2, 3, 4][:axes], [5, 9, 7, 3][:axes], [3, 24, 40, 5][:axes]]
        far = [[self.last + 1 if axis == at else 2 for at in range(axes)] for axis in range(axes)]
        return [self._states([min(size, self.last + 1) for size in sizes]) for sizes in (*small, *far)]

    def _states(self, sizes: Sequence[int]) -> Tensor:
        """Return hidden states of as many patches, which hold a single number."""
        actual = [size * patch for size, patch in zip(sizes, self.patch, strict=True)]
        return torch.zeros(()).expand(1, 1, *actual)


def _axes_of(module: HfModule) -> tuple[int, bool, bool]:
    """Return how many axes ids have (0: (tokens,)), whether a batch stands before, and whether they must be whole."""
    widths = getattr(module, "axes_dim", getattr(module, "axes_dims", None))
    expected = [0, 3, 4, 2, 1] if widths is None else [len(widths)]
    for whole, axes, batch in product((False, True), expected, (False, True)):
        shape = [*([2] if batch else []), 5]
        ids = torch.zeros([*shape, *([axes] if axes else [])], dtype=torch.int64 if whole else torch.float32)
        try:
            form_of(module(ids), [torch.zeros(shape)])
        except Exception:
            continue
        return axes, batch, whole
    raise ValueError("no ids of up to four axes are taken; replace it by hand")
