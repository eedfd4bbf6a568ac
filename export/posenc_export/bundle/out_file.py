"""The place that a command writes to: how refusals name it, and whether a file may be put there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from posenc_export.common.errors import BadInput


@dataclass(frozen=True)
class PlaceOption:
    """The option by which a command takes the place that it writes to, for the words of refusals.

    Args:
        name: The option.
        force: The option that replaces what is there, whoever wrote it; "" for a command that never does.
    """

    name: str = "-o"
    force: str = "--force"

    @property
    def another(self) -> str:
        """What to do where nothing may be put there."""
        return f"give another with {self.name}"

    @property
    def another_or_force(self) -> str:
        """What to do where something is there that this tool did not write."""
        return f"{self.another}, or {self.force} to replace it" if self.force else self.another


OUTPUT = PlaceOption()


def check_out(out: Path, example: str, force: bool, option: PlaceOption = OUTPUT) -> None:
    """Raise BadInput, in one line, where a file may not be put.

    Args:
        out: The file.
        example: The name of a file, for whoever gave a folder.
        force: Whether a file is replaced that is there.
        option: The option that names the file.
    """
    # of a name that is too long these say False; writing it says why
    if os.path.isdir(out):
        raise BadInput(f"{out} is a folder: give the path of a file with {option.name}, as {out / example}")
    if not os.path.isdir(out.parent):
        raise BadInput(f"{out.parent} is no folder that is there: make it, or give another path with {option.name}")
    if os.path.lexists(out) and not force:
        raise BadInput(f"{out} is there: {option.another_or_force}")
