"""Paths as libraries take them: those of C++ want UTF-8, and Python may have another encoding, or none of a name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from posenc_export.errors import ToolFailed


@contextmanager
def native_path(folder: Path) -> Iterator[Path]:
    """Yield a path of a folder that every library opens: its own, or where that is no UTF-8 one of a link to it.

    In the locale C a name with an accent is bytes that Python keeps as halves of pairs, which C++ refuses. Raises
    ToolFailed where there is no such path.
    """
    if _is_utf8(folder):
        yield folder
        return
    with TemporaryDirectory(prefix="posenc-link-", ignore_cleanup_errors=True) as scratch:
        link = Path(scratch, "bundle")
        if not _is_utf8(link):
            raise ToolFailed(f"libraries cannot open {folder} in this locale: set LC_ALL=C.UTF-8, or another TMPDIR")
        link.symlink_to(folder.absolute(), target_is_directory=True)
        yield link


def _is_utf8(path: Path) -> bool:
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        return False
    return True
