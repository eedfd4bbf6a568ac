"""MNN, Alibaba's runtime for phones, in a child process: some graphs end it, with others it reads unset memory.

The package's command `mnnconvert` is not called: its first run installs another package with pip, which then reports
every conversion to the maker, with a number of the machine. The function that it wraps only converts.
"""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np

from posenc.ports import Array, Feeds
from posenc_export.bundle.manifest import Manifest
from posenc_export.proof.runtimes import Missing, RunFailed, Runner, check_package, runtime
from posenc_export.proof.runtimes.in_child import Call, ChildPort, in_child
from posenc_export.write.formats.onnx import read_onnx
from posenc_export.write.formats.onnx.compatibility import external_files
from posenc_export.write.formats.onnx.dtypes import holds_float64

TAKEN: Mapping[str, str] = {"float32": "float32", "int64": "int32", "int32": "int32"}
"""The dtypes that MNN takes and returns in Python, and the dtypes that it computes with."""
NO_DOUBLE = "MNN computes in float32 what is float64 in this graph"
NO_WEIGHTS = "weights that lie beside a graph were not tried with MNN's converter"
UNSET = "MNN gives other numbers each time: it reads memory that nothing has written"
NOT_CONVERTED = re.compile(r"Op Not Support: *(?:ONNX::)?(?P<operators>.+)|^\[ERROR\] (?P<error>[^:\n]+)", re.MULTILINE)
"""The converter prints which operators it lacks, or another error."""
M_PERTURB, PATTERN = -6, 0xA5
"""The option of glibc's mallopt that fills new and freed memory with a byte, and the byte."""


def _check() -> None:
    """Raise Missing where MNN is not installed."""
    check_package("MNN", "mnn")


@runtime(
    "mnn",
    format_="onnx",
    device="cpu",
    check=_check,
    lenient="MNN answers without an error where a position is beyond the table",
    slow=True,
)
def load_mnn(path: Path, manifest: Manifest) -> Runner:
    """MNN, on the CPU, in a child process, with the file that its converter writes."""
    for port in (*manifest.inputs, *manifest.outputs):
        if port.dtype not in TAKEN:
            raise Missing(f"MNN has no tensors of {port.dtype} in Python")
    model = read_onnx(path)
    if holds_float64(model):
        raise Missing(NO_DOUBLE)
    if external_files(model):
        raise Missing(NO_WEIGHTS)
    try:
        return in_child("MNN", __name__, path, manifest)
    except RunFailed as failure:
        raise Missing(f"MNN cannot load {path.name}: {failure}") from failure


def opened(path: Path, inputs: tuple[ChildPort, ...], outputs: tuple[ChildPort, ...]) -> Call:
    """Convert a file and load it; return a function that runs it, or raise RunFailed where MNN cannot load it."""
    _show_unset_memory()
    with open(os.devnull, "w") as nowhere, _printing_to(nowhere.fileno()):  # MNN prints the features of the processor
        from MNN import expr, nn

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.mnn")
        _convert(path, file)
        names = [[slot.name for slot in side] for side in (inputs, outputs)]
        # other modes may compute in half precision
        precise = expr.PrecisionMode.High
        # Two copies answer each call: bits that differ come from memory that nothing has written.
        copies = [nn.load_module_from_file(str(file), *names, precision_mode=precise) for _ in range(2)]

    def call(feeds: Feeds) -> dict[str, Array]:
        arrays = [_as_mnn_takes(slot, feeds[slot.name]) for slot in inputs]
        first, second = (_answer(copy, arrays) for copy in copies)
        # MNN leaves out operators with an output of size zero, and whatever follows them
        if len(first) != len(outputs):
            raise RunFailed("MNN gives no output for inputs of these sizes")
        if any(a.tobytes() != b.tobytes() for a, b in zip(first, second, strict=True)):
            raise RunFailed(UNSET)
        return {slot.name: array.astype(slot.dtype) for slot, array in zip(outputs, first, strict=True)}

    return call


def _show_unset_memory() -> None:
    """Fill new memory with a byte, where the C library can: it holds neither zeros nor results of earlier calls."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_PERTURB, PATTERN)


def _convert(path: Path, file: Path) -> None:
    """Write the file that MNN loads; raise RunFailed, with what the converter printed, where it fails."""
    with tempfile.TemporaryFile() as printed, _printing_to(printed.fileno()):
        import _tools  # type: ignore[import-not-found]

        _tools.mnnconvert(["mnnconvert", "-f", "ONNX", "--modelFile", str(path), "--MNNModel", str(file)])
        if not file.is_file():
            _flush()
            printed.seek(0)
            raise RunFailed(_why(printed.read().decode("utf-8", "replace")))


@contextmanager
def _printing_to(place: int) -> Iterator[None]:
    """Send everything that a library prints to an open file, by the number of that."""
    originals = [os.dup(number) for number in (1, 2)]
    try:
        for number in (1, 2):
            os.dup2(place, number)
        yield
    finally:
        _flush()
        for number, copy in zip((1, 2), originals, strict=True):
            os.dup2(copy, number)
            os.close(copy)


def _flush() -> None:
    ctypes.CDLL(None).fflush(None)


def _why(printed: str) -> str:
    reason = NOT_CONVERTED.search(printed)
    if reason is None:
        return "its converter writes no file"
    operators = reason.group("operators")
    return f"its converter has no {shorten(operators, 200)}" if operators else shorten(reason.group("error"), 200)


def _as_mnn_takes(slot: ChildPort, array: Array) -> Array:
    """Return an array as MNN takes it; raise RunFailed for a number beyond its integers."""
    taken = np.ascontiguousarray(array, TAKEN[slot.dtype])
    if not np.array_equal(taken, array, equal_nan=taken.dtype.kind == "f"):
        raise RunFailed(f"MNN counts in int32, and {slot.name!r} holds what is beyond that")
    return taken


def _answer(module: Any, arrays: Sequence[Array]) -> list[Array]:
    """Return the outputs of a loaded file."""
    from MNN import expr

    variables = []
    for array in arrays:
        variable = expr.placeholder(list(array.shape), expr.NCHW, expr.int if array.dtype.kind == "i" else expr.float)
        variable.write(array)
        variables.append(variable)
    try:
        return [np.array(expr.convert(output, expr.NCHW).read()) for output in module.onForward(variables)]
    except SystemError as error:  # an output without elements cannot be read
        raise RunFailed(str(error.__cause__ or error)) from error
