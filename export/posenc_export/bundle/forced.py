"""Folders that even `--force` never empties: home folders, folders of the system, work trees."""

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
"""Folders of a system that no bundle replaces, while a folder in them may be replaced."""
PROGRAMS = (
    *("/etc", "/boot", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/private/etc", "/nix/store"),
    *("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/include", "/usr/share"),
    *("/usr/local/bin", "/usr/local/sbin", "/usr/local/etc", "/System", "/Library", "/Applications"),
)
"""Folders of configuration and of programs, with all folders below them."""
WINDOWS = ("SystemRoot", "ProgramFiles", "ProgramFiles(x86)", "ProgramW6432", "ProgramData")
"""Such folders on Windows: the variables of the environment that name them."""
WINDOWS_DATA = ("APPDATA", "LOCALAPPDATA", "PUBLIC", "ALLUSERSPROFILE")
WORK_TREES = (".git", ".hg", ".svn", ".jj", ".bzr")
"""The entries by which a folder is under version control."""
Identity = tuple[int, int]


def why_protected(place: Path) -> str:
    """Return why a folder may never be replaced, whatever it holds; nothing if it may be."""
    place = place.resolve()
    identity = _identity(place)
    for path, words in _protected_folders():
        if _is_same(place, identity, path):
            return f"it is {words}"
        if any(_is_same(place, identity, parent) for parent in path.parents):
            return f"it holds {path}, {words}"
    if any(_is_same(place.parent, _identity(place.parent), Path(homes)) for homes in HOMES):
        return "it is the home folder of a user"
    return ""


def why_contents_protected(place: Path) -> str:
    """Return why the entries that another program put into a folder are never removed; nothing if they may be."""
    place = place.resolve()
    above = [(path, _identity(path)) for path in (place, *place.parents)]
    for root in _programs():
        if any(_is_same(path, identity, root) for path, identity in above):
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
        yield Path(folder).resolve(), "what Python, or this tool, lies in"  # else an export may delete its own program


def _programs() -> Iterator[Path]:
    yield from map(Path, PROGRAMS)
    yield from (Path(os.environ[name]) for name in WINDOWS if os.environ.get(name))


def _homes() -> Iterator[tuple[Path, str]]:
    """Yield home folders: the user's by the environment and by the system, and that of the user who ran sudo."""
    with suppress(RuntimeError):  # there is no home folder
        yield Path.home().resolve(), "your home folder"
    with suppress(ImportError, KeyError):
        import pwd

        yield Path(pwd.getpwuid(os.geteuid()).pw_dir).resolve(), "your home folder"
        yield Path(pwd.getpwnam(os.environ["SUDO_USER"]).pw_dir).resolve(), "the home folder of a user"


def is_same(one: Path, other: Path) -> bool:
    """Return whether two paths, without links, are the same file or folder, also where these have two names."""
    return _is_same(one, _identity(one), other)


def _is_same(place: Path, identity: Identity | None, path: Path) -> bool:
    """Return whether two paths are the same folder: by name, or by device and inode (bind mounts, case of letters)."""
    return place == path or (identity is not None and identity == _identity(path))


def _identity(path: Path) -> Identity | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if status.st_ino else None
