"""Checks: what a graph must be, beside giving the right numbers. To add one, write a decorated function here.

A check returns what is wrong, in one line each; nothing wrong, nothing returned. It names what it looks at: "source"
(the module, at export), "artifact" (a file) or "runner" (a loaded graph).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from posenc.registry import Registry
from posenc_export.formats import quiet
from posenc_export.formats.onnx import MAX_IR_VERSION, read_onnx
from posenc_export.validation.plan import is_length

if TYPE_CHECKING:
    import onnx
    from torch import nn

    from posenc_export.bundle.folder import Artifact, Manifest
    from posenc_export.runtimes import Runner, Runtime

Looks = Literal["source", "artifact", "runner"]


@dataclass(frozen=True)
class Source:
    """What an export saw of a module: whether exports in a row, and around calls, agree; what calls changed."""

    same_twice: bool
    same_after_calls: bool
    changed: tuple[str, ...]


@dataclass(frozen=True)
class Context:
    """What a check may look at; a part that does not apply is None."""

    manifest: Manifest
    artifact: Artifact
    path: Path
    source: Source | None = None
    runtime: Runtime | None = None
    runner: Runner | None = None


@dataclass(frozen=True)
class Check:
    """A named property of an artifact; `of` names the formats, or the runtimes, that have it; none, all."""

    name: str
    looks: Looks
    of: tuple[str, ...]
    find: Callable[[Context], list[str]]
    summary: str


CHECKS: Registry[Check] = Registry("check")

Find = Callable[[Context], list[str]]


def check(name: str, *, looks: Looks, of: tuple[str, ...] = ()) -> Callable[[Find], Find]:
    """Register the decorated function as a check of the given formats or runtimes, or of all."""

    def register(find: Find) -> Find:
        CHECKS.add(name, Check(name, looks, of, find, (find.__doc__ or "").partition("\n")[0]))
        return find

    return register


@check("static-axis", looks="artifact", of=("onnx",))
def static_axis(context: Context) -> list[str]:
    """Every axis asked to be dynamic is symbolic in the graph, under its name, and no constant has a traced length."""
    graph = read_onnx(context.path).graph
    declared = ((context.manifest.inputs, graph.input), (context.manifest.outputs, graph.output))
    found = []
    for ports, values in declared:
        by_name = {value.name: value for value in values}
        for port in ports:
            dims = by_name[port.name].type.tensor_type.shape.dim if port.name in by_name else []
            for index, axis in port.dynamic.items():
                told = _dim(dims[index]) if index < len(dims) else None
                if told != axis:
                    found.append(f"axis {axis!r} of {port.name} is {told} in the graph")
    traced = {n for axis, n in context.manifest.trace.items() if is_length(axis)}
    lengths = traced - {context.manifest.max_len}  # a table of three rows may be traced at three
    for tensor in graph.initializer:
        if lengths & set(tensor.dims):
            found.append(f"constant {tensor.name} has the traced length: shape {list(tensor.dims)}")
    return found


def _dim(dim: onnx.TensorShapeProto.Dimension) -> str | int:
    return dim.dim_param or dim.dim_value


@check("structure", looks="artifact", of=("onnx",))
def structure(context: Context) -> list[str]:
    """Names, dtypes, opset and IR version are those of the manifest, and onnx.checker accepts the graph in full."""
    import onnx

    model = read_onnx(context.path)
    manifest = context.manifest
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), None)
    found = []
    for kind, ports, values in (
        ("inputs", manifest.inputs, model.graph.input),
        ("outputs", manifest.outputs, model.graph.output),
    ):
        told = [(v.name, _dtype(v)) for v in values]
        asked = [(p.name, p.dtype) for p in ports]
        if told != asked:
            found.append(f"{kind} are {told}, expected {asked}")
    if opset != manifest.opset:
        found.append(f"opset is {opset}, expected {manifest.opset}")
    if model.ir_version > MAX_IR_VERSION or model.ir_version != manifest.ir_version:
        found.append(f"IR version is {model.ir_version}, expected {manifest.ir_version}, at most {MAX_IR_VERSION}")
    if not found:
        try:
            onnx.checker.check_model(str(context.path), full_check=True)
        except Exception as error:
            found.append(f"onnx.checker: {str(error).strip().splitlines()[0]}")
    return found


def _dtype(value: onnx.ValueInfoProto) -> str:
    from onnx import helper

    return str(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name)


@check("lost-input", looks="artifact", of=("onnx", "torchscript"))
def lost_input(context: Context) -> list[str]:
    """Every input is used by the graph."""
    used = _used_by_onnx(context) if context.path.suffix == ".onnx" else _used_by_script(context)
    return [f"input {port.name!r} is not used" for port in context.manifest.inputs if port.name not in used]


def _used_by_onnx(context: Context) -> set[str]:
    graph = read_onnx(context.path).graph
    return {name for node in graph.node for name in node.input} | {value.name for value in graph.output}


def _used_by_script(context: Context) -> set[str]:
    import torch

    with quiet():
        values = list(torch.jit.load(str(context.path), map_location="cpu").inlined_graph.inputs())[1:]
    # A script keeps arguments that no port feeds, at their defaults: they come last.
    return {port.name for port, value in zip(context.manifest.inputs, values, strict=False) if value.uses()}


@check("purity", looks="source")
def purity(context: Context) -> list[str]:
    """Calls at other lengths change neither the module's state nor what an export gives."""
    source = context.source
    assert source is not None
    found = [f"a call changed {name} of the module" for name in source.changed]
    if not source.same_after_calls:
        found.append("the export after calls at other lengths is another graph: the module keeps something of a call")
    return found


