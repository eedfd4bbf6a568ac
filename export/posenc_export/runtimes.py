"""Runtimes: a file in, a runner out; a runner takes arrays by name and returns arrays by name.

To add one, write a decorated loader here. A runtime that cannot run says so by raising Missing, with the library it
lacks; nothing falls back to another device in silence.
"""

from __future__ import annotations

import ctypes
import functools
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posenc.registry import Registry
from posenc.scheme import Port
from posenc_export.arrays import Array, to_numpy, to_stored, to_torch
from posenc_export.problems import first_line


class Missing(Exception):
    """A runtime is not available here; the text names what is missing."""


class RunFailed(Exception):
    """A graph could not be loaded, or refused its inputs."""


@dataclass(frozen=True)
class Runner:
    """A loaded graph: `call(feeds)` runs it; `nodes` lists (provider, node name, op type) where the runtime tells."""

    call: Callable[[Mapping[str, Array]], dict[str, Array]]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    providers: tuple[str, ...] = ()
    nodes: tuple[tuple[str, str, str], ...] = ()

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Check the feeds by name, dtype and shape, then run; raise RunFailed, in one line, where either fails."""
        problem = check_feeds(feeds, self.inputs)
        if problem:
            raise RunFailed(problem)
        try:
            return self.call(feeds)
        except Exception as error:
            raise RunFailed(_last_line(error)) from error


@dataclass(frozen=True)
class Runtime:
    """A way to run one format on one device; `lenient` says why it may answer where others refuse."""

    name: str
    format: str
    device: str
    load: Callable[[Path, tuple[Port, ...], tuple[Port, ...]], Runner]
    summary: str
    check: Callable[[], None] = field(default=lambda: None)
    lenient: str = ""

    def open(self, path: Path, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Runner:
        """Load a file; raise Missing where the runtime is not available, RunFailed where the file cannot be loaded."""
        self.check()
        try:
            return self.load(path, inputs, outputs)
        except (Missing, RunFailed):
            raise
        except Exception as error:
            raise RunFailed(f"cannot load {path.name}: {_last_line(error)}") from error


RUNTIMES: Registry[Runtime] = Registry("runtime")

Loader = Callable[[Path, tuple[Port, ...], tuple[Port, ...]], Runner]


def runtime(
    name: str, *, format_: str, device: str, check: Callable[[], None] = lambda: None, lenient: str = ""
) -> Callable[[Loader], Loader]:
    """Register the decorated loader as a runtime; `check` raises Missing where it cannot run here."""

    def register(load: Loader) -> Loader:
        summary = (load.__doc__ or "").partition("\n")[0]
        RUNTIMES.add(name, Runtime(name, format_, device, load, summary, check, lenient))
        return load

    return register


def check_feeds(feeds: Mapping[str, Array], ports: tuple[Port, ...]) -> str:
    """Return what is wrong with the feeds, in one line, or nothing."""
    names = [port.name for port in ports]
    for name in feeds:
        if name not in names:
            return f"there is no input {name!r}: expected {', '.join(names) or 'none'}"
    sizes: dict[str, tuple[int, str]] = {}
    for port in ports:
        if port.name not in feeds:
            return f"input {port.name!r} is missing: expected {port}"
        array = feeds[port.name]
        if array.dtype.name != port.dtype:
            return f"input {port.name!r} is {array.dtype.name}: expected {port}"
        if array.ndim != len(port.axes):
            return f"input {port.name!r} has shape {array.shape}: expected {port}"
        for axis, size in zip(port.axes, array.shape, strict=True):
            if isinstance(axis, int) and size != axis:
                return f"input {port.name!r} has shape {array.shape}: expected {port}"
            if isinstance(axis, str):
                seen, where = sizes.setdefault(axis, (size, port.name))
                if seen != size:
                    return f"axis {axis!r} is {seen} in {where!r} and {size} in {port.name!r}: expected one size"
    return ""


def _last_line(error: BaseException) -> str:
    """Return the line of a runtime's error that says what happened: TorchScript's comes last, after the code."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and "TorchScript interpreter" in str(error):
        return lines[-1]
    return first_line(error)


# ---- ONNX Runtime ----------------------------------------------------------------------------------------------------


@functools.cache
def _preload() -> None:
    """Find CUDA and cuDNN where pip or torch put them."""
    import importlib.util

    import onnxruntime

    if importlib.util.find_spec("torch") is not None:
        import torch  # noqa: F401
    if hasattr(onnxruntime, "preload_dlls"):
        import contextlib
        import io

        with contextlib.redirect_stdout(io.StringIO()):
            onnxruntime.preload_dlls()


def _ort_cuda_missing() -> None:
    """Raise Missing, naming the library, where ONNX Runtime cannot use CUDA."""
    import onnxruntime

    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        raise Missing("this onnxruntime is a CPU build: install onnxruntime-gpu")
    _preload()
    provider = Path(onnxruntime.__file__).parent / "capi" / "libonnxruntime_providers_cuda.so"
    if platform.system() == "Linux" and provider.is_file():
        ctypes.CDLL(str(provider.with_name("libonnxruntime_providers_shared.so")), mode=ctypes.RTLD_GLOBAL)
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise Missing("no NVIDIA driver: libcuda.so.1 is not found") from error
        library = _unresolved(provider)
        if library:
            raise Missing(f"{library} is not found: pip install 'posenc-export[cuda]', or put it on LD_LIBRARY_PATH")


