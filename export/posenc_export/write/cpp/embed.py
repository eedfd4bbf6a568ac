"""`--cpp`: the folder of a bundle for C++ programs: a class made for its graph, an example, a replay of golden cases.

The class is posenc::NAME::Model of include/NAME.hpp, and posenc::NAME the target that CMake links.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path

import numpy as np

from posenc import __version__
from posenc.ports import Array, Port, axes_of
from posenc_export.bundle.decoders import memory_ports
from posenc_export.bundle.folder import MANIFEST, Bundle, file_of, write_json
from posenc_export.bundle.golden import GOLDEN, REFERENCE
from posenc_export.common.errors import BadInput
from posenc_export.write.cpp import BUNDLE_TEMPLATES, FOLDER, filled
from posenc_export.write.cpp.arguments import unknown_axes
from posenc_export.write.cpp.decoders import generation_source, writes_in_cpp
from posenc_export.write.cpp.example import example
from posenc_export.write.cpp.golden_cases import golden_source
from posenc_export.write.cpp.model_class import model_header, title
from posenc_export.write.cpp.names import default_name, identifier
from posenc_export.write.cpp.scene_class import scene_of
from posenc_export.write.cpp.scene_programs import Seen, golden_pictures, scene_programs
from posenc_export.write.cpp.uses import Uses

NAME = "cpp"
SESSION_VERSION = 4
"""The version in session/include/posenc/version.hpp: bundles share a session."""
OF_LIBTORCH = ("torchscript", "aoti")
"""Formats that libtorch loads: the class takes the first that a bundle has."""


def check_embeddable(inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> None:
    """Raise BadInput if inputs do not determine the size of what a decoder gives, or if two names are the same in C++.

    The class of another graph than a decoder gives arrays where outputs have sizes of their own.
    """
    known = [axis.name for axis in axes_of(inputs)]
    for port, name in unknown_axes(inputs, outputs) if memory_ports(inputs) else ():
        raise BadInput(f"--cpp needs outputs as long as inputs are: {port} has {name!r}, which no input has")
    # Ports are variables, axes members and `with_` functions of Axes: two sets of names.
    for names in ([p.name for p in (*inputs, *outputs)], [*known, *(f"with_{name}" for name in known)]):
        identifiers = [identifier(name) for name in names]
        twice = next((name for name in identifiers if identifiers.count(name) > 1), None)
        if twice is not None:
            raise BadInput(f"--cpp cannot tell two inputs, outputs or axes apart that it calls {twice!r}: rename one")


def write_cpp(
    bundle: Bundle,
    uses: Uses,
    name: str = "",
    kept: AbstractSet[str] | None = None,
    seen: Seen | None = None,
) -> Bundle:
    """Write the folder `cpp` into a bundle, from its manifest and its golden data; return the bundle that lists it.

    Args:
        bundle: The bundle.
        uses: How the class uses the memory of a call.
        name: The name of the class's namespace, file and target; by default that of the bundle's folder.
        kept: The calls that the test replays, of the manifest's; by default all.
        seen: Of a model that sees or hears, what its tower is given in the test; nothing else is tried without.

    """
    folder, manifest = bundle.folder / NAME, bundle.manifest
    # hard rows are allowed to be off by other shares in each element, which the test has no room for
    cases = tuple(case for case in manifest.cases if not case.hard and (kept is None or case.name in kept))
    name = name or default_name(bundle.folder)
    check_embeddable(manifest.inputs, manifest.outputs)
    shutil.copytree(FOLDER / "bundle", folder)
    shutil.copytree(FOLDER / "session", folder / "session")
    with np.load(bundle.folder / GOLDEN, allow_pickle=False) as golden:
        replayed = {case.name for case in cases if not case.unlike}
        arrays = {key: golden[key] for key in golden.files if _is_replayed(key, replayed, uses)}
    (folder / "include").mkdir()
    facts = {"name": name, "title": title(manifest, "#"), "version": __version__, "session": SESSION_VERSION}
    written = [manifest.artifact(name) for name in ("onnx", *OF_LIBTORCH)]
    above = "../" if bundle.part else ""  # the graph of a part lies in the bundle that it is a part of
    facts["onnx"] = above + (written[0].file if written[0] else "model.onnx")
    facts["torch"] = above + next((graph.file for graph in written[1:] if graph), "model.pt")
    scene = scene_of(bundle, name, seen.uses if seen else Uses())
    facts["parts"] = " ".join(part.bundle.folder.name for part in scene.parts) if scene else ""
    texts = {
        "CMakeLists.txt": filled("CMakeLists.txt", BUNDLE_TEMPLATES, **facts),
        f"include/{name}.hpp": model_header(manifest, name, uses, scene),
        "example.cpp": example(manifest, name, uses),
        "test/cases.hpp": filled("cases.hpp", BUNDLE_TEMPLATES, name=name),
        "test/golden.cpp": golden_source(replace(manifest, cases=cases), arrays, uses),
    }
    encoder = bundle.encoder()
    if scene is not None:
        seen = seen or Seen()
        texts |= scene_programs(manifest, name, scene, seen, bundle.folder)
        shutil.copy(FOLDER / "scene" / "pictures.hpp", folder)
        arrays |= golden_pictures(seen)
    elif manifest.generations and (encoder is None or writes_in_cpp(encoder.manifest)):
        texts["test/generation.cpp"] = generation_source(manifest, name, encoder)
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    _write_arrays(folder / "golden", arrays)
    for port, array in next(filter(None, seen.feeds.values()), {}).items() if seen else ():
        np.save(folder / "golden" / f"{port}.npy", array)  # for the example
    files = tuple(file_of(bundle.folder, path) for path in sorted(folder.rglob("*")) if path.is_file())
    manifest = replace(manifest, files=(*manifest.files, *files))
    write_json(bundle.folder / MANIFEST, manifest.to_json())
    return replace(bundle, manifest=manifest)


def _is_replayed(key: str, replayed: AbstractSet[str], uses: Uses) -> bool:
    """Whether an array of the golden data is an input or an output of a call of the class."""
    case, _, port = key.partition("/")  # CASE/PORT, CASE/PORT.rows, CASE/OUTPUT.reference
    return case in replayed and port.partition(".")[0] not in uses.unread and not port.endswith(REFERENCE)


def _write_arrays(folder: Path, arrays: Mapping[str, Array]) -> None:
    """Write each array's bytes, row by row: CASE.PORT.bin, and CASE.PORT.rows.bin where only some rows are stored."""
    folder.mkdir()
    for key, array in arrays.items():
        (folder / f"{key.replace('/', '.')}.bin").write_bytes(np.ascontiguousarray(array).tobytes())
