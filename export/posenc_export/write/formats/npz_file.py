"""Files of NumPy (.npz), written without compression and read without pickles: a zip of a .npy for each array.

What a file says of itself is JSON in the zip's comment, which NumPy passes over. A file from elsewhere is read only
where it holds matrices alone, each as many bytes as its header says: nothing unpacks to more than the file has.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from posenc.ports import Array
from posenc.strict_json import parse
from posenc_export.bundle.golden import DAMAGE
from posenc_export.bundle.headers import header_of
from posenc_export.common.errors import ExportFailed, check_machine

NEVER = (1980, 1, 1, 0, 0, 0)
"""The time of a member: the earliest that a zip can say, so that the bytes are the same on every day."""
SUFFIX = ".npy"
DTYPES: Mapping[str, str] = {"<f2": "float16", "<f4": "float32", "<f8": "float64"}
"""What .npy calls a dtype."""
MAX_COMMENT = 2**16 - 1
"""Bytes of a comment, by the format of zip files: ours have a few hundred."""
MAX_AROUND = 2**17
"""Bytes of a file beside its members: their names and places, and the comment."""


def write(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays by name, one behind the other."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}{SUFFIX}", NEVER)
            # zipfile notes the system that it runs on, and the bytes are to be the same on all
            member.create_system = 0
            # known beforehand, as a member of 2 GiB has its size elsewhere
            member.file_size = array.nbytes + npy.ARRAY_ALIGN * 2
            with archive.open(member, "w") as file:
                npy.write_array(file, np.ascontiguousarray(array), (1, 0), allow_pickle=False)


def read(path: Path) -> dict[str, Array]:
    """Return the matrices of a file by name; raise ValueError, in one line, for any other file."""
    with _opened(path) as archive:
        members = archive.infolist()
        around = path.stat().st_size - sum(member.file_size for member in members)
        # what is compressed, or said twice, is more than the file has
        if not 0 <= around <= MAX_AROUND or any(member.compress_type for member in members):
            raise ValueError("it holds more than arrays without compression")
        arrays: dict[str, Array] = {}
        for member in members:
            name = member.filename.removesuffix(SUFFIX)
            if name == member.filename or name in arrays:
                raise ValueError(f"it holds {member.filename!r}, expected a {SUFFIX} file of each array")
            with archive.open(member) as file:
                arrays[name] = _matrix(name, file, member.file_size)
        return arrays


def stamp(path: Path, metadata: Mapping[str, str]) -> None:
    """Put texts by keys into the comment of a file, which the arrays do not change by."""
    comment = json.dumps(dict(metadata), separators=(",", ":")).encode()
    if len(comment) > MAX_COMMENT:
        size = f"{len(comment):,} bytes, and the comment of a zip has at most {MAX_COMMENT:,}"
        raise ExportFailed(f"what {path.name} is to say of its encoding takes {size}: give -f cache")
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = comment


def stamped(path: Path, key: str) -> str:
    """Return what a file says under a key, or nothing, as where it is none."""
    try:
        with _opened(path) as archive:
            said = parse(archive.comment.decode("utf-8"))
    except ValueError:
        return ""
    text = said.get(key) if isinstance(said, dict) else None
    return text if isinstance(text, str) else ""


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a file to read; raise ValueError, in one line, for whatever zipfile says of a damaged one."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except DAMAGE as error:
        check_machine(error)
        raise ValueError(f"{path.name} is damaged: {error}") from error


def _matrix(name: str, file: IO[bytes], size: int) -> Array:
    """Return the matrix of a member of so many bytes; raise ValueError for anything else."""
    shape, by_columns, dtype = header_of(file)
    if dtype.str not in DTYPES or by_columns or len(shape) != 2 or min(shape) < 1:
        expected = f"a matrix of {', '.join(DTYPES.values())}, row by row"
        raise ValueError(f"{name} is {dtype.str} {list(shape)}, expected {expected}")
    # a header may claim any size: its numbers are all that is left of the member
    needed, left = shape[0] * shape[1] * dtype.itemsize, size - file.tell()
    if needed != left:
        raise ValueError(f"{name} has {left:,} bytes of numbers, its header says {needed:,}")
    return np.frombuffer(file.read(needed), dtype).reshape(shape)
