"""Paths that C++ libraries can open: they want UTF-8, while Python may use another encoding."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from posenc_export.common.errors import ToolFailed


@contextmanager
def native_path(folder: Path) -> Iterator[Path]:
    """Yield a path of a folder that every library opens: its own, or a link to it if its name is not UTF-8.

    Raises ToolFailed if there is no such path.
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
    try:  # in the locale C Python keeps the bytes of an accent as lone surrogates, which do not encode
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        return False
    return True
