"""ONNX Runtime in Python, on the CPU and on CUDA."""

from __future__ import annotations

import ctypes
import platform
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from posenc.ports import Array, Feeds, Port
from posenc_export.bundle.manifest import Manifest
from posenc_export.common.arrays import to_numpy, to_stored
from posenc_export.common.install import install_line
from posenc_export.proof.runtimes import Bound, Missing, Runner, check_driver, runtime
from posenc_export.proof.runtimes.sessions import (
    CPU_BUILD,
    CUDA,
    cuda_provider,
    find_cuda,
    placement,
    quiet_options,
    save_optimized,
)
from posenc_export.write.formats.onnx import read_onnx

if TYPE_CHECKING:
    from onnx import ModelProto


def ort_cuda_missing() -> None:
    """Raise Missing, naming the library, where ONNX Runtime cannot use CUDA."""
    check_driver()
    import onnxruntime

    if CUDA not in onnxruntime.get_available_providers():
        raise Missing(CPU_BUILD)
    find_cuda()
    provider = cuda_provider()
    if platform.system() == "Linux" and provider.is_file():
        # the provider takes symbols from this library, as onnxruntime loads it
        ctypes.CDLL(str(provider.with_name("libonnxruntime_providers_shared.so")), mode=ctypes.RTLD_GLOBAL)
        library = _unresolved(provider)
        if library:
            raise Missing(f"no CUDA: {library} is not found: {install_line('cuda')}, or put it on LD_LIBRARY_PATH")


def _unresolved(library: Path) -> str | None:
    """Return the name of the first shared library that `library` needs and cannot find."""
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        name, is_missing, _ = str(error).partition(": cannot open shared object file")
        # The provider refers to symbols of the host program: only a missing file matters here.
        return name.strip() if is_missing else None
    return None


NO_KERNEL = re.compile(r"NOT_IMPLEMENTED : Could not find an implementation for (\w+)\(")
"""What ONNX Runtime says of an operator that it has not in a dtype."""


@runtime("ort-cpu", format_="onnx", device="cpu")
def load_ort_cpu(path: Path, manifest: Manifest) -> Runner:
    """ONNX Runtime, CPU execution provider."""
    try:
        return _ort(path, manifest, "CPUExecutionProvider", {})
    except Exception as error:
        lacking = NO_KERNEL.search(str(error))
        if lacking and any(port.dtype == "bfloat16" for port in manifest.outputs):
            raise Missing(f"ONNX Runtime has no kernel of {lacking[1]} in bfloat16 on the CPU") from error
        raise


@runtime("ort-cuda", format_="onnx", device="cuda", check=ort_cuda_missing)
def load_ort_cuda(path: Path, manifest: Manifest) -> Runner:
    """ONNX Runtime, CUDA execution provider, with proof of where each node ran."""
    # TF32 keeps 10 binary digits: products of angles would be noise
    runner = _ort(path, manifest, CUDA, {"use_tf32": "0"})
    if CUDA not in runner.providers:
        raise Missing(f"ONNX Runtime fell back to {', '.join(runner.providers)}: CUDA could not be initialised")
    return runner


def part_runner(model: ModelProto, folder: Path, inputs: tuple[Port, ...]) -> Runner:
    """Return a runner of a part of a graph on the CPU; `folder` holds the weights that lie beside the graph."""
    import onnxruntime

    options = quiet_options()
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return _runner(session, inputs, (), "CPUExecutionProvider")


def _ort(path: Path, manifest: Manifest, provider: str, config: Mapping[str, str]) -> Runner:
    import onnxruntime

    options = quiet_options()
    if provider != CUDA:
        session = onnxruntime.InferenceSession(str(path), options, providers=[(provider, dict(config))])
        return _runner(session, manifest.inputs, manifest.outputs, provider)
    with TemporaryDirectory(prefix="posenc-placed-") as scratch:
        optimized = save_optimized(options, Path(scratch))
        session = onnxruntime.InferenceSession(str(path), options, providers=[(provider, dict(config))])
        graph = read_onnx(optimized)
    return replace(_runner(session, manifest.inputs, manifest.outputs, provider), optimized=graph)


def _runner(session: Any, inputs: tuple[Port, ...], outputs: tuple[Port, ...], provider: str) -> Runner:
    import onnxruntime

    names = [value.name for value in session.get_outputs()]
    bfloat16 = any(value.type == "tensor(bfloat16)" for value in (*session.get_inputs(), *session.get_outputs()))
    # options of a run: a refusal is an exception, and needs no line in the log
    quiet = onnxruntime.RunOptions()
    quiet.log_severity_level = 4

    def call(feeds: Feeds) -> dict[str, Array]:
        if not bfloat16:
            return dict(zip(names, session.run(None, dict(feeds), quiet), strict=True))
        values = {name: _ort_value(array) for name, array in feeds.items()}
        produced = session.run_with_ort_values(None, values, quiet)
        return {name: _ort_array(value) for name, value in zip(names, produced, strict=True)}

    def bind(feeds: Feeds) -> Bound:
        device = "cuda" if provider == CUDA else "cpu"
        return _bound(session, feeds, names, device)

    providers = tuple(session.get_providers())

    def stop(_: object) -> None:
        quiet.terminate = True  # ONNX Runtime reads it between nodes, also of a loop's body

    placed = placement(session)
    return Runner(call, inputs, outputs, providers, placed, bind, stop)


def _bound(session: Any, feeds: Feeds, names: list[str], device: str) -> Bound:
    """Bind inputs and outputs of a session to a device's memory."""
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, _ort_value(array, device))
    for name in names:
        binding.bind_output(name, device)

    def run() -> None:
        session.run_with_iobinding(binding)
        # the device works on after the call returns
        binding.synchronize_outputs()

    def read() -> dict[str, Array]:
        return {name: _ort_array(value) for name, value in zip(names, binding.get_outputs(), strict=True)}

    return Bound(run, read)


def _ort_value(array: Array, device: str = "cpu") -> Any:
    """Return an array as ONNX Runtime's value; bfloat16, which NumPy lacks, goes by its bits and begins on the CPU."""
    import onnxruntime

    if array.dtype.name == "bfloat16":
        import onnx

        # NumPy has no bfloat16: the bits go as uint16, and ONNX's number says what they are
        kind = onnx.TensorProto.BFLOAT16
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(to_stored(array), kind)
    return onnxruntime.OrtValue.ortvalue_from_numpy(array, device, 0)


def _ort_array(value: Any) -> Array:
    if value.data_type() != "tensor(bfloat16)":
        array: Array = value.numpy()
        return array
    import torch

    return to_numpy(torch.utils.dlpack.from_dlpack(value._get_c_value().to_dlpack()))
