"""Cosines and sines of the places of tokens on several axes, in the form that a model's own module returns them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from posenc.ports import Floats
from posenc.sincos import sincos_of_angles
from posenc.spec import Spec
from posenc_models.replacing.modules import CosSin, KeepsDtype

Places = list[Tensor]
"""The place of each token on each axis; shapes that broadcast, so that a grid has its rows and columns alone."""


@dataclass(frozen=True)
class ModuleColumns:
    """The frequencies of a module's columns, in radians from one place to the next.

    Args:
        frequencies: the frequencies of each axis, (pairs of the axis,).
        order: the number of each column among the pairs of the first axis, then of the second, ...
    """

    frequencies: tuple[Floats, ...]
    order: tuple[int, ...]

    def largest_angle(self, places: Places) -> float:
        """Return the largest angle at some places."""
        pairs = zip(self.frequencies, places, strict=True)
        return max(float(np.max(freqs, initial=0.0)) * float(place.abs().max()) for freqs, place in pairs)


class ColumnAngles(nn.Module):
    """Cosines and sines by angles in float64: within half an ulp, at places of any kind.

    Args:
        columns: which axis and which frequency each column has.
        spec: how ours compute.
    """

    frequencies: Tensor  # (pairs of all axes,), float64: in the unit of the method
    order: Tensor
    circle: Tensor  # in the unit of the method; and that unit in radians
    unit: Tensor

    def __init__(self, columns: ModuleColumns, spec: Spec) -> None:
        super().__init__()
        self.sincos = sincos_of_angles(spec)
        self.widths = [len(freqs) for freqs in columns.frequencies]
        every = np.concatenate(columns.frequencies) / self.sincos.unit
        self.register_buffer("frequencies", torch.from_numpy(every), persistent=False)
        self.register_buffer("order", torch.tensor(columns.order), persistent=False)
        # buffers, as a graph would hold Python's numbers in float32
        for name, value in (("circle", 2 * np.pi / self.sincos.unit), ("unit", self.sincos.unit)):
            self.register_buffer(name, torch.tensor(value, dtype=torch.float64), persistent=False)

    def forward(self, places: Places) -> CosSin:
        """Return cosines and sines: shapes that broadcast to (...) -> twice (..., columns)."""
        # each axis at its own few places: a grid is spread out after the cosines
        within = self.sincos.within
        both = [self.sincos(angles.to(within)) for angles in self._of_axes(places)]
        cos, sin = self._joined([cos for cos, _ in both]), self._joined([sin for _, sin in both])
        return cos, sin

    def angles(self, places: Places) -> Tensor:
        """Return angles without whole circles: shapes that broadcast to (...) -> (..., columns)."""
        rotated = [angles - (angles / self.circle).round() * self.circle for angles in self._of_axes(places)]
        return self._joined(rotated) * self.unit

    def _of_axes(self, places: Places) -> list[Tensor]:
        """Return the angles of each axis at its own places: (..., pairs of the axis) each, float64."""
        pairs = zip(places, self.frequencies.split(self.widths), strict=True)
        return [place.to(torch.float64).unsqueeze(-1) * freqs for place, freqs in pairs]

    def _joined(self, parts: list[Tensor]) -> Tensor:
        """Return all columns at all places."""
        shape = torch.broadcast_shapes(*(part.shape[:-1] for part in parts))
        return torch.cat([part.expand(*shape, part.shape[-1]) for part in parts], -1).index_select(-1, self.order)


@dataclass(frozen=True)
class ReturnForm:
    """How a module returns cosines and sines.

    Args:
        kind: "pair" cos and sin; "complex"; "matrix" rotations of 2 x 2; "angles".
        dtype: the dtype of what is returned.
        flat: whether all places stand on one axis.
        ones: where axes of size 1 stand.
    """

    kind: str
    dtype: torch.dtype
    flat: bool
    ones: tuple[int, ...]

    def placed(self, values: Tensor) -> Tensor:
        """Return values at places where the module has them: (*places, columns) -> the same numbers."""
        values = values.flatten(0, -2) if self.flat else values
        for at in self.ones:
            values = values.unsqueeze(at)
        return values


class Stand(KeepsDtype):
    """Our module in the place of a model's: called alike, it returns the same form.

    Args:
        where: a call to places.
        columns: which axis and which frequency each column has.
        form: how cosines and sines are returned.
        spec: how ours compute.
    """

    def __init__(self, where: nn.Module, columns: ModuleColumns, form: ReturnForm, spec: Spec) -> None:
        super().__init__()
        wide = form.dtype in (torch.float64, torch.complex128)
        self.where = where
        self.angles = ColumnAngles(columns, replace(spec, dtype="fp64") if wide else spec)
        self.form = form

    def forward(self, *args: Tensor, **kwargs: Tensor) -> object:
        """Return what the model's own module returns for its one argument, in its form."""
        (x,) = (*args, *kwargs.values())
        form, places = self.form, self.where(x)
        if form.kind == "angles":
            return form.placed(self.angles.angles(places)).to(form.dtype)
        cos, sin = (form.placed(part) for part in self.angles(places))
        if form.kind == "complex":
            return torch.complex(cos, sin)
        cos, sin = cos.to(form.dtype), sin.to(form.dtype)
        return (cos, sin) if form.kind == "pair" else torch.stack([cos, -sin, sin, cos], -1).unflatten(-1, (2, 2))


def parts_of(returned: object) -> tuple[str, Tensor, Tensor]:
    """Return the form of what a module returned, and its cosines and sines: (..., columns) each, in float64."""
    if isinstance(returned, Sequence) and len(returned) == 2:
        cos, sin = (part.double() for part in returned)
        return "pair", cos, sin
    if not isinstance(returned, Tensor):
        raise ValueError(f"it returns {type(returned).__name__}, which ours have not; replace it by hand")
    if returned.is_complex():
        return "complex", returned.real.double(), returned.imag.double()
    numbers = returned.double()
    if numbers.shape[-2:] == (2, 2):
        return "matrix", numbers[..., 0, 0], numbers[..., 1, 0]
    return "angles", numbers.cos(), numbers.sin()
