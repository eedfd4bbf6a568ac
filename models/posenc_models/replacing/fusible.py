"""Our modules in the form that optimizers know: Cos and Sin of the same angles, side by side twice.

`ort_fusions` of transformers' exporter, which put a rotation into GroupQueryAttention, look for Cos(Concat(f, f)) and
Sin(Concat(f, f)), as the models' own modules compute them. Here f is a row of stored angles, each the remainder of
position x frequency between -pi and pi, so that cosines and sines of float32 stay within 3e-7 of float64 however far
the position is. A runtime computes them, and its last digit is its own.
"""

from typing import Final

import torch
from torch import Tensor, nn

from posenc.joins.cos_sin import ExplicitCosSin
from posenc.lookup import inside, take
from posenc.sources.rotary.angles import StaticAngles
from posenc_models.replacing.modules import CosSin, KeepDtype, LayerCosSin, TextCosSin

AT_ONCE = 4096
"""Positions whose angles are computed at a time."""
UNIT = 2.0**-20
"""How far cos^2 + sin^2 may be from 1: a factor of attention in them is larger, and no angle has it."""


class StoredAngles(nn.Module):
    """Cosines and sines of stored angles, a column a feature.

    Args:
        angles: of each position and pair, (rows, pairs), from -pi to pi.
    """

    angles: Tensor
    end: Final[int]

    def __init__(self, angles: Tensor) -> None:
        super().__init__()
        self.end = angles.shape[0]
        self.register_buffer("angles", angles, persistent=False)

    def forward(self, positions: Tensor) -> CosSin:
        """Return cos and sin: (batch, seq) -> twice (batch, seq, 2 pairs)."""
        angles = take(self.angles, inside(positions, self.end), self.end)
        # (batch, seq, pairs) -> (batch, seq, 2 pairs)
        columns = torch.cat([angles, angles], -1)
        return columns.cos(), columns.sin()


def fusible(module: nn.Module, rows: int) -> nn.Module:
    """Return what computes the cosines and sines of a module of ours from stored angles of so many positions.

    Raises ValueError, in one line, where no row of angles says them.
    """
    if isinstance(module, LayerCosSin):
        return LayerCosSin({name: fusible(part, rows) for name, part in module.by_type.items()})
    cosines = module.cosines if isinstance(module, TextCosSin) else None
    ours = cosines.module if isinstance(cosines, KeepDtype) else None
    if not isinstance(ours, ExplicitCosSin) or not isinstance(ours.angles, StaticAngles):
        raise ValueError("fusible=True needs one position a token, and frequencies that no call changes")
    if not ours.repeat_pairs or ours.interleaved:
        raise ValueError("fusible=True needs a column a feature, in halves: no fusion knows another layout")
    return TextCosSin(KeepDtype(StoredAngles(_angles(ours, rows))), None)


def _angles(ours: ExplicitCosSin, rows: int) -> Tensor:
    """Return the angles of cosines and sines that a module gives: (rows, pairs)."""
    device = next(ours.buffers()).device
    parts = []
    with torch.no_grad():
        for first in range(0, rows, AT_ONCE):
            positions = torch.arange(first, min(first + AT_ONCE, rows), device=device)
            # halves are equal: (1, positions, 2 pairs) -> (positions, pairs)
            cos, sin = (part[0].chunk(2, -1)[0] for part in ours(positions.unsqueeze(0)))
            if ((cos.double() ** 2 + sin.double() ** 2 - 1).abs() > UNIT).any():
                raise ValueError("fusible=True needs cosines and sines without a factor of attention: leave it out")
            # in float64, so that an angle is rounded once
            parts.append(torch.atan2(sin.double(), cos.double()).to(cos.dtype))
    return torch.cat(parts)
