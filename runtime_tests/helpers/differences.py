"""What differs between two bundles of one name: manifests, golden data, graphs, texts, and what was noted of them."""

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from helpers.differences_of_calls import Difference, of_calls
from helpers.file_contents import digest_but_for_places, digest_of, said_by
from helpers.held import FACTS
from posenc.ports import Array
from posenc_export.bundle.folder import MANIFEST, REPORTS
from posenc_export.bundle.golden import GOLDEN

GRAPHS = ("model.onnx", "model.pt", "model.pt2")
WEIGHTS = "model.onnx.data"
LEFT_OUT = {"versions", "bytes", "sha256"}
"""Fields of a manifest that a version, or the bytes of a file, alone decide."""
KEYS = ("name", "file", "format")
"""Fields by which the entries of a list are known."""
LINES, WORDS = 12, 300
"""Most lines of a text that are shown, and letters of a value."""
SAME_BYTES, SAME, OTHER = "the same bytes", "the same content", "other content"
NAMED = "the same but for the modules of classes"


ABSENT = "nothing"


@dataclass(frozen=True)
class Compared:
    """Two bundles of one name: what differs, how the contents of each file are alike, and how many calls were run."""

    name: str
    differences: tuple[Difference, ...]
    contents: Mapping[str, str]
    calls: int = 0


def compare(old: Path, new: Path) -> Compared:
    """Compare two folders that hold a bundle each, and the facts beside it."""
    if not new.is_dir():
        return Compared(old.name, (Difference("the bundle", "there", ABSENT),), {})
    found = [*of_json(_json(old / FACTS), _json(new / FACTS), FACTS)]
    before, after = old / "bundle", new / "bundle"
    if before.is_dir() != after.is_dir():
        found.append(Difference("the bundle", *("written" if at.is_dir() else "refused" for at in (before, after))))
    if not (before.is_dir() and after.is_dir()):
        return Compared(old.name, tuple(found), {})
    found += of_json(_json(before / MANIFEST), _json(after / MANIFEST), MANIFEST)
    found += [*of_arrays(before / GOLDEN, after / GOLDEN), *of_texts(before, after)]
    contents = {name: alike(before, after, name) for name in GRAPHS if _both(before, after, name)}
    calls = 0
    for name, likeness in contents.items():
        if likeness not in (SAME_BYTES, SAME):
            found += of_json(said_by(before / name), said_by(after / name), name)
            lines, run = of_calls(before, after, name)
            found, calls = [*found, *lines], calls + run
    return Compared(old.name, tuple(found), contents, calls)


def _both(old: Path, new: Path, name: str) -> bool:
    return (old / name).is_file() and (new / name).is_file()


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def of_json(old: Any, new: Any, where: str) -> Iterator[Difference]:
    """Yield what differs between two JSON values, by its path; entries of lists go by their names."""
    joint = " " if "." in where and " " not in where else "."  # the file, then the path in it
    if isinstance(old, dict) and isinstance(new, dict):
        for key in (key for key in (*old, *(new.keys() - old.keys())) if key not in LEFT_OUT):
            yield from of_json(old.get(key, ABSENT), new.get(key, ABSENT), f"{where}{joint}{key}")
    elif isinstance(old, list) and isinstance(new, list):
        yield from _of_lists(old, new, where)
    elif _is_text(old) and _is_text(new):
        if old != new:
            yield Difference(f"{where}{_diff(old, new)}", "", "")
    elif (type(old), old) != (type(new), new):
        yield Difference(where, _shown(old), _shown(new))


def _of_lists(old: list[Any], new: list[Any], where: str) -> Iterator[Difference]:
    key = next((key for key in KEYS if all(isinstance(one, dict) and key in one for one in (*old, *new))), None)
    named = [{one[key] if key else i: one for i, one in enumerate(values)} for values in (old, new)]
    if any(len(by_name) < len(values) for by_name, values in zip(named, (old, new), strict=True)):
        yield from of_json(dict(enumerate(old)), dict(enumerate(new)), where)
        return
    before, after = named
    for name in (*before, *(name for name in after if name not in before)):
        yield from of_json(before.get(name, ABSENT), after.get(name, ABSENT), f"{where}[{name}]")
    if list(before) != list(after) and set(before) == set(after):
        yield Difference(f"{where}, their order", _shown(list(before)), _shown(list(after)))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\n" in value


