"""C++: ONNX Runtime's C++ API and libtorch, each in a process of its own, fed by .npy files."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import tempfile
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from posenc.ports import Array, Port
from posenc_export.arrays import from_stored, to_stored
from posenc_export.bundle.manifest import Manifest
from posenc_export.runtimes import Missing, RunFailed, Runner, runtime
from posenc_export.runtimes.onnx_runtime import ort_cuda_missing
from posenc_export.runtimes.pytorch import torch_cuda_missing
from posenc_export.runtimes.runner_build import Program

ORT = Program("ort_runner", "onnx", "onnxruntime")
TORCH = Program("torch_runner", "torch", "torch")


class Process:
    """A runner that has loaded a bundle's graph; a call writes its inputs and reads its outputs as .npy files."""

    def __init__(self, program: Program, bundle: Path, format_: str, device: str) -> None:
        """Start the runner; raise RunFailed, with what it prints, where it cannot load the graph."""
        self.scratch = tempfile.TemporaryDirectory(prefix="posenc-cpp-")
        self.stderr = (Path(self.scratch.name) / "stderr").open("w+", encoding="utf-8", errors="replace")
        command = [str(program.executable), str(bundle.absolute()), "--format", format_, "--device", device]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            encoding="utf-8",
            errors="replace",
            cwd=self.scratch.name,
            env={**environment(device), "TMPDIR": self.scratch.name},  # libtorch unpacks packages there
            start_new_session=True,  # Ctrl-C interrupts this process alone; the runner ends where its input does
        )
        self._stop = weakref.finalize(self, _stop, self.process)
        if self._answer() != "ready":
            raise RunFailed(f"{program.name} did not start")

    def __call__(self, feeds: Mapping[str, Array], outputs: tuple[Port, ...]) -> dict[str, Array]:
        """Run the graph once; raise RunFailed with the error that the runner answers."""
        folder = Path(self.scratch.name)
        for name, array in feeds.items():
            np.save(folder / f"{name}.npy", to_stored(array))
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the runner has ended: _answer says how
            self.process.stdin.write(".\t.\n")
            self.process.stdin.flush()
        answer = self._answer()
        if answer != "ok":
            raise RunFailed(answer.removeprefix("error: "))
        return {p.name: from_stored(np.load(folder / f"{p.name}.npy"), p.dtype) for p in outputs}

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line: str = self.process.stdout.readline()
        if line:
            return line.rstrip("\n")
        status = self.process.wait()
        self.stderr.seek(0)
        errors = self.stderr.read().strip().splitlines()
        if status < 0:
            raise RunFailed(f"the C++ runner crashed: signal {-status}; {errors[-1] if errors else 'it said nothing'}")
        raise RunFailed(errors[-1].removeprefix("error: ") if errors else f"the C++ runner ended: status {status}")


def _stop(process: subprocess.Popen[str]) -> None:
    """End a runner: closing its input does that, and a signal where it does not."""
    with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
        process.communicate(timeout=5)
    process.kill()
    process.wait()


def environment(device: str) -> dict[str, str]:
    """Return the environment of a runner; on CUDA it names the libraries of pip packages, which Python finds itself."""
    if device != "cuda":
        return dict(os.environ)
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
        raise Missing(f"the library of {program.name} cannot use CUDA: {answer.strip()}")


def _runner(program: Program, path: Path, manifest: Manifest, **how: str) -> Runner:
    process = Process(program, path.parent, **how)
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
    return _runner(TORCH, path, manifest, format_="aoti", device="cpu")
