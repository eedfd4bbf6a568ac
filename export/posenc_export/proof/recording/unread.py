"""Inputs that a module reads for their shape, dtype or device alone: no output depends on their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from posenc.encoding import Encoding
from posenc.ports import Array, Mask, Port
from posenc_export.bundle.carries import kind_of
from posenc_export.bundle.case import GoldenCase
from posenc_export.common.arrays import FLOATS, call_on_copies
from posenc_export.write.targets.feeds import feeds_for

Call = Callable[[Sequence[Array]], list[bytes]]
"""Calls a module on arrays, and returns the bits of its outputs."""
CALLS, LARGE = 4, 2**20
"""How many cases are tried with changed inputs, and the largest input of such a case, in elements."""


def unread(encoding: Encoding, cases: Sequence[GoldenCase], seed: int) -> tuple[str, ...]:
    """Return the inputs on whose values no output depends, in a few cases, the largest among them.

    If the module refuses other values of an input, it depends on them.
    """
    usable = [golden for golden in cases if not golden.case.refused and _elements(encoding.inputs, golden) <= LARGE]
    usable.sort(key=lambda golden: _elements(encoding.inputs, golden))
    # from the largest case down, in even steps
    some = usable[:: -max(1, len(usable) // CALLS)][:CALLS]
    if not some:
        return ()

    def call(arrays: Sequence[Array]) -> list[bytes]:
        # a copy that no call has changed
        return [output.tobytes() for output in call_on_copies(encoding.uncalled().module, arrays)[0]]

    inputs = encoding.inputs
    ports = [port for port in inputs if not kind_of(port.carries).is_size]
    return tuple(port.name for port in ports if not any(_depends(call, inputs, port, case, seed) for case in some))


def _elements(ports: Sequence[Port], golden: GoldenCase) -> int:
    return max((int(np.prod(port.shape(golden.case.sizes))) for port in ports), default=0)


def _depends(call: Call, inputs: tuple[Port, ...], port: Port, golden: GoldenCase, seed: int) -> bool:
    """Return whether other values of one input, in a case, change any bit of any output, or are refused."""
    feeds = feeds_for(inputs, golden.case, seed)
    before = call([feeds[p.name] for p in inputs])
    for values in _other_values(inputs, port, golden, feeds[port.name], seed):
        try:
            after = call([values if p == port else feeds[p.name] for p in inputs])
        except Exception:
            return True
        if after != before:
            return True
    return False


def _other_values(ports: tuple[Port, ...], port: Port, golden: GoldenCase, feed: Array, seed: int) -> Iterator[Array]:
    """Yield other values of an input: its kind's own; otherwise drawn again, reversed, all equal, NaN for floats."""
    if own := kind_of(port.carries).other_values:
        yield from own(feed)
        return
    if isinstance(port.carries, Mask):  # that of a single sequence leaves nothing out, however it is drawn
        hidden = feed.copy()
        hidden[..., :1] = -np.inf if port.carries.additive else 0
        yield hidden
    yield feeds_for(ports, golden.case, seed + 1)[port.name]
    yield np.ascontiguousarray(np.flip(feed))
    yield np.full_like(feed, feed.flat[0] if feed.size else 0)
    yield np.full_like(feed, feed.flat[-1] if feed.size else 0)
    if feed.dtype.name in FLOATS:
        yield np.full_like(feed, np.nan)