@check("determinism", looks="source")
def determinism(context: Context) -> list[str]:
    """Exporting twice gives the same bytes."""
    assert context.source is not None
    return [] if context.source.same_twice else ["two exports in a row differ"]


@check("provider", looks="runner", of=("ort-cpu", "ort-cuda"))
def provider(context: Context) -> list[str]:
    """The session runs on the provider that was asked for, not on a silent fallback."""
    assert context.runner is not None
    assert context.runtime is not None
    wanted = f"{context.runtime.device.upper()}ExecutionProvider"
    got = context.runner.providers
    return [f"asked for {wanted}, got {', '.join(got)}"] if not got or got[0] != wanted else []


@check("placement", looks="runner", of=("ort-cuda",))
def placement(context: Context) -> list[str]:
    """No node that computes rows runs on the CPU of a CUDA session; sizes and block numbers may."""
    runner = context.runner
    assert runner is not None
    if not runner.nodes:
        return ["ONNX Runtime does not tell where nodes run: it must be 1.23 or newer"]
    small = small_values(context.path)
    stray = [
        f"{op} {name}" for where, name, op in runner.nodes if where != "CUDAExecutionProvider" and name not in small
    ]
    return [f"on the CPU: {', '.join(stray)}"] if stray else []


def small_values(path: Path) -> set[str]:
    """Return the nodes whose outputs are all integers, booleans, or floats of rank 0 or 1: sizes and block numbers."""
    import onnx

    model = read_onnx(path)
    inferred = onnx.shape_inference.infer_shapes(model).graph
    values = {v.name: v.type.tensor_type for v in (*inferred.value_info, *inferred.output, *inferred.input)}
    return {node.name for node in inferred.node if all(_is_small(values.get(name)) for name in node.output)}


def _is_small(kind: Any) -> bool:
    from onnx import TensorProto

    floats = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
    if kind is None:
        return False
    return kind.elem_type not in floats or (kind.HasField("shape") and len(kind.shape.dim) < 2)


# ---- what "purity" compares ------------------------------------------------------------------------------------------


def fingerprint(module: nn.Module) -> dict[str, Any]:
    """Return what a call could change of a module: tensors by identity and version, plain values by value."""
    import torch

    found: dict[str, Any] = {}
    for prefix, part in module.named_modules():
        for name, value in [*vars(part).items(), *part._parameters.items(), *part._buffers.items()]:
            key = f"{prefix}.{name}" if prefix else name
            if isinstance(value, torch.Tensor):
                found[key] = (id(value), value._version, tuple(value.shape))
            elif isinstance(value, (int, float, str, bool, tuple, list)) or value is None:
                found[key] = repr(value) if not _holds_tensors(value) else id(value)
            elif isinstance(value, dict) and not name.startswith("_"):
                found[key] = (sorted(map(repr, value)), [id(v) for v in value.values()])
    return found


def _holds_tensors(value: Any) -> bool:
    import torch

    return isinstance(value, (tuple, list)) and any(isinstance(v, torch.Tensor) for v in value)


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names whose fingerprint changed."""
    return tuple(sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k)))
