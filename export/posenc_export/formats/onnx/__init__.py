"""ONNX, by torch.export and torch.onnx.export."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from posenc_export.bundle.rules import rules_of
from posenc_export.errors import ExportFailed, OpsetFailed, check_machine, first_line
from posenc_export.formats import OPSETS, Digests, Request, format_, quiet
from posenc_export.formats.capture import UnsaidGuards, capture, findings, program_digests
from posenc_export.formats.onnx import attention
from posenc_export.formats.onnx.folded import name_folded
from posenc_export.formats.onnx.forms import load_on_more
from posenc_export.formats.onnx.lengths import demand_equal_lengths
from posenc_export.formats.onnx.library import sources_unread
from posenc_export.formats.onnx.refusals import why
from posenc_export.formats.onnx.traced import Traced, traced
from posenc_export.formats.ways import WAYS

if TYPE_CHECKING:
    import onnx
    import torch

    from posenc.encoding import Encoding

Part = Any
"""A graph of onnx_ir that is being written, or a value in it."""
OnnxProgram: TypeAlias = "torch.export.ExportedProgram | Traced"
"""What an ONNX file is made of."""
EXTERNAL_DATA_ABOVE = 2**31 - 2**20
"""Bytes of weights that no longer fit one protobuf file: they go into a file beside it."""


def stamp_onnx(path: Path, metadata: Mapping[str, str]) -> None:
    """Add metadata_props to an ONNX file without reading it: appended protobuf fields are merged by every parser."""
    import onnx

    extra = onnx.ModelProto()
    for key, value in metadata.items():
        extra.metadata_props.add(key=key, value=value)
    with path.open("ab") as file:
        file.write(extra.SerializeToString())


def stamped_onnx(path: Path, key: str) -> str:
    """Return what an ONNX file says under a key, or nothing, as where it is none."""
    try:
        said = read_onnx(path).metadata_props
    except Exception as error:
        check_machine(error)
        return ""
    return next((entry.value for entry in said if entry.key == key), "")


def capture_onnx(encoding: Encoding, request: Request) -> OnnxProgram:
    """Return the program of an encoding, its rotations as one operator where that is asked for.

    A user's module that torch.export refuses is traced in the last way.
    """
    from posenc_export.formats.onnx.rotary_op import with_rotary_op

    try:
        return capture(encoding, lambda module: with_rotary_op(module, request.rotary_op), request)
    except UnsaidGuards:
        raise
    except ExportFailed as error:
        with suppress(ExportFailed):
            if rules_of(encoding).tries_other_ways:
                return traced(encoding, request, error.message, branches=False)
        raise


def _digests(program: OnnxProgram) -> Digests:
    return program.digests if isinstance(program, Traced) else program_digests(program)


@format_(
    "onnx",
    file="model.onnx",
    capture=capture_onnx,
    digests=_digests,
    runs_code=False,
    stamp=stamp_onnx,
    stamped=stamped_onnx,
)
def write_onnx(program: OnnxProgram, encoding: Encoding, request: Request, path: Path) -> None:
    """ONNX by torch.export and torch.onnx.export, for ONNX Runtime and every other ONNX consumer."""
    if request.why_traced and not isinstance(program, Traced):
        branches = findings(program).way == WAYS[0].name
        program = traced(encoding, request, request.why_traced, branches=branches)
    with quiet(), sources_unread():
        model = program.read() if isinstance(program, Traced) else _translated(program, encoding, request)
        if rules_of(encoding).known_operators:
            demand_equal_lengths(model.graph, encoding.inputs)
            load_on_more(model)
        _name_axes(model, encoding)
        _free_names(model)
        model.ir_version = OPSETS[request.opset].ir_version
        _clear_notes(model)
        _save(model, path)
    if not rules_of(encoding).known_operators:
        _check_opset(path, request)


def _translated(program: torch.export.ExportedProgram, encoding: Encoding, request: Request) -> Part:
    """Return what torch.onnx makes of a program; raise OpsetFailed where it makes nothing of it at this opset."""
    import torch

    try:
        with torch.no_grad():  # attention has other strides where a mask has a gradient
            exported = torch.onnx.export(
                program,
                request.trace,
                dynamo=True,
                opset_version=request.opset,
                input_names=[p.name for p in encoding.inputs],
                output_names=[p.name for p in encoding.outputs],
                custom_translation_table=_translations(program, encoding),
                verbose=False,
            )
    except Exception as error:
        check_machine(error)
        raise OpsetFailed(f"torch.onnx.export failed{why(error)}") from error
    assert exported is not None
    name_folded(exported.model, program)
    return exported.model


def _save(model: Part, path: Path) -> None:
    import onnx_ir as ir

    beside = f"{path.name}.data" if _weights(model) > EXTERNAL_DATA_ABOVE else None
    ir.save(model, path, external_data=beside)
    for value in model.graph.initializers.values():
        value.const_value = None  # caches of the exporter outlive it: a table must not


def _check_opset(path: Path, request: Request) -> None:
    """Raise OpsetFailed for a graph that its opset does not have: torch.onnx writes some without a word."""
    import onnx

    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception as error:
        check_machine(error)
        raise OpsetFailed(f"onnx.checker refuses it at opset {request.opset}: {first_line(error)}") from error


def _translations(
    program: torch.export.ExportedProgram, encoding: Encoding
) -> dict[Callable[..., object], Callable[..., object]]:
    """Return how operators are written otherwise than by torch.onnx.

    The swap of a pair is a Gather, which copies with all threads, where a Slice of negative step has one. Floor
    division is one Div of integers, which divides toward zero: that is the same where nothing is negative, and our
    encodings send negative positions to their end before they divide. Of a user's module nothing is known.
    """
    import torch
    from onnxscript import opset18 as op

    if not rules_of(encoding).known_operators:
        return attention.translations() if attention.is_otherwise(program) else {}

    def floor_divide(dividend: Part, divisor: Part) -> Part:
        return op.Div(dividend, divisor)

    def flip(x: Part, dims: Part) -> Part:
        (axis,) = dims
        assert x.shape[axis] == 2, "our encodings flip pairs alone"
        swapped: Part = op.Constant(value_ints=[1, 0])
        return op.Gather(x, swapped, axis=axis)

    return {torch.ops.aten.floor_divide.default: floor_divide, torch.ops.aten.flip.default: flip}


def _name_axes(model: Part, encoding: Encoding) -> None:
    """Give the symbolic dims of a graph the names of the ports' axes, in place."""
    import onnx_ir as ir

    names: dict[str, str] = {}
    for value, port in zip(model.graph.inputs, encoding.inputs, strict=True):
        for index, axis in port.dynamic.items():
            names.setdefault(str(value.shape[index].value), axis.name)
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, names)) + r")\b") if names else None
    values = [*model.graph.inputs, *(v for node in model.graph.all_nodes() for v in node.outputs)]
    for value in values:
        if value.shape is not None and value.shape.frozen:
            value.shape = ir.Shape(value.shape.dims)  # one that can be changed
        for i, dim in enumerate(value.shape or ()):
            if pattern and isinstance(dim, ir.SymbolicDim) and dim.value is not None:
                value.shape[i] = ir.SymbolicDim(pattern.sub(lambda m: names[m.group(0)], str(dim.value)))
    # An axis of a port is one of ours by definition: say its name, not a formula for it.
    values = [*model.graph.inputs, *model.graph.outputs]
    for value, port in zip(values, (*encoding.inputs, *encoding.outputs), strict=True):
        for index, axis in port.dynamic.items():
            if value.shape is not None and isinstance(value.shape[index], ir.SymbolicDim):
                value.shape[index] = ir.SymbolicDim(axis.name)


def _free_names(model: Part) -> None:
    """Rename inner values that the exporter gave the name of an input or an output."""
    ports = {id(v): v.name for v in (*model.graph.inputs, *model.graph.outputs)}
    taken = set(ports.values())
    for value in (*(v for node in model.graph.all_nodes() for v in node.outputs), *model.graph.initializers.values()):
        if id(value) not in ports and value.name in taken:
            value.name = f"{value.name}_inner"


def _clear_notes(model: Part) -> None:
    """Drop the exporter's stack traces and paths: they differ between machines and tell nothing to a runtime."""
    model.graph.metadata_props.clear()
    for node in model.graph.all_nodes():
        node.metadata_props.clear()
        for value in node.outputs:
            value.metadata_props.clear()
    for value in (*model.graph.inputs, *model.graph.initializers.values()):
        value.metadata_props.clear()


def _weights(model: Part) -> int:
    return sum(v.const_value.nbytes for v in model.graph.initializers.values() if v.const_value is not None)


def read_onnx(path: Path) -> onnx.ModelProto:
    """Load the graph of an ONNX file, leaving weights that lie beside it on disk."""
    import onnx

    return onnx.load(path, load_external_data=False)
