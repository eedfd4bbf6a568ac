"""Ports that positions are given by, the same in every family."""

from posenc.ports import BATCH, SEQ, Mask, Port, Positions, Start, fixed
from posenc.spec import Spec


def start_port(end: int | None, among: str | None = None) -> Port:
    """Return the port of the position of a call's first token: (1,). Tokens are among the keys of an axis, if any."""
    return Port("start", (fixed(1),), "int64", Start(end, among))


def positions_port(end: int | None, axes: int = 1, ends: tuple[int, ...] = ()) -> Port:
    """Return the port of positions: (batch, seq), or (axes, batch, seq), each below `end`, or its own of `ends`."""
    several = () if axes == 1 else (fixed(axes),)
    return Port("positions", (*several, BATCH, SEQ), "int64", Positions(end, ends))


def mask_port(spec: Spec, end: int | None) -> Port:
    """Return the port of an attention mask that positions are counted from: (batch, seq) of 1 and 0."""
    return Port("attention_mask", (BATCH, SEQ), "int64", Mask(offset=spec.position_offset, end=end))
