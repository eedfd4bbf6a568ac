"""Inputs that a module reads for their shape, dtype or device alone: no output depends on their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np

from posenc.encoding import Encoding
from posenc.ports import Array, Mask, Port
from posenc_export.bundle.carries import kind_of
from posenc_export.bundle.case import GoldenCase
from posenc_export.common.arrays import FLOATS, call_on_copies, tensors_of, to_torch
from posenc_export.proof.planning.quick import cost
from posenc_export.write.targets.feeds import feeds_for

Call = Callable[[Mapping[str, Array]], list[bytes]]
"""Calls a module on its inputs by name, and returns the bits of its outputs."""
CALLS, LARGE = 4, 2**20
"""How many cases are tried with changed inputs, and the largest input of such a case, in elements."""


def unread(encoding: Encoding, cases: Sequence[GoldenCase], seed: int) -> tuple[str, ...]:
    """Return the inputs on whose values no output depends, in a few cases, the longest among them.

    If the module refuses other values of an input, it depends on them. The shortest of the cases comes first: it shows
    nearly all. A model with a cache has two inputs a layer, for which one call with gradients asks at once.
    """
    usable = [golden for golden in cases if not golden.case.refused and _elements(encoding.inputs, golden) <= LARGE]
    if not usable:
        return ()
    usable.sort(key=lambda golden: cost(golden.case, encoding.inputs))
    # in even steps from the shortest call to the longest
    some = [usable[place] for place in sorted({round(at) for at in np.linspace(0, len(usable) - 1, CALLS)})]
    open_ports = [port for port in encoding.inputs if not kind_of(port.carries).is_size]

    def call(feeds: Mapping[str, Array]) -> list[bytes]:
        # a copy that no call has changed
        arrays = [feeds[port.name] for port in encoding.inputs]
        return [output.tobytes() for output in call_on_copies(encoding.uncalled().module, arrays)[0]]

    for golden in some:
        feeds = feeds_for(encoding.inputs, golden.case, seed)
        if len(open_ports) > CALLS:
            by_gradient = _with_gradients(encoding, feeds)
            open_ports = [port for port in open_ports if port.name not in by_gradient]
        if not open_ports:
            break
        before, others = call(feeds), feeds_for(encoding.inputs, golden.case, seed + 1)
        open_ports = [port for port in open_ports if not _depends(call, port, feeds, before, others[port.name])]
    return tuple(port.name for port in open_ports)


def _with_gradients(encoding: Encoding, feeds: Mapping[str, Array]) -> frozenset[str]:
    """Return the inputs of floats whose gradients are not zero: outputs depend on them.

    A gradient of zero says nothing: code may cut gradients, or not run with them at all.
    """
    import torch

    tensors = {port.name: to_torch(feeds[port.name].copy()) for port in encoding.inputs}
    floats = {name: tensor.requires_grad_() for name, tensor in tensors.items() if tensor.is_floating_point()}
    generator = torch.Generator().manual_seed(0)
    gradients: Sequence[torch.Tensor | None] = ()
    with suppress(Exception), torch.enable_grad():
        outputs = [y for y in tensors_of(encoding.uncalled().module(*tensors.values())) if y.requires_grad]
        # by random numbers: the sum of a softmax has no gradient
        total = sum((y * torch.randn(y.shape, generator=generator, dtype=y.dtype)).sum() for y in outputs)
        assert isinstance(total, torch.Tensor)
        gradients = torch.autograd.grad(total, list(floats.values()), allow_unused=True)
    found = zip(floats, gradients, strict=False)
    return frozenset(
        name for name, slope in found if slope is not None and bool((slope.isfinite() & (slope != 0)).any())
    )


def _elements(ports: Sequence[Port], golden: GoldenCase) -> int:
    return max((int(np.prod(port.shape(golden.case.sizes))) for port in ports), default=0)


def _depends(call: Call, port: Port, feeds: Mapping[str, Array], before: Sequence[bytes], drawn: Array) -> bool:
    """Return whether other values of one input, in a case, change any bit of any output, or are refused."""
    feed = feeds[port.name]
    for values in _other_values(port, feed, drawn):
        if values.shape == feed.shape and values.tobytes() == feed.tobytes():
            continue
        try:
            after = call({**feeds, port.name: values})
        except Exception:
            return True
        if after != before:
            return True
    return False


def _other_values(port: Port, feed: Array, drawn: Array) -> Iterator[Array]:
    """Yield other values of an input: its kind's own; otherwise drawn again, reversed, all equal, NaN for floats."""
    if own := kind_of(port.carries).other_values:
        yield from own(feed)
        return
    if isinstance(port.carries, Mask):  # that of a single sequence leaves nothing out, however it is drawn
        hidden = feed.copy()
        hidden[..., :1] = -np.inf if port.carries.additive else 0
        yield hidden
    yield drawn
    yield np.ascontiguousarray(np.flip(feed))
    yield np.full_like(feed, feed.flat[0] if feed.size else 0)
    yield np.full_like(feed, feed.flat[-1] if feed.size else 0)
    if feed.dtype.name in FLOATS:
        yield np.full_like(feed, np.nan)
