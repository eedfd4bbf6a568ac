"""Golden data of a bundle: all calls while it is proved, and afterwards no more than people want to carry."""

from __future__ import annotations

import shutil
import zipfile
from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import replace

from posenc_export.bundle.case import Case
from posenc_export.bundle.folder import MANIFEST, Bundle, file_of, write_json
from posenc_export.bundle.golden import GOLDEN
from posenc_export.proof.planning.quick import kind_of_call

LARGEST = 20_000_000
"""Bytes of golden data that a bundle keeps."""


def kept_calls(bundle: Bundle) -> frozenset[str]:
    """Return the names of the calls that golden data keep: all, or the smallest of each kind and then the smallest.

    The smallest one is kept, however large it is.
    """
    sizes: Counter[str] = Counter()
    with zipfile.ZipFile(bundle.folder / GOLDEN) as archive:
        for item in archive.infolist():
            sizes[item.filename.partition("/")[0]] += item.file_size
    by_size = sorted(bundle.manifest.cases, key=lambda case: sizes[case.name])
    smallest_of_kind: dict[object, Case] = {}
    for case in by_size:
        smallest_of_kind.setdefault(kind_of_call(case), case)
    kept: set[str] = set()
    room = LARGEST
    for case in (*smallest_of_kind.values(), *by_size):
        if case.name not in kept and (sizes[case.name] <= room or not kept):
            kept.add(case.name)
            room -= sizes[case.name]
    return frozenset(kept)


def keep_calls(bundle: Bundle) -> str:
    """Leave out of golden data, and of the manifest, what is more than a bundle keeps; return a line that says so."""
    parts = {part.folder.name: keep_calls(part) for part in bundle.parts()}
    kept = kept_calls(bundle)
    note = _write_calls(bundle, kept) if len(kept) < len(bundle.manifest.cases) else ""
    if not note and not any(parts.values()):
        return ""
    manifest = bundle.manifest
    files = tuple(file_of(bundle.folder, bundle.folder / file.file) for file in manifest.files)
    cases = tuple(case for case in manifest.cases if case.name in kept)
    notes = (*manifest.notes, *((note,) if note else ()))
    write_json(bundle.folder / MANIFEST, replace(manifest, cases=cases, files=files, notes=notes).to_json())
    return note


def _write_calls(bundle: Bundle, kept: AbstractSet[str]) -> str:
    whole, golden = bundle.folder / f"whole-{GOLDEN}", bundle.folder / GOLDEN
    golden.rename(whole)
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(golden, "w", allowZip64=True) as new:
        for item in old.infolist():
            if item.filename.partition("/")[0] in kept:
                # without a date, as NumPy writes it
                with old.open(item) as source, new.open(zipfile.ZipInfo(item.filename), "w", force_zip64=True) as to:
                    shutil.copyfileobj(source, to)
    whole.unlink()
    count = len(bundle.manifest.cases)
    return (
        f"golden data keep {len(kept)} of {count} calls, in {LARGEST // 10**6} MB: all {count} were tried at export, "
        "and posenc validate tries these"
    )
