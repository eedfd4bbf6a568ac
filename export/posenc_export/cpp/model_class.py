"""NAME.hpp: the class posenc::NAME::Model, whose `run` names, types and checks every tensor of the graph."""

from __future__ import annotations

import hashlib
import json
import textwrap
from itertools import accumulate

from posenc.ports import Axis, Indices, Port, Positions, Start, Values, axes_of, bounds_of, keys_axis
from posenc_export.bundle.manifest import Manifest
from posenc_export.cpp import BUNDLE_TEMPLATES, filled
from posenc_export.cpp.in_place import in_place
from posenc_export.cpp.names import TYPES, braced, dtype_constant, identifier, quoted, sizes


def model_header(manifest: Manifest, name: str) -> str:
    """Return the text of NAME.hpp.

    The class lies in an inline namespace made of the text's digest: two bundles of one name are two classes.
    """
    digest = hashlib.sha256(_header(manifest, name, "").encode()).hexdigest()[:12]
    return _header(manifest, name, f"graph_{digest}")


def title(manifest: Manifest, comment: str = "//") -> str:
    """Return what a bundle is, as lines of a comment."""
    params = ", ".join(f"{name}={json.dumps(value)}" for name, value in manifest.params.items() if value is not None)
    text = f"{manifest.scheme} ({params}), {manifest.mode}, up to {manifest.max_len} positions tried."
    return f"\n{comment} ".join(textwrap.wrap(text, 116, break_on_hyphens=False))


def _header(manifest: Manifest, name: str, digest: str) -> str:
    ports = (*manifest.inputs, *manifest.outputs)
    return filled(
        "model.hpp",
        BUNDLE_TEMPLATES,
        title=title(manifest),
        name=name,
        digest=digest,
        axes=_axes(axes_of(manifest.inputs)),
        limits="".join(f"\n{limit}" for port in manifest.inputs if (limit := _limit(port))),
        sizes="".join(_size_function(port) for port in ports).rstrip(),
        documented=_documented(manifest),
        parameters=_parameters(manifest),
        arguments=", ".join(["axes", *(identifier(port.name) for port in ports)]),
        size_count=sum(len(port.axes) for port in ports),
        all_sizes=",".join(f"\n        {sizes(port)}" for port in ports if port.axes),
        input_count=len(manifest.inputs),
        input_views=_views(manifest.inputs, 0),
        output_count=len(manifest.outputs),
        output_views=_views(manifest.outputs, sum(len(port.axes) for port in manifest.inputs)),
        input_ports=_ports([_input(port, manifest) for port in manifest.inputs]),
        output_ports=_ports([_output(port, manifest) for port in manifest.outputs]),
    )


def _axes(axes: list[Axis]) -> str:
    fields = "".join(filled("axis.hpp", BUNDLE_TEMPLATES, axis=identifier(axis.name)) for axis in axes)
    setters = (filled("axis_setter.hpp", BUNDLE_TEMPLATES, name=a.name, axis=identifier(a.name)) for a in axes)
    return fields + "".join(f"\n{setter}" for setter in setters)


def _size_function(port: Port) -> str:
    unused = "" if port.dynamic else "[[maybe_unused]] "
    shape = braced(f"{braced(sizes(port))}") if port.axes else "{}"
    return filled(
        "size_function.hpp", BUNDLE_TEMPLATES, port=port.name, unused=unused, rank=len(port.axes), shape=shape
    )


def _end(port: Port) -> int:
    """Return where the integers of an input end, or 0."""
    return port.carries.end or 0 if isinstance(port.carries, (Positions, Start, Indices)) else 0


def _limit(port: Port) -> str:
    """Return the constants of what an input may hold; nothing where nothing is known, or each call says it."""
    if bounds := bounds_of(port):
        return filled("number_limit.hpp", BUNDLE_TEMPLATES, port=port.name, least=bounds[0], most=bounds[1])
    return filled("limit.hpp", BUNDLE_TEMPLATES, port=port.name, end=_end(port)) if _end(port) else ""


