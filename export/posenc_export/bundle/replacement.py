"""A bundle is put at its place as a whole: a kill at any moment leaves the old or the new one, there or to be restored.

Beside the target, while a run is alive, lies a workshop:

    .TARGET.partial-XXXXXXXX/
        lock      held by the run; the lock of one that was killed is free
        new/      the bundle that is being written; after an exchange, the old bundle that is being removed
        old/NAME  if folders cannot be exchanged: the old bundle of NAME, while NAME is free for the new one
        gone/     the old bundle, once the new one is at its place: to be removed, never to be restored
"""

from __future__ import annotations

import errno
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from posenc_export.bundle.out_file import OUTPUT, PlaceOption
from posenc_export.bundle.place import check_place, failed_place
from posenc_export.bundle.room import where_full
from posenc_export.bundle.system import exchange
from posenc_export.common.errors import BadInput, ToolFailed, check_machine
from posenc_export.common.supervisor import tell

LOCK, NEW, OLD, GONE = "lock", "new", "old", "gone"
TAKEN = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT}
"""Errors of a rename when another run has put a bundle there, or taken it away, since we looked."""
ATTEMPTS = 100


@contextmanager
def staged(target: Path, option: PlaceOption = OUTPUT) -> Iterator[Path]:
    """Yield a scratch folder beside `target`, to be filled and given to `install`; remains are removed at the end.

    Restores or removes first what killed runs left there. Raises BadInput if nothing can be written.
    """
    tell(place=str(target.absolute()))
    with ExitStack() as cleanup:
        try:
            target.resolve().parent.mkdir(parents=True, exist_ok=True)
            settle_leftovers(target)
            workshop = _open_workshop(target, cleanup)
        except OSError as error:
            check_machine(error)
            raise BadInput(
                f"cannot write beside {target}: {error.strerror}; give another folder with {option.name}"
            ) from error
        try:
            (workshop / NEW).mkdir()
            yield workshop / NEW
        except Exception as error:
            full = where_full(error, target)
            if not full:
                raise
            raise ToolFailed(full) from error


def install(scratch: Path, place: Path, force: bool = False, option: PlaceOption = OUTPUT) -> None:
    """Put a finished folder at its place, and remove the old one.

    Raises BadInput if the old one is no longer ours to replace, ToolFailed if the system does not let it be moved; it
    then stays as it was.

    Args:
        scratch: The finished folder.
        place: Its place.
        force: Replace the old one, whoever wrote it.
        option: The option that named the place.

    """
    check_place(place, force, option)
    # a path with .. may pass through a folder that is not there
    place = place.parent.resolve() / place.name
    try:
        for _ in range(ATTEMPTS):
            if _put(scratch, place):
                return
    except OSError as error:
        raise ToolFailed(f"cannot put the bundle at {place}: {error.strerror}; what was there is as it was") from error
    raise ToolFailed(f"cannot put the bundle at {place}: other runs put theirs there all the time; give another folder")


def settle_leftovers(target: Path) -> None:
    """Restore or remove the workshops that killed runs left beside `target`; those of live runs stay."""
    pattern = re.compile(re.escape(f".{target.resolve().name}.partial-") + r"[a-z0-9_]{8}")
    for workshop in sorted(target.resolve().parent.iterdir()):
        if pattern.fullmatch(workshop.name):
            # Held by a live run, or gone since we looked: either way it is no leftover.
            with suppress(Timeout, NotImplementedError, OSError):
                if _is_workshop(workshop):
                    with FileLock(workshop / LOCK, timeout=0):
                        _settle(workshop, target)


def _open_workshop(target: Path, cleanup: ExitStack) -> Path:
    """Make a workshop and hold its lock. Its removal is planned first, so that an interrupt leaves nothing."""
    place = target.resolve()
    while True:  # another run may remove the workshop, as a leftover, before its lock is held
        workshop = place.parent / f".{place.name}.partial-{secrets.token_hex(4)}"
        lock = FileLock(workshop / LOCK)
        cleanup.callback(lock.release)
        cleanup.callback(_settle, workshop, target)
        workshop.mkdir(mode=0o700)
        with suppress(FileNotFoundError, FileExistsError):  # FileLock makes the folder of its file
            with suppress(NotImplementedError):  # a file system without locks: no run removes leftovers there
                lock.acquire()
            if (workshop / LOCK).exists():
                return workshop
        lock.release()


def _is_workshop(folder: Path) -> bool:
    """Tell whether a folder is a workshop: it holds our parts alone, with the lock among them unless it is empty."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    parts = {path.name: path for path in folder.iterdir()}
    folders = [path for name, path in parts.items() if name != LOCK]
    return (
        parts.keys() <= {LOCK, NEW, OLD, GONE}
        and (not parts or (LOCK in parts and parts[LOCK].is_file()))
        and not any(path.is_symlink() for path in parts.values())
        and all(path.is_dir() for path in folders)
    )


def _settle(workshop: Path, target: Path) -> None:
    """Restore old bundles without a successor at their place; then remove the workshop, its lock last.

    Raises OSError, and removes nothing, if a bundle cannot be restored.
    """
    for place in (target.resolve(), failed_place(target.resolve())):
        if (workshop / OLD / place.name).exists() and not place.exists():
            (workshop / OLD / place.name).rename(place)
    with suppress(OSError):  # from here on nothing in it is restored, even if this run is killed
        (workshop / OLD).rename(workshop / GONE)
    for part in (NEW, GONE):
        shutil.rmtree(workshop / part, ignore_errors=True)
    with suppress(OSError):
        if {path.name for path in workshop.iterdir()} <= {LOCK}:
            (workshop / LOCK).unlink(missing_ok=True)
            workshop.rmdir()


def _put(scratch: Path, place: Path) -> bool:
    """Move a folder to its place, in one step if the system can; return False if another run interfered."""
    try:
        if not place.exists():
            scratch.rename(place)
        elif not exchange(scratch, place):  # the scratch folder then holds the old bundle, and is removed with it
            _put_in_two_steps(scratch, place)
    except OSError as error:
        if error.errno in TAKEN:
            return False
        raise
    return True


def _put_in_two_steps(scratch: Path, place: Path) -> None:
    """Rename the old folder out of the way, under its own name, then the new folder into its place."""
    old, gone = scratch.parent / OLD, scratch.parent / GONE
    shutil.rmtree(gone, ignore_errors=True)  # an earlier attempt, which lost to another run
    old.mkdir(exist_ok=True)
    place.rename(old / place.name)
    try:
        scratch.rename(place)
    except OSError:
        if not place.exists():
            (old / place.name).rename(place)
        else:  # another run put its own bundle there: it is the successor
            old.rename(gone)
        raise
    old.rename(gone)
