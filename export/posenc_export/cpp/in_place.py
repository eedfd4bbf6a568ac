"""Which outputs may be written over which inputs."""

from __future__ import annotations

from collections.abc import Mapping

from posenc.ports import Values, carrying
from posenc_export.bundle.manifest import Manifest

READ_FIRST = ("additive", "rotary")
"""Families whose last step on the way to an output reads, element by element, what is left to read of its input."""


def in_place(manifest: Manifest) -> Mapping[str, int]:
    """Return the index of the input that each output may exactly replace, by the output's name.

    Of a module of somebody's own, and of a fused operator, nothing is known; the replay of a bundle tries the others.
    """
    if manifest.family not in READ_FIRST or manifest.rotary_op != "decomposed":
        return {}
    free = {manifest.inputs.index(port): port for port in carrying(manifest.inputs, Values)}
    replaceable: dict[str, int] = {}
    for output in manifest.outputs:
        alike = (i for i, port in free.items() if (port.dtype, port.axes) == (output.dtype, output.axes))
        index = next(alike, None)
        if index is not None:
            replaceable[output.name] = index
            del free[index]
    return replaceable
