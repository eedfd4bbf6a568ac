"""What a function of a class takes: its parameters, views of them by sizes of axes, and the comment on each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from posenc.ports import Port, axes_of
from posenc_export.bundle.carries import kind_of
from posenc_export.bundle.manifest import Manifest
from posenc_export.write.cpp.names import TYPES, braced, dtype_constant, identifier, sizes
from posenc_export.write.cpp.uses import Uses


def gives_arrays(inputs: Sequence[Port], outputs: Sequence[Port]) -> bool:
    """Return whether outputs have sizes that do not follow from those of the inputs: nobody has room for them ready."""
    return bool(unknown_axes(inputs, outputs))


def unknown_axes(inputs: Sequence[Port], outputs: Sequence[Port]) -> list[tuple[Port, str]]:
    """Return the axes of outputs that no input has, each with the output."""
    known = {axis.name for axis in axes_of(inputs)}
    named = ((port, name) for port in outputs for axis in port.dynamic.values() for name in axis.names)
    return [(port, name) for port, name in named if name not in known]


def parameters(manifest: Manifest, uses: Uses) -> str:
    """Return the parameters of `run`: sizes of axes, then a span for each port; arrays come behind these."""
    taken = input_parameters(manifest.inputs, uses)
    if gives_arrays(manifest.inputs, manifest.outputs):
        return ",\n      ".join(taken)
    taken += [f"Span<{TYPES[p.dtype]}> {identifier(p.name)}" for p in manifest.outputs]
    return ",\n      ".join([*taken, "Memory memory = Memory::host"])


def input_parameters(inputs: Sequence[Port], uses: Uses) -> list[str]:
    """Return the parameters for what goes in: sizes of axes, then a span for each input that is read."""
    unused = "" if axes_of(inputs) else "[[maybe_unused]] "
    spans = [f"Span<const {TYPES[p.dtype]}> {identifier(p.name)}" for p in uses.fed(inputs)]
    return [f"{unused}const Axes& axes", *spans]


def all_sizes(ports: Sequence[Port]) -> str:
    """Return the sizes of ports one behind the other, a line each."""
    return ",".join(f"\n        {sizes(port)}" for port in ports if port.axes)


def views(ports: Sequence[Port], first: int, uses: Uses) -> str:
    """Return a view of each port, whose sizes lie in one array from `first` on."""
    # first, first + rank of port 0, first + ranks of ports 0 and 1, ...
    starts = accumulate((len(port.axes) for port in ports), initial=first)
    shapes = (braced(f"sizes_.data() + {at}", len(port.axes)) for at, port in zip(starts, ports, strict=False))
    each = (_view(port, shape, uses) for port, shape in zip(ports, shapes, strict=True))
    return ",".join(f"\n        {one}" for one in each)


def _view(port: Port, shape: str, uses: Uses) -> str:
    if port.name in uses.unread:  # a view without memory: the shape is all that is read
        return f"View{braced(dtype_constant(port), shape, 'nullptr', 0)}"
    return f"posenc::view({identifier(port.name)}, {shape})"


def documented(inputs: Sequence[Port], uses: Uses) -> str:
    """Return what a comment says of each input."""
    alone = ": its shape alone, and no argument"
    limits = [
        alone if port.name in uses.unread else kind_of(port.carries).documented(port.carries, port) for port in inputs
    ]
    return "\n".join(f"  ///   in   {port}{limit}" for port, limit in zip(inputs, limits, strict=True))
