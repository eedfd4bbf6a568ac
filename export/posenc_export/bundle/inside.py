"""Whether the files of a bundle lie in the bundle itself: a manifest from elsewhere may name any path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from posenc.paths import check_path
from posenc_export.bundle.manifest import Artifact, Manifest
from posenc_export.common.errors import BadInput, check_machine, first_line

if TYPE_CHECKING:
    from google.protobuf.message import Message  # type: ignore[import-untyped]
    from onnx import ModelProto

FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""Names of files in a manifest: without folders, so that no link of a folder can lead outside."""


def check_artifact(folder: Path, artifact: Artifact) -> None:
    """Raise BadInput if an artifact is not a plain file in the bundle's own folder."""
    name = artifact.file
    if not isinstance(name, str) or not FILE.fullmatch(name) or (folder / name).is_symlink():
        raise BadInput(f"the manifest names {name!r}, which is not a file of the bundle itself")
    if not (folder / name).is_file():
        raise BadInput(f"the bundle has no {name}, which its manifest names")
    if artifact.format == "onnx" and not name.endswith(".onnx"):  # runtimes go by the suffix: .ort is another format
        raise BadInput(f"the manifest names {name!r} as ONNX: expected a name that ends in .onnx")


def check_listed(manifest: Manifest, name: str) -> None:
    """Raise BadInput if a manifest does not list a file whose digest is stored nowhere else."""
    if name not in {file.file for file in manifest.files}:
        raise BadInput(
            f"manifest.json: files must list {name}, which outputs are compared with: export the bundle again"
        )


def check_no_link(path: Path) -> None:
    """Raise BadInput if a file of a bundle is a link, which may lead outside the bundle."""
    try:
        check_path(path)
        is_link = path.is_symlink()
    except OSError as error:  # a name that is too long, a loop of links
        raise BadInput(f"cannot open {path}: {error.strerror}") from error
    if is_link:
        raise BadInput(f"{path} is a link: expected a file of the bundle itself; put a copy there")


def check_external_data(folder: Path, artifacts: Sequence[Artifact]) -> None:
    """Raise BadInput if an ONNX file takes its weights from a file that is not an artifact, or cannot be read."""
    files = {artifact.file for artifact in artifacts}
    for artifact in (artifact for artifact in artifacts if artifact.format == "onnx"):
        path = folder / artifact.file
        if path.stat().st_size != artifact.bytes:
            continue  # the integrity check says so, and nothing loads it
        outside = next((place for place in _locations_in(path) if place not in files), None)
        if outside is not None:
            raise BadInput(f"{path.name} takes weights from {outside!r}, which is not a file that the manifest lists")


def data_files(path: Path) -> list[Path]:
    """Return the files that the tensors of an ONNX file lie in; none where it cannot be read."""
    try:
        return [path.parent / place for place in dict.fromkeys(_locations_in(path))]
    except BadInput:
        return []


def _locations_in(path: Path) -> Iterator[str]:
    """Yield the locations of the external tensors of an ONNX file; raise BadInput where it cannot be read."""
    import onnx

    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # no runtime may get it: a more tolerant parser might read it
        check_machine(error)
        raise BadInput(f"cannot load {path.name}: it is not an ONNX file: {first_line(error)}") from error
    yield from locations(model)


def locations(model: ModelProto) -> Iterator[str]:
    """Yield the locations of a model's external tensors, in whatever part of it they are declared."""
    messages: list[Message] = [model]
    while messages:  # graphs lie in attributes of nodes and in functions too
        message = messages.pop()
        yield from (entry.value for entry in getattr(message, "external_data", ()) if entry.key == "location")
        for field, value in message.ListFields():
            if field.message_type is not None:
                messages += value if hasattr(value, "__len__") else [value]
