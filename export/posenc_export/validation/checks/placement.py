"""Checks of a loaded graph: it must run on the device that was asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from posenc_export.bundle.folder import Bundle
from posenc_export.formats.onnx import read_onnx
from posenc_export.runtimes import Runner
from posenc_export.validation.checks import Context, Finding, Words, check

if TYPE_CHECKING:
    import onnx

CPU = "CPUExecutionProvider"
COPIES = ("MemcpyFromHost", "MemcpyToHost")
"""Nodes that ONNX Runtime adds."""


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
    subjects=("ort-cuda", "browser-webgpu", "browser-jsep"),
    words=Words(
        code="PE110",
        asks="Does every node that computes rows run on the GPU of a CUDA session? Which does WebGPU leave to the CPU?",
        failure="Rows are computed on the CPU and copied to the device in each call: right, and slow",
        remedy="Take another opset, or a newer ONNX Runtime, that has the operators that are named on CUDA.",
        example="a Cos of float64, for which the provider has no kernel",
    ),
)
def placement(context: Context) -> Finding:
    """No node that computes rows runs on the CPU of a CUDA session; of WebGPU, the report names the nodes that do."""
    runner, runtime = context.loaded
    small = small_values(context.path)
    if runtime.device == "webgpu":
        return _on_webgpu(runner, small)
    if not runner.nodes:
        return Finding(["ONNX Runtime does not say where nodes run: it must be 1.23 or newer"])
    stray = [
        f"{op} {name}" for where, name, op in runner.nodes if where != "CUDAExecutionProvider" and name not in small
    ]
    return Finding([f"on the CPU: {', '.join(stray)}"] if stray else [])


def _on_webgpu(runner: Runner, small: Collection[str]) -> Finding:
    """Return how many nodes run on the GPU, which do not, and a note where those that do not compute rows.

    WebGPU has no float64 and no int64: what counts tokens and positions belongs to the CPU, with the Cast behind it.
    """
    left = [(name, op) for where, name, op in runner.nodes if where == CPU and op not in COPIES]
    there = [op for where, _, op in runner.nodes if where != CPU and op not in COPIES]
    count, total = len(there), len(there) + len(left)
    words = f"{'; '.join(runner.providers)}: {count} of {total} nodes on the GPU"
    rows = [op for name, op in left if name not in small and op != "Cast"]
    note = f"rows are computed on the CPU, and copied to the GPU: {_counted(rows)}" if rows else ""
    return Finding((), f"{words}; on the CPU: {_counted([op for _, op in left])}" if left else words, note)


def _counted(operators: list[str]) -> str:
    """Return operators in words, each with the number of its nodes."""
    counts = Counter(op or "operators without a name" for op in operators)
    return ", ".join(f"{count} {op}" for op, count in counts.most_common())


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
