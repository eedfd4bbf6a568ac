"""Where a bundle may be put: only folders that this tool wrote, and that can be moved, are replaced."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from posenc.strict_json import read_json
from posenc_export.bundle.folder import MANIFEST, REPORTS, sha256
from posenc_export.bundle.forced import contents, is_same, walk, why_contents_protected, why_protected
from posenc_export.bundle.golden import GOLDEN
from posenc_export.bundle.listing import listed
from posenc_export.bundle.manifest import SCHEMA_VERSION
from posenc_export.bundle.out_file import OUTPUT, PlaceOption
from posenc_export.bundle.seal import read_sealed
from posenc_export.bundle.system import APPEND_ONLY, IMMUTABLE, MOUNT_POINT, attributes
from posenc_export.common.errors import BadInput, check_machine

NAME_BYTES = 255
"""Bytes of the longest name that file systems take."""
WORKSHOP = ".partial-xxxxxxxx"
"""The ending of the name of a run's workshop, beside the place of its bundle."""
FIELDS: Mapping[str, type] = {
    **{"scheme": str, "params": dict, "mode": str, "max_len": int, "dtype": str, "opset": int, "ir_version": int},
    **{"inputs": list, "outputs": list, "artifacts": list, "versions": dict},
}
"""Fields of manifests of every schema version; a manifest of another program lacks some of them."""
Digests = Mapping[str, tuple[object, object] | None]
"""The files of a bundle: bytes and SHA-256, or SHA-256 alone, if its manifest or its report say them."""
CHANGED = (None, None)
"""The digest of a file that was changed since: it matches no file."""


def failed_place(target: Path) -> Path:
    """Return where a bundle goes that fails."""
    return target.with_name(f"{target.name}-failed")


def check_target(target: Path, force: bool = False, reads: Iterable[Path] = ()) -> None:
    """Raise BadInput if a bundle cannot be put at `target`, or a failed bundle beside it, before any work is done.

    Args:
        target: The folder of the bundle.
        force: Replace what is there, whatever it is.
        reads: What the command reads, which not even `force` replaces.

    """
    for place in () if target.name in ("", "..") else (target, failed_place(target)):
        check_apart(place, reads)
    check_folder(target, force)
    check_place(failed_place(target), force)


def check_apart(place: Path, reads: Iterable[Path], option: PlaceOption = OUTPUT) -> None:
    """Raise BadInput if a place is, or holds, what the command reads, or would replace something beside it.

    Args:
        place: Where the command writes, a file or a folder.
        reads: Files and folders; links of them are followed.
        option: The option that named the place.
    """
    try:
        real = place.parent.resolve() / place.name
        # the same folder may have two names: by a link, a mount, the case of letters
        for read in reads:
            source = read.expanduser().resolve()
            if is_same(real, source) or is_same(place.resolve(), source):
                inside = f", as {place / 'onnx'}" * place.is_dir()
                raise BadInput(f"{place} is what this command reads: {option.another}{inside}")
            if any(is_same(real, above) for above in source.parents):
                raise BadInput(f"{place} holds {read}, which this command reads: {option.another}")
            beside = real.is_dir() and source.is_dir() and any(is_same(source, above) for above in real.parents)
            if beside and (foreign := first_foreign(real)):
                raise BadInput(
                    f"{place} lies in {read}, which this command reads, and holds {foreign}: {option.another}"
                )
    except (OSError, RuntimeError) as error:  # a name that is too long, a loop of links
        raise BadInput(f"cannot write {place}: {getattr(error, 'strerror', None) or error}") from error


def check_folder(target: Path, force: bool = False, option: PlaceOption = OUTPUT) -> None:
    """Raise BadInput if a folder cannot be put at `target`, before any work is done."""
    if Path.cwd().is_relative_to(target.resolve()) or target.name in ("", ".."):
        raise BadInput(f"{target} is, or holds, the current folder, which cannot be replaced: {option.another}")
    _check_parent(target, option)
    check_place(target, force, option)


def check_place(place: Path, force: bool, option: PlaceOption = OUTPUT) -> None:
    """Raise BadInput, in one line, if the entry at a place is not a folder, cannot be moved or is not ours."""
    if place.is_symlink() or (place.exists() and not place.is_dir()):
        raise BadInput(f"{place} is not a folder: {option.another}")
    if not place.exists():
        return
    try:
        fixed = _why_fixed(place) or why_protected(place)
        foreign = "" if fixed else first_foreign(place)
        protected = why_contents_protected(place) if foreign and force else ""
        fixed = fixed or ("" if foreign and not force else _why_fixed_below(place))
    except OSError as error:
        raise BadInput(f"{place} cannot be replaced: {error}; {option.another}") from error
    if fixed:
        raise BadInput(f"{place} cannot be replaced: {fixed}; {option.another}")
    if protected:
        raise BadInput(f"{place} holds {foreign}, and is left alone: {protected}; {option.another}")
    if foreign and not force:
        raise BadInput(f"{place} holds {foreign}, and is left alone: {option.another_or_force}")


def removals(target: Path) -> list[str]:
    """Return a line for each place of an export that is replaced although another program wrote into it."""
    places = ((target, "is replaced"), (failed_place(target), "is replaced if the export fails"))
    return [
        f"{place} {how}: {contents(place)} are removed"
        for place, how in places
        if place.is_dir() and first_foreign(place)
    ]


