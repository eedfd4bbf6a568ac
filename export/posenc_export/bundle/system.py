"""What Linux can do with folders beyond Python's os: exchange two in one step, and tell which cannot be moved."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys
from pathlib import Path

AT_FDCWD, RENAME_EXCHANGE, AT_SYMLINK_NOFOLLOW = -100, 2, 0x100
IMMUTABLE, APPEND_ONLY, MOUNT_POINT = 0x10, 0x20, 0x2000
"""Attributes of a file or folder, as statx calls them."""
UNABLE = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP}
"""Errors of a kernel, or a file system, that cannot exchange."""


def exchange(first: Path, second: Path) -> bool:
    """Exchange two folders in one step; return False if the system cannot.

    Raises OSError if the system can, but did not.
    """
    renameat2 = getattr(_libc(), "renameat2", None)
    if renameat2 is None:
        return False
    paths = os.fsencode(first), os.fsencode(second)
    if renameat2(AT_FDCWD, paths[0], AT_FDCWD, paths[1], RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in UNABLE:  # the caller renames twice instead
        return False
    raise OSError(number, os.strerror(number), str(first), None, str(second))


def attributes(path: Path) -> int:
    """Return the attributes of a file or folder, without following a link; 0 if the system has none."""
    statx = getattr(_libc(), "statx", None)
    answer = ctypes.create_string_buffer(256)
    if statx is None or statx(AT_FDCWD, os.fsencode(path), AT_SYMLINK_NOFOLLOW, 0, answer) != 0:
        return MOUNT_POINT if os.path.ismount(path) else 0
    # struct statx: uint32 stx_mask, uint32 stx_blksize, uint64 stx_attributes, ...
    return int.from_bytes(answer.raw[8:16], sys.byteorder)


@functools.cache
def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
