"""Lengths to time: the ones that were asked for, or the usual ones that a graph takes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import partial

from posenc.ports import Port, axes_of
from posenc_export.bundle.carries import limits_of
from posenc_export.bundle.manifest import Manifest
from posenc_export.common.errors import BadInput
from posenc_export.proof.benchmarks import USUAL_LENGTHS, BenchOptions

AUTO_WIDTH = 512
"""Features of x, where the encoding takes any number."""


def lengths_of(manifest: Manifest, timing: BenchOptions) -> tuple[int, ...]:
    """Return the lengths to time; raise BadInput, in one line, where one is longer than a graph takes."""
    ports = (*manifest.inputs, *manifest.outputs)
    max_length = max_length_of(ports, timing)
    if not any(axis.is_length for axis in axes_of(ports)):
        return timing.lengths[:1] or (1,)  # all calls are equally long
    if not timing.lengths:
        usual = tuple(length for length in USUAL_LENGTHS if max_length is None or length <= max_length)
        return usual or (max_length or 1,)
    length = max(timing.lengths)
    if max_length is not None and length > max_length:
        end = (
            f"the {max_length} rows of the table"
            if manifest.mode == "baked"
            else f"the {max_length} that the graph takes"
        )
        raise BadInput(f"length {length} is beyond {end}: give --length {max_length} or less")
    return timing.lengths


def max_length_of(ports: Sequence[Port], timing: BenchOptions) -> int | None:
    """Return the length of the longest call that no port refuses; None where every length is taken."""
    ends = [axis.most for port in ports for axis in port.axes if axis.most is not None]
    ends += [tokens for port in ports if (tokens := limits_of(port).tokens) is not None]
    if not ends:
        return None
    refused = partial(_refused, ports, timing)
    # ports refuse every length from some length on
    lengths = bisect_left(range(1, max(ends) + 2), True, key=refused)
    return lengths if lengths <= max(ends) else None


def sizes_of_call(ports: Sequence[Port], length: int, timing: BenchOptions) -> dict[str, int]:
    """Return the sizes of the axes of ports in a call of a length."""
    fixed = {"batch": timing.batch, "features": AUTO_WIDTH, "heads": timing.heads}
    return {axis.name: fixed.get(axis.kind, length) for axis in axes_of(ports)}


def _refused(ports: Sequence[Port], timing: BenchOptions, length: int) -> bool:
    """Return whether a call of a length is longer than a port takes."""
    sizes = sizes_of_call(ports, length, timing)
    too_long = (axis.most is not None and axis.size_in(sizes) > axis.most for port in ports for axis in port.axes)
    return any(too_long) or any(_beyond(port, sizes) for port in ports)


def _beyond(port: Port, sizes: Mapping[str, int]) -> bool:
    """Return whether the positions of a call that begins at 0 go beyond the end of a port."""
    tokens = limits_of(port).tokens
    return tokens is not None and port.shape(sizes)[-1] > tokens
