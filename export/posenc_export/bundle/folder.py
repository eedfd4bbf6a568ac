"""The output folder of an export. Written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from posenc_export.bundle.case import GoldenCase
from posenc_export.bundle.golden import GOLDEN, read_golden
from posenc_export.bundle.manifest import Artifact, Manifest
from posenc_export.errors import BadInput

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Bundle:
    """A bundle on disk."""

    folder: Path
    manifest: Manifest

    @classmethod
    def open(cls, folder: Path) -> Bundle:
        """Open a bundle; raise BadInput, in one line, where it is none, or names files outside itself."""
        path = folder / MANIFEST
        if not path.is_file():
            raise BadInput(f"{folder} is not a bundle: it has no {MANIFEST}; posenc-export makes one")
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, OSError) as error:
            raise BadInput(f"{path} is not JSON: {error}") from error
        manifest = Manifest.from_json(data)
        for artifact in manifest.artifacts:
            _check_inside(folder, artifact.file)
        if not (folder / GOLDEN).is_file():
            raise BadInput(f"{folder} has no {GOLDEN}: there is nothing to compare with")
        return cls(folder, manifest)

    def path(self, artifact: Artifact) -> Path:
        """Return the file of an artifact."""
        return self.folder / artifact.file

    def golden(self) -> Iterator[GoldenCase]:
        """Yield every case with what was recorded of it, one at a time."""
        return read_golden(self.folder, self.manifest)


def _check_inside(folder: Path, name: str) -> None:
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts or "\\" in name or (folder / name).is_symlink():
        raise BadInput(f"the manifest names {name!r}, which is not a file of the bundle itself")
    if not (folder / name).is_file():
        raise BadInput(f"the bundle has no {name}, which its manifest names")


def write_json(path: Path, data: object) -> None:
    """Write JSON for people and programs: indented, ending in a newline; raise ValueError for NaN and infinity."""
    path.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_target(target: Path) -> None:
    """Raise BadInput where a bundle cannot be put at `target`, before any work is done."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise BadInput(f"{target} is not a folder: give another with -o")
    if target.is_dir() and any(target.iterdir()) and not (target / MANIFEST).is_file():
        raise BadInput(f"{target} holds something that is not a bundle, and is left alone: give another with -o")
    parent = target.resolve().parent
    above = next(p for p in (parent, *parent.parents) if p.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise BadInput(f"cannot write into {above}: give a folder that can be written with -o")


@contextmanager
def staged(target: Path) -> Iterator[Path]:
    """Yield a scratch folder beside `target`; it is removed at the end unless `install` moved it."""
    try:
        target.resolve().parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.partial-", dir=target.resolve().parent))
    except OSError as error:
        raise BadInput(f"cannot write beside {target}: {error.strerror}; give another folder with -o") from error
    try:
        scratch.chmod(0o755)
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def install(scratch: Path, target: Path) -> None:
    """Rename a finished folder to its place; a bundle that was there goes only once the new one is in place."""
    old = Path(f"{scratch}.old")
    if target.exists():
        target.rename(old)
    try:
        scratch.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)
