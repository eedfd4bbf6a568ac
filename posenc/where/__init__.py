"""How a call gives positions: ports, axes and where positions end, written once for all sources.

implicit   from the shape of what comes in: 0, 1, 2, ... along an axis, or along each axis of a grid
offset     from a start, as where a cache holds the tokens before it
explicit   a position for each token of each sequence
mask       counted from an attention mask
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from posenc.ports import BATCH, SEQ, Axis, Mask, Port, Positions, Start, fixed
from posenc.spec import Positions as Way
from posenc.spec import Spec, UnsupportedSpec

KEYS = Axis("seq_k", "length")


@dataclass(frozen=True)
class Where:
    """How a call gives positions.

    Args:
        positions: What `Spec.positions` calls it.
        places: The axes of a call along which positions lie; where they follow from its size, with the size's end.
        ports: What positions are given by, beside the values that come in.
        end: Positions from here on are refused; None where all are taken.

    """

    positions: Way | None
    places: tuple[Axis, ...] = (SEQ,)
    ports: tuple[Port, ...] = ()
    end: int | None = None


def tokens(spec: Spec, end: int | None, axes: int = 1, ends: tuple[int, ...] = ()) -> Where:
    """Return how the tokens of a sequence get positions, in the way that a spec asks for.

    Args:
        spec: The way, and where positions from a mask begin.
        end: Positions from here on are refused.
        axes: How many positions a token has.
        ends: The end of each of them, where they differ.

    Raises:
        UnsupportedSpec: A token has several positions, and the way gives it only one.

    """
    if axes > 1 and spec.positions != "explicit":
        raise UnsupportedSpec(f"a token has {axes} positions, {spec.positions} gives one: use --positions explicit")
    if spec.positions == "offset":
        return Where("offset", ports=(start_port(end),), end=end)
    if spec.positions == "explicit":
        several = () if axes == 1 else (fixed(axes),)
        return Where("explicit", ports=(_port("positions", end, *several, BATCH, SEQ, ends=ends),), end=end)
    if spec.positions == "mask":
        return Where("mask", ports=(_mask(spec, SEQ, end),), end=end)
    return Where(spec.positions, (replace(SEQ, most=end),), end=end)


def queries_and_keys(spec: Spec, end: int | None) -> Where:
    """Return how queries and keys get positions; `places` is the axis of the keys.

    Keys are at 0, 1, 2, ..., and queries are the last of them (implicit, mask) or begin at a start (offset).
    """
    ports: dict[str | None, tuple[Port, ...]] = {
        "offset": (start_port(end, KEYS.name),),
        "explicit": (_port("positions_q", end, BATCH, SEQ), _port("positions_k", end, BATCH, KEYS)),
        "mask": (_mask(spec, KEYS, end),),
    }
    counted = spec.positions in ("implicit", "offset")
    return Where(spec.positions, (replace(KEYS, most=end) if counted else KEYS,), ports.get(spec.positions, ()), end)


def grid(spec: Spec, names: Sequence[str], ends: Sequence[int | None]) -> Where:
    """Return that positions are the places of a grid, as large as what comes in; `ends` are those of its axes."""
    places = tuple(Axis(name, "grid", most=end) for name, end in zip(names, ends, strict=True))
    return Where(spec.positions, places, end=ends[0])


def start_port(end: int | None, among: str | None = None) -> Port:
    """Return the port of the position of a call's first token: (1,). Tokens are among the keys of an axis, if any."""
    return Port("start", (fixed(1),), "int64", Start(end, among))


def _port(name: str, end: int | None, *axes: Axis, ends: tuple[int, ...] = ()) -> Port:
    return Port(name, axes, "int64", Positions(end, ends))


def _mask(spec: Spec, tokens: Axis, end: int | None) -> Port:
    """Return the port of an attention mask of 1 and 0, which counts positions: (batch, tokens)."""
    return Port("attention_mask", (BATCH, tokens), "int64", Mask(offset=spec.position_offset, end=end))
