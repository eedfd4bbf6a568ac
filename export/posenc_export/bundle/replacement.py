"""A bundle is put at its place whole: a kill at any moment leaves the old one or the new one, there or to be restored.

Beside the target, while a run is alive, lies a workshop:

    .TARGET.partial-XXXXXXXX/
        lock      held by the run; the lock of one that was killed is free
        new/      what is being written; after an exchange, what was at the place and is being removed
        old/NAME  where folders cannot be exchanged: what was at NAME, while NAME is free for the new one
        gone/     the same, once the new one is at its place: to be removed, never to be restored
"""

from __future__ import annotations

import errno
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from posenc_export.bundle.place import check_place, failed_place
from posenc_export.bundle.room import where_full
from posenc_export.bundle.system import exchange
from posenc_export.errors import BadInput, ToolFailed, check_machine

LOCK, NEW, OLD, GONE = "lock", "new", "old", "gone"
TAKEN = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT}
"""What a rename answers where another run has put a bundle there, or taken it away, since we looked."""
ATTEMPTS = 100


@contextmanager
def staged(target: Path) -> Iterator[Path]:
    """Yield a scratch folder beside `target`, to be filled and given to `install`; whatever is left is removed.

    First what killed runs left there is restored, or removed. Raises BadInput where nothing can be written.
    """
    try:
        target.resolve().parent.mkdir(parents=True, exist_ok=True)
        settle_leftovers(target)
        workshop, lock = _open_workshop(target)
    except OSError as error:
        check_machine(error)
        raise BadInput(f"cannot write beside {target}: {error.strerror}; give another folder with -o") from error
    try:
        (workshop / NEW).mkdir()
        yield workshop / NEW
    except Exception as error:
        full = where_full(error, target)
        if not full:
            raise
        raise ToolFailed(full) from error
    finally:
        try:
            _settle(workshop, target)
        finally:
            lock.release()


def install(scratch: Path, place: Path, force: bool = False) -> None:
    """Put a finished folder at its place, and remove what was there; force: whatever that is.

    Raises BadInput where it is no longer ours to replace, ToolFailed where the system does not let it be moved; what
    was there is then as it was.
    """
    check_place(place, force)
    try:
        for _ in range(ATTEMPTS):
            if _put(scratch, place):
                return
    except OSError as error:
        raise ToolFailed(f"cannot put the bundle at {place}: {error.strerror}; what was there is as it was") from error
    raise ToolFailed(f"cannot put the bundle at {place}: other runs put theirs there all the time; give another folder")


def settle_leftovers(target: Path) -> None:
    """Restore or remove what killed runs into `target` left beside it; what belongs to a live run stays."""
    pattern = re.compile(re.escape(f".{target.resolve().name}.partial-") + r"[a-z0-9_]{8}")
    for workshop in sorted(target.resolve().parent.iterdir()):
        if pattern.fullmatch(workshop.name):
            # Held by a live run, or gone since we looked: either way it is no leftover.
            with suppress(Timeout, NotImplementedError, OSError):
                if _is_workshop(workshop):
                    with FileLock(workshop / LOCK, timeout=0):
                        _settle(workshop, target)


def _open_workshop(target: Path) -> tuple[Path, FileLock]:
    """Make a workshop and hold its lock; again where another run took it for a leftover before the lock was held."""
    while True:
        place = target.resolve()
        workshop = Path(tempfile.mkdtemp(prefix=f".{place.name}.partial-", dir=place.parent))
        lock = FileLock(workshop / LOCK)
        with suppress(FileNotFoundError, FileExistsError):  # FileLock makes the folder of its file
            with suppress(NotImplementedError):  # no locks on this file system: then no run removes leftovers there
                lock.acquire()
            if (workshop / LOCK).exists():
                return workshop, lock
        lock.release()


def _is_workshop(folder: Path) -> bool:
    """Tell whether a folder is one of ours: it holds nothing but our parts, the lock among them unless it is empty."""
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
    """Bring back what was taken from its place and has no successor there; then remove the workshop, its lock last.

    Raises OSError, and removes nothing, where something cannot be brought back.
    """
    for place in (target.resolve(), failed_place(target.resolve())):
        if (workshop / OLD / place.name).exists() and not place.exists():
            (workshop / OLD / place.name).rename(place)
    with suppress(OSError):
        (workshop / OLD).rename(workshop / GONE)
    for part in (NEW, GONE):
        shutil.rmtree(workshop / part, ignore_errors=True)
    with suppress(OSError):
        if [path.name for path in workshop.iterdir()] == [LOCK]:
            (workshop / LOCK).unlink()
            workshop.rmdir()


def _put(scratch: Path, place: Path) -> bool:
    """Move a folder to its place in one step, or in two where the system has no other; False: another run was there."""
    try:
        if not place.exists():
            scratch.rename(place)
        elif not exchange(scratch, place):
            _put_in_two_steps(scratch, place)
    except OSError as error:
        if error.errno in TAKEN:
            return False
        raise
    return True


def _put_in_two_steps(scratch: Path, place: Path) -> None:
    """Rename what is at a place out of the way, under its own name, then the new folder into the place."""
    old, gone = scratch.parent / OLD, scratch.parent / GONE
    shutil.rmtree(gone, ignore_errors=True)  # of an attempt that another run was ahead of
    old.mkdir(exist_ok=True)
    place.rename(old / place.name)
    try:
        scratch.rename(place)
    except OSError:
        if not place.exists():
            (old / place.name).rename(place)
        else:  # another run put its own there: that one is the successor
            old.rename(gone)
        raise
    old.rename(gone)
