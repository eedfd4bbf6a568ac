"""Which axis and which frequency each column of a module's cosines takes: asked of the module, at position 1.

An order that is found so is only a candidate: it is held against the module over all lengths like any other.
"""

import torch
from torch import Tensor, nn

from posenc.scheme import build
from posenc.spec import Spec
from posenc_models.replacing.compare import CosSinFunction
from posenc_models.replacing.modules import KeepDtype, Ordered

AXES = (2, 3, 4)
"""How many positions a token may have."""


def axes_of(original: CosSinFunction, device: torch.device) -> int | None:
    """Return how many positions a token has of which the original makes one cosine; None where it has one."""
    for axes in AXES:
        positions = torch.zeros(axes, 1, 2, dtype=torch.int64, device=device)
        try:
            cos, _ = original(positions)
        except Exception:
            continue
        # a module of one position a token keeps the axes before the batch
        if cos.dim() == positions.dim():
            return axes
    return None


def order_of(original: CosSinFunction, inv_freq: Tensor, axes: int, last: bool) -> Tensor | None:
    """Return the order of `Ordered`, (dim,): the axis and the frequency of each column; None where a column has none.

    Args:
        original: the model's own function.
        inv_freq: its frequencies.
        axes: how many positions a token has.
        last: whether the axes of its positions come last.
    """
    angles = []
    for axis in range(axes):
        positions = torch.zeros(axes, 1, 1, dtype=torch.int64, device=inv_freq.device)
        positions[axis] = 1
        cos, sin = original(positions[:, 0].t() if last else positions)
        angles.append(torch.atan2(sin, cos).flatten().double())
    if len({len(angle) for angle in angles}) != 1:
        return None
    table = torch.stack(angles)  # (axes, dim)
    if not bool(((table > 0).sum(0) == 1).all()):
        return None
    # ours come from the highest frequency to the lowest, theirs in any order
    frequencies = inv_freq.double().sort(descending=True).values.log()
    distances = (table.amax(0).log().unsqueeze(-1) - frequencies).abs()
    return table.argmax(0) * len(frequencies) + distances.argmin(-1)


def ordered(spec: Spec, parameters: dict[str, object], order: Tensor) -> Ordered:
    """Return our cosines and sines of one position a token, their columns put into an order."""
    more: dict[str, object] = {"output": "cos_sin", "width": "half", "layout": "halves"}
    cosines: nn.Module = build("rope", spec, **{**parameters, **more}).module
    return Ordered(KeepDtype(cosines), order)
