"""C++: ONNX Runtime's C++ API and libtorch, each in a process of its own, fed by .npy files."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from posenc_export.bundle.folder import MANIFEST
from posenc_export.bundle.manifest import Manifest
from posenc_export.proof.runtimes import Missing, Runner, runtime
from posenc_export.proof.runtimes.onnx_runtime import ort_cuda_missing
from posenc_export.proof.runtimes.process import Process
from posenc_export.proof.runtimes.pytorch import expect_cpu, torch_cuda_missing
from posenc_export.proof.runtimes.runner_build import Program

ORT = Program("ort_runner", "onnx", "onnxruntime")
TORCH = Program("torch_runner", "torch", "torch")


def started(program: Program, bundle: Path, format_: str, device: str) -> Process:
    """Start a runner of the graph of a bundle; raise RunFailed where it cannot load the graph."""
    command = [str(program.executable), str(bundle.absolute()), "--format", format_, "--device", device]
    return Process("the C++ runner", command, environment(device))


def environment(device: str) -> dict[str, str]:
    """Return the environment of a runner; on CUDA it names the folders of pip's libraries."""
    if device != "cuda":
        return dict(os.environ)
    # pip installs CUDA's libraries below the packages nvidia and torch
    folders = [folder for package in ("nvidia", "torch") for folder in _libraries(package)]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join([*folders, os.environ.get("LD_LIBRARY_PATH", "")]).strip(":")}


def _libraries(package: str) -> list[str]:
    spec = importlib.util.find_spec(package)
    places = (spec.submodule_search_locations if spec else None) or []
    return sorted(str(p) for place in places for pattern in ("lib", "*/lib") for p in Path(place).glob(pattern))


def _check(program: Program) -> None:
    """Raise Missing where a runner is not built."""
    problem = program.problem()
    if problem:
        raise Missing(problem)


def _check_cuda(program: Program, device_missing: Callable[[], None]) -> None:
    """Raise Missing where Python could not use CUDA, or the library that the runner is linked with cannot."""
    device_missing()
    _check(program)
    _, _, answer = program.version_output(environment("cuda")).stdout.partition("CUDA: ")
    if answer.strip() != "yes":
        raise Missing(f"{program.name}: {answer.strip()}")


def _runner(program: Program, path: Path, manifest: Manifest, **how: str) -> Runner:
    # a part of a model of several graphs has a folder of its own, and its graph lies above
    part = path.parent / path.stem
    process = started(program, part if (part / MANIFEST).is_file() else path.parent, **how)
    inputs, outputs = manifest.inputs, manifest.outputs
    return Runner(lambda feeds: process(feeds, outputs), inputs, outputs, stop=lambda _: process.process.kill())


@runtime("ort-cpp", format_="onnx", device="cpu", check=partial(_check, ORT), prepare=ORT.build)
def load_ort_cpp(path: Path, manifest: Manifest) -> Runner:
    """ONNX Runtime's C++ API, on the CPU."""
    return _runner(ORT, path, manifest, format_="onnx", device="cpu")


@runtime(
    "ort-cpp-cuda", format_="onnx", device="cuda", check=partial(_check_cuda, ORT, ort_cuda_missing), prepare=ORT.build
)
def load_ort_cpp_cuda(path: Path, manifest: Manifest) -> Runner:
    """ONNX Runtime's C++ API, on CUDA."""
    return _runner(ORT, path, manifest, format_="onnx", device="cuda")


@runtime("libtorch-cpp", format_="torchscript", device="cpu", check=partial(_check, TORCH), prepare=TORCH.build)
def load_libtorch_cpp(path: Path, manifest: Manifest) -> Runner:
    """TorchScript in libtorch from C++, on the CPU."""
    return _runner(TORCH, path, manifest, format_="torchscript", device="cpu")


@runtime(
    "libtorch-cpp-cuda",
    format_="torchscript",
    device="cuda",
    check=partial(_check_cuda, TORCH, torch_cuda_missing),
    prepare=TORCH.build,
)
def load_libtorch_cpp_cuda(path: Path, manifest: Manifest) -> Runner:
    """TorchScript in libtorch from C++, on CUDA."""
    return _runner(TORCH, path, manifest, format_="torchscript", device="cuda")


@runtime("aoti-cpp", format_="aoti", device="cpu", check=partial(_check, TORCH), prepare=TORCH.build)
def load_aoti_cpp(path: Path, manifest: Manifest) -> Runner:
    """An AOTInductor package in libtorch from C++, on the CPU."""
    expect_cpu(path)
    return _runner(TORCH, path, manifest, format_="aoti", device="cpu")
