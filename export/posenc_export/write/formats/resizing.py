"""torch.nn.functional.interpolate by a scale factor that follows from a size, written with operators that export.

torch.export makes a plain number of such a factor, and its graph then holds for one size of image. Old code of DINO
and of vision transformers resizes its table of positions in this way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from posenc.libraries import replaced

CUBIC = -0.75
"""The coefficient of PyTorch's bicubic kernel (Keys 1981)."""
MODES = {"bicubic": 4, "bilinear": 2}
"""Modes that are written here, and how many rows of the input each row of the output takes."""


@contextmanager
def dynamic_interpolate() -> Iterator[None]:
    """Have images resized by operators on their rows and columns where a scale factor follows from a size."""
    import torch

    real = torch.nn.functional.interpolate

    def interpolate(  # noqa: PLR0917 (as torch has it)
        input: torch.Tensor,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
        antialias: bool = False,
    ) -> torch.Tensor:
        """Return a resized image: (batch, channels, height, width) -> the same, of other sides."""
        factors = scale_factor if isinstance(scale_factor, tuple | list) else (scale_factor,) * 2
        symbolic = any(isinstance(factor, torch.SymFloat | torch.Tensor) for factor in factors)
        plain = align_corners or recompute_scale_factor or antialias or size is not None
        if not symbolic or plain or mode not in MODES or input.dim() != 4:
            return real(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
        rows = _resized(input, 2, factors[0], MODES[mode])
        resized: torch.Tensor = _resized(rows, 3, factors[1], MODES[mode])
        return resized

    with replaced(torch.nn.functional, "interpolate", interpolate):
        yield


def _resized(image: Any, axis: int, factor: Any, taps: int) -> Any:
    """Return an image whose one axis is `factor` times as long, rounded down."""
    import torch

    size = image.shape[axis]
    count = torch.sym_int(size * factor) if not isinstance(factor, torch.Tensor) else (size * factor).to(torch.int64)
    dtype = torch.float32 if image.dtype in (torch.float16, torch.bfloat16) else image.dtype
    # the middle of each new place, in old places: (count,)
    at = (torch.arange(count, dtype=dtype, device=image.device) + 0.5) * (1.0 / factor) - 0.5
    if taps == 2:
        at = at.clamp(min=0)
    first = at.floor()
    weights = _weights(at - first, taps)
    total: Any = 0
    for tap, weight in enumerate(weights):
        index = (first.to(torch.int64) + (tap - (taps // 2 - 1))).clamp(0, size - 1)
        shape = [1] * image.dim()
        shape[axis] = -1
        total = total + image.index_select(axis, index) * weight.to(image.dtype).reshape(shape)
    return total


def _weights(part: Any, taps: int) -> list[Any]:
    """Return the share that each of the taps has, by how far behind the middle ones a place lies: (count,) each."""
    if taps == 2:
        return [1 - part, part]

    def near(x: Any) -> Any:
        return ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1

    def far(x: Any) -> Any:
        return ((CUBIC * x - 5 * CUBIC) * x + 8 * CUBIC) * x - 4 * CUBIC

    return [far(part + 1), near(part), near(1 - part), far(2 - part)]
