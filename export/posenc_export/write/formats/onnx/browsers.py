"""What is known of onnxruntime-web in a browser, for an ONNX file: read from the file, which may be untrusted.

It was measured: docs/reference/measured/files.md has the table, and a test holds these claims against it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_export.write.formats.onnx.compatibility import LOOKS_UP, WEB, LoadClaim, external_files
from posenc_export.write.formats.onnx.dtypes import BFLOAT16, DOUBLE, INT16, holds
from posenc_export.write.formats.onnx.operators import operators_of
from posenc_export.write.formats.onnx.phones import VALIDATE, untried

if TYPE_CHECKING:
    from onnx import ModelProto

RUNS_IN = ("browser-wasm", "browser-webgpu", "browser-jsep")
"""The runtimes: WebAssembly, and both WebGPU providers of onnxruntime-web."""
ON_GPU = RUNS_IN[1:]
LEFT_TO_CPU = ("BitwiseAnd", "BitwiseXor")
"""Operators by which indices are computed that JSEP copies to the GPU one over the other."""


def holds_uncomputed(model: ModelProto) -> bool:
    """Return whether a file holds a dtype for which the native WebGPU build has no kernels, on the CPU either."""
    # buckets of DeBERTa are a table in int16
    return any(holds(model, dtype) for dtype in (DOUBLE, INT16))


def browser_claims(model: ModelProto) -> tuple[LoadClaim, ...]:
    """Return what is known of each runtime in a browser for a file."""
    return tuple(_claim(name, model) for name in RUNS_IN)


def _claim(name: str, model: ModelProto) -> LoadClaim:
    if holds(model, BFLOAT16):
        return LoadClaim(name, "no", "", ("it has no tensors of bfloat16",))
    if external_files(model):
        return LoadClaim(name, "no", "", ("it takes no weights that lie beside a graph",))
    if name == "browser-webgpu" and holds_uncomputed(model):
        return LoadClaim(name, "no", "", ("this build computes nothing in float64 or int16, on the CPU either",))
    names = {operator.name for operator in operators_of(model)}
    if name == "browser-jsep" and names.intersection(LEFT_TO_CPU):
        return LoadClaim(name, "no", "", (f"wrong where indices come from {' or '.join(LEFT_TO_CPU)}, on the CPU",))
    looks_up = names.intersection(LOOKS_UP)
    notes = ("a position out of range gives another row, without an error",) if looks_up and name in ON_GPU else ()
    doubts = untried(model)
    if doubts:
        return LoadClaim(name, "not known", "", (*doubts, VALIDATE.format(name), *notes))
    return LoadClaim(name, "yes", WEB, notes)
