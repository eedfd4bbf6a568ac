"""Tensors in files beside the model: where they lie, held inside the model's folder, read one at a time."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx

from posenc_export.read.graph.store import part_of


@dataclass(frozen=True)
class Location:
    """The bytes of a tensor in a file beside the model.

    Args:
        tensor: the tensor, in words.
        name: the file's path as the model gives it.
        file: the file's path.
        offset: where the bytes begin.
        length: how many the model says there are; None where it says nothing.
    """

    tensor: str
    name: str
    file: Path
    offset: int
    length: int | None

    @classmethod
    def find(cls, tensor: onnx.TensorProto, label: str, model: Path, files: dict[str, Path]) -> Location:
        """Return where the data of a tensor lie; ValueError where that is outside the model's folder.

        Args:
            tensor: with the entries of its external data.
            label: the tensor in words.
            model: the ONNX file.
            files: that were looked for before, by name; the file is added.
        """
        entries = {entry.key: entry.value for entry in tensor.external_data}
        name = entries.get("location", "")
        if name not in files:
            files[name] = _inside(name, label, model)
        length = _number(entries["length"], "length", label) if "length" in entries else None
        return cls(label, name, files[name], _number(entries.get("offset", "0"), "offset", label), length)

    def check(self, size: int) -> None:
        """Raise ValueError where the file does not hold the bytes of the tensor, which takes `size` of them."""
        if not is_file(self.file):
            raise ValueError(f"{self.tensor} is in {self.name!r}, which is missing: put the file beside the model")
        if self.length is not None and self.length != size:
            raise ValueError(
                f"{self.tensor} takes {size} bytes and has a length of {self.length} in {self.name!r}: "
                "the model is damaged"
            )
        there = self.file.stat().st_size
        if self.offset + size > there:
            raise ValueError(
                f"{self.tensor} ends at byte {self.offset + size} of {self.name!r}, which has {there}: "
                "the file is truncated, fetch it again"
            )

    def read(self, size: int) -> bytes | memoryview:
        """Return the bytes of the tensor, which is known to take `size` of them."""
        self.check(size)
        try:
            content = part_of(self.file, self.offset, size)
        except (OSError, ValueError):
            content = b""
        # a file that is being written may have become shorter since
        if len(content) != size:
            raise ValueError(f"{self.tensor} cannot be read: {self.name!r} has changed meanwhile; try again")
        return content


def _number(text: str, key: str, label: str) -> int:
    # int() would take signs, blanks and underscores
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ValueError(f"{label} has {text!r} for the {key} of its external data: the model is damaged")
    return int(text)


def _inside(name: str, label: str, model: Path) -> Path:
    # a path that is harmless here may not be on the machine where the file was made, nor the other way round
    paths = (PurePosixPath(name), PureWindowsPath(name))
    outside = any(path.is_absolute() or path.drive or path.root or ".." in path.parts for path in paths)
    if not name or "\0" in name or outside:
        raise ValueError(f"{label} has its data in {name!r}: external data must lie inside the model's folder")
    file = model.parent / name
    # caches of downloads keep a model and its data as links to files that lie side by side
    folders = (model.parent.resolve(), model.resolve().parent)
    if not any(_target(file).is_relative_to(folder) for folder in folders):
        raise ValueError(f"{label} has its data in {name!r}, a link out of the model's folder: copy the file there")
    return file


def _target(file: Path) -> Path:
    try:
        return file.resolve(strict=True)
    except RuntimeError:  # links that lead to each other, up to Python 3.12
        return Path("/")
    except OSError as error:  # the same from 3.13 on; or nothing is there
        return Path("/") if error.errno == errno.ELOOP else file.resolve()


def is_file(path: Path) -> bool:
    """Return whether there is a regular file at a path, which may be longer than the system takes."""
    try:
        return path.is_file()
    except OSError:
        return False
