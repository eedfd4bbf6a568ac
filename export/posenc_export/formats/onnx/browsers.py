"""What is known of onnxruntime-web in a browser, for an ONNX file: read from the file, which may be untrusted.

It was measured: docs/compatibility.md has the table, and a test holds these claims against it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc_export.formats.onnx.compatibility import LOOKS_UP, WEB, Claim, external_files
from posenc_export.formats.onnx.dtypes import BFLOAT16, DOUBLE, holds
from posenc_export.formats.onnx.operators import ONNX, operators_of
from posenc_export.formats.onnx.phones import VALIDATE, untried

if TYPE_CHECKING:
    from onnx import ModelProto

RUNS_IN = ("browser-wasm", "browser-webgpu", "browser-jsep")
"""The runtimes: WebAssembly, and both WebGPU providers of onnxruntime-web."""


def browser_claims(model: ModelProto) -> tuple[Claim, ...]:
    """Return what is known of each runtime in a browser for a file."""
    if holds(model, BFLOAT16):
        return tuple(Claim(name, "no", "", ("it has no tensors of bfloat16",)) for name in RUNS_IN)
    if external_files(model):
        return tuple(Claim(name, "no", "", ("it takes no weights that lie beside a graph",)) for name in RUNS_IN)
    return tuple(_judged(name, _doubts(name, model), model) for name in RUNS_IN)
