"""Paths that the system cannot look at, which pathlib says nothing of from Python 3.14 on."""

from __future__ import annotations

import errno
import os
from pathlib import Path

NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP)


def check_path(path: Path) -> None:
    """Raise OSError where nobody can say what is at a path: its name is too long, or its folder may not be read.

    Up to Python 3.13 `Path.is_file` and its kind raise it themselves; from 3.14 on they say False. That nothing is
    there is no error.
    """
    try:
        os.stat(path)
    except ValueError:  # a null byte is in no name
        return
    except OSError as error:
        if error.errno not in NOT_THERE:
            raise
