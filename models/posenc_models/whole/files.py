"""Files of a folder that somebody else wrote: plain ones of a bounded size that lie in it, and their headers."""

from __future__ import annotations

import json
import stat
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from posenc.strict_json import LARGEST, parse, read_json

SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
"""Files of weights; with .index.json behind its name, a file says which of several holds what."""
ITEMS = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2}
"""Bytes of a number, by the names that safetensors has for dtypes; of those that are not here, one or less."""


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a file of weights, by its header.

    Args:
        name: its name.
        shape: its axes.
        dtype: as safetensors calls it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)


def plain_file(folder: Path, name: str, most: int = LARGEST) -> Path:
    """Return the path of a file in a folder that may be read.

    Args:
        folder: the folder.
        name: the file's path in it.
        most: bytes that it may have; 0 for any number.

    Raises ValueError, in one line, where it is no plain file, has more bytes, or is a link that leads out.
    """
    path = folder / name
    try:
        real = path.resolve(strict=True)
        status = real.stat()
        if not _is_inside(real, folder.resolve()):
            raise ValueError(f"{path} is a link out of the model's folder, to {real}: copy that file to its place")
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path} is no plain file: expected one that can be read from its beginning to its end")
        if most and status.st_size > most:
            raise ValueError(f"{path} has {status.st_size:,} bytes: at most {most:,} are read")
        path.open("rb").close()
    except (OSError, RuntimeError) as error:  # a link in a circle is a RuntimeError
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is a link in a circle"
        raise ValueError(f"{path} cannot be read: {reason}") from None
    return path


def inner_folder(folder: Path, place: str) -> Path:
    """Return a folder inside another; raise ValueError, in one line, where it is a link that leads out."""
    path = folder / place
    if path.exists() and not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(
            f"{path} is a link out of the model's folder, to {path.resolve()}: copy that folder to its place"
        )
    return path


def _is_inside(real: Path, folder: Path) -> bool:
    """Return whether a file lies in a folder, or among the blobs of the download cache that the folder belongs to."""
    if real.is_relative_to(folder):
        return True
    snapshots = next((place for place in (folder, *folder.parents) if place.name == "snapshots"), None)
    return snapshots is not None and real.is_relative_to(snapshots.parent / "blobs")


def read_object(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file; raise ValueError, in one line, where it holds none."""
    try:
        content = read_json(path)
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} cannot be read: {str(error).strip().partition(chr(10))[0]}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds a {type(content).__name__}: expected an object")
    return content


def header_of(path: Path) -> list[StoredTensor]:
    """Return the tensors of a safetensors file; raise ValueError, in one line, where its header is not one of it."""
    broken = f"{path} cannot be read: it is cut off, or no safetensors"
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > LARGEST and length < size:
                raise ValueError(f"{path} has a header of {length:,} bytes: at most {LARGEST:,} are read")
            text = file.read(length) if 8 + length <= size else b""
        content = parse(text.decode())
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise ValueError(f"{broken} (its header is no JSON)") from None
    if not isinstance(content, dict):
        raise ValueError(f"{broken} (its header is no object)")
    tensors = [_stored(name, said, broken) for name, said in content.items() if name != "__metadata__"]
    data = size - 8 - length
    for tensor, end in tensors:
        if not 0 <= tensor.size * ITEMS.get(tensor.dtype, 0) <= end <= data:
            raise ValueError(f"{broken} ({tensor.name} does not fit into it)")
    return [tensor for tensor, _ in tensors]


def _stored(name: str, said: object, broken: str) -> tuple[StoredTensor, int]:
    """Return a tensor that a header names, and where its data end."""
    fields = said if isinstance(said, dict) else {}
    dtype, shape, ends = (fields.get(key) for key in ("dtype", "shape", "data_offsets"))
    if (
        not isinstance(dtype, str)
        or not isinstance(shape, list)
        or not isinstance(ends, list)
        or len(ends) != 2
        or not all(type(size) is int and size >= 0 for size in (*shape, *ends))
    ):
        raise ValueError(f"{broken} (its header says no shape and place of {name})")
    return StoredTensor(name, tuple(shape), dtype), ends[1]
