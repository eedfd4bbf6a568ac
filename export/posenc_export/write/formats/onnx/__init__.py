"""ONNX, by torch.export and torch.onnx.export."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_export.bundle.decoders import FREE_PADDING, IN_PLACE, ONE_TEXT, is_cache
from posenc_export.bundle.rules import rules_of
from posenc_export.common.errors import BadInput, ExportFailed, OpsetFailed, check_machine, first_line
from posenc_export.write.formats import OPSETS, AttentionOp, Digests, Format, WriteRequest, garbage_kept, quiet
from posenc_export.write.formats.capture import (
    Findings,
    UnsaidGuards,
    capture,
    findings,
    program_digests,
    with_findings,
)
from posenc_export.write.formats.lookups import refusing_lookups
from posenc_export.write.formats.onnx import attention
from posenc_export.write.formats.onnx.arithmetic import lost_numbers
from posenc_export.write.formats.onnx.attention_operator import use_operators
from posenc_export.write.formats.onnx.checked_positions import check_positions
from posenc_export.write.formats.onnx.complex_numbers import without_complex_operators
from posenc_export.write.formats.onnx.copied import keep_copies_apart
from posenc_export.write.formats.onnx.exact_rules import exact_rules
from posenc_export.write.formats.onnx.folded import name_folded
from posenc_export.write.formats.onnx.forms import load_on_more
from posenc_export.write.formats.onnx.fused import fuse, fuse_norms, fuse_products
from posenc_export.write.formats.onnx.lengths import demand_equal_lengths, demand_other_sizes
from posenc_export.write.formats.onnx.library import operators_listed_once, patterns_by_operator, sources_unread
from posenc_export.write.formats.onnx.module_forms import shorten
from posenc_export.write.formats.onnx.names import (
    clear_notes,
    clear_unseen_sizes,
    free_names,
    keep_constants,
    name_axes,
)
from posenc_export.write.formats.onnx.quantized import store_in_blocks
from posenc_export.write.formats.onnx.refusals import why
from posenc_export.write.formats.onnx.repeated_heads import share_heads
from posenc_export.write.formats.onnx.traced import TracedGraph, traced

if TYPE_CHECKING:
    import onnx
    from torch.export import ExportedProgram

    from posenc.encoding import Encoding
    from posenc.ports import Port

Part = Any
"""A graph of onnx_ir that is being written, or a value in it."""
EXTERNAL_DATA_ABOVE = 2**30
"""Bytes of weights that go into a file beside the graph.

