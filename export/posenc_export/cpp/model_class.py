"""posenc_model.hpp: the class Model, whose `run` names, types and checks every tensor of the graph."""

from __future__ import annotations

import json
import textwrap

from posenc.ports import Port, axes_of
from posenc_export.bundle.manifest import Manifest
from posenc_export.cpp import BUNDLE_TEMPLATES, filled
from posenc_export.cpp.names import TYPES, braced, dtype_constant, identifier, quoted, sizes


def model_header(manifest: Manifest) -> str:
    """Return the text of posenc_model.hpp."""
    return filled(
        "posenc_model.hpp",
        BUNDLE_TEMPLATES,
        title=_title(manifest),
        axes="".join(f"    std::int64_t {identifier(axis.name)};\n" for axis in axes_of(manifest.inputs)),
        input_ports=_ports(manifest.inputs),
        output_ports=_ports(manifest.outputs),
        sizes="".join(_size_function(port) for port in (*manifest.inputs, *manifest.outputs)).rstrip(),
        documented=_documented(manifest),
        parameters=_parameters(manifest),
        input_count=len(manifest.inputs),
        input_views=_views(manifest.inputs),
        output_count=len(manifest.outputs),
        output_views=_views(manifest.outputs),
    )


def _title(manifest: Manifest) -> str:
    params = ", ".join(f"{name}={json.dumps(value)}" for name, value in manifest.params.items() if value is not None)
    text = f"{manifest.scheme} ({params}), {manifest.mode}, up to {manifest.max_len} positions tried."
    return "\n// ".join(textwrap.wrap(text, 116, break_on_hyphens=False))


def _size_function(port: Port) -> str:
    unused = "" if port.dynamic else "[[maybe_unused]] "
    return filled("size_function.hpp", BUNDLE_TEMPLATES, port=port.name, unused=unused, shape=sizes(port))


def _ports(ports: tuple[Port, ...]) -> str:
    lines = []
    for port in ports:
        axes = (braced(quoted(axis.name)) if axis.is_dynamic else braced(quoted(""), axis.size) for axis in port.axes)
        lines.append(f"Port{braced(quoted(port.name), dtype_constant(port), braced(*axes))}")
    return ",\n                  ".join(lines)


def _views(ports: tuple[Port, ...]) -> str:
    arguments = ((quoted(port.name), identifier(port.name), braced(sizes(port))) for port in ports)
    return ",".join(f"\n        posenc::view({', '.join(three)})" for three in arguments)


def _parameters(manifest: Manifest) -> str:
    unused = "" if axes_of(manifest.inputs) else "[[maybe_unused]] "
    parameters = [f"{unused}const Axes& axes"]
    parameters += [f"std::span<const {TYPES[p.dtype]}> {identifier(p.name)}" for p in manifest.inputs]
    parameters += [f"std::span<{TYPES[p.dtype]}> {identifier(p.name)}" for p in manifest.outputs]
    return ",\n           ".join([*parameters, "Memory memory = Memory::host"])


def _documented(manifest: Manifest) -> str:
    ends = {port.name: getattr(port.carries, "end", None) for port in manifest.inputs}
    lines = [f"in   {port}" + (f" < {ends[port.name]}" if ends[port.name] else "") for port in manifest.inputs]
    lines += [f"out  {port}" for port in manifest.outputs]
    return "\n".join(f"  ///   {line}" for line in lines)
