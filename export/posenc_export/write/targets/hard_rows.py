"""Hard rows: what the inputs of a call hold that tries numbers where epsilons, overflow and masks decide."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc.ports import Array, Indices, Mask, Port, Values
from posenc_export.bundle.case import Case
from posenc_export.common.arrays import FLOATS, numpy_dtype

BY_SEQUENCE = "rows"
"""Each sequence of the batch is of another kind."""
BY_SEQUENCE_OF_TOKENS = "rows of tokens"
"""The same, but a mask that is not added stays usual: another program need not answer where all tokens are masked."""
ZEROS, EQUAL, NORMAL, SUBNORMAL = "zeros", "equal", "smallest normal", "subnormal"
LARGE, LARGEST, SOME_ZEROS, NEGATIVE = "1e4", "6e4", "rows of zeros", "-1e4"
KINDS = (ZEROS, EQUAL, NORMAL, SUBNORMAL, LARGE, LARGEST, SOME_ZEROS, NEGATIVE)


def hardened(port: Port, feed: Array, case: Case) -> Array:
    """Return an input of a call with hard rows; positions and sizes stay as they are."""
    feed = np.array(feed)
    if case.hard == BY_SEQUENCE_OF_TOKENS and isinstance(port.carries, Mask) and not is_added(port):
        return feed
    if case.hard not in (BY_SEQUENCE, BY_SEQUENCE_OF_TOKENS):
        _harden(port, feed, case.hard, case)
    elif port.axes and port.axes[0].is_dynamic and port.axes[0].kind == "batch":
        for number, kind in enumerate(KINDS):
            _harden(port, feed[number, ...], kind, case)  # an array also where a sequence is one number
    return feed


def is_added(port: Port) -> bool:
    """Return whether a mask is added to scores."""
    return isinstance(port.carries, Mask) and port.dtype in FLOATS and port.carries.additive is not False


def _harden(port: Port, part: Array, kind: str, case: Case) -> None:
    """Change a part of an input in place: a sequence, or all of it."""
    if isinstance(port.carries, Mask):
        _mask(port.carries, port, part, kind)
    elif isinstance(port.carries, Indices):
        _ids(port.carries, part, kind, case.hard_ids)
    elif isinstance(port.carries, Values) and port.dtype in FLOATS and not port.carries.probabilities:
        part[...] = _numbers(port, part, kind)
        if port.carries.low is not None or port.carries.high is not None:
            np.clip(part, port.carries.low, port.carries.high, out=part)


def _numbers(port: Port, usual: Array, kind: str) -> Array:
    """Return numbers of a kind with the signs of usual ones."""
    if kind == ZEROS:
        return np.zeros_like(usual)
    if kind == NEGATIVE:  # of which every exponential is 0
        return np.full_like(usual, -1e4)
    if kind == SOME_ZEROS:
        rows = usual.reshape(-1, usual.shape[-1]) if usual.ndim else usual
        return np.asarray(np.where(_every_other(rows), 0, rows).reshape(usual.shape))
    limits = _limits(port)
    magnitude = {
        EQUAL: 1.0,
        NORMAL: float(limits.smallest_normal),
        SUBNORMAL: float(limits.smallest_subnormal),
        LARGE: 1e4,
        LARGEST: 6e4,
    }[kind]
    return np.where(np.signbit(usual), -magnitude, magnitude).astype(usual.dtype)


def _limits(port: Port) -> Any:
    """Return the limits of the dtype of a port, bfloat16 included."""
    import ml_dtypes

    finfo: Any = ml_dtypes.finfo
    return finfo(numpy_dtype(port.dtype))


def _every_other(rows: Array) -> Array:
    """Return which of some rows have an odd number, to be spread over their elements."""
    return np.reshape(np.arange(len(rows)) % 2 == 1, (-1, *(1 for _ in rows.shape[1:]))) if rows.ndim else rows == 0


def _ids(indices: Indices, part: Array, kind: str, zero_rows: tuple[int, ...]) -> None:
    if kind == EQUAL:
        part[...] = (indices.end or 1) - 1
    elif kind in (ZEROS, SOME_ZEROS):
        kept = np.arange(part.size).reshape(part.shape) % 2 == (1 if kind == SOME_ZEROS else 2)
        part[...] = np.where(kept, part, np.resize(zero_rows or (0,), part.shape))


def _mask(mask: Mask, port: Port, part: Array, kind: str) -> None:
    """Mask with the lowest number, or minus infinity, and all keys of some queries; positions must still follow."""
    if is_added(port):
        lowest = float(_limits(port).min)
        if kind in (NORMAL, SUBNORMAL):
            part[part != 0] = lowest
        first = part[..., :1, :] if part.ndim > 1 else part
        if kind == SUBNORMAL:
            first[...] = lowest
        elif kind == LARGEST:
            first[...] = -np.inf
    elif kind == LARGEST and mask.offset is None:
        part[...] = 0
