"""Places that follow from numbers in a call: how many frames, rows, columns or tokens there are, or which ones."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from posenc_models.config.foreign import HfModule
from posenc_models.replacing.diffusion.columns import Places
from posenc_models.replacing.diffusion.where import Call, Where, grid, sizes_tried

SOME = [3, 2, 5]
"""Frames, rows and columns of a call that is asked."""
CPU = torch.device("cpu")


class Sized(Where):
    """A call that some sizes follow from: the probe, and calls of many sizes."""

    axes: ClassVar[int] = 3

    def probe(self) -> Call:
        """Return a call of a few tokens."""
        return self.sized(SOME[: self.axes])

    def tried(self) -> list[Call]:
        """Return calls of many sizes."""
        return [self.sized(sizes) for sizes in sizes_tried(self.axes, self.last)]

    def sized(self, sizes: Sequence[int]) -> Call:
        """Return a call of some sizes."""
        raise NotImplementedError


class Sizes(Sized):
    """Sana's world model: frames, rows and columns as numbers."""

    names = ("fhw", "device")

    def forward(self, fhw: Sequence[int], device: torch.device | None = None) -> Places:
        """Return the places of a grid."""
        return grid([torch.arange(size, device=device) for size in fhw])

    def sized(self, sizes: Sequence[int]) -> Call:
        """Return a call of some sizes."""
        return (tuple(sizes), CPU)


class LayoutSizes(Sized):
    """AnyFlow: frames, rows and columns in a layout."""

    names = ("layout_cfg", "device")

    def forward(self, layout_cfg: Mapping[str, Any], device: torch.device | None = None) -> Places:
        """Return the places of a grid."""
        sizes = (layout_cfg["total_frames"], *layout_cfg["full_frame_shape"][:2])
        return grid([torch.arange(size, device=device) for size in sizes])

    def sized(self, sizes: Sequence[int]) -> Call:
        """Return a call of some sizes."""
        frames, height, width = sizes
        return ({"total_frames": frames, "full_frame_shape": (height, width)}, CPU)


