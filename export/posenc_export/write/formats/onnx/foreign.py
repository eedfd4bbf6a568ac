"""An ONNX file that another program wrote, read without its weights: what goes in, what comes out, who wrote it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from posenc_export.bundle.inside import locations
from posenc_export.common.errors import BadInput, check_machine
from posenc_export.write.formats.onnx.place import check_file

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

PROTOBUF = 2**31
"""Bytes of a protobuf file at most."""


@dataclass(frozen=True)
class FileValue:
    """An input or an output of a file.

    Attributes:
        name: Its name in the graph.
        dtype: By NumPy's name; empty where the file does not say it.
        axes: Sizes, and names of dynamic axes, empty where they have none; None where the file does not say its rank.
    """

    name: str
    dtype: str
    axes: tuple[int | str, ...] | None

    def is_other(self, dtype: str) -> bool:
        """Return whether its dtype is known, and another one."""
        return self.dtype not in ("", dtype)

    def __str__(self) -> str:
        axes = "..." if self.axes is None else ", ".join(str(axis) or "?" for axis in self.axes)
        return f"{self.dtype or 'unknown'}[{axes}]"


@dataclass(frozen=True)
class ForeignFile:
    """A file that another program wrote.

    Attributes:
        path: The file.
        model: Its graph; weights that lie beside it are not loaded.
        inputs: What a caller gives: inputs with a stored default are none.
        outputs: What comes out.
    """

    path: Path
    model: ModelProto
    inputs: tuple[FileValue, ...]
    outputs: tuple[FileValue, ...]

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators."""
        return next((entry.version for entry in self.model.opset_import if entry.domain in ("", "ai.onnx")), 1)

    @property
    def writer(self) -> str:
        """The program that wrote it, as far as it says so."""
        return f"{self.model.producer_name} {self.model.producer_version}".strip() or "a program that it does not name"


def read_foreign(path: Path) -> ForeignFile:
    """Read a file; raise BadInput, in one line, where it is no ONNX file, or takes its weights from elsewhere."""
    import onnx

    check_file(path)
    try:
        # before any of it is read into memory
        if path.stat().st_size >= PROTOBUF:
            raise BadInput(f"{path} has {path.stat().st_size:,} bytes: an ONNX file has less than {PROTOBUF:,}")
        model = onnx.load(path, load_external_data=False)
    except OSError as error:
        check_machine(error)
        raise BadInput(f"cannot open {path}: {error.strerror}") from error
    except BadInput:
        raise
    except Exception as error:  # protobuf has an error of its own for each way to be damaged
        check_machine(error)
        raise BadInput(f"{path}: is damaged or no ONNX file: it cannot be parsed") from error
    if not model.graph.output:
        empty = path.stat().st_size == 0
        words = "is empty: give an ONNX file" if empty else "is damaged or no ONNX file: its graph has no output"
        raise BadInput(f"{path}: {words}")
    _check_weights(path, model)
    # files of IR version 3 list stored tensors among the inputs
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = tuple(_value(path, value) for value in model.graph.input if value.name not in stored)
    return ForeignFile(path, model, inputs, tuple(_value(path, value) for value in model.graph.output))


def _check_weights(path: Path, model: ModelProto) -> None:
    """Raise BadInput where weights lie anywhere but in plain files beside the graph."""
    for place in dict.fromkeys(locations(model)):
        file = path.parent / place
        if Path(place).name != place or file.is_symlink():
            raise BadInput(f"{path.name} takes weights from {place!r}: expected a file beside it, and no link")
        if not file.is_file():
            raise BadInput(f"{path.name} takes weights from {place!r}, which is not beside it: put it there")


def _value(path: Path, value: ValueInfoProto) -> FileValue:
    """Return an input or an output; raise BadInput where it is no tensor."""
    from onnx import helper

    kind = value.type
    if kind.WhichOneof("value") not in (None, "tensor_type"):
        raise BadInput(f"{path.name}: {value.name!r} is no tensor: sequences, maps and optional values are not taken")
    tensor = kind.tensor_type
    dtype = str(helper.tensor_dtype_to_np_dtype(tensor.elem_type).name) if tensor.elem_type else ""
    return FileValue(value.name, dtype, tuple(_axes(value)) if tensor.HasField("shape") else None)


def _axes(value: ValueInfoProto) -> Iterator[int | str]:
    for dim in value.type.tensor_type.shape.dim:
        yield dim.dim_value if dim.HasField("dim_value") else dim.dim_param
