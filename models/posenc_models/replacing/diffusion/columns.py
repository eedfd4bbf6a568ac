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
class Columns:
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

    def __init__(self, columns: Columns, spec: Spec) -> None:
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
class Form:
    """How a module returns cosines and sines.

    Args:
        kind: "pair" cos and sin; "complex"; "query_key" the latter for both, by name; "matrix" rotations of 2 x 2;
            "angles"; "channels" cos and sin behind one another on the axis behind the batch; "heads" cos and sin of
            each head.
        dtype: the dtype of what is returned.
        flat: whether all places stand on one axis.
        ones: where axes of size 1 stand.
        heads: how many heads there are.
    """

    kind: str
    dtype: torch.dtype = torch.float32
    flat: bool = False
    ones: tuple[int, ...] = ()
    heads: int = 1

    def placed(self, values: Tensor) -> Tensor:
        """Return values at places where the module has them: (*places, columns) -> the same numbers."""
        values = values.flatten(0, -2) if self.flat else values
        for at in self.ones:
            values = values.unsqueeze(at)
        return values.unflatten(-1, (self.heads, -1)).transpose(1, 2) if self.kind == "heads" else values


def spec_of(form: Form, spec: Spec) -> Spec:
    """Return the spec in which cosines and sines have the precision that a form has."""
    wide = form.dtype in (torch.float64, torch.complex128)
    return replace(spec, dtype="fp64") if wide else spec


class Stand(KeepsDtype):
    """Our module in the place of a model's: called alike, it returns the same form.

    Args:
        where: a call to places.
        angles: places to cosines and sines.
        form: how they are returned.
    """

    def __init__(self, where: nn.Module, angles: ColumnAngles, form: Form) -> None:
        super().__init__()
        self.where = where
        self.angles = angles
        self.form = form

    def forward(self, *args: object, **kwargs: object) -> object:
        """Return what the model's own module returns, in its form."""
        places, dtype = self.where(*args, **kwargs), self.form.dtype
        wanted: torch.dtype | None = self.where.dtype(*args, **kwargs)  # type: ignore[operator]
        returned = self.at(places, dtype if wanted is None else wanted)
        return self.where.finish(returned, *args, **kwargs)  # type: ignore[operator]

    def at(self, places: Places, dtype: torch.dtype) -> object:
        """Return cosines and sines at places, in the form."""
        form = self.form
        if form.kind == "angles":
            return form.placed(self.angles.angles(places)).to(dtype)
        cos, sin = (form.placed(part) for part in self.angles(places))
        if form.kind in ("complex", "query_key"):
            rotated = torch.complex(cos, sin)
            return rotated if form.kind == "complex" else {"query": rotated, "key": rotated}
        cos, sin = cos.to(dtype), sin.to(dtype)
        if form.kind == "channels":
            return torch.cat([cos, sin], -1).movedim(-1, 1)
        return matrix(cos, sin) if form.kind == "matrix" else (cos, sin)


def matrix(cos: Tensor, sin: Tensor) -> Tensor:
    """Return rotations of 2 x 2: (...) -> (..., 2, 2)."""
    four: Tensor = torch.stack([cos, -sin, sin, cos], -1).unflatten(-1, (2, 2))
    return four


def parts_of(returned: object, kind: str | None = None) -> tuple[str, Tensor, Tensor]:
    """Return the form of what a module returned, and its cosines and sines: (..., columns) each, in float64."""
    if isinstance(returned, dict) and set(returned) == {"query", "key"}:
        _, cos, sin = parts_of(returned["query"])
        return "query_key", cos, sin
    if kind == "images":
        return parts_of(torch.cat(list(returned)))  # type: ignore[call-overload]
    if isinstance(returned, Sequence) and len(returned) == 2:
        cos, sin = (part.double() for part in returned)
        if kind == "heads":  # (batch, heads, seq, columns of a head) -> (batch, seq, columns)
            return kind, cos.transpose(1, 2).flatten(2), sin.transpose(1, 2).flatten(2)
        return "pair", cos, sin
    if not isinstance(returned, Tensor):
        raise ValueError(f"it returns {type(returned).__name__}, which ours have not; replace it by hand")
    if returned.is_complex():
        return "complex", returned.real.double(), returned.imag.double()
    numbers = returned.double()
    if kind == "channels":
        cos, sin = numbers.movedim(1, -1).chunk(2, -1)
        return kind, cos, sin
    if numbers.shape[-2:] == (2, 2):
        return "matrix", numbers[..., 0, 0], numbers[..., 1, 0]
    return "angles", numbers.cos(), numbers.sin()


def leaves(returned: object) -> list[Tensor]:
    """Return the tensors in what a module returned."""
    if isinstance(returned, Tensor):
        return [returned]
    if isinstance(returned, dict):
        return [leaf for value in returned.values() for leaf in leaves(value)]
    return [leaf for value in returned for leaf in leaves(value)] if isinstance(returned, (tuple, list)) else []
