"""Archives of torch, of TorchScript, of torch.export and of AOTInductor: what they hold beside code and tensors."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

from posenc_export.bundle.identity import PREFIX
from posenc_export.errors import check_machine

EXTRA = "extra"
"""The folder of an archive for what its writer adds: `_extra_files` and `extra_files` of torch are read from there."""
STAMP = re.compile(rf"[^/]+/{EXTRA}/{re.escape(PREFIX)}[^/]+")
"""The names of records that say what a graph is."""
MOST_BYTES = 2**16
"""A record that says what a graph is has some hundred bytes: of one with more nothing is read."""
NEVER = (1980, 1, 1, 0, 0, 0)


def stamp_archive(path: Path, metadata: Mapping[str, str]) -> None:
    """Add records to an archive, behind those that it has: what they are does not depend on the day or the system."""
    with zipfile.ZipFile(path, "a") as archive:
        root = archive.namelist()[0].partition("/")[0]
        for key, text in metadata.items():
            record = zipfile.ZipInfo(f"{root}/{EXTRA}/{key}", NEVER)
            record.create_system = 0
            archive.writestr(record, text)


def stamped_archive(path: Path, key: str) -> str:
    """Return what an archive says under a key, or nothing, as where it is no archive; no code of it runs."""
    try:
        with zipfile.ZipFile(path) as archive:
            places = (one for one in archive.infolist() if one.filename.endswith(f"/{EXTRA}/{key}"))
            record = next((place for place in places if place.file_size <= MOST_BYTES), None)
            return "" if record is None else archive.read(record).decode()
    except Exception as error:  # of a damaged one zipfile, and what unpacks, raise a dozen of kinds
        check_machine(error)
        return ""
