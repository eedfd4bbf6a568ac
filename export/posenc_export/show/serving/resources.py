"""What a visitor can fetch, and nothing else: each file by its path below the page, with its type."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import IO
from urllib.parse import quote

from posenc_export.bundle.folder import MANIFEST, Bundle
from posenc_export.bundle.manifest import Artifact, File
from posenc_export.show.serving.library import Library

PAGE = ""
"""The path of the page itself."""
BUNDLE, WEB, LIBRARY = "bundle/", "web/", "ort/"
"""The folders of a bundle's files, of our modules, and of onnxruntime-web."""
OTHERS = "page.mjs"
"""The module that pages of runtimes load, and the page of a bundle does not."""
TYPES = {".mjs": "text/javascript; charset=utf-8", ".json": "application/json", ".wasm": "application/wasm"}
BYTES = "application/octet-stream"
HTML = "text/html; charset=utf-8"


class Changed(Exception):
    """A file is no longer as it was when it was listed."""


@dataclass(frozen=True)
class Resource:
    """Something to fetch: text of this tool, or a file.

    Args:
        type: Its media type.
        size: How many bytes it has.
        text: What it is, where it is no file.
        folder: The folder that its file must lie in.
        name: The file, by its path in the folder, with slashes.
        sha256: The file's digest, where it is listed.
    """

    type: str
    size: int
    text: bytes = b""
    folder: Path | None = None
    name: str = ""
    sha256: str = ""

    def open(self) -> IO[bytes]:
        """Open it; raise Changed where it is no plain file of that size in its own folder any more."""
        if self.folder is None:
            raise ValueError("a text is no file")
        return opened(self.folder, self.name, self.size)


def text_resource(text: str, type_: str) -> Resource:
    """Return a text as a resource."""
    data = text.encode()
    return Resource(type_, len(data), data)


def opened(folder: Path, name: str, size: int) -> IO[bytes]:
    """Open a plain file of a known size below a folder; raise Changed where a part of its path is a link, or else."""
    path = folder
    try:
        for part in name.split("/"):
            path = path / part
            if path.is_symlink():
                raise Changed(f"{name} is a link")
        # a pipe would wait for a writer; a link that takes the file's place now is not followed either
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        file = os.fdopen(os.open(path, flags), "rb")
    except OSError as error:
        raise Changed(f"{name} cannot be opened: {error.strerror}") from error
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or status.st_size != size:
        file.close()
        raise Changed(f"{name} has {status.st_size:,} bytes, expected {size:,}")
    return file


def of_bundle(bundle: Bundle, manifest: bytes) -> Iterator[tuple[str, Resource]]:
    """Yield the manifest, as it was validated, and every file that it lists, by their paths."""
    yield f"{BUNDLE}{MANIFEST}", Resource(TYPES[".json"], len(manifest), manifest)
    listed: tuple[Artifact | File, ...] = (*bundle.manifest.artifacts, *bundle.manifest.files)
    for file in listed:
        path = f"{BUNDLE}{quote(file.file)}"  # as browsers send it: nothing is decoded here
        yield path, Resource(BYTES, file.bytes, folder=bundle.folder, name=file.file, sha256=file.sha256)


def of_library(library: Library) -> Iterator[tuple[str, Resource]]:
    """Yield the files of onnxruntime-web that browsers load, by their paths."""
    for name in library.files:
        path = library.file(name)
        type_ = TYPES.get(path.suffix, BYTES)
        yield f"{LIBRARY}{name}", Resource(type_, path.stat().st_size, folder=path.parent, name=name)


def of_modules() -> Iterator[tuple[str, Resource]]:
    """Yield our modules, by their paths."""
    for file in (files("posenc_export.proof") / "web").iterdir():
        if file.name.endswith(".mjs") and file.name != OTHERS:
            yield f"{WEB}{file.name}", text_resource(file.read_text(encoding="utf-8"), TYPES[".mjs"])


def resources_of(bundle: Bundle, manifest: bytes, library: Library, page: str) -> Mapping[str, Resource]:
    """Return everything that a visitor can fetch, by its path below the page.

    Args:
        bundle: The bundle.
        manifest: The bytes of its manifest.json.
        library: onnxruntime-web.
        page: The page itself.
    """
    own = {PAGE: text_resource(page, HTML)}
    return {**own, **dict(of_modules()), **dict(of_library(library)), **dict(of_bundle(bundle, manifest))}
