"""OpenVINO, on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from posenc.ports import Array, Feeds
from posenc_export.bundle.manifest import Manifest
from posenc_export.proof.runtimes import Missing, RunFailed, Runner, check_package, runtime
from posenc_export.write.formats.onnx import read_onnx
from posenc_export.write.formats.onnx.dtypes import holds_float64

if TYPE_CHECKING:
    from openvino import CompiledModel

CUTS = "OpenVINO truncates numbers to bfloat16, where others round: the last digit differs"
TELEMETRY = "openvino_telemetry"
"""The package that reports each import of openvino to the maker; openvino runs without it, too."""


def _check() -> None:
    """Raise Missing where openvino is not installed."""
    check_package("openvino", "openvino")


@contextmanager
def _reporting_nothing() -> Iterator[None]:
    """Import openvino as if its telemetry were not installed: a proof reports to nobody that it ran."""
    hidden = TELEMETRY not in sys.modules
    if hidden:
        sys.modules[TELEMETRY] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hidden:
            del sys.modules[TELEMETRY]


@runtime(
    "openvino",
    format_="onnx",
    device="cpu",
    check=_check,
    lenient="OpenVINO gives zeros for a position beyond the table, without an error",
    rounds="OpenVINO multiplies by an inverse where a graph divides",
    slow=True,
)
def load_openvino(path: Path, manifest: Manifest) -> Runner:
    """OpenVINO, on the CPU, computing in float32."""
    if any(port.dtype == "bfloat16" for port in (*manifest.inputs, *manifest.outputs)):
        raise Missing(CUTS)
    if holds_float64(read_onnx(path)):
        raise Missing("OpenVINO computes on CPUs in float32 what is float64 in this graph")
    compiled = compiled_model(path, "f32")
    wanted = [port.name for port in manifest.outputs]

    def run(feeds: Feeds) -> dict[str, Array]:
        produced = outputs_of(compiled, feeds)
        return {name: array for name, array in produced.items() if name in wanted}

    return Runner(run, manifest.inputs, manifest.outputs, ("CPU",))


def compiled_model(path: Path, precision: str) -> CompiledModel:
    """Compile an ONNX file for the CPU, to be computed in a precision: f32, f16 or bf16.

    Raises Missing where openvino is not installed, or would compute in another precision.
    """
    _check()
    with _reporting_nothing():
        import openvino

    hint = "INFERENCE_PRECISION_HINT"
    # without the hint, a CPU with bfloat16 computes in that; behind weights of few bits, activations become int8
    settings = {hint: precision, "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
    compiled = openvino.Core().compile_model(path, "CPU", settings)
    chosen = compiled.get_property(hint).get_type_name()
    if chosen != precision:
        raise Missing(f"openvino chose {chosen} on this CPU")
    return compiled


def outputs_of(compiled: CompiledModel, feeds: Feeds) -> dict[str, Array]:
    """Return the outputs of a compiled model by every name; raise RunFailed, in one line, where it refuses its inputs.

    An output that is a look-up alone has two names: that of the graph's output, and that of the look-up.
    """
    try:
        produced = compiled(dict(feeds))
    except RuntimeError as error:  # the lines before the last one name its own sources
        raise RunFailed(str(error).strip().splitlines()[-1]) from error
    return {name: produced[port] for port in compiled.outputs for name in port.names}
