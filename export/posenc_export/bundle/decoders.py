"""A decoder by its ports: which of them are caches, and which axes count texts, tokens and cached tokens."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from posenc.ports import Mask, Port

ONE_TEXT = "behind a cache, several tokens at once are for one text: a batch goes on by one token a call"
"""What GroupQueryAttention refuses."""
IN_PLACE = "past and present may share a buffer with room for more tokens: new keys and values go behind those it has"
"""What it does beside a plain file."""
FREE_PADDING = (
    "rows of padding are other finite numbers than the module's: no token reads them, and they are not compared"
)
"""What a query gives that sees no key."""

PAST = "past_key_values."
"""What the names begin with of inputs that hold what layers remember."""
ENCODED = "last_hidden_state"
"""What an encoder gives the decoder behind it."""
ROPE_DELTAS = "past_rope_deltas"
"""What pictures so far add to the positions of the tokens behind them, which a text remembers, too."""


class DecoderAxes(NamedTuple):
    """The names of axes: of texts, of the tokens of a call, and of those whose keys and values are cached."""

    batch: str
    seq: str
    past: str

    def is_refused(self, sizes: Mapping[str, int]) -> bool:
        """Return whether GroupQueryAttention refuses a call: several texts, each with several tokens behind a cache."""
        return min(sizes.get(self.batch, 1), sizes.get(self.seq, 1)) > 1 and sizes.get(self.past, 0) > 0


def is_cache(port: Port) -> bool:
    """Return whether a port holds heads of tokens, (batch, heads, tokens, features), as a cache does."""
    dynamic = [axis.is_dynamic for axis in port.axes]
    return dynamic == [True, False, True, False] and port.dtype.startswith(("float", "bfloat"))


def is_in_place(ports: Iterable[Port], shared: Collection[str]) -> bool:
    """Return whether each cache among some ports is one of those that share a buffer; False where there is no cache."""
    caches = {port.name for port in ports if is_cache(port)}
    return bool(caches) and caches.issubset(shared)


def decoder_axes(ports: Sequence[Port]) -> DecoderAxes | None:
    """Return the axes of a decoder with one cache, or None for anything else."""
    caches = [port for port in ports if is_cache(port)]
    if not caches:
        return None
    past = {port.axes[2].name for port in caches}
    others = [axis for port in ports if not is_cache(port) for axis in port.axes if axis.is_length]
    seqs = {name for axis in others for name in axis.names} - past
    if len(past) != 1 or len(seqs) != 1:
        return None
    return DecoderAxes(caches[0].axes[0].name, *seqs, *past)


def mask_of_keys(ports: Sequence[Port]) -> Port | None:
    """Return the mask of all tokens of a decoder, cached and new: (batch, tokens); None where none goes in."""
    axes = decoder_axes(ports)
    masks = [port for port in ports if isinstance(port.carries, Mask) and len(port.axes) == 2]
    whole = [port for port in masks if axes is not None and {*port.axes[1].names} == {axes.past, axes.seq}]
    return whole[0] if len(whole) == 1 else None


def memory_ports(inputs: Sequence[Port]) -> list[Port]:
    """Return the inputs of a decoder that hold what its layers remember: keys, values and states."""
    return [port for port in inputs if port.name.startswith(PAST)]


def text_ports(inputs: Sequence[Port]) -> list[Port]:
    """Return the inputs that hold what a text remembers: what layers do, and what pictures add to positions."""
    return [*memory_ports(inputs), *(port for port in inputs if port.name == ROPE_DELTAS)]


def states_in(inputs: Sequence[Port]) -> list[str]:
    """Return the names of inputs that are states: a call replaces them, and they hold no token by itself."""
    return [port.name for port in memory_ports(inputs) if not port.lengths]