class FrameSizes(Sized):
    """HunyuanVideo of FramePack: frames by their numbers, rows and columns as patches."""

    names = ("frame_indices", "height", "width", "device")
    has = ("patch_size",)

    def __init__(self, module: HfModule) -> None:
        super().__init__(module)
        self.patch = int(module.patch_size)

    def forward(self, frame_indices: Tensor, height: int, width: int, device: torch.device | None = None) -> Places:
        """Return the places of a grid."""
        rows, columns = (torch.arange(size // self.patch, device=device) for size in (height, width))
        return grid([frame_indices.to(device=device), rows, columns])

    def tried(self) -> list[Call]:
        """Return calls of many sizes, frames with gaps between them, too."""
        far = (torch.tensor([0, 1, 4, 9, 300]), 7 * self.patch, 3 * self.patch, CPU)
        return [*super().tried(), far]

    def sized(self, sizes: Sequence[int]) -> Call:
        """Return a call of some sizes."""
        frames, height, width = sizes
        return (torch.arange(frames), height * self.patch, width * self.patch, CPU)


class FrameBatches(Sized):
    """Helios: frames by their numbers, of each sequence of a batch."""

    names = FrameSizes.names
    kind = "channels"
    has = ("DT", "DY", "DX")

    def forward(self, frame_indices: Tensor, height: int, width: int, device: torch.device | None = None) -> Places:
        """Return the places of grids, with a batch before: (batch, frames) -> (batch or 1, sizes or 1) each."""
        rows, columns = (torch.arange(size, device=device) for size in (height, width))
        frames = frame_indices.to(device=device).unsqueeze(-1).unsqueeze(-1)  # (batch, frames, 1, 1)
        return [frames, rows.view(1, 1, -1, 1), columns.view(1, 1, 1, -1)]

    def sized(self, sizes: Sequence[int]) -> Call:
        """Return a call of some sizes, with two sequences."""
        frames, height, width = sizes
        return (torch.stack([torch.arange(frames), torch.arange(frames)]), height, width, CPU)


class Indices(Sized):
    """Kandinsky 6: the numbers of frames, rows and columns, and by what each axis is divided."""

    names = ("pos", "scale_factor")

    def forward(self, pos: Sequence[Tensor], scale_factor: Sequence[float] = (1.0, 1.0, 1.0)) -> Places:
        """Return the places of a grid."""
        return grid(divided(pos, scale_factor))

    def tried(self) -> list[Call]:
        """Return calls of many sizes, and of another scale."""
        return rescaled(super().tried())

    def sized(self, sizes: Sequence[int]) -> Call:
        """Return a call of some sizes."""
        return (tuple(torch.arange(size) for size in sizes), (1.0, 1.0, 1.0))


class ShapeIndices(Sized):
    """Kandinsky 5: the same, after the shape of a batch."""

    names = ("shape", "pos", "scale_factor")

    def forward(
        self, shape: Sequence[int], pos: Sequence[Tensor], scale_factor: Sequence[float] = (1.0, 1.0, 1.0)
    ) -> Places:
        """Return the places of a grid, with a batch before."""
        frames, rows, columns = grid(divided(pos, scale_factor))
        return [frames.expand(shape[0], -1, 1, 1), rows.unsqueeze(0), columns.unsqueeze(0)]

    def tried(self) -> list[Call]:
        """Return calls of many sizes, and of another scale."""
        return rescaled(super().tried())

    def sized(self, sizes: Sequence[int]) -> Call:
        """Return a call of some sizes, with two sequences."""
        return ((2, *sizes), tuple(torch.arange(size) for size in sizes), (1.0, 1.0, 1.0))


class Length(Sized):
    """Tokens 0 to a length."""

    names = ("seq_len", "device")
    axes = 1

    def forward(self, seq_len: int, device: torch.device | None = None) -> Places:
        """Return the places of all tokens: (seq,)."""
        return [torch.arange(seq_len, device=device)]

    def sized(self, sizes: Sequence[int]) -> Call:
        """Return a call of some tokens."""
        return (sizes[0], CPU)


class StatesLength(Sized):
    """Tokens of hidden states, (batch, seq, dim), or as many as are asked for: LongCat's audio."""

    names = ("hidden_states", "seq_len")
    axes = 1

    def forward(self, hidden_states: Tensor, seq_len: int | None = None) -> Places:
        """Return the places of all tokens: (seq,)."""
        length = hidden_states.shape[1] if seq_len is None else seq_len
        return [torch.arange(length, device=hidden_states.device)]

    def dtype(self, *args: object, **kwargs: object) -> torch.dtype | None:
        """Return the dtype of the hidden states."""
        return _dtype_of(args, kwargs)

    def sized(self, sizes: Sequence[int]) -> Call:
        """Return a call of some tokens."""
        return (torch.zeros(1, sizes[0], 1),)


class Positions(Sized):
    """A position a token, as language models have them: Anima's text."""

    names = ("hidden_states", "position_ids")
    axes = 1

    def forward(self, hidden_states: Tensor, position_ids: Tensor) -> Places:
        """Return the places of all tokens: (batch, seq)."""
        return [position_ids]

    def dtype(self, *args: object, **kwargs: object) -> torch.dtype | None:
        """Return the dtype of the hidden states."""
        return _dtype_of(args, kwargs)

    def sized(self, sizes: Sequence[int]) -> Call:
        """Return a call of some tokens of two sequences."""
        positions = torch.arange(sizes[0])
        return (torch.zeros(1, 1, 1), torch.stack([positions, positions.flip(0)]))


class AxisPositions(Where):
    """Three positions a token, axes first: Cosmos 3."""

    names = ("position_ids", "device", "dtype")

    def forward(self, position_ids: Tensor, device: torch.device, dtype: torch.dtype) -> Places:
        """Return the places of all tokens: (axes, batch, seq) or (batch, seq) -> three of (batch, seq)."""
        several = position_ids.dim() > 2
        return list((position_ids if several else position_ids.expand(3, -1, -1)).to(device).unbind(0))

    def dtype(self, *args: object, **kwargs: object) -> torch.dtype | None:
        """Return the dtype that is asked for."""
        dtype = kwargs.get("dtype", args[-1] if args else None)
        return dtype if isinstance(dtype, torch.dtype) else None

    def probe(self) -> Call:
        """Return a call with the first place on each axis alone."""
        rows = torch.cat([torch.zeros(3, 2), torch.eye(3)], 1).to(torch.int64)  # (axes, seq)
        return (torch.stack([rows, rows], 1), CPU, torch.float32)

    def tried(self) -> list[Call]:
        """Return calls of many positions, with axes and without."""
        rows = torch.arange(0, 4096, 53)
        mixed = torch.stack([rows, rows.flip(0), rows.roll(9)]).unsqueeze(1)
        return [(positions, CPU, torch.float32) for positions in (mixed[..., :1], mixed, mixed[0])]


def divided(pos: Sequence[Tensor], scales: Sequence[float]) -> list[Tensor]:
    """Return places divided by the scale of their axis."""
    return [at.to(torch.float64) / scale for at, scale in zip(pos, scales, strict=True)]


def rescaled(calls: list[Call]) -> list[Call]:
    """Return calls, and some of them with another scale of each axis."""
    return [*calls, *((*call[:-1], (1.0, 2.0, 3.16)) for call in calls[2:])]


def _dtype_of(args: tuple[object, ...], kwargs: Mapping[str, object]) -> torch.dtype | None:
    states = kwargs.get("hidden_states", args[0] if args else None)
    return states.dtype if isinstance(states, Tensor) else None