def first_foreign(folder: Path) -> str:
    """Return, in words, the first entry of a folder that is not as this tool wrote it; nothing if all are."""
    digests = {**digests_of(folder / MANIFEST), **listed(folder)}
    parents = {parent.as_posix() for name in digests for parent in Path(name).parents}
    for path in walk(folder):
        name = path.relative_to(folder).as_posix()
        is_folder = path.is_dir() and not path.is_symlink()
        # A folder is ours if a listed file lies in it, a file if it is listed.
        if name not in (parents if is_folder else digests):
            return f"{name}, which posenc-export did not write"
        if not is_folder and not _is_as_written(path, digests[name]):
            return f"{name}, which was changed after posenc-export wrote it"
    return ""


def digests_of(path: Path) -> Digests:
    """Return the files of the bundle that a manifest describes; nothing if it is not a manifest of this tool."""
    try:
        data: object = None if path.is_symlink() else read_json(path)
    except (OSError, ValueError):
        return {}
    if not isinstance(data, dict) or not _is_ours(data):
        return {}
    listed = [*data["artifacts"], *data.get("files", [])]
    return {
        GOLDEN: None,
        **_digests_of_reports(path.parent),
        **{str(file.get("file")): (file.get("bytes"), file.get("sha256")) for file in listed if isinstance(file, dict)},
    }


def _digests_of_reports(folder: Path) -> Digests:
    """Return the digests that report.json says of itself, the other reports and the manifest."""
    as_json, as_markdown, as_html = REPORTS
    if not any((folder / name).exists() for name in REPORTS):  # then nothing says the digest of the manifest
        return {MANIFEST: None}
    report = read_sealed(folder / as_json)
    if not report:
        return {MANIFEST: None, **dict.fromkeys(REPORTS, CHANGED)}
    digests = {MANIFEST: report.get("manifest_sha256"), as_markdown: report.get("markdown_sha256")}
    if "html_sha256" in report:  # --html wrote a page
        digests[as_html] = report["html_sha256"]
    return {**{name: (None, digest) for name, digest in digests.items()}, as_json: None}


def _is_ours(data: Mapping[str, object]) -> bool:
    """Tell whether JSON is a manifest of this tool, of this schema version or an older one."""
    version = data.get("schema_version")
    known = type(version) is int and 1 <= version <= SCHEMA_VERSION
    has_all = all(isinstance(data.get(name), kind) for name, kind in FIELDS.items())
    return known and has_all and isinstance(data.get("files", []), list)


def _is_as_written(path: Path, digest: tuple[object, object] | None) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    return digest is None or (digest[0] in (None, path.stat().st_size) and sha256(path) == digest[1])


def _why_fixed(place: Path) -> str:
    """Return why this user cannot rename or empty a folder; nothing if it is possible."""
    flags = attributes(place)
    if flags & MOUNT_POINT:
        return f"{place} is a mount point"
    if flags & (IMMUTABLE | APPEND_ONLY):
        return f"{place} is immutable"
    if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        return f"{place} cannot be written"
    # In a folder like /tmp (sticky bit) only owners rename their folders.
    above, user = place.resolve().parent.stat(), os.geteuid() if hasattr(os, "geteuid") else 0
    if above.st_mode & stat.S_ISVTX and user not in (0, above.st_uid, place.stat().st_uid):
        return "it belongs to another user"
    return ""


def _why_fixed_below(place: Path) -> str:
    """Return why an entry of a folder cannot be removed, or nothing; not even --force empties a mounted folder."""
    for path in walk(place):
        is_folder = path.is_dir() and not path.is_symlink()
        fixed = _why_fixed(path) if is_folder else _why_fixed_file(path)
        if fixed:
            return fixed
    return ""


def _why_fixed_file(path: Path) -> str:
    return f"{path} is mounted or immutable" if attributes(path) & (MOUNT_POINT | IMMUTABLE | APPEND_ONLY) else ""


def _check_parent(target: Path, option: PlaceOption) -> None:
    parent = target.resolve().parent
    _check_name(target.resolve().name, option)
    above = next(p for p in (parent, *parent.parents) if p.exists())
    writable = above.is_dir() and os.access(above, os.W_OK | os.X_OK)
    if not writable or attributes(above) & (IMMUTABLE | APPEND_ONLY) or not _takes_folders(above, target):
        raise BadInput(f"cannot write into {above}: give a folder that can be written with {option.name}")


def _check_name(name: str, option: PlaceOption) -> None:
    """Raise BadInput if a name is too long for a file system, with the ending of its workshop."""
    size, room = len(os.fsencode(name)), NAME_BYTES - len(f".{WORKSHOP}")
    if size > room:
        raise BadInput(f"{name[:20]}... is too long a name: it has {size} bytes, at most {room} fit; {option.another}")


def _takes_folders(above: Path, target: Path) -> bool:
    """Tell whether a folder can be made there, by making it: special file systems as /proc cannot be asked."""
    try:  # named like a workshop, so that the next run removes it after a kill
        probe = Path(tempfile.mkdtemp(prefix=f".{target.resolve().name}.partial-", dir=above))
    except OSError as error:
        check_machine(error)
        return False
    with suppress(OSError):
        probe.rmdir()
    return True
