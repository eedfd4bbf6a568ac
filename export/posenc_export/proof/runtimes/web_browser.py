"""onnxruntime-web in a real browser: as WebAssembly, and on a GPU by WebGPU."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from posenc_export.bundle.manifest import Manifest
from posenc_export.proof.runtimes import Missing, Runner, runtime
from posenc_export.proof.runtimes.browser.chromium import check_browser
from posenc_export.proof.runtimes.browser.client import in_browser
from posenc_export.proof.runtimes.npm import package
from posenc_export.proof.runtimes.onnxruntime_web import PACKAGE, TRIED, check_takes
from posenc_export.write.formats.onnx import read_onnx
from posenc_export.write.formats.onnx.browsers import holds_uncomputed
from posenc_export.write.formats.onnx.dtypes import FLOAT16, holds

ROUNDS = "a shader may round a product and a sum in one step"
LENIENT = "WebGPU reports no position out of range"

NO_DOUBLE = "the WebGPU build of onnxruntime-web computes nothing in float64 or int16, on the CPU either"


def _check() -> None:
    check_browser()
    package(PACKAGE, TRIED)


@runtime("browser-wasm", format_="onnx", device="cpu", check=_check, slow=True, in_page=True)
def load_browser_wasm(path: Path, manifest: Manifest) -> Runner:
    """ONNX Runtime as WebAssembly, in Chromium: ort.wasm.min.mjs of onnxruntime-web."""
    return _loaded("wasm", path, manifest)


_on_gpu = partial(
    runtime,
    format_="onnx",
    device="webgpu",
    check=_check,
    rounds=ROUNDS,
    lenient=LENIENT,
    slow=True,
    in_page=True,
)
"""A runtime on WebGPU, by its name."""


@_on_gpu("browser-webgpu")
def load_browser_webgpu(path: Path, manifest: Manifest) -> Runner:
    """ONNX Runtime on WebGPU, in Chromium: ort.webgpu.min.mjs of onnxruntime-web."""
    model = read_onnx(path)
    if holds_uncomputed(model):
        raise Missing(NO_DOUBLE)
    return _loaded("webgpu", path, manifest, needs_half=holds(model, FLOAT16))


@_on_gpu("browser-jsep")
def load_browser_jsep(path: Path, manifest: Manifest) -> Runner:
    """The older WebGPU provider, in JavaScript, in Chromium: ort.all.min.mjs of onnxruntime-web."""
    return _loaded("jsep", path, manifest, needs_half=holds(read_onnx(path), FLOAT16))


def _loaded(build: str, path: Path, manifest: Manifest, needs_half: bool = False) -> Runner:
    check_takes(manifest)
    return in_browser(build, path, manifest, needs_half)
