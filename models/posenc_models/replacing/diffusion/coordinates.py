"""Places as fractions of a video or a sound, from -1 to 1, at frequencies up to 10000 quarters of a circle: LTX.

So fast a column turns many times from one place to the next, so that the frequencies cannot be asked for. They are read
from the module's own theta, and the proof is the same.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from posenc.spec import Spec
from posenc_models.config.foreign import HfModule
from posenc_models.replacing.called import Replacement
from posenc_models.replacing.diffusion.columns import Columns, Form, Places
from posenc_models.replacing.diffusion.prove import proved
from posenc_models.replacing.diffusion.sizes import CPU
from posenc_models.replacing.diffusion.where import Call, Where
from posenc_models.replacing.modules import CosSin, KeepsDtype

Scale = tuple[float | Tensor, float, float]
"""By what frames, rows and columns are multiplied."""
LENGTHS = (1, 7, 300, 1500)
"""Tokens of the calls that are tried."""


def columns_of(dim: int, axes: int, theta: float, *, twice: bool) -> Columns:
    """Return the columns of LTX: the lowest frequency of every axis comes first, after columns that never turn.

    Args:
        dim: features of all heads.
        axes: how many places a token has.
        theta: the highest frequency over the lowest, a quarter of a circle.
        twice: whether there is a column a feature; else a column a pair.
    """
    pairs = dim // (2 * axes)
    powers = np.pi / 2 * np.float64(theta) ** np.linspace(0.0, 1.0, pairs)
    still, repeats = axes * pairs, 2 if twice else 1
    order = [axis * pairs + k for k in range(pairs) for axis in range(axes) for _ in range(repeats)]
    width = dim if twice else dim // 2
    # the last axis has the frequency 0 behind its own
    frequencies = (*[powers] * (axes - 1), np.append(powers, 0.0))
    return Columns(frequencies, (*[still] * (width - len(order)), *order))


class VideoFractions(Where):
    """LTX: frames, rows and columns of a grid, or coordinates that come in, as fractions."""

    names = ("hidden_states", "num_frames", "height", "width", "rope_interpolation_scale", "video_coords")

    def __init__(self, module: HfModule) -> None:
        super().__init__(module)
        self.patches = [int(module.patch_size_t), int(module.patch_size), int(module.patch_size)]
        self.whole = [float(size) for size in (module.base_num_frames, module.base_height, module.base_width)]
        self.columns = columns_of(int(module.dim), 3, float(module.theta), twice=True)
        self.form = Form("pair")

    def forward(self, *args: Any, **kwargs: Any) -> Places:
        """Return the places of all tokens: (batch, n) each."""
        call = {**dict(zip(self.names, args, strict=False)), **kwargs}
        coords: Tensor | None = call.get("video_coords")
        if coords is not None:
            axes = [at.to(torch.float64) / size for at, size in zip(coords.unbind(1), self.whole, strict=True)]
        else:
            sizes = [call["num_frames"], call["height"], call["width"]]
            axes = self.of_grid(sizes, call.get("rope_interpolation_scale"), call["hidden_states"])
        return [place * 2 - 1 for place in axes]

    def of_grid(self, sizes: Sequence[int], scales: Scale | None, like: Tensor) -> Places:
        """Return the fractions of a grid, or its whole numbers where it has no scales: (batch, n) each."""
        # in float64, as the fractions are multiplied by up to 15708
        numbers = [torch.arange(size, device=like.device) for size in sizes]
        at = [place.flatten().to(torch.float64) for place in torch.meshgrid(*numbers, indexing="ij")]
        if scales is not None:
            factors = zip(at, scales, self.patches, self.whole, strict=True)
            at = [place * scale * patch / whole for place, scale, patch, whole in factors]
        return [place.expand(like.shape[0], -1) for place in at]

    def tried(self) -> list[Call]:
        """Return calls of grids and of coordinates."""
        scale: Scale = (8 / 25, 32.0, 32.0)
        states = torch.zeros(2, 1, 1)
        grids: list[Call] = [(states, *sizes, scale) for sizes in ((1, 1, 1), (2, 5, 9), (13, 16, 24), (4, 3, 64))]
        scaled: Call = (states[:1], 7, 4, 6, (torch.tensor(0.25), 16.0, 24.0))
        return [*grids, scaled, *((states, 1, 1, 1, None, _spread(n, self.whole)) for n in LENGTHS)]


class Seconds(Where):
    """LTX 2's connectors: tokens 0 to a length, as fractions."""

    names = ("batch_size", "pos", "device")

    def __init__(self, module: HfModule) -> None:
        super().__init__(module)
        self.whole = float(module.base_seq_len)
        self.form, self.columns = _form_and_columns(module, 1)

    def forward(self, batch_size: int, pos: int, device: str | torch.device | None = None) -> Places:
        """Return the places of all tokens: (batch, n)."""
        fractions = torch.arange(pos, device=device).to(torch.float64) / self.whole
        return [(fractions * 2 - 1).expand(batch_size, -1)]

    def tried(self) -> list[Call]:
        """Return calls of many lengths."""
        return [(2, n, CPU) for n in LENGTHS]


