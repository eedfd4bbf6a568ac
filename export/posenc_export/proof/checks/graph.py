"""Checks of the graph in a file: axes, names, dtypes and inputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from posenc_export.common.errors import check_machine
from posenc_export.proof.checks import NOT_HELD, CheckResult, Context, Words, check
from posenc_export.write.formats import quiet
from posenc_export.write.formats.onnx import read_onnx

if TYPE_CHECKING:
    import onnx


@check(
    "static-axis",
    stage="artifact",
    subjects=("onnx",),
    words=Words(
        code="PE103",
        asks="Is every axis that was asked to be dynamic free in the ONNX graph, with no constant of traced sizes?",
        failure="The export took the length of its example for a constant: other lengths are refused, or are wrong",
        remedy="In the module, take sizes from x.shape in `forward`, not from a list, a cache or a stored int.",
        example="a cached table of 11 rows, in a graph that was traced at length 11",
    ),
)
def static_axis(context: Context) -> list[str] | CheckResult:
    """Every dynamic axis is symbolic in the graph, under its name, and no constant depends on the traced sizes."""
    graph = read_onnx(context.path).graph
    declared = ((context.manifest.inputs, graph.input), (context.manifest.outputs, graph.output))
    problems = []
    for ports, values in declared:
        by_name = {value.name: value for value in values}
        for port in ports:
            dims = by_name[port.name].type.tensor_type.shape.dim if port.name in by_name else []
            for index, axis in port.dynamic.items():
                actual = _dim(dims[index]) if index < len(dims) else None
                if actual != axis.name:
                    problems.append(f"axis {axis.name!r} of {port.name} is {actual} in the graph")
    if context.manifest.foreign:
        return CheckResult(problems, f"constants of traced sizes: {NOT_HELD}")
    made = context.capture.static if context.capture else ()  # a bundle alone does not show it
    return [*problems, *(f"constant {name} is another where other sizes are traced" for name in made)]


def _dim(dim: onnx.TensorShapeProto.Dimension) -> str | int:
    return dim.dim_param or dim.dim_value


@check(
    "structure",
    stage="artifact",
    subjects=("onnx",),
    words=Words(
        code="PE102",
        asks="Has the ONNX graph the manifest's names, dtypes, opset and IR version, and does onnx.checker accept it?",
        failure="Programs that feed the graph by its manifest would not find its inputs, or a runtime may refuse it",
        remedy="Export anew; where a tool has converted the file, give that tool the names and the opset.",
        example="an output that was renamed, or an opset that a converter has raised",
    ),
)
def structure(context: Context) -> list[str] | CheckResult:
    """Names, dtypes, opset and IR version are those of the manifest, and onnx.checker accepts the graph in full."""
    model = read_onnx(context.path)
    manifest = context.manifest
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), None)
    problems = []
    for kind, ports, values in (
        ("inputs", manifest.inputs, model.graph.input),
        ("outputs", manifest.outputs, model.graph.output),
    ):
        actual = [(v.name, _dtype(v)) for v in values]
        expected = [(p.name, p.dtype) for p in ports]
        if actual != expected:
            problems.append(f"{kind} are {actual}, expected {expected}")
    if opset != manifest.opset:
        problems.append(f"opset is {opset}, expected {manifest.opset}")
    if model.ir_version != manifest.ir_version:
        problems.append(f"IR version is {model.ir_version}, expected {manifest.ir_version}")
    refused = "" if problems else _refused_by_checker(context.path)
    if manifest.foreign:
        # runtimes load dumps of others, and operators of their own, that onnx.checker does not take: their row says it
        return CheckResult(problems, f"names, opset and IR version: {NOT_HELD}", refused)
    return [*problems, refused] if refused else problems


def _refused_by_checker(path: Path) -> str:
    """Return why onnx.checker does not accept a file in full, or nothing."""
    import onnx

    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception as error:
        check_machine(error)
        return f"onnx.checker: {str(error).strip().splitlines()[0]}"
    return ""


def _dtype(value: onnx.ValueInfoProto) -> str:
    from onnx import helper

    return str(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name)


@check(
    "lost-input",
    stage="artifact",
    subjects=("onnx", "torchscript"),
    words=Words(
        code="PE106",
        asks="Does the graph use each input on whose values the outputs of the module depend?",
        failure="The export has dropped an input: whatever is fed there, the answer is the same",
        remedy="See why `forward` does not depend on it: Python may have read it, by .item(), int() or a shape.",
        example="an attention mask that was all ones while tracing",
    ),
)
def lost_input(context: Context) -> list[str]:
    """Every input on whose values the module depends is used by the graph."""
    used = _used_by_onnx(context) if context.artifact.format == "onnx" else _used_by_script(context)
    # inputs that the module itself does not read may be missing
    used |= set(context.manifest.unread)
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
