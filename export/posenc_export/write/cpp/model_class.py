"""NAME.hpp: the class posenc::NAME::Model, whose `run` names, types and checks every tensor of the graph."""

from __future__ import annotations

import hashlib
import json
import textwrap

from posenc.ports import Axis, Port, axes_of
from posenc_export.bundle.carries import keys_axis, kind_of, limits_of
from posenc_export.bundle.manifest import Manifest
from posenc_export.bundle.rules import rules_of
from posenc_export.write.cpp import BUNDLE_TEMPLATES, filled
from posenc_export.write.cpp.arguments import all_sizes, documented, gives_arrays, parameters, views
from posenc_export.write.cpp.decoders import decoder_ports
from posenc_export.write.cpp.names import braced, dtype_constant, identifier, literal, quoted, sizes, spelled
from posenc_export.write.cpp.scene_class import Scene, scene_classes
from posenc_export.write.cpp.uses import Uses


def model_header(manifest: Manifest, name: str, uses: Uses, scene: Scene | None = None) -> str:
    """Return the text of NAME.hpp.

    Args:
        manifest: What the graph is.
        name: The name of the class's namespace.
        uses: How the class uses the memory of a call.
        scene: The other graphs of a model that sees or hears, of whose decoder the class is.
    """
    # An inline namespace named by the text's digest keeps the classes of two bundles with the same name apart.
    digest = hashlib.sha256(_header(manifest, name, uses, "", scene).encode()).hexdigest()[:12]
    return _header(manifest, name, uses, f"graph_{digest}", scene)


def title(manifest: Manifest, comment: str = "//") -> str:
    """Return the description of a bundle, as lines of a comment."""
    params = ", ".join(f"{name}={json.dumps(value)}" for name, value in manifest.params.items() if value is not None)
    what = "a whole model" if manifest.is_whole else manifest.mode
    text = f"{manifest.scheme} ({params}), {what}, up to {manifest.max_len} positions tried."
    return f"\n{comment} ".join(textwrap.wrap(text, 116, break_on_hyphens=False))


def _header(manifest: Manifest, name: str, uses: Uses, digest: str, scene: Scene | None) -> str:
    arrays = "_arrays" if gives_arrays(manifest.inputs, manifest.outputs) else ""
    spans = (*uses.fed(manifest.inputs), *(() if arrays else manifest.outputs))
    ports = (*manifest.inputs, *(() if arrays else manifest.outputs))
    call = {
        "parameters": parameters(manifest, uses),
        "arguments": ", ".join(["axes", *(identifier(port.name) for port in spans)]),
        "documented": documented(manifest.inputs, uses) + "\n" + _documented_outputs(manifest, uses),
        "among": _among(manifest),
        "size_count": sum(len(port.axes) for port in ports),
        "all_sizes": all_sizes(ports),
        "input_count": len(manifest.inputs),
        "input_views": views(manifest.inputs, 0, uses),
        "output_count": len(manifest.outputs),
        "output_views": views(manifest.outputs, sum(len(port.axes) for port in manifest.inputs), uses),
    }
    return filled(
        "model.hpp",
        BUNDLE_TEMPLATES,
        title=title(manifest),
        includes=_includes(manifest, scene),
        decoder=_decoder(manifest, uses),
        scene="" if scene is None else scene_classes(manifest, uses, scene),
        name=name,
        digest=digest,
        axes=_axes(axes_of(manifest.inputs)),
        limits="".join(f"\n{limit}" for port in uses.fed(manifest.inputs) if (limit := _limit(port))),
        sizes="".join(map(_size_function, spans)).rstrip(),
        run=filled(f"run{arrays}.hpp", BUNDLE_TEMPLATES, **call),
        throwing=filled(f"run{arrays}_throwing.hpp", BUNDLE_TEMPLATES, **call),
        input_ports=_ports([_input(port, manifest, uses) for port in manifest.inputs]),
        output_ports=_ports([_output(port, uses) for port in manifest.outputs]),
        fact_count=len(_facts(manifest)),
        facts="".join(f"      {braced(literal(name), literal(text))},\n" for name, text in _facts(manifest)),
    )


def _includes(manifest: Manifest, scene: Scene | None) -> str:
    """Return the lines that include what a class needs beside its session."""
    files = [] if scene is None else [f"{name}.hpp" for name in scene.names]
    decodes = ["posenc/decoder.hpp"] if manifest.generations else []
    return "".join(f'#include "{file}"\n' for file in (*files, *decodes))


