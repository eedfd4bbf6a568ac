"""Where the bytes of a model's tensors lie: in the file, or in files beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from errno import ENOMEM
from mmap import ACCESS_READ, ALLOCATIONGRANULARITY, mmap
from pathlib import Path

MAPPED = 2**16
"""Bytes from which a part of a file is mapped into memory: of a table, the rows that are looked at are read alone."""
LIMIT = 2**26
"""Bytes that a constant may take in memory: the rotary table of 131072 positions and 128 features in float32."""


@dataclass(frozen=True)
class Store:
    """The place of a model's tensors.

    Args:
        path: the ONNX file.
        limit: bytes that a constant may take in memory.
        mark: what stands where the bytes of a large tensor were left in the file; empty where none were.
        stamp: the file's size and time of change when it was read.
        files: of external data, by the names that the model has for them.
    """

    path: Path
    limit: int = LIMIT
    mark: bytes = b""
    stamp: tuple[int, int] = (0, 0)
    files: dict[str, Path] = field(default_factory=dict)

    def read(self, offset: int, length: int, label: str) -> bytes | memoryview:
        """Return the bytes of a tensor that were left in the file; ValueError where it has changed since."""
        # another file of that name would give numbers from anywhere
        if not self.path.is_file() or stamp(self.path) != self.stamp:
            raise ValueError(f"{label} cannot be read: the file has changed since it was opened; try again")
        return part_of(self.path, offset, length)


def part_of(path: Path, offset: int, length: int) -> bytes | memoryview:
    """Return a part of a file: read where it is short, and else mapped, so that the system reads what is looked at."""
    with path.open("rb") as file:
        if length < MAPPED:
            file.seek(offset)
            return file.read(length)
        # a mapping begins at a multiple of pages
        before = offset % ALLOCATIONGRANULARITY
        try:
            content = mmap(file.fileno(), before + length, access=ACCESS_READ, offset=offset - before)
        except OSError as error:
            # a mapping takes addresses, which the process has a bound on
            raise MemoryError if error.errno == ENOMEM else error from error
        return memoryview(content)[before:]


def stamp(path: Path) -> tuple[int, int]:
    """Return a file's size, and the time of its last change."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns
