"""onnxruntime-web: ONNX Runtime as WebAssembly, which browsers run, under Node.js."""

from __future__ import annotations

import os
from pathlib import Path

from posenc_export.bundle.manifest import Manifest
from posenc_export.proof.runtimes import Missing, Runner, runtime
from posenc_export.proof.runtimes.npm import node, package
from posenc_export.proof.runtimes.process import Process

PACKAGE, TRIED = "onnxruntime-web", "1.30.0"
"""The npm package, and the version that tests run."""
RUNNER = Path(__file__).with_suffix(".cjs")
NO_HALF = f"{PACKAGE} has no tensors of bfloat16"
NO_WEIGHTS = "weights that lie beside a graph are more than WebAssembly can address"


def _check() -> None:
    node()
    package(PACKAGE, TRIED)


@runtime("onnxruntime-web", format_="onnx", device="cpu", check=_check, slow=True)
def load_onnxruntime_web(path: Path, manifest: Manifest) -> Runner:
    """ONNX Runtime as WebAssembly, under Node.js: the wasm backend of onnxruntime-web."""
    check_takes(manifest)
    process = started(path)
    inputs, outputs, kill = manifest.inputs, manifest.outputs, process.process.kill
    return Runner(lambda feeds: process(feeds, outputs), inputs, outputs, ("wasm",), stop=lambda _: kill())


def check_takes(manifest: Manifest) -> None:
    """Raise Missing for a bundle that onnxruntime-web cannot take."""
    if any(port.dtype == "bfloat16" for port in (*manifest.inputs, *manifest.outputs)):
        raise Missing(NO_HALF)
    if any(artifact.format == "onnx.data" for artifact in manifest.artifacts):
        raise Missing(NO_WEIGHTS)


def started(path: Path) -> Process:
    """Start a runner of an ONNX file; raise RunFailed where it cannot load the file."""
    return Process("node", [node(), str(RUNNER), str(package(PACKAGE, TRIED)), str(path.resolve())], os.environ)
