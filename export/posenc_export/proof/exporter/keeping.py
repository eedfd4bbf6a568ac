"""Golden data of a bundle: all calls while it is proved, and afterwards no more than people want to carry."""

from __future__ import annotations

import shutil
import zipfile
from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path

from posenc_export.bundle.folder import MANIFEST, Bundle, file_of, write_json
from posenc_export.bundle.golden import GOLDEN
from posenc_export.proof.planning.quick import covering

LARGEST = 20_000_000
"""Bytes of golden data that a bundle keeps."""


def kept_calls(bundle: Bundle) -> frozenset[str]:
    """Return the names of the calls that golden data keep: all, or a few, and then the smallest.

    The few together have each pair of properties. The first is kept, however large it is.
    """
    sizes: Counter[str] = Counter()
    with zipfile.ZipFile(bundle.folder / GOLDEN) as archive:
        for item in archive.infolist():
            sizes[item.filename.partition("/")[0]] += item.file_size
    kept: set[str] = set()
    room = LARGEST
    cases = bundle.manifest.cases
    for case in (*covering(cases, lambda case: sizes[case.name]), *sorted(cases, key=lambda case: sizes[case.name])):
        if case.name not in kept and (sizes[case.name] <= room or not kept):
            kept.add(case.name)
            room -= sizes[case.name]
    return frozenset(kept)


def keep_calls(bundle: Bundle) -> tuple[str, ...]:
    """Leave out of golden data, and of the manifest, what is more than a bundle keeps; return the line that says so."""
    parts = [keep_calls(part) for part in bundle.parts()]
    manifest, kept = bundle.manifest, kept_calls(bundle)
    cases = tuple(case for case in manifest.cases if case.name in kept)
    if len(cases) == len(manifest.cases) and not any(parts):
        return ()
    note: tuple[str, ...] = ()
    if len(cases) < len(manifest.cases):
        _write_calls(bundle.folder, kept)
        note = (
            f"golden data keep {len(cases)} of {len(manifest.cases)} calls, since all take more than "
            f"{LARGEST // 10**6} MB: posenc validate tries these",
        )
    files = tuple(file_of(bundle.folder, bundle.folder / file.file) for file in manifest.files)
    changed = replace(manifest, cases=cases, files=files, notes=(*manifest.notes, *note))
    write_json(bundle.folder / MANIFEST, changed.to_json())
    return note


def _write_calls(folder: Path, kept: AbstractSet[str]) -> None:
    """Write golden data anew, with some of their calls."""
    whole, golden = folder / f"whole-{GOLDEN}", folder / GOLDEN
    golden.rename(whole)
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(golden, "w", allowZip64=True) as new:
        for item in old.infolist():
            if item.filename.partition("/")[0] in kept:
                # without a date, as NumPy writes it
                with old.open(item) as source, new.open(zipfile.ZipInfo(item.filename), "w", force_zip64=True) as to:
                    shutil.copyfileobj(source, to)
    whole.unlink()
