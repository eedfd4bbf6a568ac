"""External data of a model that is rewritten: copied into one new file, and found again by whoever runs it."""

from __future__ import annotations

import os
import shutil
from mmap import ACCESS_READ, mmap
from pathlib import Path

from onnx import TensorProto

from posenc_export.common.errors import BadInput
from posenc_export.read.graph.data import external, location_of, put_in
from posenc_export.read.graph.external import Location
from posenc_export.read.graph.file import load
from posenc_export.read.graph.store import LIMIT
from posenc_export.read.graph.tensors import stored_bytes

TRAILER = b"\nposenc-export wrote this file: see posenc extend\n"
"""Ends each file of data that an extension writes: only such a file is removed once no model takes its numbers."""
ALIGNED = 4096
"""Where the bytes of a tensor begin is a multiple of this: runtimes map pages of the file into memory."""
PART = 2**24
"""Bytes that are copied at once."""


def gather(tensors: list[TensorProto], model: Path, place: Path) -> None:
    """Copy the bytes that tensors take, and no others, into one new file, and point the tensors there.

    Bytes that several tensors share are copied once, and runs of zeros take no room on the disk.

    Args:
        tensors: the external tensors of the model.
        model: the file that they stand in.
        place: the new file; its name is what the tensors get.

    Raises BadInput where the disk has less room than they take, ValueError where a tensor is damaged.
    """
    files: dict[str, Path] = {}
    parts: dict[tuple[Path, int, int], list[TensorProto]] = {}
    for tensor in tensors:
        size = stored_bytes(tensor.data_type, tuple(tensor.dims))
        found = Location.find(tensor, f"tensor {tensor.name!r}", model, files)
        found.check(size)
        parts.setdefault((found.file, found.offset, size), []).append(tensor)
    total, free = sum(size for _, _, size in parts), shutil.disk_usage(place.parent).free
    if total > free:
        raise BadInput(f"external data of {total:,} bytes are to be copied, and {free:,} are free in {place.parent}")
    with place.open("xb") as out:
        for (file, offset, size), users in parts.items():
            begin = -(-out.tell() // ALIGNED) * ALIGNED
            out.seek(begin)
            _copy(file, offset, size, out.fileno())
            out.seek(begin + size)
            for tensor in users:
                put_in(tensor, place.name, begin, size)
        out.write(TRAILER)


def _copy(file: Path, offset: int, size: int, out: int) -> None:
    with file.open("rb") as source:
        source.seek(offset)
        at, last = os.lseek(out, 0, os.SEEK_CUR), offset + size
        while source.tell() < last:
            part = source.read(min(PART, last - source.tell()))
            if not part:
                raise ValueError(f"{file.name} has become shorter meanwhile: try again")
            if part.strip(b"\0"):
                os.pwrite(out, part, at)
            at += len(part)


def orphans(out: Path) -> list[str]:
    """Return the files of data that `extend` wrote for a model which is about to be replaced, and for it alone.

    Args:
        out: the model that is replaced; anybody may have made it.
    """
    if not out.is_file() or out.is_symlink():
        return []
    try:
        names = {location_of(tensor) for tensor in external(load(out, LIMIT)[0])}
    except ValueError:  # no model: it has no data
        return []
    beside = [path for path in out.parent.iterdir() if path.suffix == ".onnx" and path.name != out.name]
    return [
        name
        for name in sorted(names)
        if Path(name).name == name
        and _is_ours(out.parent / name)
        and not any(_mentions(path, os.fsencode(name)) for path in beside)
    ]


def _is_ours(path: Path) -> bool:
    if path.is_symlink() or not path.is_file() or path.stat().st_size < len(TRAILER):
        return False
    with path.open("rb") as file:
        file.seek(-len(TRAILER), os.SEEK_END)
        return file.read() == TRAILER


def _mentions(path: Path, name: bytes) -> bool:
    """Return whether a model may take data from a file of that name; True where it cannot be read."""
    try:
        if not path.is_file() or not path.stat().st_size:
            return False
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            return content.find(name) >= 0
    except OSError:
        return True
