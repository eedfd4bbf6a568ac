"""The kernel of Pad, in the forms that its versions have."""

from __future__ import annotations

import numpy as np

from posenc_export.read.kernels.call import Kernel, KernelCall
from posenc_export.read.values import Array

MODES = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}
"""NumPy's names for ways of padding, beside the constant one."""


def _pads(call: KernelCall, rank: int) -> list[tuple[int, int]]:
    """Return how many elements are added before and after each axis."""
    numbers = call.integers("pads" if call.version > 1 else "paddings", 1) or ()
    listed = call.integers("axes", 3) if call.version >= 18 else None
    axes = tuple(range(rank)) if listed is None else call.axes(listed, rank)
    if len(numbers) != 2 * len(axes):
        raise ValueError(f"Pad has {len(numbers)} numbers for {len(axes)} axes, and needs two an axis")
    # all numbers for before, then all for after
    pads = [(0, 0)] * rank
    for axis, before, after in zip(axes, numbers, numbers[len(axes) :], strict=False):
        pads[axis] = before, after
    return pads


def _pad(call: KernelCall) -> list[Array]:
    array, mode = call.array(0), call.text("mode", "constant")
    pads = _pads(call, array.ndim)
    if mode != "constant" and mode not in MODES:
        raise ValueError(f"Pad has the mode {mode!r}: constant, {', '.join(MODES)} are known")
    grown = [(max(before, 0), max(after, 0)) for before, after in pads]
    call.room([size + sum(pad) for size, pad in zip(array.shape, grown, strict=True)], array.dtype)
    if mode == "constant":
        fill = call.scalar(2) if call.has(2) else np.asarray(call.number("value", 0.0))
        array = np.pad(array, grown, constant_values=fill.astype(array.dtype))
    else:
        array = _repeated(array, grown, mode)
    # negative pads take elements away
    cuts = [
        slice(-min(before, 0), size + min(after, 0)) for size, (before, after) in zip(array.shape, pads, strict=True)
    ]
    return [array[tuple(cuts)]]


def _repeated(array: Array, pads: list[tuple[int, int]], mode: str) -> Array:
    try:
        return np.asarray(np.pad(array, pads, mode=mode))  # type: ignore[call-overload]
    except ValueError as error:
        raise ValueError(f"Pad cannot repeat elements of shape {list(array.shape)} by {pads}") from error


KERNELS: dict[str, Kernel] = {"Pad": _pad}
