"""Where a disk is full: the system says that one is, and not which."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT)


def where_full(error: BaseException, place: Path) -> str:
    """Return what is free where a run writes, at a place and for temporary files; nothing where no disk is full."""
    full = next((cause for cause in _causes(error) if isinstance(cause, OSError) and cause.errno in FULL), None)
    if full is None:
        return ""
    return f"{full.strerror}: {', '.join(_free(_existing(place)))}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it came of."""
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
