"""Whether the files of a bundle are those that its manifest lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from posenc_export.bundle.folder import Bundle, sha256
from posenc_export.bundle.golden import GOLDEN
from posenc_export.bundle.identity import ID, id_of
from posenc_export.bundle.manifest import Artifact, File
from posenc_export.errors import BadInput, check_machine
from posenc_export.formats import FORMATS
from posenc_export.formats.onnx.operators import REQUIRED_OPERATORS
from posenc_export.validation.judging.verdict import Verdict

OTHERS = "other files"
"""What a report calls the files that a manifest lists beside graphs and golden data."""
UNKNOWN = "this posenc-export does not know the format"


def integrity(bundle: Bundle, artifact: Artifact) -> Verdict:
    """Compare a file with the size and the SHA-256 that the manifest gives, and what is listed of an ONNX file too.

    A file that is as listed must say that it is the graph which the manifest says it is, if it says so at all.
    """
    beside = [f for f in bundle.manifest.files if artifact.format == "onnx" and f.file == REQUIRED_OPERATORS]
    verdict = _verdict(bundle, artifact.format, [artifact, *beside])
    other = "" if verdict.status == "fail" else _other_graph(bundle, artifact)
    return replace(verdict, status="fail", detail=other) if other else verdict


def integrity_beside(bundle: Bundle) -> list[Verdict]:
    """Compare every other file that the manifest lists in the same way: a row for golden data, one for the rest."""
    golden = [file for file in bundle.manifest.files if file.file == GOLDEN]
    of_onnx = REQUIRED_OPERATORS if bundle.manifest.artifact("onnx") else GOLDEN
    others = [file for file in bundle.manifest.files if file.file not in (GOLDEN, of_onnx)]
    return [_verdict(bundle, GOLDEN, golden), *([_verdict(bundle, OTHERS, others)] if others else [])]


def integrity_of_all(bundle: Bundle) -> list[Verdict]:
    """Compare every file that the manifest lists, in the rows of a report."""
    return [*(integrity(bundle, artifact) for artifact in bundle.manifest.artifacts), *integrity_beside(bundle)]


def without_golden(verdicts: Iterable[Verdict]) -> str:
    """Return why nothing can be held against the golden data, or nothing: moved references are no runtime's fault."""
    moved = (verdict.detail for verdict in verdicts if verdict.subject == GOLDEN and verdict.status == "fail")
    return next((f"nothing to compare with: {detail}" for detail in moved), "")


def is_known(format_: str) -> bool:
    """Return whether a format, or that whose weights it is, is one that can be checked and run."""
    return format_.removesuffix(".data") in FORMATS


def check_known(formats: Sequence[str]) -> None:
    """Raise BadInput where a bundle holds nothing but files of formats that nobody here can look into."""
    if not any(format_ in FORMATS for format_ in formats):
        raise BadInput(
            f"the bundle holds no graph of a known format, only {', '.join(formats[:3])}"
            f"{', ...' if len(formats) > 3 else ''}: expected one or more of {', '.join(FORMATS)}"
        )


def _verdict(bundle: Bundle, subject: str, files: Sequence[Artifact | File]) -> Verdict:
    wrong = next(filter(None, (_changed(bundle.folder, file) for file in files)), "")
    return Verdict(subject, "integrity", "fail" if wrong else "pass", wrong)


def _changed(folder: Path, file: Artifact | File) -> str:
    """Return how a file is not the one that the manifest lists, in words, or nothing."""
    try:
        return _difference(folder, file)
    except OSError as error:  # a name that is too long, a file that may not be read
        check_machine(error)
        return f"{file.file} cannot be read: {error.strerror}"


def _difference(folder: Path, file: Artifact | File) -> str:
    path = folder / file.file
    if _is_linked(folder, path) or not path.is_file():
        return f"{file.file}, which the manifest lists, is no file of the bundle"
    if path.stat().st_size != file.bytes:
        return f"{file.file} has {path.stat().st_size} bytes, the manifest says {file.bytes}"
    return "" if sha256(path) == file.sha256 else f"{file.file} is not the file that was exported"


def _other_graph(bundle: Bundle, artifact: Artifact) -> str:
    """Return how a file says that it is of another export than the manifest, in words, or nothing."""
    manifest = bundle.manifest
    if manifest.id and manifest.facts and id_of(manifest.facts) != manifest.id:
        return "the id in the manifest is not the digest of its facts"
    if not manifest.id or artifact.format not in FORMATS:
        return ""
    said = FORMATS[artifact.format].stamped(bundle.path(artifact), ID)
    if said in ("", manifest.id):
        return ""
    return f"{artifact.file} is another graph: its {ID} is {said[:64]!r}, the manifest says {manifest.id!r}"


def _is_linked(folder: Path, path: Path) -> bool:
    """Return whether a file, or a folder of the bundle on the way to it, is a link."""
    return any(part.is_symlink() for part in (path, *path.parents) if part.is_relative_to(folder) and part != folder)
