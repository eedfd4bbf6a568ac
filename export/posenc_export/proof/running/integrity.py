"""Whether the files of a bundle are those that its manifest lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from posenc.paths import check_path
from posenc_export.bundle.folder import Bundle, sha256
from posenc_export.bundle.golden import GOLDEN
from posenc_export.bundle.identity import ID, id_of
from posenc_export.bundle.manifest import Artifact, File
from posenc_export.common.errors import BadInput, check_machine
from posenc_export.proof.judging.verdict import Verdict
from posenc_export.write.formats import FORMATS
from posenc_export.write.formats.onnx.operators import REQUIRED_OPERATORS

OTHERS = "other files"
"""The subject of the row on files that are neither graphs nor golden data."""
UNKNOWN = "this posenc-export does not know the format"


def integrity(bundle: Bundle, artifact: Artifact) -> list[Verdict]:
    """Return the row that compares a graph, and the list of an ONNX file's operators, with the manifest's digests.

    A file that names the graph it is must name the manifest's.
    """
    beside = [f for f in bundle.manifest.files if artifact.format == "onnx" and f.file == REQUIRED_OPERATORS]
    wrong = _first_change(bundle.graphs, [artifact]) or _first_change(bundle.folder, beside)
    wrong = wrong or _other_graph(bundle, artifact)
    return [_row(artifact.format, wrong)]


def integrity_beside(bundle: Bundle) -> list[Verdict]:
    """Return the rows that compare the files beside graphs with the manifest's digests: golden data, then others."""
    golden = [file for file in bundle.manifest.files if file.file == GOLDEN]
    of_onnx = REQUIRED_OPERATORS if bundle.manifest.artifact("onnx") else GOLDEN
    others = [file for file in bundle.manifest.files if file.file not in (GOLDEN, of_onnx)]
    parts = {GOLDEN: golden} | ({OTHERS: others} if others else {})
    return [_row(subject, _first_change(bundle.folder, files)) for subject, files in parts.items()]


def integrity_of_all(bundle: Bundle) -> list[Verdict]:
    """Return the rows that compare every file with the manifest's digests."""
    rows = [row for artifact in bundle.manifest.artifacts for row in integrity(bundle, artifact)]
    return [*rows, *integrity_beside(bundle)]


def without_golden(verdicts: Iterable[Verdict]) -> str:
    """Return why nothing can be compared with the golden data, or nothing: changed data are not a runtime's fault."""
    changed = (verdict.detail for verdict in verdicts if verdict.subject == GOLDEN and verdict.status == "fail")
    return next((f"nothing to compare with: {detail}" for detail in changed), "")


def is_known(format_: str) -> bool:
    """Return whether files of a format can be checked and run; the weights beside a graph count as its format."""
    return format_.removesuffix(".data") in FORMATS


def check_known(formats: Sequence[str]) -> None:
    """Raise BadInput where a bundle has files of unknown formats alone."""
    if not any(format_ in FORMATS for format_ in formats):
        raise BadInput(
            f"the bundle holds no graph of a known format, only {', '.join(formats[:3])}"
            f"{', ...' if len(formats) > 3 else ''}: expected one or more of {', '.join(FORMATS)}"
        )


def _row(subject: str, wrong: str) -> Verdict:
    return Verdict(subject, "integrity", "fail" if wrong else "pass", wrong)


def _first_change(folder: Path, files: Sequence[Artifact | File]) -> str:
    """Return, in words, which file is not the one that the manifest lists, or nothing."""
    return next(filter(None, (_changed(folder, file) for file in files)), "")


def _changed(folder: Path, file: Artifact | File) -> str:
    """Return, in words, how a file differs from the one that the manifest lists, or nothing."""
    try:
        return _difference(folder, file)
    except OSError as error:  # a name that is too long, a file that may not be read
        check_machine(error)
        return f"{file.file} cannot be read: {error.strerror}"


def _difference(folder: Path, file: Artifact | File) -> str:
    path = folder / file.file
    check_path(path)
    if _is_linked(folder, path) or not path.is_file():
        return f"{file.file}, which the manifest lists, is no file of the bundle"
    if path.stat().st_size != file.bytes:
        return f"{file.file} has {path.stat().st_size} bytes, the manifest says {file.bytes}"
    return "" if sha256(path) == file.sha256 else f"{file.file} is not the file that was exported"


def _other_graph(bundle: Bundle, artifact: Artifact) -> str:
    """Return, in words, that a file names another graph than the manifest, or nothing."""
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
