"""Checks of a loaded graph: it must run on the device that was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from posenc_export.bundle.folder import Bundle
from posenc_export.formats.onnx import read_onnx
from posenc_export.validation.checks import Context, Words, check

if TYPE_CHECKING:
    import onnx


@check(
    "provider",
    stage="runner",
    subjects=("ort-cpu", "ort-cuda"),
    words=Words(
        code="PE109",
        asks="Does the ONNX Runtime session run on the execution provider that was asked for?",
        failure="ONNX Runtime fell back to another provider without an error: the device was not tried",
        remedy="Install what the provider lacks: for CUDA the driver and the libraries of `posenc-export[cuda]`.",
        example="CUDA asked for, and the CPU taken",
    ),
)
def provider(context: Context) -> list[str]:
    """The session runs on the provider that was asked for, not on a silent fallback."""
    runner, runtime = context.loaded
    expected, actual = f"{runtime.device.upper()}ExecutionProvider", runner.providers
    return [f"asked for {expected}, got {', '.join(actual)}"] if actual[:1] != (expected,) else []


@check(
    "placement",
    stage="runner",
    subjects=("ort-cuda",),
    words=Words(
        code="PE110",
        asks="Does every node that computes rows run on the GPU of a CUDA session?",
        failure="Rows are computed on the CPU and copied to the device in each call: right, and slow",
        remedy="Take another opset, or a newer ONNX Runtime, that has the operators that are named on CUDA.",
        example="a Cos of float64, for which the provider has no kernel",
    ),
)
def placement(context: Context) -> list[str]:
    """No node that computes rows runs on the CPU of a CUDA session; sizes and block numbers may."""
    runner, _ = context.loaded
    if not runner.nodes:
        return ["ONNX Runtime does not say where nodes run: it must be 1.23 or newer"]
    small = small_values(context.path)
    stray = [
        f"{op} {name}" for where, name, op in runner.nodes if where != "CUDAExecutionProvider" and name not in small
    ]
    return [f"on the CPU: {', '.join(stray)}"] if stray else []


@check(
    "io-binding",
    stage="runner",
    subjects=("ort-cuda", "torchscript-cuda", "pt2-cuda"),
    words=Words(
        code="PE111",
        asks="Does a call whose inputs and outputs lie in the device's memory give the same bits as from the host's?",
        failure="What a program gets that keeps its tensors on the device differs from what was proved",
        remedy="Call from host memory with this release, and report it: it is a bug of the runtime, or of this tool.",
        example="an output that is read before the device has finished",
    ),
)
def io_binding(context: Context) -> list[str]:
    """A call with inputs and outputs in the device's memory gives the bits that it gives from the host's."""
    runner, _ = context.loaded
    assert runner.bind is not None
    golden = next(
        golden for golden in Bundle.open(context.path.parent, context.trusted).golden() if not golden.case.refused
    )
    bound = runner.bind(golden.feeds)
    bound.run()
    on_device, from_host = bound.read(), runner.run(golden.feeds)
    differ = [name for name, array in from_host.items() if array.tobytes() != on_device[name].tobytes()]
    return [f"{', '.join(differ)} differs in {golden.case.name}"] if differ else []


def small_values(path: Path) -> set[str]:
    """Return the nodes whose outputs are all integers, flags, or floats of rank 0 or 1: sizes and block numbers."""
    import onnx

    model = read_onnx(path)
    # dtypes and ranks of all values on the way
    inferred = onnx.shape_inference.infer_shapes(model).graph
    values = {v.name: v.type.tensor_type for v in (*inferred.value_info, *inferred.output, *inferred.input)}
    return {node.name for node in inferred.node if all(_is_small(values.get(name)) for name in node.output)}


def _is_small(kind: onnx.TypeProto.Tensor | None) -> bool:
    from onnx import TensorProto

    floats = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
    if kind is None:
        return False
    return kind.elem_type not in floats or (kind.HasField("shape") and len(kind.shape.dim) < 2)
