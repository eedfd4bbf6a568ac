"""onnxruntime-web as visitors' browsers load it: which files of the npm package, its version, its licence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from posenc_export.common.errors import BadInput, Unavailable
from posenc_export.proof.runtimes import Missing
from posenc_export.proof.runtimes.npm import package
from posenc_export.proof.runtimes.onnxruntime_web import PACKAGE, TRIED

DIST = "dist"
BUILDS: Mapping[str, tuple[str, ...]] = {
    "wasm": ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"),
    "webgpu": (
        "ort.webgpu.min.mjs",
        "ort-wasm-simd-threaded.asyncify.mjs",
        "ort-wasm-simd-threaded.asyncify.wasm",
    ),
}
"""What a browser loads of each build, from the folder `dist` of the package; web/session.mjs names the first."""
MOST = 2**16
"""Bytes of package.json that are read: it has a few thousand."""


@dataclass(frozen=True)
class Library:
    """An npm package onnxruntime-web.

    Args:
        folder: The package.
        version: Its version, as its package.json says.
        licence: The name of its licence, as its package.json says.
    """

    folder: Path
    version: str
    licence: str

    def file(self, name: str) -> Path:
        """Return a file that browsers load."""
        return self.folder / DIST / name

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all files that browsers load."""
        return tuple(name for names in BUILDS.values() for name in names)


def find_library(chosen: Path | None) -> Library:
    """Return the package in a chosen folder, or in NODE_PATH.

    Raises BadInput where the chosen folder is none, Unavailable where nothing is chosen and NODE_PATH has none.
    """
    folder = _installed() if chosen is None else chosen
    try:
        # a folder that somebody names may hold anything under this name
        text = (folder / "package.json").read_bytes()[:MOST]
        said = json.loads(text)
    except (OSError, ValueError):
        said = {}
    if not isinstance(said, dict) or said.get("name") != PACKAGE:
        raise BadInput(f"{folder} is not the npm package {PACKAGE}: expected its folder, with {PACKAGE}'s package.json")
    library = Library(folder, str(said.get("version", "unknown")), str(said.get("license", "unknown")))
    # now, in one line, instead of a page whose button fails
    absent = next((name for name in library.files if not library.file(name).is_file()), None)
    if absent is not None:
        todo = f"install {PACKAGE} {TRIED}, which tests run"
        raise BadInput(f"{folder} is {PACKAGE} {library.version}, without {DIST}/{absent}: {todo}")
    return library


def _installed() -> Path:
    try:
        return package(PACKAGE, TRIED)
    except Missing as missing:
        raise Unavailable(f"{missing}; or give its folder with --ort-web") from missing