def _unresolved(library: Path) -> str | None:
    """Return the name of the first shared library that `library` needs and cannot find."""
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        name, found, _ = str(error).partition(": cannot open shared object file")
        # The provider refers to symbols of the host program: only a missing file matters here.
        return name.strip() if found else None
    return None


@runtime("ort-cpu", format_="onnx", device="cpu")
def load_ort_cpu(path: Path, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Runner:
    """ONNX Runtime, CPU execution provider."""
    return _ort(path, inputs, outputs, "CPUExecutionProvider", {})


@runtime("ort-cuda", format_="onnx", device="cuda", check=_ort_cuda_missing)
def load_ort_cuda(path: Path, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Runner:
    """ONNX Runtime, CUDA execution provider, with proof of where each node ran."""
    runner = _ort(path, inputs, outputs, "CUDAExecutionProvider", {"use_tf32": "0"})
    if "CUDAExecutionProvider" not in runner.providers:
        raise Missing(f"ONNX Runtime fell back to {', '.join(runner.providers)}: CUDA could not be initialised")
    return runner


def _ort(
    path: Path, inputs: tuple[Port, ...], outputs: tuple[Port, ...], provider: str, config: Mapping[str, str]
) -> Runner:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # a refusal is raised as an exception: the log line says it again
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    session = onnxruntime.InferenceSession(str(path), options, providers=[(provider, dict(config))])
    names = [value.name for value in session.get_outputs()]
    bfloat16 = any(value.type == "tensor(bfloat16)" for value in (*session.get_inputs(), *session.get_outputs()))
    quiet = onnxruntime.RunOptions()
    quiet.log_severity_level = 4

    def call(feeds: Mapping[str, Array]) -> dict[str, Array]:
        if not bfloat16:
            return dict(zip(names, session.run(None, dict(feeds), quiet), strict=True))
        values = {name: _ort_value(array) for name, array in feeds.items()}
        produced = session.run_with_ort_values(None, values, quiet)
        return {name: _ort_array(value) for name, value in zip(names, produced, strict=True)}

    return Runner(call, inputs, outputs, tuple(session.get_providers()), _placement(session))


def _ort_value(array: Array) -> Any:
    """Return an array as ONNX Runtime takes it; numpy alone cannot hand over bfloat16."""
    import onnxruntime

    if array.dtype.name == "bfloat16":
        import onnx

        kind = onnx.TensorProto.BFLOAT16
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(to_stored(array), kind)
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def _ort_array(value: Any) -> Array:
    if value.data_type() != "tensor(bfloat16)":
        array: Array = value.numpy()
        return array
    import torch

    return to_numpy(torch.utils.dlpack.from_dlpack(value._get_c_value().to_dlpack()))


def _placement(session: Any) -> tuple[tuple[str, str, str], ...]:
    """Return (provider, node name, op type) of every node of a session."""
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return ()
    parts = session.get_provider_graph_assignment_info()
    return tuple((part.ep_name, node.name, node.op_type) for part in parts for node in part.get_nodes())


# ---- TorchScript -----------------------------------------------------------------------------------------------------


def _torch_cuda_missing() -> None:
    import torch

    if not torch.backends.cuda.is_built():
        raise Missing(f"torch {torch.__version__} is a CPU build: install one with CUDA")
    if not torch.cuda.is_available():
        raise Missing("torch finds no CUDA device: no NVIDIA driver, or no GPU")


@runtime("torchscript-cpu", format_="torchscript", device="cpu")
def load_torchscript_cpu(path: Path, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Runner:
    """TorchScript in PyTorch, on the CPU."""
    return _torchscript(path, inputs, outputs, "cpu")


@runtime("torchscript-cuda", format_="torchscript", device="cuda", check=_torch_cuda_missing)
def load_torchscript_cuda(path: Path, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Runner:
    """TorchScript in PyTorch, on CUDA."""
    return _torchscript(path, inputs, outputs, "cuda")


def _torchscript(path: Path, inputs: tuple[Port, ...], outputs: tuple[Port, ...], device: str) -> Runner:
    import torch

    from posenc_export.formats import quiet
    from posenc_export.subject import flatten

    with quiet():
        module = torch.jit.load(str(path), map_location=device)

    def call(feeds: Mapping[str, Array]) -> dict[str, Array]:
        args = [to_torch(feeds[port.name]).to(device) for port in inputs]
        with torch.no_grad():
            produced = flatten(module(*args))
        names = [port.name for port in outputs] + [f"extra{i}" for i in range(len(produced) - len(outputs))]
        return dict(zip(names, produced, strict=False))

    return Runner(call, inputs, outputs, (device,))


# ---- the numpy evaluator of the onnx package -------------------------------------------------------------------------


@runtime(
    "onnx-reference",
    format_="onnx",
    device="cpu",
    lenient="NumPy cuts a slice short without an error",
)
def load_onnx_reference(path: Path, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Runner:
    """The onnx package's own evaluator in NumPy: slow, and shares no code with ONNX Runtime."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    others = {o.domain for o in onnx.load(path, load_external_data=False).opset_import} - {"", "ai.onnx"}
    if others:
        raise Missing(f"the onnx package has no operators of {', '.join(sorted(others))}")
    session = ReferenceEvaluator(str(path))

    def call(feeds: Mapping[str, Array]) -> dict[str, Array]:
        return dict(zip(session.output_names, session.run(None, dict(feeds)), strict=True))

    return Runner(call, inputs, outputs, ("numpy",))
