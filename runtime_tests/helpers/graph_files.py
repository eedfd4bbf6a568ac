"""Small ONNX files as other tools write them: in ONNX's text, or by the exporters of PyTorch."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import numpy_helper

from posenc_export.read.graph import Graph
from posenc_export.read.graph.read import read_graph
from posenc_export.read.values import Array

onnxruntime.set_default_logger_severity(4)  # graphs that must fail would say so on the terminal


def written(
    folder: Path, body: str, tables: Mapping[str, Array] | None = None, opset: int = 18, name: str = "g.onnx"
) -> Path:
    """Write a graph in ONNX's text with stored tables, and return its path; a_plus_b is the axis "a + b"."""
    header = f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>'
    model = onnx.parser.parse_model(f"{header} {body}")
    for table, array in (tables or {}).items():
        model.graph.initializer.append(numpy_helper.from_array(array, table))
    for item in model.graph.input:
        for dim in item.type.tensor_type.shape.dim:
            if "_plus_" in dim.dim_param:
                dim.dim_param = dim.dim_param.replace("_plus_", " + ")
    path = folder / name
    onnx.save(model, path)
    return path


def added_row(folder: Path) -> Path:
    """Write a file that adds a stored row to an input of a fixed length."""
    body = "added (float[batch, 7, 4] x) => (float[batch, 7, 4] y) { y = Add (x, row) }"
    return written(folder, body, {"row": np.arange(4, dtype=np.float32)}, opset=20, name="added.onnx")


def graph(folder: Path, body: str, tables: Mapping[str, Array] | None = None, opset: int = 18) -> Graph:
    """Return a graph in ONNX's text as it is read."""
    return read_graph(written(folder, body, tables, opset))


def exported(
    folder: Path,
    module: torch.nn.Module,
    inputs: Sequence[tuple[str, torch.Tensor, tuple[str, ...]]],
    dynamo: bool = False,
) -> Path:
    """Export a module with inputs of dynamic axes, and return the file's path; axes without a name are static."""
    path = folder / f"{type(module).__name__}.onnx"
    names = [name for name, _, _ in inputs]
    axes = {name: {i: axis for i, axis in enumerate(named) if axis} for name, _, named in inputs}
    arguments = tuple(tensor for _, tensor, _ in inputs)
    dims = tuple(dict.fromkeys(axes[name], torch.export.Dim.DYNAMIC) for name in names)
    how = {"dynamic_shapes": dims, "external_data": False} if dynamo else {"dynamic_axes": axes, "opset_version": 17}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # exporters warn of sizes that they fix: these tests are about them
        torch.onnx.export(
            module.eval(),
            arguments,
            path,
            input_names=names,
            dynamo=dynamo,
            verbose=False,
            **how,  # type: ignore[arg-type]
        )
    return path


def runs(path: Path, feeds: Mapping[str, Array]) -> bool:
    """Return whether ONNX Runtime runs a file."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    try:
        session.run(None, {name: np.asarray(array) for name, array in feeds.items()})
    except Exception:  # its errors share no class that is documented
        return False
    return True
