"""tract, a runtime in Rust for phones and embedded machines, in a child process: some inputs make it panic."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import shorten

from posenc.ports import Array, Feeds
from posenc_export.bundle.manifest import Manifest
from posenc_export.proof.runtimes import Missing, RunFailed, Runner, check_package, runtime
from posenc_export.proof.runtimes.in_child import Call, ChildPort, in_child
from posenc_export.write.formats.onnx import read_onnx

NO_HALF = "tract has no tensors of bfloat16"
TYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "bool": "BOOL"}
"""tract's names of dtypes."""
MAX_CHARACTERS = 300
"""Characters that are kept of an error of tract."""
CAUSE = re.compile(r"^\s*\d+: ", re.MULTILINE)
"""Each cause of an error begins with its number."""


def _check() -> None:
    """Raise Missing where tract is not installed."""
    check_package("tract", "tract")


@runtime(
    "tract",
    format_="onnx",
    device="cpu",
    check=_check,
    rounds="tract multiplies by an inverse where a graph divides",
    slow=True,
    ends_process=True,
)
def load_tract(path: Path, manifest: Manifest) -> Runner:
    """tract, on the CPU, in a child process."""
    if any(port.dtype == "bfloat16" for port in (*manifest.inputs, *manifest.outputs)):
        raise Missing(NO_HALF)
    read_onnx(path)
    try:
        return in_child("tract", __name__, path, manifest)
    except RunFailed as failure:
        raise Missing(f"tract cannot load {path.name}: {failure}") from failure


def opened(path: Path, inputs: tuple[ChildPort, ...], outputs: tuple[ChildPort, ...]) -> Call:
    """Load a file into this process and return a function that runs it; raise RunFailed where tract cannot."""
    import tract

    types = {slot.dtype: tract.DatumType[TYPES[slot.dtype]] for slot in outputs}
    try:
        model = tract.onnx().load(path)
        model.analyse()
        runnable = model.into_model().into_runnable()
    except tract.TractError as error:
        raise RunFailed(_words(error)) from error

    def call(feeds: Feeds) -> dict[str, Array]:
        try:
            produced = runnable.run([feeds[slot.name] for slot in inputs])
        except tract.TractError as error:
            raise RunFailed(_words(error)) from error
        pairs = zip(outputs, produced, strict=True)
        # Integers that tract computes from sizes have a dtype of tract's own, which NumPy has not.
        return {slot.name: value.convert_to(types[slot.dtype]).to_numpy() for slot, value in pairs}

    return call


def _words(error: Exception) -> str:
    """Return where tract failed, and the first cause, which it prints last."""
    text = str(error).partition("Stack backtrace")[0]
    at, _, causes = text.partition("Caused by:")
    numbered = CAUSE.split(causes)
    return shorten(": ".join(filter(None, (at.strip(), numbered[-1].strip()))), MAX_CHARACTERS)