class Fractions(Where):
    """LTX 2: coordinates of patches, or where they begin and end, as fractions.

    Args:
        module: the model's own.
        axes: how many a token has: one in the attention between video and sound.
    """

    names = ("coords", "device")

    def __init__(self, module: HfModule, axes: int) -> None:
        super().__init__(module)
        sizes = [module.base_num_frames, module.base_height, module.base_width]
        self.whole = [float(size) for size in sizes[:axes]]
        self.form, self.columns = _form_and_columns(module, axes)

    def forward(self, coords: Tensor, device: str | torch.device | None = None) -> Places:
        """Return the places of all tokens: (batch, axes, n) or (batch, axes, n, 2) -> (batch, n) each."""
        at = coords.to(torch.float64)
        at = at.mean(-1) if coords.dim() > 3 else at
        at = at if device is None else at.to(device)
        return [place / whole * 2 - 1 for place, whole in zip(at.unbind(1), self.whole, strict=True)]

    def tried(self) -> list[Call]:
        """Return calls of coordinates, and of where patches begin and end."""
        middles = [_spread(n, self.whole) for n in LENGTHS]
        return [*((at,) for at in middles), *((torch.stack([at, at + 0.32], -1), CPU) for at in middles)]


class ByAxes(KeepsDtype):
    """LTX 2's cosines and sines for calls of as many coordinates a token as come in.

    Args:
        original: the model's own, which makes coordinates for its pipeline and has no tensors.
        by_axes: ours, by the number of coordinates.
    """

    keeps: ClassVar[tuple[str, ...]] = ("prepare_video_coords", "prepare_audio_coords", "prepare_coords")

    def __init__(self, original: HfModule, by_axes: dict[int, nn.Module]) -> None:
        super().__init__()
        self.by_axes = nn.ModuleDict({str(axes): module for axes, module in by_axes.items()})
        # its pipeline calls them
        for name in self.keeps:
            setattr(self, name, getattr(original, name))

    def forward(self, coords: Tensor, device: str | torch.device | None = None) -> CosSin:
        """Return cos and sin, as the model's own."""
        cos, sin = self.by_axes[str(coords.shape[1])](coords, device)
        return cos, sin


def by_axes(original: HfModule, spec: Spec) -> Replacement:
    """Return ByAxes in the place of LTX 2's module, of a video or of a sound."""
    counts = (3, 1) if original.modality == "video" else (1,)
    proofs = [
        proved(original, place, place.columns, place.form, spec) for place in (Fractions(original, n) for n in counts)
    ]
    return Replacement(ByAxes(original, {n: p.module for n, p in zip(counts, proofs, strict=True)}), proofs[0].words)


def _form_and_columns(module: HfModule, axes: int) -> tuple[Form, Columns]:
    """Return how LTX 2's module returns its cosines and sines, and their columns."""
    arrangement = str(module.rope_type)
    has_heads = arrangement == "split"
    form = Form("heads", heads=int(module.num_attention_heads)) if has_heads else Form("pair")
    return form, columns_of(int(module.dim), axes, float(module.theta), twice=not has_heads)


def _spread(n: int, whole: list[float]) -> Tensor:
    """Return coordinates of two sequences, over the whole of each axis, other ones on each: (2, axes, n)."""
    steps = torch.linspace(0, 1, n)
    return torch.stack([steps.roll(7 * axis) * size for axis, size in enumerate(whole)]).expand(2, -1, -1)
