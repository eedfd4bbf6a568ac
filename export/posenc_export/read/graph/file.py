"""The file itself: its bytes into a ModelProto, or one line on what it is instead."""

from __future__ import annotations

from collections.abc import Mapping
from mmap import ACCESS_READ, mmap
from pathlib import Path
from secrets import token_bytes

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from posenc_export.read.graph.cutting import TooMany, without_tensors
from posenc_export.read.graph.store import Store, stamp

LARGEST = 2**31
"""Bytes that a protobuf can have at most: an ONNX file with more weights keeps them in files beside it."""
OTHERS = {
    b"PK\x03\x04": "a zip archive: unpack it, and give the .onnx file inside",
    b"\x1f\x8b": "compressed by gzip: unpack it first",
    b"version https://git-lfs": "a Git LFS pointer: fetch the file itself by `git lfs pull`",
    b"\x80\x02": "a pickle, as torch.save writes it: export the model to ONNX first",
    b"GGUF": "a GGUF file: give the ONNX file of the model",
    b"\x89HDF": "an HDF5 file: export the model to ONNX first",
    b"<": "a page of HTML or XML: the download went wrong",
}
"""What files that are not ONNX begin with, and what to do about them."""
FLATBUFFERS = {
    b"ORTM": "an ORT file, from which names are gone: give the ONNX file it was made of",
    b"TFL3": "a TensorFlow Lite file: convert it to ONNX first",
}
"""What stands at the fifth byte of flatbuffers."""


def load(path: Path, limit: int, files: Mapping[str, Path] | None = None) -> tuple[onnx.ModelProto, Store]:
    """Return the model of a file, and where its large tensors are; ValueError says in one line why there is none.

    Args:
        path: the file.
        limit: bytes that a constant may take in memory.
        files: where external data lie that are not beside the file, by the names that it has for them.
    """
    try:
        _check_file(path)
        # the mark is random, so that no file can have one
        store = Store(path, limit, token_bytes(16), stamp(path), dict(files or {}))
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            return _model(content, store.mark), store
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise ValueError("is a folder: give the .onnx file in it")
    if not path.exists():
        raise ValueError("there is no such file: give the path of an ONNX file")
    # a pipe or a device might never end
    if not path.is_file():
        raise ValueError("is not a regular file: give the path of an ONNX file")
    size = path.stat().st_size
    if size == 0:
        raise ValueError("is empty: give an ONNX file")
    if size >= LARGEST:
        raise ValueError(f"has {size} bytes, and an ONNX file less than 2 GiB: save it with external data")


def _model(content: mmap, mark: bytes) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(without_tensors(content, mark))
    except TooMany:
        raise
    except (ValueError, DecodeError) as error:
        raise ValueError(_not_onnx(content, "is damaged or no ONNX file: it cannot be parsed")) from error
    if not model.HasField("graph"):
        raise ValueError(_not_onnx(content, "holds no graph: it is damaged or no ONNX file"))
    if not model.graph.node and not model.graph.output:
        raise ValueError(_not_onnx(content, "holds a graph without nodes and outputs: it is damaged or no ONNX file"))
    return model


def _not_onnx(content: mmap, otherwise: str) -> str:
    kind = next((kind for start, kind in OTHERS.items() if content[: len(start)] == start), None)
    kind = kind or FLATBUFFERS.get(content[4:8])
    return f"is {kind}" if kind else otherwise