def _ports(ports: list[str]) -> str:
    return "".join(f"    {port};\n" for port in ports)


def _port(port: Port, *more: object) -> str:
    axes = (braced(quoted(a.name if a.is_dynamic else ""), a.size or 0, a.most or 0) for a in port.axes)
    words = ("ports_", quoted(port.name), dtype_constant(port), braced(*axes), *more)
    return f"add_port({', '.join(map(str, words))})"


def _input(port: Port, manifest: Manifest) -> str:
    follows = _counted(manifest) if isinstance(port.carries, Start) else ""
    ends = port.carries.ends if isinstance(port.carries, Positions) else ()
    each = [quoted(""), braced(*ends)] if ends else []
    added = _port(port, *([_end(port), quoted(follows), *each] if _end(port) else []))
    if isinstance(port.carries, Start) and port.carries.among:
        added += f";\n    limit_start(ports_, {quoted(follows)}, {quoted(port.carries.among)})"
    if bounds := bounds_of(port):
        added += f";\n    limit_numbers(ports_, {bounds[0]!r}, {bounds[1]!r})"
    return added


def _counted(manifest: Manifest) -> str:
    """Return the name of the axis along which positions run, beside keys; nothing where there are several, or none."""
    lengths = {port.axes[i].name for port in manifest.inputs for i in port.lengths if port.axes[i].is_dynamic}
    lengths -= {keys_axis(manifest.inputs)}
    return lengths.pop() if len(lengths) == 1 else ""


def _output(port: Port, manifest: Manifest) -> str:
    index = in_place(manifest).get(port.name)
    return _port(port) if index is None else _port(port, 0, quoted(""), quoted(manifest.inputs[index].name))


def _views(ports: tuple[Port, ...], first: int) -> str:
    """Return a view of each port, whose sizes lie in one array from `first` on."""
    starts = accumulate((len(port.axes) for port in ports), initial=first)
    shapes = (braced(f"sizes_.data() + {at}", len(port.axes)) for at, port in zip(starts, ports, strict=False))
    views = (f"posenc::view({identifier(port.name)}, {shape})" for port, shape in zip(ports, shapes, strict=True))
    return ",".join(f"\n        {view}" for view in views)


def _parameters(manifest: Manifest) -> str:
    unused = "" if axes_of(manifest.inputs) else "[[maybe_unused]] "
    parameters = [f"{unused}const Axes& axes"]
    parameters += [f"Span<const {TYPES[p.dtype]}> {identifier(p.name)}" for p in manifest.inputs]
    parameters += [f"Span<{TYPES[p.dtype]}> {identifier(p.name)}" for p in manifest.outputs]
    return ",\n      ".join([*parameters, "Memory memory = Memory::host"])


def _range(port: Port) -> str:
    """Return which numbers go in, where that is known: integers below an end, or any from one to another."""
    values = port.carries
    if bounds := bounds_of(port):
        return f" in {bounds[0]:g}..{bounds[1]:g}"
    if isinstance(values, Start) and values.among:
        end = f" < {values.end}" if values.end else ""
        return f"{end}, all positions that count from it among {values.among}"
    if isinstance(values, Values) and "int" in port.dtype and values.low is not None and values.high is not None:
        return f" in {int(values.low)}..{int(values.high)}"
    return f" < {_end(port)}" if _end(port) else ""


def _documented(manifest: Manifest) -> str:
    over = {name: manifest.inputs[index].name for name, index in in_place(manifest).items()}
    lines = [f"in   {port}" + _range(port) for port in manifest.inputs]
    lines += [
        f"out  {port}" + (f", also in the place of {over[port.name]}" if port.name in over else "")
        for port in manifest.outputs
    ]
    return "\n".join(f"  ///   {line}" for line in lines)
