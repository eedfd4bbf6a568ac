"""Positions: one for each token, or several."""

from collections.abc import Iterator

import numpy as np

from posenc.ports import Array, Port, Positions
from posenc_export.bundle.carries import Limits, PlannedCall, PortKind, Random, Shape, Word
from posenc_export.common.arrays import INTEGERS


def _feed(carries: Positions, port: Port, shape: Shape, call: PlannedCall, rng: Random) -> Array:
    """Return positions: sequence b of a batch is padded by b on the left, as in batched generation."""
    if call.probe_positions:
        return np.broadcast_to(np.asarray(call.probe_positions), shape)
    rows = int(np.prod(shape[:-1]))
    # (*batch, 1): how many places of padding each sequence begins with
    padding = np.arange(rows).reshape(*shape[:-1], 1) if call.first >= 0 else 0
    tokens = call.first + np.arange(shape[-1])
    positions = np.broadcast_to(np.maximum(tokens - padding, min(call.first, 0)), shape)
    if not carries.ends:
        return positions
    # (axes, 1, ..., 1): each position of a token is below its own end, but for the one that must be seen refused
    end = np.asarray(carries.ends).reshape(-1, *[1] * (positions.ndim - 1))
    beyond = call.refused & (end == call.first + 1)
    return np.where(beyond, tokens, np.minimum(positions, end - 1))


def _misfits(carries: Positions, port: Port) -> Iterator[str]:
    if carries.ends and not (port.axes and port.axes[0].size == len(carries.ends)):
        yield ".ends must be one for each position of a token, along its first axis"


KIND = PortKind(
    Positions,
    {"end": "NoWhole", "ends": "Naturals?"},
    feed=_feed,
    draw=lambda positions, shape, least, fill: np.broadcast_to(np.arange(shape[-1]), shape),
    limits=lambda positions: Limits(end=positions.end, ends=positions.ends, tokens=positions.end),
    looked_up=True,
    gives_positions=True,
    misfits=_misfits,
    words=(Word("positions", Positions, INTEGERS, "end"),),
    usual_names=("positions", "position_ids"),
    by_name=lambda dtype, end: (Positions(end), "positions") if dtype in INTEGERS else None,
    misshapen=lambda positions, sizes: "" if sizes else "an axis along which tokens are",
    cpp_vector="positions_vector.cpp",
)
