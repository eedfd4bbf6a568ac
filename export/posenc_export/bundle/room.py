"""Which disk is full: the system only says that a disk is."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT)


def where_full(error: BaseException, place: Path) -> str:
    """Return the free space at a place and for temporary files, in words; nothing if the error is not a full disk."""
    full = next((cause for cause in _causes(error) if isinstance(cause, OSError) and cause.errno in FULL), None)
    if full is None:
        return ""
    return f"{full.strerror}: {', '.join(_free(_existing(place)))}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _free(folder: Path) -> Iterator[str]:
    with suppress(OSError):
        yield f"{shutil.disk_usage(folder).free:,} bytes are free in {folder}"
    with suppress(OSError):
        scratch = tempfile.gettempdir()
        yield f"{shutil.disk_usage(scratch).free:,} in {scratch}, where temporary files go"


def _existing(place: Path) -> Path:
    return next(folder for folder in place.resolve().parents if folder.exists())
