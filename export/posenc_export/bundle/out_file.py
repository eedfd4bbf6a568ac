"""The place that a command writes to: how refusals name it, and whether a file may be put there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from posenc_export.common.errors import BadInput, check_machine


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


@contextmanager
def whole_file(out: Path, force: bool, option: PlaceOption = OUTPUT) -> Iterator[Path]:
    """Give a new file to write, and put it into its place at the end: a kill leaves the old file or the new one.

    Args:
        out: The place; the new file lies beside it until then, and its name ends alike.
        force: Whether a file is replaced that is there.
        option: The option that names the file.

    Raises BadInput, in one line, where it cannot be written, or where another program has put a file there meanwhile.
    """
    try:
        number, name = tempfile.mkstemp(prefix=".posenc-file-", suffix=out.suffix, dir=out.parent)
        os.close(number)
        try:
            yield Path(name)
            Path(name).chmod(0o666 & ~_umask())
            _put(Path(name), out, force, option)
        finally:
            with suppress(OSError):
                Path(name).unlink()
    except OSError as error:
        check_machine(error)
        raise BadInput(f"cannot write {out}: {error.strerror}") from error


def _put(made: Path, out: Path, force: bool, option: PlaceOption) -> None:
    if force:
        made.replace(out)
        return
    try:
        os.link(made, out)  # unlike a rename, it replaces nothing that another program has put there since
    except FileExistsError:
        raise BadInput(f"{out} is there: {option.another_or_force}") from None
    except OSError:  # a file system without links
        made.replace(out)


def _umask() -> int:
    """Return the permissions that new files do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
