"""Bundles whose ONNX file is changed, with the digests of the manifest put right."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from helpers.bundles import edit
from posenc.ports import Array


def put_right(bundle: Path, file: str) -> None:
    """Give a file's size and digest to the manifest."""
    content = (bundle / file).read_bytes()

    def change(manifest: dict[str, list[dict[str, object]]]) -> None:
        for artifact in manifest["artifacts"]:
            if artifact["file"] == file:
                artifact.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())

    edit(bundle, change)


def change_graph(bundle: Path, change: Callable[[onnx.ModelProto], object]) -> None:
    """Change the graph of a bundle."""
    model = onnx.load(bundle / "model.onnx")
    change(model)
    onnx.save(model, bundle / "model.onnx")
    put_right(bundle, "model.onnx")


def change_table(bundle: Path, name: str, change: Callable[[Array], object]) -> None:
    """Change a stored tensor of a bundle, in place."""

    def apply(model: onnx.ModelProto) -> None:
        tensor = next(tensor for tensor in model.graph.initializer if tensor.name == name)
        array = numpy_helper.to_array(tensor).copy()
        change(array)
        tensor.CopyFrom(numpy_helper.from_array(array, name))

    change_graph(bundle, apply)


def largest_table(bundle: Path) -> tuple[str, Array]:
    """Return the stored tensor that has the most rows."""
    tensors = onnx.load(bundle / "model.onnx").graph.initializer
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in tensors}
    return max(arrays.items(), key=lambda pair: pair[1].shape[0] if pair[1].ndim > 1 else 0)


def zero(row: int) -> Callable[[Array], object]:
    """Return what makes a row zeros."""

    def change(array: Array) -> None:
        assert np.any(array[row])
        array[row] = 0

    return change
