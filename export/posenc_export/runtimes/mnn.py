"""MNN, Alibaba's runtime for phones, in a process of its own: some graphs end that, of others it reads unset memory.

The package's own `mnnconvert` is not called: when it is first run it installs a package of its maker's with pip, and
then reports every conversion, with the machine's number. What that command wraps converts, and tells nobody.
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
from posenc_export.formats.onnx import read_onnx
from posenc_export.formats.onnx.compatibility import external_files
from posenc_export.formats.onnx.dtypes import holds_float64
from posenc_export.runtimes import Missing, RunFailed, Runner, check_package, runtime
from posenc_export.runtimes.in_child import Call, Slot, in_child

TAKEN: Mapping[str, str] = {"float32": "float32", "int64": "int32", "int32": "int32"}
"""The dtypes of ports that can be given and read in Python, and what they are in MNN."""
NO_DOUBLE = "MNN computes in float32 what is float64 in this graph"
NO_WEIGHTS = "weights that lie beside a graph were not tried with MNN's converter"
UNSET = "MNN gives other numbers each time: it reads memory that nothing has written"
NOT_CONVERTED = re.compile(r"Op Not Support: *(?:ONNX::)?(?P<operators>.+)|^\[ERROR\] (?P<error>[^:\n]+)", re.MULTILINE)
"""What the converter prints of a file that it does not convert: the operators that it does not have, or what else."""
M_PERTURB, PATTERN = -6, 0xA5
"""What tells glibc to fill memory that is asked for, and that is given back, with a byte; and that byte."""


def _check() -> None:
    """Raise Missing where MNN is not installed."""
    check_package("MNN", "mnn")


@runtime(
    "mnn",
    format_="onnx",
    device="cpu",
    check=_check,
    lenient="MNN answers without an error where a row is asked for that there is not",
    slow=True,
)
def load_mnn(path: Path, manifest: Manifest) -> Runner:
    """MNN, on the CPU, in a process of its own, on what its converter makes of the file."""
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


def opened(path: Path, inputs: tuple[Slot, ...], outputs: tuple[Slot, ...]) -> Call:
    """Convert a file, load it into this process, and return what runs it; raise RunFailed, in a line, where MNN cannot.

    Two copies answer each call: where their bits differ, they are of memory that nothing has written.
    """
    _show_unset_memory()
    with open(os.devnull, "w") as nowhere, _printing_to(nowhere.fileno()):  # it prints what the processor has
        from MNN import expr, nn

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.mnn")
        _convert(path, file)
        names = [[slot.name for slot in side] for side in (inputs, outputs)]
        precise = expr.PrecisionMode.High
        copies = [nn.load_module_from_file(str(file), *names, precision_mode=precise) for _ in range(2)]

    def call(feeds: Feeds) -> dict[str, Array]:
        arrays = [_as_mnn_takes(slot, feeds[slot.name]) for slot in inputs]
        first, second = (_answer(copy, arrays) for copy in copies)
        if len(first) != len(outputs):
            raise RunFailed("MNN gives no output for inputs of these sizes")
        if any(one.tobytes() != other.tobytes() for one, other in zip(first, second, strict=True)):
            raise RunFailed(UNSET)
        return {slot.name: array.astype(slot.dtype) for slot, array in zip(outputs, first, strict=True)}

    return call


def _show_unset_memory() -> None:
    """Have memory that is asked for hold no zeros, and nothing of an earlier call, where the C library can do that."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_PERTURB, PATTERN)


def _convert(path: Path, file: Path) -> None:
    """Write the file that MNN loads; raise RunFailed where its converter makes none, with what that prints."""
    with tempfile.TemporaryFile() as said, _printing_to(said.fileno()):
        import _tools  # type: ignore[import-not-found]

        _tools.mnnconvert(["mnnconvert", "-f", "ONNX", "--modelFile", str(path), "--MNNModel", str(file)])
        if not file.is_file():
            _flush()
            said.seek(0)
            raise RunFailed(_why(said.read().decode("utf-8", "replace")))


@contextmanager
def _printing_to(place: int) -> Iterator[None]:
    """Have what a library prints go to a file that is open under a number."""
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


def _why(said: str) -> str:
    reason = NOT_CONVERTED.search(said)
    if reason is None:
        return "its converter writes no file"
    operators = reason.group("operators")
    return f"its converter has no {shorten(operators, 200)}" if operators else shorten(reason.group("error"), 200)


def _as_mnn_takes(slot: Slot, array: Array) -> Array:
    """Return an array as MNN takes it; raise RunFailed for a number beyond its integers."""
    taken = np.ascontiguousarray(array, TAKEN[slot.dtype])
    if not np.array_equal(taken, array, equal_nan=taken.dtype.kind == "f"):
        raise RunFailed(f"MNN counts in int32, and {slot.name!r} holds what is beyond that")
    return taken


def _answer(module: Any, arrays: Sequence[Array]) -> list[Array]:
    """Return what a loaded file gives."""
    from MNN import expr

    variables = []
    for array in arrays:
        variable = expr.placeholder(list(array.shape), expr.NCHW, expr.int if array.dtype.kind == "i" else expr.float)
        variable.write(array)
        variables.append(variable)
    try:
        return [np.array(expr.convert(one, expr.NCHW).read()) for one in module.onForward(variables)]
    except SystemError as error:  # of no elements there is nothing to read
        raise RunFailed(str(error.__cause__ or error)) from error
