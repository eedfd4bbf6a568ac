"""site.json: what a folder of static files holds, sealed, so that a later run knows the folder as its own.

Every file is listed with its bytes and its SHA-256. Nothing that a web server needs is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from posenc_export.bundle.folder import file_of
from posenc_export.bundle.forced import walk
from posenc_export.bundle.seal import read_sealed, sealed_text

LISTING = "site.json"
MADE_BY = "posenc-export"


def write_listing(folder: Path) -> None:
    """List every file of a finished folder in its site.json, which is written last."""
    files = [asdict(file_of(folder, path)) for path in walk(folder) if path.is_file()]
    data = {"made_by": MADE_BY, "files": files}
    (folder / LISTING).write_text(sealed_text(data), encoding="utf-8")


def listed(folder: Path) -> Mapping[str, tuple[object, object] | None]:
    """Return the bytes and the SHA-256 of each file that site.json lists; nothing if that is not as it was written."""
    # an edited list has no digests, so that every file beside it is somebody's
    data = read_sealed(folder / LISTING)
    files = data.get("files")
    if data.get("made_by") != MADE_BY or not isinstance(files, list):
        return {}
    entries = (file for file in files if isinstance(file, dict))
    digests = {str(entry.get("file")): (entry.get("bytes"), entry.get("sha256")) for entry in entries}
    return {**digests, LISTING: None}
