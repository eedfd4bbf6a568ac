"""A bundle on disk: opening it, and writing its JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from posenc.strict_json import parse
from posenc_export.bundle.case import GoldenCase
from posenc_export.bundle.decoders import ENCODED
from posenc_export.bundle.golden import GOLDEN, read_golden
from posenc_export.bundle.inside import check_artifact, check_external_data, check_listed, check_no_link
from posenc_export.bundle.manifest import Artifact, File, Manifest
from posenc_export.bundle.paths import native_path
from posenc_export.common.errors import BadInput, check_machine, decoded

MANIFEST, REPORTS = "manifest.json", ("report.json", "report.md", "report.html")
MAX_BYTES = 2**26
"""A manifest has a few hundred bytes a case: a file above 64 MiB is not read."""


@dataclass(frozen=True)
class Bundle:
    """A bundle on disk.

    Args:
        trusted: whether code in it may be run: TorchScript, torch.export, AOTInductor, C++.
        part: whether it is a part of the bundle in the folder above, where its graphs lie.
    """

    folder: Path
    manifest: Manifest
    trusted: bool = False
    part: bool = False

    @classmethod
    def open(cls, folder: Path, trusted: bool = False) -> Bundle:
        """Open a bundle; raise BadInput, in one line, if the folder is not a bundle or names files outside itself.

        Args:
            folder: The folder.
            trusted: Whether this program wrote the bundle, or the user vouches for it.

        """
        bundle = cls.read(folder, trusted)
        bundle.check_graphs()
        return bundle

    @classmethod
    def read(cls, folder: Path, trusted: bool = False, part: bool = False) -> Bundle:
        """Open a bundle without looking into its graphs; raise BadInput as `open` does."""
        path = folder / MANIFEST
        check_no_link(path)
        from posenc_export.bundle.schema import read_manifest  # pydantic takes a while to load

        if not path.is_file():
            raise BadInput(f"{folder} is not a bundle: it has no {MANIFEST}; posenc-export makes one")
        manifest = read_manifest(_read_json(path))
        if not part:
            _check_whole(folder, manifest)
        for artifact in manifest.artifacts:
            check_artifact(folder.parent if part else folder, artifact)
        check_listed(manifest, GOLDEN)
        check_no_link(folder / GOLDEN)
        if not (folder / GOLDEN).is_file():
            raise BadInput(f"{folder} has no {GOLDEN}: there is nothing to compare with")
        return cls(folder, manifest, trusted, part)

    @property
    def graphs(self) -> Path:
        """The folder in which its graphs lie."""
        return self.folder.parent if self.part else self.folder

    def parts(self) -> Iterator[Bundle]:
        """Yield the bundles of the model's other graphs; raise BadInput where one of them is none."""
        for name in self.manifest.parts:
            check_no_link(self.folder / name)
            yield Bundle.read(self.folder / name, self.trusted, part=True)

    def part_with(self, output: str) -> Bundle | None:
        """Return the bundle of the model's other graph that gives an output; None where it has no such graph."""
        parts = self.parts()
        return next((part for part in parts if any(port.name == output for port in part.manifest.outputs)), None)

    def encoder(self) -> Bundle | None:
        """Return the bundle of the model's encoder; None where its prompts go into its one graph."""
        return self.part_with(ENCODED)

    @contextmanager
    def native(self) -> Iterator[Bundle]:
        """Yield the bundle at a path that every library opens."""
        with native_path(self.graphs) as place:
            yield replace(self, folder=place / self.folder.name if self.part else place)

    def check_graphs(self) -> None:
        """Raise BadInput if an untrusted graph takes its weights from elsewhere, or cannot be read."""
        if not self.trusted:
            check_external_data(self.graphs, self.manifest.artifacts)

    def path(self, artifact: Artifact) -> Path:
        """Return the file of an artifact."""
        return self.graphs / artifact.file

    def golden(self) -> Iterator[GoldenCase]:
        """Yield every recorded case, one at a time."""
        return read_golden(self.folder, self.manifest)


def _check_whole(folder: Path, manifest: Manifest) -> None:
    """Raise BadInput where a folder is a part of the bundle above it: its graph lies there."""
    file, above = folder / manifest.artifacts[0].file, folder.absolute().parent
    if not file.exists() and (above / file.name).is_file() and (above / MANIFEST).is_file():
        raise BadInput(f"{folder} is a part of {folder.parent}: validate that")


def _read_json(path: Path) -> object:
    if path.stat().st_size > MAX_BYTES:  # before any of it is read into memory
        raise BadInput(f"{path} has {path.stat().st_size:,} bytes: a manifest has at most {MAX_BYTES:,}")
    try:
        return parse(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        check_machine(error)
        raise BadInput(f"{path} is not JSON: {error}") from error


def write_json(path: Path, data: object) -> None:
    """Write JSON for people and programs; raise ValueError for NaN and infinity."""
    path.write_text(json_text(data), encoding="utf-8")


def json_text(data: object) -> str:
    """Return JSON for people and programs: indented, ending in a newline; raise ValueError for NaN and infinity."""
    text = json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False)
    return decoded(text) + "\n"  # a lone surrogate, escaped or not, is not valid JSON


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_of(folder: Path, path: Path) -> File:
    """Return a file of a bundle as its manifest lists it."""
    return File(path.relative_to(folder).as_posix(), path.stat().st_size, sha256(path))
