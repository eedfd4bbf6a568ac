"""What is known of tract and MNN, runtimes of phones, for an ONNX file: read from the file, which may be untrusted.

It was measured: docs/reference/measured/files.md has the table, and a test holds these claims against it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_export.write.formats.onnx.compatibility import LOOKS_UP, LoadClaim, external_files
from posenc_export.write.formats.onnx.dtypes import BFLOAT16, DOUBLE, holds
from posenc_export.write.formats.onnx.operators import ONNX, operators_of

if TYPE_CHECKING:
    from onnx import ModelProto

TRACT, MNN = "0.23.9", "3.6.1"
"""The releases of tract and of MNN that were tried."""
HALF, INT64 = 10, 7
"""The numbers of the dtypes float16 and int64."""
TRIED = frozenset(
    {
        *("Abs", "Add", "Cast", "Clip", "Concat", "CumSum", "Div", "Equal", "Expand", "Floor", "Gather"),
        "GatherElements",
        *(
            "Greater",
            "GreaterOrEqual",
            "Less",
            "Log",
            "MatMul",
            "Max",
            "Min",
            "Mod",
            "Mul",
            "Neg",
            "Or",
            "Pad",
            "Range",
        ),
        *("Relu", "Reshape", "Round", "Shape", "Sigmoid", "Sign", "Slice", "Split", "Squeeze", "Sub", "Transpose"),
        *("Unsqueeze", "Where"),
    }
)
"""Operators of ONNX in the graphs that were tried."""
VALIDATE = "posenc validate --runtime {} BUNDLE tries it"
TRACT_REFUSES_SOME = ("Pad",)
"""Operators with which tract refuses some of those graphs: those in which it cannot tell the length of a tensor."""


def phone_claims(model: ModelProto) -> tuple[LoadClaim, ...]:
    """Return what is known of each runtime of phones for a file."""
    return (_tract(model), _mnn(model))


def _tract(model: ModelProto) -> LoadClaim:
    if holds(model, BFLOAT16):
        return LoadClaim("tract", "no", "", ("it has no tensors of bfloat16",))
    doubts = untried(model)
    if holds(model, DOUBLE):
        doubts.append("it lacks some operators in float64")
    if _scales_places(model):
        doubts.append("it refuses some files in which places are multiplied by a size")
    names = {operator.name for operator in operators_of(model)}
    doubts += [f"it refuses some files with {name}" for name in TRACT_REFUSES_SOME if name in names]
    notes = ["a position out of range ends the process"] if names.intersection(LOOKS_UP) else []
    return _judged("tract", TRACT, doubts, notes)


def _mnn(model: ModelProto) -> LoadClaim:
    if holds(model, DOUBLE):
        return LoadClaim("MNN", "no", "", ("it computes in float32 what is float64 in this file",))
    if not model.graph.node:
        return LoadClaim("MNN", "no", "", ("its converter takes no graph without an operator",))
    names = {operator.name for operator in operators_of(model)}
    if "RotaryEmbedding" in names:
        return LoadClaim("MNN", "no", "", ("its converter has no RotaryEmbedding",))
    doubts = untried(model)
    if any(holds(model, dtype) for dtype in (HALF, BFLOAT16)):
        doubts.append("in half precision it was not run")
    if _multiplies_many(model):
        doubts.append("a MatMul of several matrices is wrong after a call with a single one")
    notes = ["a position out of range gives another row, without an error"] if names.intersection(LOOKS_UP) else []
    return _judged("MNN", MNN, doubts, notes)


def _judged(runtime: str, release: str, doubts: list[str], notes: list[str]) -> LoadClaim:
    if doubts:
        return LoadClaim(runtime, "not known", "", (*doubts, VALIDATE.format(runtime.lower()), *notes))
    return LoadClaim(runtime, "yes", release, tuple(notes))


def untried(model: ModelProto) -> list[str]:
    """Return the operators, and weights beside a file, that were tried on neither."""
    operators = {f"{op.domain} {op.name}" for op in operators_of(model) if op.domain != ONNX or op.name not in TRIED}
    words = [f"{name} was not tried there" for name in sorted(operators)]
    return words + (["weights that lie beside a file were not tried there"] if external_files(model) else [])


def _scales_places(model: ModelProto) -> bool:
    """Return whether a tensor of integers is multiplied by a scalar that is not a constant."""
    stored = {tensor.name for tensor in model.graph.initializer}
    types = {value.name: value.type.tensor_type for value in model.graph.value_info if value.name not in stored}
    products = (node for node in model.graph.node if node.op_type == "Mul" and set(node.input) <= types.keys())
    known = ([types[name] for name in (*node.output, *node.input)] for node in products if node.output[0] in types)
    return any(
        made.elem_type == INT64 and (not first.shape.dim) != (not second.shape.dim) for made, first, second in known
    )


def _multiplies_many(model: ModelProto) -> bool:
    """Return whether the number of matrices in a product depends on the call."""
    shapes = {value.name: value.type.tensor_type.shape.dim for value in (*model.graph.value_info, *model.graph.input)}
    seconds = (shapes.get(node.input[1], ()) for node in model.graph.node if node.op_type == "MatMul")
    return any(not all(dim.HasField("dim_value") for dim in dims[:-2]) for dims in seconds)
