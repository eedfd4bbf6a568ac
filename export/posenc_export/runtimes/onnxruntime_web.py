"""onnxruntime-web: ONNX Runtime as WebAssembly, which browsers run, under Node.js."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from posenc_export.bundle.manifest import Manifest
from posenc_export.runtimes import Missing, Runner, runtime
from posenc_export.runtimes.process import Process

PACKAGE, TRIED = "onnxruntime-web", "1.30.0"
"""The npm package, and the version that tests run."""
RUNNER = Path(__file__).with_suffix(".cjs")
NO_HALF = f"{PACKAGE} has no tensors of bfloat16"
NO_WEIGHTS = "weights that lie beside a graph are more than WebAssembly can address"


def _node() -> str:
    """Return the path of Node.js; raise Missing where there is none."""
    node = shutil.which("node")
    if node is None:
        raise Missing("node is not found: install Node.js 20 or newer")
    return node


def _package() -> Path:
    """Return the folder of the npm package in NODE_PATH; raise Missing where it is not there."""
    # Node's own search goes up from the current folder, and would run a package that lies beside a bundle.
    places = filter(None, os.environ.get("NODE_PATH", "").split(os.pathsep))
    folder = next((Path(place, PACKAGE) for place in places if Path(place, PACKAGE, "package.json").is_file()), None)
    if folder is None:
        install = f"npm install --prefix DIR {PACKAGE}@{TRIED}, and set NODE_PATH=DIR/node_modules"
        raise Missing(f"the npm package {PACKAGE} is not found in NODE_PATH: {install}")
    return folder.resolve()


def _check() -> None:
    _node()
    _package()


@runtime("onnxruntime-web", format_="onnx", device="cpu", check=_check, slow=True)
def load_onnxruntime_web(path: Path, manifest: Manifest) -> Runner:
    """ONNX Runtime as WebAssembly, under Node.js: the wasm backend of onnxruntime-web."""
    if any(port.dtype == "bfloat16" for port in (*manifest.inputs, *manifest.outputs)):
        raise Missing(NO_HALF)
    if any(artifact.format == "onnx.data" for artifact in manifest.artifacts):
        raise Missing(NO_WEIGHTS)
    process = started(path)
    inputs, outputs, kill = manifest.inputs, manifest.outputs, process.process.kill
    return Runner(lambda feeds: process(feeds, outputs), inputs, outputs, ("wasm",), stop=lambda _: kill())


def started(path: Path) -> Process:
    """Start a runner of an ONNX file; raise RunFailed where it cannot load the file."""
    return Process("node", [_node(), str(RUNNER), str(_package()), str(path.resolve())], os.environ)
