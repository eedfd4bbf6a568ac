"""The grid of patches of an image or a video, whose size is that of hidden states."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from posenc_models.config.foreign import HfModule
from posenc_models.replacing.diffusion.columns import Places
from posenc_models.replacing.diffusion.where import Call, Where, grid, sizes_tried


class Grid(Where):
    """The grid of patches of hidden states: (batch, channels, height, width), or with frames before the height."""

    names: ClassVar[tuple[str, ...]] = ("hidden_states",)
    has: ClassVar[tuple[str, ...]] = ("patch_size",)

    def __init__(self, module: HfModule) -> None:
        super().__init__(module)
        patch = module.patch_size
        if isinstance(patch, int):
            # an image has no frames; EasyAnimate's frames are no patches
            frames = [module.patch_size_t] if hasattr(module, "patch_size_t") else []
            patch = [*frames, patch, patch]
        self.patch = [int(size) for size in patch]

    def forward(self, hidden_states: Tensor) -> Places:
        """Return the places of the patches."""
        return grid(self.patches(hidden_states))

    def patches(self, hidden_states: Tensor) -> list[Tensor]:
        """Return the numbers of patches on each axis: (size,) each."""
        sizes = zip(hidden_states.shape[2:], self.patch, strict=True)
        return [torch.arange(size // patch, device=hidden_states.device) for size, patch in sizes]

    def probe(self) -> Call:
        """Return hidden states of a few patches."""
        return self.states([3, 2, 5][-len(self.patch) :])

    def tried(self) -> list[Call]:
        """Return hidden states of many sizes."""
        return [self.states(sizes) for sizes in sizes_tried(len(self.patch), self.last)]

    def states(self, sizes: Sequence[int]) -> Call:
        """Return hidden states of as many patches, which hold a single number."""
        actual = [size * patch for size, patch in zip(sizes, self.patch, strict=True)]
        return (torch.zeros(()).expand(1, 1, *actual),)


class RescaledGrid(Grid):
    """CogView4: rows and columns are those of a grid of a fixed size, whole numbers of it."""

    has = ("patch_size", "rope_axes_dim")

    def __init__(self, module: HfModule) -> None:
        super().__init__(module)
        self.whole = [int(size) for size in module.rope_axes_dim]

    def forward(self, hidden_states: Tensor) -> Places:
        """Return the places of the patches in the grid of a fixed size."""
        pairs = zip(self.patches(hidden_states), self.whole, strict=True)
        return grid([place * size // place.shape[0] for place, size in pairs])

    def probe(self) -> Call:
        """Return hidden states of half as many patches as the grid has: every second place."""
        return self.states([max(size // 2, 1) for size in self.whole])


class SkippedGrid(Grid):
    """ChronoEdit: of two frames, the second stands where a later one would."""

    has = ("patch_size", "temporal_skip_len")

    def __init__(self, module: HfModule) -> None:
        super().__init__(module)
        self.skip = int(module.temporal_skip_len)
        if self.patch[0] != 1:
            raise ValueError(f"patches of {self.patch[0]} frames leave its two frames open; replace it by hand")

    def forward(self, hidden_states: Tensor) -> Places:
        """Return the places of the patches."""
        frames, *rest = self.patches(hidden_states)
        # a comparison of tensors, so that a graph holds for any number of frames
        skips = (frames.max() == 1).to(frames.dtype)
        return grid([frames * (1 + (self.skip - 2) * skips), *rest])

    def tried(self) -> list[Call]:
        """Return hidden states of many sizes, two frames among them."""
        return [*super().tried(), self.states([2, 4, 3])]


class VideoGrid(Grid):
    """Cosmos: frames stand where their times are, at a number of frames a second."""

    names = ("hidden_states", "fps")
    has = ("patch_size", "base_fps")

    def __init__(self, module: HfModule) -> None:
        super().__init__(module)
        self.base_fps = float(module.base_fps)
        self.last = min(self.last, max(module.max_size) - 1)

    def forward(self, hidden_states: Tensor, fps: float | Tensor | None = None) -> Places:
        """Return the places of the patches."""
        frames, *rest = self.patches(hidden_states)
        times = frames if fps is None else frames.to(torch.float64) / fps * self.base_fps
        return grid([times, *rest])

    def tried(self) -> list[Call]:
        """Return hidden states of many sizes, with frames a second and without."""
        calls = super().tried()
        return [*calls, *((*call, fps) for call, fps in zip(calls[1:], (24, 30, 16, 12.5, 24, 24), strict=False))]


class CroppedGrid(Grid):
    """EasyAnimate: rows and columns of a picture that fills a grid of 60 x 90 pixels' patches, cut at its edges."""

    has = ("patch_size", "get_resize_crop_region_for_grid")

    def __init__(self, module: HfModule) -> None:
        super().__init__(module)
        self.patch = [1, *self.patch]
        self.region = module.get_resize_crop_region_for_grid
        self.base = (60 // self.patch[1], 90 // self.patch[2])

    def forward(self, hidden_states: Tensor) -> Places:
        """Return the places of the patches, with fractions."""
        frames, *rest = self.patches(hidden_states)
        sizes = [len(places) for places in rest]
        start, stop = self.region(sizes, self.base[1], self.base[0])
        # from `start` to the last place before `stop`
        rows = [
            places.double() * ((last * (size - 1) / size - first) / max(size - 1, 1)) + first
            for places, size, first, last in zip(rest, sizes, start, stop, strict=True)
        ]
        return grid([frames, *rows])

    def probe(self) -> Call:
        """Return hidden states of the whole grid."""
        return self.states([2, *self.base])