def _shown(value: object) -> str:
    text = value if value is ABSENT else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= WORDS else f"{text[:WORDS]}..."


def _diff(old: str, new: str) -> str:
    """Return a short unified difference of two texts, each line indented."""
    lines = [*difflib.unified_diff(old.splitlines(), new.splitlines(), "old", "new", lineterm="", n=1)][2:]
    more = [f"... {len(lines) - LINES} lines more"] if len(lines) > LINES else []
    return "".join(f"\n    {line[:WORDS]}" for line in [*lines[:LINES], *more])


def of_arrays(old: Path, new: Path) -> Iterator[Difference]:
    """Yield what differs between the arrays of two archives: names, dtypes, shapes, bits."""
    with np.load(old) as before, np.load(new) as after:
        for name in (*before, *(name for name in after if name not in before)):
            where = f"{GOLDEN} {name}"
            if name not in before or name not in after:
                yield Difference(where, *(_kind(at[name]) if name in at else ABSENT for at in (before, after)))
                continue
            one, other = before[name], after[name]
            if _kind(one) != _kind(other):
                yield Difference(where, _kind(one), _kind(other))
            elif one.tobytes() != other.tobytes():
                yield _of_bits(where, one, other)


def _kind(array: Array) -> str:
    return f"{array.dtype}{list(array.shape)}"


def _of_bits(where: str, old: Array, new: Array) -> Difference:
    """Return how many elements have other bits, and the first of them; NaN is no exception."""
    bits = [np.ascontiguousarray(one).reshape(-1).view(np.uint8).reshape(one.size, -1) for one in (old, new)]
    other = np.flatnonzero((bits[0] != bits[1]).any(1))
    index = [int(i) for i in np.unravel_index(other[0], old.shape)]
    values = [repr(one.reshape(-1)[other[0]].item()) for one in (old, new)]
    return Difference(f"{where}, bits of {len(other)} of {old.size} elements, the first at {index}", *values)


def of_texts(old: Path, new: Path) -> Iterator[Difference]:
    """Yield what differs between all other files: headers, the C++ class, lists of operators."""
    known = {MANIFEST, GOLDEN, *REPORTS, *GRAPHS, WEIGHTS}
    before, after = ({p.relative_to(at).as_posix() for p in at.rglob("*") if p.is_file()} for at in (old, new))
    for name in sorted(before | after):
        if name not in before or name not in after:
            yield Difference(f"the file {name}", *("there" if name in at else ABSENT for at in (before, after)))
        elif name not in known:
            yield from _of_files(old / name, new / name, name)


def _of_files(old: Path, new: Path, name: str) -> Iterator[Difference]:
    contents = [path.read_bytes() for path in (old, new)]
    if contents[0] != contents[1]:
        try:
            yield Difference(f"{name}{_diff(*(content.decode() for content in contents))}", "", "")
        except UnicodeDecodeError:
            yield Difference(name, *(f"{len(content)} bytes" for content in contents))


def alike(old: Path, new: Path, name: str) -> str:
    """Return how the contents of a graph are alike, its weights beside it included."""
    beside = [path / WEIGHTS for path in (old, new) if name == "model.onnx" and (path / WEIGHTS).is_file()]
    if len(beside) == 1 or len({digest_of(path) for path in beside}) > 1:
        return OTHER
    files = (old / name, new / name)
    if files[0].read_bytes() == files[1].read_bytes():
        return SAME_BYTES
    if len({digest_of(path) for path in files}) == 1:
        return SAME
    if name == "model.onnx" or len({digest_but_for_places(path) for path in files}) > 1:
        return OTHER
    return NAMED
