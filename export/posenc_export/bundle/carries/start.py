"""Starts: the position of the first token, which the others follow."""

from collections.abc import Iterator

import numpy as np

from posenc.ports import Array, Port, Start
from posenc_export.bundle.carries import Limits, PortKind, Word, below
from posenc_export.common.arrays import INTEGERS


def _documented(start: Start, port: Port) -> str:
    among = f", all positions that count from it among {start.among}" if start.among else ""
    return below(start.end) + among


def _other_values(feed: Array) -> Iterator[Array]:
    yield np.zeros_like(feed)
    yield feed + 1  # beyond its end the module refuses it, and so depends on it


KIND = PortKind(
    Start,
    {"end": "NoWhole", "among": "NoName?"},
    feed=lambda start, port, shape, call, rng: np.full(shape, call.first),
    limits=lambda start: Limits(end=start.end, among=start.among),
    looked_up=True,
    gives_positions=True,
    is_first=True,
    other_values=_other_values,
    words=(Word("start", Start, INTEGERS, "end"),),
    usual_names=("start", "past_length"),
    by_name=lambda dtype, end: (Start(end), "the first position") if dtype in INTEGERS else None,
    misshapen=lambda start, sizes: "" if sizes == [1] else "[1], the shape of a first position",
    documented=_documented,
)
