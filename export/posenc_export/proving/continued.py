"""Caches that a file gives: each is the output of the target that continues the same input, whatever their order is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np

from posenc.ports import Array
from posenc_export.arrays import FLOATS, flatten
from posenc_export.bundle.case import Case
from posenc_export.formats.onnx.foreign import ForeignFile
from posenc_export.proving.derived import identifier
from posenc_export.targets import Target
from posenc_export.targets.outputs import called, probe_sizes
from posenc_export.validation.planning.feeds import feeds_for

SIDE = re.compile(r"^(input|output)?_?(past|present)(_key_values?)?_")
"""What names of a cache before and after a call differ in."""


def plain_name(name: str) -> str:
    """Return the name of a part of a cache without what says that it goes in or comes out; nothing for other names."""
    plain = identifier(name)
    return SIDE.sub("", plain) if SIDE.match(plain) else ""


def names_of_caches(file: ForeignFile, target: Target, names: Mapping[str, str], seed: int) -> dict[str, str]:
    """Return the names that caches of a file have among a target's outputs.

    Builders list all keys before all values, models layer by layer: of equal shapes, order alone would exchange them.

    Args:
        file: The file.
        target: What it is to be.
        names: What the user says of names, which is stronger.
        seed: For the numbers that go in.
    """
    before = {plain: value.name for value in file.inputs if (plain := plain_name(value.name))}
    after = {plain: value.name for value in file.outputs if (plain := plain_name(value.name))}
    own = {port.name for port in target.encoding.outputs}
    if target.rules.registered or not before.keys() & after.keys() or own & {*after.values()}:
        return {}
    continued = dict(_continued(target, seed))
    caches = {
        after[plain]: continued[port]
        for plain in before.keys() & after.keys()
        if (port := names.get(before[plain], identifier(before[plain]))) in continued
    }
    settled = {*names.values()}
    return {name: own for name, own in caches.items() if name not in names and own not in settled}


def _continued(target: Target, seed: int) -> Iterator[tuple[str, str]]:
    """Yield each input of a module that one of its outputs continues, and that output."""
    encoding = target.encoding
    sizes = probe_sizes(encoding, target.spec.max_len)[0]
    feeds = feeds_for(encoding.inputs, Case("probe", sizes), seed)
    outputs = flatten(called(encoding.uncalled().module, encoding.inputs, sizes, seed))
    for port in encoding.inputs:
        fitting = [
            own.name
            for own, output in zip(encoding.outputs, outputs, strict=True)
            if _continues(output, feeds[port.name])
        ]
        # one alone: a cache that comes out twice has no place of its own
        if len(fitting) == 1:
            yield port.name, fitting[0]


def _continues(output: Array, fed: Array) -> bool:
    """Return whether an output is an input with more places along one axis."""
    if fed.dtype.name not in FLOATS or output.dtype != fed.dtype or output.ndim != fed.ndim:
        return False
    longer = [axis for axis in range(fed.ndim) if output.shape[axis] > fed.shape[axis]]
    if len(longer) != 1 or fed.size == 0:
        return False
    start = output.take(range(fed.shape[longer[0]]), axis=longer[0])
    return start.shape == fed.shape and bool(np.array_equal(start, fed))
