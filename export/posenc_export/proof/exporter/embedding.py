"""`--cpp`: the C++ class of a bundle, which depends on its manifest and on how its graph uses the memory of a call."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from itertools import chain

from posenc.ports import Feeds
from posenc_export.bundle.folder import Bundle, file_of
from posenc_export.proof.exporter.keeping import LARGEST, kept_calls
from posenc_export.proof.scenes import pictures_of
from posenc_export.write.cpp.decoders import part_name
from posenc_export.write.cpp.embed import write_cpp
from posenc_export.write.cpp.names import default_name
from posenc_export.write.cpp.scene_programs import Seen
from posenc_export.write.cpp.uses import Uses, in_place
from posenc_export.write.formats.onnx import read_onnx
from posenc_export.write.formats.onnx.memory import caches_in_place, may_replace, unread


def embedded(bundle: Bundle, name: str = "", kept: AbstractSet[str] | None = None) -> Bundle:
    """Write the folder `cpp` into a bundle and into those of its parts; return it with all files listed."""
    files = {file.file for file in bundle.manifest.files}
    seen = _seen(bundle)
    for part in bundle.parts():
        write_cpp(
            part, uses_of(part), part_name(name or default_name(bundle.folder), part.folder.name), kept_calls(part)
        )
        files |= {path.relative_to(bundle.folder).as_posix() for path in part.folder.rglob("*") if path.is_file()}
    listed = tuple(file_of(bundle.folder, bundle.folder / file) for file in sorted(files))
    bundle = replace(bundle, manifest=replace(bundle.manifest, files=listed)) if bundle.manifest.parts else bundle
    return write_cpp(bundle, uses_of(bundle), name, kept, seen)


def _seen(bundle: Bundle) -> Seen | None:
    """Return what the tower of a model is given in the test of its class, as far as there is room; None without one."""
    places = bundle.manifest.places
    tower = bundle.part_with(places.sense.features) if places else None
    if tower is None:
        return None
    feeds: dict[int, Feeds] = {}
    room = LARGEST
    for number, one in enumerate(bundle.manifest.generations):
        given = pictures_of(tower.manifest.inputs, list(chain.from_iterable(one.pictures)))
        size = sum(array.nbytes for array in given.values())
        if size <= room:
            feeds[number] = given
            room -= size
    return Seen(uses_of(tower), feeds)


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
