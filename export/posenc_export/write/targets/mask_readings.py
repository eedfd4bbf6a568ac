"""How to read a mask of floats that only its name makes one: as 1 and 0 to multiply by, or as 0 and minus infinity.

The module decides: with the wrong reading it gives infinities, or NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product

import numpy as np

from posenc.encoding import Encoding
from posenc.ports import Array, Mask, Port
from posenc_export.bundle.case import Case
from posenc_export.common.arrays import FLOATS, call_on_arrays, numpy_dtype
from posenc_export.common.errors import BadInput
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.sizes import trace_sizes

Ports = tuple[Port, ...]
WORDS = {False: "1 and 0", True: "0 and minus infinity"}


def read_masks(ports: Ports, describe: Callable[[Ports], Encoding], max_len: int, seed: int) -> tuple[Ports, list[str]]:
    """Return the ports, in which every mask is read as the module takes it, and a line on each that was decided so.

    Args:
        ports: What goes in.
        describe: Makes the encoding of the module with ports.
        max_len: The longest length.
        seed: For the numbers that go in.

    Raises BadInput where not exactly one reading gives numbers.
    """
    unsaid = [port.name for port in ports if _is_unsaid(port)]
    if not unsaid:
        return ports, []
    readings = [_read(ports, dict(zip(unsaid, ways, strict=True))) for ways in product(WORDS, repeat=len(unsaid))]
    fitting = [reading for reading in readings if _gives_numbers(reading, describe, max_len, seed)]
    if len(fitting) != 1:
        gives = "both give" if fitting else "neither gives"
        raise BadInput(
            f"{', '.join(unsaid)}: by its name a mask of 1 and 0, or of 0 and minus infinity: {gives} numbers; "
            "write 'mask' or 'additive mask' behind its axes in -i"
        )
    return fitting[0], [_words(port) for port in fitting[0] if port.name in unsaid]


def _is_unsaid(port: Port) -> bool:
    return isinstance(port.carries, Mask) and port.carries.additive is None


def _read(ports: Ports, additive: Mapping[str, bool]) -> Ports:
    """Return the ports with some masks read so; an additive mask may be causal."""
    return tuple(
        replace(port, carries=replace(port.carries, additive=way, causal=way and port.carries.causal))
        if isinstance(port.carries, Mask) and (way := additive.get(port.name)) is not None
        else port
        for port in ports
    )


def _words(port: Port) -> str:
    assert isinstance(port.carries, Mask)
    right, wrong = (WORDS[bool(port.carries.additive) is way] for way in (True, False))
    return f"{port.name}: carries a mask of {right}, by its name: one of {wrong} makes outputs infinite"


def _gives_numbers(ports: Ports, describe: Callable[[Ports], Encoding], max_len: int, seed: int) -> bool:
    """Return whether a module gives numbers where masks are read so."""
    try:
        encoding = describe(ports)
        feeds = feeds_for(ports, Case("masks", trace_sizes(ports, set(), max_len), padding="right"), seed)
        args = [_hidden(port, feeds[port.name]) for port in ports]
        outputs = call_on_arrays(encoding.uncalled().module, args)
    except (BadInput, RuntimeError):
        return False
    floats = [output.astype(np.float64) for output in outputs if output.dtype.name in FLOATS]
    return not any(np.isnan(array).any() or np.isposinf(array).any() for array in floats)  # -inf: a masked score


def _hidden(port: Port, feed: Array) -> Array:
    """Return a mask whose last token is hidden, by minus infinity where it is added; anything else as it is."""
    if not isinstance(port.carries, Mask) or port.carries.causal:
        return feed
    # (keys,), broadcast to the mask: the last key is hidden
    shown, dtype = np.arange(feed.shape[-1]) < max(1, feed.shape[-1] - 1), numpy_dtype(port.dtype)
    way = np.where(shown, 0.0, -np.inf) if port.carries.additive else shown
    return np.broadcast_to(way, feed.shape).astype(dtype)
