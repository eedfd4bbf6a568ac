"""Pictures of an encoding: some of its golden data, small enough to lie in a page, which draws them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from posenc.ports import Array, Axis, Integers, Port, Values, carrying
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.golden import read_golden
from posenc_export.bundle.manifest import Manifest
from posenc_export.bundle.sampling import LARGE, long_axis, sampled_rows
from posenc_export.common.errors import BadInput
from posenc_export.proof.judging.compare import HUGE, MASK
from posenc_export.show.pages.rotations import rotation

NUMBERS = 50_000
"""Numbers of all pictures of a page: two bytes each, in base64."""
MOST = 4
"""Pictures of a page."""
USUAL = {"batch": 2, "heads": 8, "length": 96, "grid": 48, "features": 512}
"""Sizes of axes, by their kinds."""
LESS = (("batch", 1), ("heads", 4), ("features", 256), ("length", 64), ("grid", 24), ("features", 64), ("heads", 1))
"""What shrinks, one after the other, until a picture has few enough numbers."""
READ = 2**22
"""Elements of the largest output of a call that is read."""
SHOWN = 128
"""Positions along an axis that a picture has at most."""
LARGEST = 2.0**14
"""Numbers are stored as float16, scaled down to at most this by a power of two."""


@dataclass(frozen=True)
class PictureAxis:
    """An axis of a picture: its name, its kind, its size, and the numbers of what is kept of it."""

    name: str
    kind: str
    size: int
    places: tuple[int, ...]


@dataclass(frozen=True)
class Picture:
    """An array to look at.

    Args:
        title: What it is.
        case: The call that gave it.
        sides: Its axes.
        values: Its numbers, as float32; NaN where there is no finite number.
    """

    title: str
    case: str
    sides: tuple[PictureAxis, ...]
    values: Array

    def data(self, text: Callable[[object], object]) -> Mapping[str, object]:
        """Return it as JSON values: little-endian float16 in base64, to be multiplied by `scale`.

        Args:
            text: Makes of a text what is shown of it.
        """
        peak = float(np.nanmax(np.abs(self.values), initial=0.0))
        scale = 2.0 ** max(0, int(np.ceil(np.log2(peak / LARGEST)))) if peak > 0 else 1.0
        numbers = (self.values / scale).astype("<f2")
        sides = [{"name": text(s.name), "kind": s.kind, "size": s.size, "places": list(s.places)} for s in self.sides]
        return {
            "title": text(self.title),
            "case": text(self.case),
            "sides": sides,
            "scale": scale,
            "numbers": b64encode(numbers.tobytes()).decode(),
        }


def pictures_of(bundle: Bundle) -> tuple[list[Picture], str]:
    """Return pictures of a bundle's golden data, and why there are none."""
    case = best(bundle.manifest)
    if case is None:
        return [], "no call has outputs that are kept whole"
    try:
        (golden,) = read_golden(bundle.folder, replace(bundle.manifest, cases=(case,)))
    except BadInput as error:
        return [], error.message
    shown = list(_views(bundle.manifest, golden))[:MOST]
    pictures = [_picture(view, golden, NUMBERS // len(shown)) for view in shown]
    return [picture for picture in pictures if picture.values.size], "" if shown else "no output has positions"


def best(manifest: Manifest) -> Case | None:
    """Return the call whose outputs show most: many places one after the other, from 0 on, and few sequences."""
    calls = [case for case in manifest.cases if not case.refused and _elements(manifest, case) <= READ]

    def rank(case: Case) -> tuple[bool, int, bool, bool, int]:
        lengths = _lengths(manifest, case)
        follow = case.max_position < case.first + max(lengths, default=1)
        shown = _rows(manifest, case, prod(min(SHOWN, size) for size in lengths))
        return follow, shown, case.padding in ("none", "left"), case.first == 0, -_elements(manifest, case)

    return max(calls, key=rank, default=None)


def _rows(manifest: Manifest, case: Case, whole: int) -> int:
    """Return how many places of a call are seen: all, or the first run of rows that golden data keep."""
    if _elements(manifest, case) <= LARGE:
        return whole
    port = max(manifest.outputs, key=lambda port: prod(port.shape(case.sizes)))
    rows = sampled_rows(port, port.shape(case.sizes))
    return 0 if rows is None else min(SHOWN, leading(rows))


def leading(rows: Integers) -> int:
    """Return how many rows from the first one on are kept without a gap."""
    gaps = np.flatnonzero(rows != np.arange(len(rows)))
    return int(gaps[0]) if gaps.size else len(rows)


def _lengths(manifest: Manifest, case: Case) -> list[int]:
    names = {axis.name for port in manifest.inputs for axis in port.dynamic.values() if axis.is_length}
    return [size for name, size in case.sizes.items() if name in names]


def _elements(manifest: Manifest, case: Case) -> int:
    """Return the elements of the largest output, as far as sizes are known; more than any if they are not."""
    try:
        return max(prod(port.shape(case.sizes)) for port in manifest.outputs)
    except KeyError:
        return LARGE


@dataclass(frozen=True)
class View:
    """What a picture is made of: its title, its axes, and all of its numbers, in whatever dtype they have."""

    title: str
    axes: tuple[Axis, ...]
    values: Array


def _views(manifest: Manifest, golden: GoldenCase) -> Iterator[View]:
    """Yield what is looked at: of sums what is added, of rotations their angles, of others the outputs."""
    taken = carrying(manifest.inputs, Values)
    for i, port in enumerate(manifest.outputs):
        output = golden.eager[port.name]
        if output.ndim < 1 or not output.size or output.ndim != len(port.axes):
            continue
        # what is added to, or rotated, has the axes of what comes out
        like = [port_in for port_in in taken if port_in.axes == port.axes and port_in.dtype == port.dtype]
        own = like[min(i, len(like) - 1)] if like else None
        yield from _of_output(manifest, golden, port, own)


def _of_output(manifest: Manifest, golden: GoldenCase, port: Port, own: Port | None) -> Iterator[View]:
    output = golden.eager[port.name]
    axis = long_axis(port, output.shape)
    rows = golden.rows.get(port.name)
    # of a sample, what follows the first gap would look as if it were beside it
    places = np.arange(output.shape[axis] if rows is None else leading(rows))
    output = output if len(places) == output.shape[axis] else output.take(places, axis)
    if own is None:
        # a bias of many heads is large: it is made wider where few of its numbers are left
        yield View(port.name, port.axes, output)
        return
    output = output.astype(np.float64)
    fed = golden.feeds[own.name].take(places, axis).astype(np.float64)
    if manifest.added:
        yield View(f"{port.name} - {own.name}: what is added", port.axes, output - fed)
        return
    pairs = rotation(fed, output)
    if pairs is not None:
        # features of a head are now pairs of them
        axes = (*port.axes[:-1], Axis("pair", "features"))
        yield View(f"{port.name}: cosine of each pair's angle ({pairs.layout})", axes, pairs.cosines)
    yield View(f"{port.name}, of numbers at random", port.axes, output)


def _picture(view: View, golden: GoldenCase, limit: int) -> Picture:
    picked = _picked([axis.kind for axis in view.axes], view.values.shape, limit)
    values = view.values[np.ix_(*picked)].astype(np.float64)
    huge = HUGE.get(golden.eager[next(iter(golden.eager))].dtype.name, MASK)
    finite = np.where(np.isfinite(values) & (np.abs(values) < huge), values, np.nan).astype(np.float32)
    sides = tuple(
        PictureAxis(axis.name or axis.kind, axis.kind, size, tuple(_numbers(axis, indices, golden.case)))
        for axis, size, indices in zip(view.axes, view.values.shape, picked, strict=True)
    )
    return Picture(view.title, golden.case.name, sides, finite)


def _numbers(axis: Axis, indices: Integers, case: Case) -> list[int]:
    """Return the numbers of what is kept along an axis: positions count from the call's first one."""
    first = case.first if axis.kind == "length" and not axis.is_formula else 0
    return [first + int(index) for index in indices]


def _picked(kinds: Sequence[str], shape: Sequence[int], limit: int) -> list[Integers]:
    """Return which indices are kept along each axis: the first ones; of batches and heads some, in even steps."""
    sizes = [min(size, USUAL[kind]) for kind, size in zip(kinds, shape, strict=True)]
    for kind, least in LESS:
        if prod(sizes) > limit:
            sizes = [min(size, least) if own == kind else size for own, size in zip(kinds, sizes, strict=True)]
    while prod(sizes) > limit:
        widest = max(range(len(sizes)), key=lambda i: sizes[i])
        sizes[widest] = -(-sizes[widest] // 2)
    return [_indices(kind, size, count) for kind, size, count in zip(kinds, shape, sizes, strict=True)]


def _indices(kind: str, size: int, count: int) -> Integers:
    # every n-th feature or position would show waves that are not there
    return np.linspace(0, size - 1, count).astype(np.int64) if kind in ("batch", "heads") else np.arange(count)
