"""How a call gives positions: ports, axes and where positions end, written once for all sources.

implicit   from the shape of what comes in: 0, 1, 2, ... along an axis, or along each axis of a grid
offset     from a start, as where a cache holds the tokens before it
explicit   a position for each token of each sequence
mask       counted from an attention mask
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from posenc.ports import BATCH, SEQ, Axis, Mask, Port, Positions, Start, fixed
from posenc.spec import Positions as Way
from posenc.spec import Spec, UnsupportedSpec

Choice = TypeVar("Choice")
KEYS = Axis("seq_k", "length")
NO_END = (
    "index_dtype int32 has no room for positions that follow a start without an end: take --method exact, or leave "
    "--index-dtype out"
)


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

    def pick(self, **choices: Choice) -> Choice:
        """Return the choice that has the name of `positions`."""
        return choices[str(self.positions)]


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
    several = () if axes == 1 else (fixed(axes),)  # (batch, seq), or (axes, batch, seq)
    return _way(spec, end, SEQ, Port("positions", (*several, BATCH, SEQ), spec.index_dtype, Positions(end, ends)))


def queries_and_keys(spec: Spec, end: int | None) -> Where:
    """Return how queries and keys get positions; `places` is the axis of the keys.

    Keys are at 0, 1, 2, ..., and queries are the last of them (implicit, mask) or begin at a start (offset).
    """
    query = Port("positions_q", (BATCH, SEQ), spec.index_dtype, Positions(end))
    key = Port("positions_k", (BATCH, KEYS), spec.index_dtype, Positions(end))
    return _way(spec, end, KEYS, query, key, among=KEYS.name)


def grid(spec: Spec, names: Sequence[str], ends: Sequence[int | None]) -> Where:
    """Return that positions are the places of a grid, as large as what comes in; `ends` are those of its axes."""
    places = tuple(Axis(name, "grid", most=end) for name, end in zip(names, ends, strict=True))
    return Where(spec.positions, places, end=ends[0])


def padded_grid(spec: Spec, names: Sequence[str], end: int | None) -> Where:
    """Return that a mask says which places of a padded grid count, from 1 on: (batch, *grid) of 1 and 0."""
    places = tuple(Axis(name, "grid") for name in names)  # padding may be larger than any end
    mask = Port("pixel_mask", (BATCH, *places), spec.index_dtype, Mask(offset=1, end=end))
    return Where(spec.positions, places, (mask,), end)


def _way(spec: Spec, end: int | None, axis: Axis, *explicit: Port, among: str | None = None) -> Where:
    """Return the way that a spec asks for, for tokens along an axis.

    Args:
        explicit: The ports of given positions.
        among: The name of the axis of keys that a start counts among.
    """
    start = Port("start", (fixed(1),), spec.index_dtype, Start(end, among))
    if spec.narrow and spec.positions == "offset" and end is None and among is None:
        raise UnsupportedSpec(NO_END)
    mask = Port("attention_mask", (BATCH, axis), spec.index_dtype, Mask(offset=spec.position_offset, end=end))
    ports = {"offset": (start,), "explicit": explicit, "mask": (mask,)}.get(str(spec.positions), ())
    # Positions follow from the size of the axis, which then ends with them; those of keys do beside a start, too.
    counted = spec.positions == "implicit" or (spec.positions == "offset" and among is not None)
    return Where(spec.positions, (replace(axis, most=end) if counted else axis,), ports, end)