def _facts(manifest: Manifest) -> list[tuple[str, str]]:
    """Return the metadata that the file of the graph must have: its id, then the facts of the id."""
    return [("id", manifest.id), *manifest.facts.items()]


def _axes(axes: list[Axis]) -> str:
    fields = "".join(filled("axis.hpp", BUNDLE_TEMPLATES, axis=identifier(axis.name)) for axis in axes)
    setters = (filled("axis_setter.hpp", BUNDLE_TEMPLATES, name=a.name, axis=identifier(a.name)) for a in axes)
    return fields + "".join(f"\n{setter}" for setter in setters)


def _size_function(port: Port) -> str:
    unused = "" if port.dynamic else "[[maybe_unused]] "
    shape = braced(f"{braced(sizes(port))}") if port.axes else "{}"
    return filled(
        "size_function.hpp", BUNDLE_TEMPLATES, port=spelled(port.name), unused=unused, rank=len(port.axes), shape=shape
    )


def _limit(port: Port) -> str:
    """Return the constants that bound the elements of an input; nothing if there are none, or each call has its own."""
    limits = limits_of(port)
    if limits.bounds:
        low, high = limits.bounds
        return filled("number_limit.hpp", BUNDLE_TEMPLATES, port=spelled(port.name), least=low, most=high)
    return filled("limit.hpp", BUNDLE_TEMPLATES, port=spelled(port.name), end=limits.end) if limits.end else ""


def _decoder(manifest: Manifest, uses: Uses) -> str:
    """Return the function that gives a decoder, of a causal language model; nothing for other graphs.

    The decoder of a model that sees or hears reads embeddings: its class gives no decoder by itself.
    """
    if not manifest.generations or manifest.places is not None:
        return ""
    ports = decoder_ports(manifest.inputs, manifest.outputs, uses.caches)
    return filled("decoder.hpp", BUNDLE_TEMPLATES, ports=ports)


def _among(manifest: Manifest) -> str:
    """Return what refuses more queries than keys where queries are the last of the keys; nothing for other graphs.

    Where a start says which of the keys the first query is, its limit refuses them.
    """
    axes = [axis for axis in axes_of(manifest.inputs) if axis.kind == "length" and not axis.is_formula]
    counted = manifest.positions == "implicit" and rules_of(manifest.family).registered
    if not counted or len(axes) != 2:
        return ""
    queries, keys = (identifier(axis.name) for axis in axes)
    return filled("among.hpp", BUNDLE_TEMPLATES, queries=queries, keys=keys)


def _ports(ports: list[str]) -> str:
    return "".join(f"    {port};\n" for port in ports)


def _port(port: Port, *more: object) -> str:
    # {name, fixed size, largest size}, with an empty name or 0 for what an axis lacks
    axes = (braced(quoted(a.name if a.is_dynamic else ""), a.size or 0, a.most or 0) for a in port.axes)
    words = ("ports_", quoted(port.name), dtype_constant(port), braced(*axes), *more)
    return f"add_port({', '.join(map(str, words))})"


def _input(port: Port, manifest: Manifest, uses: Uses) -> str:
    if port.name in uses.unread:
        return f"{_port(port)};\n    ports_.back().unread = true"
    limits, follows = limits_of(port), quoted(_counted(manifest) if kind_of(port.carries).is_first else "")
    own_ends = [quoted(""), braced(*limits.ends)] if limits.ends else []
    added = _port(port, *([limits.end, follows, *own_ends] if limits.end else []))
    if limits.among:
        added += f";\n    limit_start(ports_, {follows}, {quoted(limits.among)})"
    if limits.bounds:
        added += ";\n    limit_numbers(ports_, {!r}, {!r})".format(*limits.bounds)
    return added


def _counted(manifest: Manifest) -> str:
    """Return the axis along which positions run, apart from keys; nothing unless there is exactly one."""
    lengths = {port.axes[i].name for port in manifest.inputs for i in port.lengths if port.axes[i].is_dynamic}
    lengths -= {keys_axis(manifest.inputs)}  # keys are counted from 0, not from the start
    return lengths.pop() if len(lengths) == 1 else ""


def _output(port: Port, uses: Uses) -> str:
    over = uses.replaces.get(port.name) or uses.caches.get(port.name)
    return _port(port) if over is None else _port(port, 0, quoted(""), quoted(over))


def _documented_outputs(manifest: Manifest, uses: Uses) -> str:
    """Return what a comment says of each output."""
    lines = []
    for port in manifest.outputs:
        over = uses.replaces.get(port.name)
        lines.append(f"out  {port}" + (f", also in the place of {over}" if over else ""))
    return "\n".join(f"  ///   {line}" for line in lines)
