"""What a forced replacement never empties: home folders, those of the system, work trees; and what it removes."""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

HOMES = ("/home", "/Users", "/export/home")
"""Folders that hold the home folders of users."""
OF_HOME = ("Desktop", "Documents", "Downloads", "Library", "Music", "Movies", "Pictures", "Videos", "OneDrive")
SYSTEM = (
    *("/", "/root", "/home", "/var", "/tmp", "/opt", "/srv", "/mnt", "/media", "/run", "/dev", "/proc", "/sys"),
    *("/usr", "/usr/local", "/usr/src", "/var/lib", "/var/log", "/var/www", "/var/spool", "/var/cache", "/var/tmp"),
    *("/Users", "/Volumes", "/private", "/private/var", "/private/tmp", "/opt/homebrew", "/opt/local", "/nix", "/snap"),
)
"""Folders of a system that are no place for a bundle, while what lies in them may be."""
PROGRAMS = (
    *("/etc", "/boot", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/private/etc", "/nix/store"),
    *("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/include", "/usr/share"),
    *("/usr/local/bin", "/usr/local/sbin", "/usr/local/etc", "/System", "/Library", "/Applications"),
)
"""Folders of configuration and of programs: nothing below them is emptied either."""
WINDOWS = ("SystemRoot", "ProgramFiles", "ProgramFiles(x86)", "ProgramW6432", "ProgramData")
"""The same on Windows, by the variables of the environment that name them."""
WINDOWS_DATA = ("APPDATA", "LOCALAPPDATA", "PUBLIC", "ALLUSERSPROFILE")
WORK_TREES = (".git", ".hg", ".svn", ".jj", ".bzr")
"""What a folder under version control has in it."""
Identity = tuple[int, int]


def why_protected(place: Path) -> str:
    """Return why a folder may never be replaced, whatever is in it, in words; nothing where it may be."""
    place = place.resolve()
    here = _identity(place)
    for path, words in _protected_folders():
        if _is(place, here, path):
            return f"it is {words}"
        if any(_is(place, here, parent) for parent in path.parents):
            return f"it holds {path}, {words}"
    if any(_is(place.parent, _identity(place.parent), Path(homes)) for homes in HOMES):
        return "it is the home folder of a user"
    return ""


def why_contents_protected(place: Path) -> str:
    """Return why what somebody else has put into a folder is never removed, in words; nothing where it may be."""
    place = place.resolve()
    above = [(path, _identity(path)) for path in (place, *place.parents)]
    for root in _programs():
        if any(_is(path, identity, root) for path, identity in above):
            return f"it lies in {root}, a folder of the system"
    home = next((path for path, _ in _homes()), None)
    if home is not None and place.parent == home and (place.name.startswith(".") or place.name in OF_HOME):
        return "it holds what is yours in your home folder"
    tree = next((path for path in walk(place) if path.name in WORK_TREES), None)
    return "" if tree is None else f"it holds {tree.relative_to(place)}, the history of a work tree"


def contents(place: Path) -> str:
    """Return how many entries a folder has, and their bytes, in words."""
    sizes = [path.lstat().st_size if path.is_symlink() or not path.is_dir() else 0 for path in walk(place)]
    return f"{len(sizes):,} entr{'y' if len(sizes) == 1 else 'ies'} of {sum(sizes):,} bytes"


def walk(folder: Path) -> Iterator[Path]:
    """Yield every entry below a folder, in order; links are not followed."""
    for path in sorted(folder.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from walk(path)


def _protected_folders() -> Iterator[tuple[Path, str]]:
    yield from _homes()
    yield from ((Path(name), "a folder of the system") for name in SYSTEM)
    yield from ((path, "a folder of the system") for path in _programs())
    yield from ((Path(os.environ[name]), "a folder of the system") for name in WINDOWS_DATA if os.environ.get(name))
    yield Path(tempfile.gettempdir()).resolve(), "the folder of temporary files"
    paths = sysconfig.get_paths()
    for folder in (sys.prefix, sys.base_prefix, paths["stdlib"], paths["purelib"], Path(__file__).parents[1]):
        yield Path(folder).resolve(), "what Python, or this tool, lies in"


def _programs() -> Iterator[Path]:
    yield from map(Path, PROGRAMS)
    yield from (Path(os.environ[name]) for name in WINDOWS if os.environ.get(name))


def _homes() -> Iterator[tuple[Path, str]]:
    """Yield the home folder of this user: as the environment has it, and as the system does, and of sudo's user."""
    with suppress(RuntimeError):  # no home at all
        yield Path.home().resolve(), "your home folder"
    with suppress(ImportError, KeyError):
        import pwd

        yield Path(pwd.getpwuid(os.geteuid()).pw_dir).resolve(), "your home folder"
        yield Path(pwd.getpwnam(os.environ["SUDO_USER"]).pw_dir).resolve(), "the home folder of a user"


def _is(place: Path, here: Identity | None, other: Path) -> bool:
    """Return whether two paths are one folder: by what they are called, or by what the system knows them by."""
    return place == other or (here is not None and here == _identity(other))


def _identity(path: Path) -> Identity | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status.st_ino else None
