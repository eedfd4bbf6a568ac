"""`--cpp`: the folder that a C++ program takes from a bundle: a class made for its graph, an example, a replay."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from posenc.ports import Array, Port, axes_of
from posenc_export.bundle.folder import MANIFEST, Bundle, file_of, write_json
from posenc_export.bundle.golden import GOLDEN, REFERENCE
from posenc_export.cpp import FOLDER
from posenc_export.cpp.example import example
from posenc_export.cpp.golden_cases import golden_source
from posenc_export.cpp.model_class import model_header
from posenc_export.cpp.names import identifier
from posenc_export.errors import BadInput

NAME = "cpp"


def check_embeddable(inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> None:
    """Raise BadInput where no input says how large an output will be, or where two names would be one in C++."""
    known = [axis.name for axis in axes_of(inputs)]
    for port in outputs:
        lost = [name for axis in port.dynamic.values() for name in axis.terms if name not in known]
        if lost:
            raise BadInput(f"--cpp needs outputs as long as inputs are: {port} has {lost[0]!r}, which no input has")
    for names in ([p.name for p in (*inputs, *outputs)], known):
        identifiers = [identifier(name) for name in names]
        twice = next((name for name in identifiers if identifiers.count(name) > 1), None)
        if twice is not None:
            raise BadInput(f"--cpp cannot tell two inputs, outputs or axes apart that it calls {twice!r}: rename one")


def write_cpp(bundle: Bundle) -> Bundle:
    """Write the folder `cpp` into a bundle, from its manifest and its golden data; return it with them listed."""
    folder, manifest = bundle.folder / NAME, bundle.manifest
    check_embeddable(manifest.inputs, manifest.outputs)
    shutil.copytree(FOLDER / "bundle", folder)
    shutil.copytree(FOLDER / "session", folder / "session")
    with np.load(bundle.folder / GOLDEN, allow_pickle=False) as golden:
        arrays = {key: golden[key] for key in golden.files if not key.endswith(REFERENCE)}
    texts = {
        "posenc_model.hpp": model_header(manifest),
        "example.cpp": example(manifest),
        "golden.cpp": golden_source(manifest, arrays),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    _write_arrays(folder / "golden", arrays)
    files = tuple(file_of(bundle.folder, path) for path in sorted(folder.rglob("*")) if path.is_file())
    manifest = replace(manifest, files=(*manifest.files, *files))
    write_json(bundle.folder / MANIFEST, manifest.to_json())
    return replace(bundle, manifest=manifest)


def _write_arrays(folder: Path, arrays: Mapping[str, Array]) -> None:
    """Write each array's bytes, row by row: CASE.PORT.bin, and CASE.PORT.rows.bin where only some rows are stored."""
    folder.mkdir()
    for key, array in arrays.items():
        (folder / f"{key.replace('/', '.')}.bin").write_bytes(np.ascontiguousarray(array).tobytes())
