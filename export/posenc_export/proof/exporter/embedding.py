"""`--cpp`: the C++ class of a bundle, which depends on its manifest and on how its graph uses the memory of a call."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial

from posenc_export.bundle.folder import Bundle, file_of
from posenc_export.proof.exporter.keeping import kept_calls
from posenc_export.write.cpp.decoders import part_name
from posenc_export.write.cpp.embed import write_cpp
from posenc_export.write.cpp.names import default_name
from posenc_export.write.cpp.uses import Uses, in_place
from posenc_export.write.formats.onnx import read_onnx
from posenc_export.write.formats.onnx.memory import caches_in_place, may_replace, unread


def embedded(bundle: Bundle, name: str = "", kept: AbstractSet[str] | None = None) -> Bundle:
    """Write the folder `cpp` into a bundle and into those of its parts; return it with all files listed."""
    files = {file.file for file in bundle.manifest.files}
    for part in bundle.parts():
        write_cpp(
            part, uses_of(part), part_name(name or default_name(bundle.folder), part.folder.name), kept_calls(part)
        )
        files |= {path.relative_to(bundle.folder).as_posix() for path in part.folder.rglob("*") if path.is_file()}
    listed = tuple(file_of(bundle.folder, bundle.folder / file) for file in sorted(files))
    bundle = replace(bundle, manifest=replace(bundle.manifest, files=listed)) if bundle.manifest.parts else bundle
    return write_cpp(bundle, uses_of(bundle), name, kept)


def uses_of(bundle: Bundle) -> Uses:
    """Return how a class may use the memory of a call.

    ONNX Runtime works on the memory that it is given, so that the graph decides. libtorch gets zeros for inputs whose
    values the module does not read, and its outputs are copied to their places once all are there.
    """
    manifest, artifact = bundle.manifest, bundle.manifest.artifact("onnx")
    ignored = frozenset(manifest.unread)
    if artifact is None:
        return Uses(ignored, in_place(manifest.inputs, manifest.outputs, lambda *_: True))
    graph = read_onnx(bundle.path(artifact))
    replaces = in_place(manifest.inputs, manifest.outputs, partial(may_replace, graph))
    return Uses(ignored & unread(graph), replaces, caches_in_place(graph))
