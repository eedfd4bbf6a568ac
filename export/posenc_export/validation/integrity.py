"""Whether the files of a bundle are those that its manifest lists."""

from __future__ import annotations

from pathlib import Path

from posenc_export.bundle.folder import Bundle, sha256
from posenc_export.bundle.manifest import Artifact, File
from posenc_export.formats.onnx.operators import REQUIRED_OPERATORS
from posenc_export.validation.verdict import Verdict


def integrity(bundle: Bundle, artifact: Artifact) -> Verdict:
    """Compare a file with the size and the SHA-256 that the manifest gives, and what is listed of an ONNX file too."""
    beside = [f for f in bundle.manifest.files if artifact.format == "onnx" and f.file == REQUIRED_OPERATORS]
    listed: list[Artifact | File] = [artifact, *beside]
    wrong = next(filter(None, (_changed(bundle.folder, one) for one in listed)), "")
    return Verdict(artifact.format, "integrity", "fail" if wrong else "pass", wrong)


def _changed(folder: Path, file: Artifact | File) -> str:
    """Return how a file is not the one that the manifest lists, in words, or nothing."""
    path = folder / file.file
    if path.is_symlink() or not path.is_file():
        return f"{file.file}, which the manifest lists, is no file of the bundle"
    if path.stat().st_size != file.bytes:
        return f"{file.file} has {path.stat().st_size} bytes, the manifest says {file.bytes}"
    return "" if sha256(path) == file.sha256 else f"{file.file} is not the file that was exported"