A protobuf holds 2 GiB at most. Half of that is the limit here, since whatever reads or changes a graph would hold its
weights, and write them out once more.
"""
NO_ATTENTION = (
    "--attention-op {} stands for torch's scaled_dot_product_attention, which is not in the graph: models with sinks, "
    "or with a ceiling on scores, compute attention otherwise; leave it out"
)
OF_OLDER_EXPORTER = (
    "--attention-op microsoft: torch.onnx cannot write this model, and the graph of the older exporter stays as it is; "
    "leave it out"
)


@dataclass(frozen=True)
class OnnxProgram:
    """What an ONNX file is made of.

    Attributes:
        program: What torch.export captured, or the graph of the TorchScript-based exporter.
        inputs: The ports whose names the graph's inputs and axes get.
        outputs: Those of its outputs.
        known_operators: Whether its nodes may be replaced, as `Rules` has it.
    """

    program: ExportedProgram | TracedGraph
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    known_operators: bool

    @property
    def findings(self) -> Findings:
        """What capturing it showed."""
        return findings(self.program)


def stamp_onnx(path: Path, metadata: Mapping[str, str]) -> None:
    """Add metadata_props to an ONNX file without reading it: appended protobuf fields are merged by every parser."""
    import onnx

    # a message with metadata alone: parsers merge it into the one before
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


def capture_onnx(encoding: Encoding, request: WriteRequest) -> OnnxProgram:
    """Return the program of an encoding, its rotations as one operator where that is asked for.

    A user's module that torch.export refuses, or torch.onnx cannot write, is traced in the last way.
    """
    from posenc_export.write.formats.onnx.rotary_op import with_rotary_op

    rules = rules_of(encoding.family)

    def captured() -> ExportedProgram | TracedGraph:
        if request.why_traced:
            return traced(encoding, request, request.why_traced, branches=request.branches)
        try:
            return capture(encoding, lambda module: with_rotary_op(module, request.rotary_op), request)
        except UnsaidGuards:
            raise
        except ExportFailed as error:
            with suppress(ExportFailed):
                if rules.tries_other_ways:
                    return traced(encoding, request, error.message, branches=False)
            raise

    with refusing_lookups(encoding.family, encoding.inputs):
        return OnnxProgram(captured(), encoding.inputs, encoding.outputs, rules.known_operators)


def _digests(captured: OnnxProgram) -> Digests:
    program = captured.program
    return program.digests if isinstance(program, TracedGraph) else program_digests(program)


@Format(
    "onnx",
    file="model.onnx",
    capture=capture_onnx,
    digests=_digests,
    runs_code=False,
    stamp=stamp_onnx,
    stamped=stamped_onnx,
)
def write_onnx(captured: OnnxProgram, request: WriteRequest, path: Path) -> None:
    """ONNX by torch.export and torch.onnx.export, for ONNX Runtime and every other ONNX consumer."""
    program = captured.program
    if isinstance(program, TracedGraph) and request.attention_op == "microsoft":
        raise BadInput(OF_OLDER_EXPORTER)
    if isinstance(program, TracedGraph) and request.attention_op != "decomposed":
        raise BadInput(NO_ATTENTION.format(request.attention_op))
    with quiet(), garbage_kept(), sources_unread(), patterns_by_operator(), operators_listed_once():
        model = program.read() if isinstance(program, TracedGraph) else _translated(program, captured, request)
        if captured.known_operators:
            demand_equal_lengths(model.graph, captured.inputs)
            load_on_more(model)
            clear_unseen_sizes(model)
        elif not isinstance(program, TracedGraph):
            with_findings(program, Findings(lost_numbers(program, model)))
            if request.attention_op == "microsoft":
                with_findings(program, Findings(_fused(model, captured, request)))
            share_heads(model)
            shorten(model)
            if request.attention_op == "onnx":
                use_operators(model)
            elif request.attention_op == "microsoft":
                fuse_norms(model)
                fuse_products(model)
        if request.check_positions:
            check_positions(model)
        demand_other_sizes(model.graph, captured.inputs)
        name_axes(model, captured.inputs, captured.outputs)
        keep_copies_apart(model)
        free_names(model)
        if request.quantize is not None:
            store_in_blocks(model, request.quantize, request.accuracy_level)
        # onnx_ir writes the newest, which older runtimes refuse
        model.ir_version = OPSETS[request.opset].ir_version
        clear_notes(model)
        _save(model, path)
    if not captured.known_operators:
        _check_opset(path, request)


def _fused(model: Part, captured: OnnxProgram, request: WriteRequest) -> tuple[str, ...]:
    """Write attention as operators of com.microsoft, and return the lines on it; raise BadInput where there is none."""
    assert request.inputs is not None
    made = fuse(model, captured.inputs, request.inputs, request.positions)
    reasons = [
        f"{count} of {made.count} attentions keep plain operators: {why}" if count else why
        for why, count in made.left.items()
    ]
    if not made.fused:
        why = "; ".join(reasons) or "it has none that torch writes as a softmax of scores"
        raise BadInput(f"--attention-op microsoft: no attention becomes one operator: {why}; leave it out")
    caches = [port.name for port in captured.outputs if is_cache(port)]
    in_place = {
        value.name
        for value in model.graph.outputs
        if value.producer().op_type == "GroupQueryAttention" and not any(True for _ in value.uses())
    }
    contract = (ONE_TEXT, IN_PLACE) if in_place.issuperset(caches) else (ONE_TEXT,)
    return (f"GroupQueryAttention computes {made.fused} of {made.count} attentions", *contract, FREE_PADDING, *reasons)


def _translated(program: ExportedProgram, captured: OnnxProgram, request: WriteRequest) -> Part:
    """Return what torch.onnx makes of a program; raise OpsetFailed where it makes nothing of it at this opset."""
    import torch

    count, as_operator = attention.count_of(program), request.attention_op == "onnx"
    if as_operator and not count:
        raise BadInput(NO_ATTENTION.format(request.attention_op))
    try:
        with exact_rules() as optimizes, torch.no_grad():  # attention has other strides where a mask has a gradient
            exported = torch.onnx.export(
                without_complex_operators(program),
                request.trace,
                dynamo=True,
                opset_version=request.opset,
                input_names=[port.name for port in captured.inputs],
                output_names=[port.name for port in captured.outputs],
                custom_translation_table=_translations(program, captured.known_operators, request.attention_op),
                verbose=False,
                optimize=optimizes,
            )
    except Exception as error:
        check_machine(error)
        raise OpsetFailed(f"torch.onnx.export failed{why(error)}") from error
    assert exported is not None
    written = sum(node.op_type == "Attention" for node in exported.model.graph)
    if as_operator and written < count:
        raise BadInput(
            f"--attention-op {request.attention_op}: {count - written} of {count} attentions have dropout, or heads of "
            "no fixed size, which the operator has not; leave it out"
        )
    keep_constants(exported.model)
    name_folded(exported.model, program)
    return exported.model


def _save(model: Part, path: Path) -> None:
    import onnx_ir as ir

    beside = f"{path.name}.data" if _weights(model) > EXTERNAL_DATA_ABOVE else None
    for value in model.graph.initializers.values():
        value.const_value = _in_order(value.const_value)
    ir.save(model, path, external_data=beside)
    for value in model.graph.initializers.values():
        value.const_value = None  # caches of the exporter outlive it: a table must not


def _in_order(tensor: Part) -> Part:
    """Return a tensor that is written in one piece: NumPy writes a transposed array number by number."""
    import onnx_ir as ir

    array = getattr(tensor, "raw", None)
    if not isinstance(array, np.ndarray) or array.flags.c_contiguous:
        return tensor

    def copy() -> ir.TensorProtocol:
        return ir.Tensor(np.ascontiguousarray(array), dtype=tensor.dtype, shape=tensor.shape, name=tensor.name)

    # the copy lives while it is written
    return ir.LazyTensor(copy, dtype=tensor.dtype, shape=tensor.shape, name=tensor.name)


def _check_opset(path: Path, request: WriteRequest) -> None:
    """Raise OpsetFailed for a graph that its opset does not have: torch.onnx writes some without a word."""
    import onnx

    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception as error:
        check_machine(error)
        raise OpsetFailed(f"onnx.checker refuses it at opset {request.opset}: {first_line(error)}") from error


def _translations(
    program: ExportedProgram, known_operators: bool, attention_op: AttentionOp
) -> dict[Callable[..., object], Callable[..., object]]:
    """Return how operators are written otherwise than by torch.onnx."""
    import torch
    from onnxscript import opset18 as op

    if not known_operators:
        return attention.translations(attention_op) if attention.count_of(program) else {}

    def floor_divide(dividend: Part, divisor: Part) -> Part:
        # Div of integers divides toward zero, which is the same where nothing is negative: our encodings send negative
        # positions to their end before they divide
        return op.Div(dividend, divisor)

    def flip(x: Part, dims: Part) -> Part:
        # a Gather copies with all threads, a Slice of negative step with one
        (axis,) = dims
        assert x.shape[axis] == 2, "our encodings flip pairs alone"
        swapped: Part = op.Constant(value_ints=[1, 0])
        return op.Gather(x, swapped, axis=axis)

    def item(size: Part) -> Part:
        # a number already: torch.onnx would make one of a tensor of any shape
        return op.Identity(size)

    return {
        torch.ops.aten.floor_divide.default: floor_divide,
        torch.ops.aten.flip.default: flip,
        torch.ops.aten.item.default: item,
        torch.ops.aten._local_scalar_dense.default: item,
    }


def _weights(model: Part) -> int:
    return sum(v.const_value.nbytes for v in model.graph.initializers.values() if v.const_value is not None)


def read_onnx(path: Path) -> onnx.ModelProto:
    """Load the graph of an ONNX file, leaving weights that lie beside it on disk."""
    import onnx

    return onnx.load(path, load_external_data=False)
