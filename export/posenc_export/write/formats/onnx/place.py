"""The place of an ONNX file that a user names: whether a file is there at all."""

from __future__ import annotations

from pathlib import Path

from posenc_export.common.errors import BadInput


def check_file(path: Path) -> None:
    """Raise BadInput, in one line, where no file is, before anything is started that reads it."""
    try:
        is_file, is_folder = path.is_file(), path.is_dir()
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot open {path}: {error}") from error
    if is_folder:
        raise BadInput(f"{path} is a folder: give the ONNX file in it, as {path / 'model.onnx'}")
    if not is_file:
        raise BadInput(f"{path} does not exist: give an ONNX file")


def model_file(path: Path) -> Path:
    """Return an ONNX file: the path itself, or, of a folder that an exporter wrote, its model.onnx or its only one.

    Raises BadInput, in one line, where a folder has several, or none.
    """
    if not path.is_dir():
        return path
    # transformers.js has them in a folder below
    files = sorted(path.glob("*.onnx")) or sorted(path.glob("onnx/*.onnx"))
    if not files:
        raise BadInput(f"{path} is a folder: give the ONNX file in it, as {path / 'model.onnx'}")
    named = [file for file in files if file.name == "model.onnx"]
    if len(files) > 1 and not named:
        raise BadInput(f"{path} has {len(files)} ONNX files: give one of them, as {files[0]}")
    return (named or files)[0]
