"""The place of a file that a command writes: whether it may be put there."""

from __future__ import annotations

import os
from pathlib import Path

from posenc_export.common.errors import BadInput

OTHER = "give another with -o, or --force to replace it"
"""What to do where a file is there."""


def check_out(out: Path, example: str, force: bool) -> None:
    """Raise BadInput, in one line, where a file may not be put.

    Args:
        out: The file.
        example: The name of a file, for whoever gave a folder.
        force: Whether a file is replaced that is there.
    """
    # of a name that is too long these say False; writing it says why
    if os.path.isdir(out):
        raise BadInput(f"{out} is a folder: give the path of a file with -o, as {out / example}")
    if not os.path.isdir(out.parent):
        raise BadInput(f"{out.parent} is no folder that is there: make it, or give another path with -o")
    if os.path.lexists(out) and not force:
        raise BadInput(f"{out} is there: {OTHER}")
