"""The checked-in files of other people's exporters, unpacked to a temporary folder, each with the truth about it."""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path

from helpers.foreign.truth import Table, Truth, read_table

FOLDER = Path(__file__).parents[2] / "foreign_files"
TABLE = FOLDER / "truth.json"


@cache
def foreign_table() -> Table:
    """Return the table of truths."""
    return read_table(TABLE)


def archive_of(model: str) -> Path:
    """Return where the files of a model lie: together, since they share their weights."""
    return FOLDER / f"{model}.tar.xz"


def pack(model: str, files: Iterable[Path]) -> None:
    """Write the archive of a model, of the same bytes for the same files."""
    FOLDER.mkdir(exist_ok=True)
    with tarfile.open(archive_of(model), "w:xz", preset=9) as archive:
        for path in sorted(files):
            content = path.read_bytes()
            # a fresh record of a member has no times and no owner: the archive does not depend on the machine
            member = tarfile.TarInfo(path.name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def unpack(model: str, folder: Path, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a model that are named, with their bytes, and write them."""
    with tarfile.open(archive_of(model)) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if member.name in names and file is not None:
                content = file.read()
                (folder / member.name).write_bytes(content)
                yield member.name, content


def foreign_files(
    models: Collection[str] | None = None,
    exporters: Collection[str] | None = None,
    optimizers: Collection[str] | None = None,
    faulty: bool | None = None,
) -> Iterator[tuple[Path, Truth]]:
    """Yield each file and its truth, in the order of the table, while the folder that holds them is there.

    Args:
        models: names of the table of models; None for all.
        exporters: the same of exporters.
        optimizers: the same of optimizers; "" is none.
        faulty: faulty files alone, right ones alone, or None for both.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chosen = [
            truth
            for truth in foreign_table().truths
            if (models is None or truth.model in models)
            and (exporters is None or truth.exporter in exporters)
            and (optimizers is None or truth.optimizer in optimizers)
            and (faulty is None or bool(truth.must_find) == faulty)
        ]
        for model in dict.fromkeys(truth.model for truth in chosen):
            rows = {truth.file: truth for truth in chosen if truth.model == model}
            digests = {file: digest_of(content) for file, content in unpack(model, folder, rows)}
            for file, truth in rows.items():
                if digests.get(file) != truth.sha256:
                    raise ValueError(f"{archive_of(model)}: {file} has not the digest of {TABLE}: make them together")
                yield folder / file, truth
                # hundreds of files are read in turn: each goes when the next comes
                (folder / file).unlink(missing_ok=True)


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()
