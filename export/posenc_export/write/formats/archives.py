"""Archives of torch (TorchScript, torch.export, AOTInductor): the records that say which graph they hold."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from posenc_export.bundle.identity import PREFIX
from posenc_export.common.errors import check_machine
from posenc_export.write.formats import Format

EXTRA = "extra"
"""The folder of an archive that torch reads `_extra_files` and `extra_files` from."""
STAMP = re.compile(rf"[^/]+/{EXTRA}/{re.escape(PREFIX)}[^/]+")
"""The names of records that say what a graph is."""
MAX_BYTES = 2**16
"""Bytes of a record; ours have a few hundred, and a longer one is not read."""
NEVER = (1980, 1, 1, 0, 0, 0)


def stamp_archive(path: Path, metadata: Mapping[str, str]) -> None:
    """Add records to an archive, behind those that it has: their bytes do not depend on the day or the system."""
    with zipfile.ZipFile(path, "a") as archive:
        root = archive.namelist()[0].partition("/")[0]
        for key, text in metadata.items():
            record = zipfile.ZipInfo(f"{root}/{EXTRA}/{key}", NEVER)
            record.create_system = 0
            archive.writestr(record, text)


def stamped_archive(path: Path, key: str) -> str:
    """Return what an archive says under a key, "" where it cannot be read; no code of it runs."""
    try:
        with zipfile.ZipFile(path) as archive:
            records = (info for info in archive.infolist() if info.filename.endswith(f"/{EXTRA}/{key}"))
            record = next((info for info in records if info.file_size <= MAX_BYTES), None)
            return "" if record is None else archive.read(record).decode()
    except Exception as error:  # zipfile, zlib and the decoder raise a dozen kinds for a damaged archive
        check_machine(error)
        return ""


ARCHIVE = partial(Format, runs_code=True, stamp=stamp_archive, stamped=stamped_archive)
"""The formats whose files are such archives."""
