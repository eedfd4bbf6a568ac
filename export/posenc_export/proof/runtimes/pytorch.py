"""PyTorch in Python, on the CPU and on CUDA."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from posenc.ports import Array, Feeds
from posenc_export.bundle.manifest import Manifest
from posenc_export.common.arrays import call_on_arrays, flatten, to_torch
from posenc_export.common.limit import Stop, stop_python
from posenc_export.proof.runtimes import Bound, Missing, Runner, runtime
from posenc_export.write.formats.aoti_package import ISA, cpu_problem, metadata

if TYPE_CHECKING:
    import torch


READS_BEYOND = "AOTInductor's code compares no shapes: it reads what lies behind the shorter input"


def torch_cuda_missing() -> None:
    """Raise Missing where PyTorch cannot use CUDA."""
    installed = version("torch")
    release, _, build = installed.partition("+")
    # "+cpu" in its version says so before torch is loaded
    if build == "cpu" or not _is_built_for_cuda():
        words = f"on Linux, pip install --force-reinstall torch=={release} brings one with CUDA"
        raise Missing(f"torch {installed} is a CPU build: {words}")
    import torch

    if not torch.cuda.is_available():
        raise Missing("torch finds no CUDA device: no NVIDIA driver, or no GPU")


def _is_built_for_cuda() -> bool:
    import torch

    return bool(torch.backends.cuda.is_built())


@runtime("torchscript-cpu", format_="torchscript", device="cpu")
def load_torchscript_cpu(path: Path, manifest: Manifest) -> Runner:
    """TorchScript in PyTorch, on the CPU."""
    return _torchscript(path, manifest, "cpu")


@runtime("torchscript-cuda", format_="torchscript", device="cuda", check=torch_cuda_missing)
def load_torchscript_cuda(path: Path, manifest: Manifest) -> Runner:
    """TorchScript in PyTorch, on CUDA."""
    return _torchscript(path, manifest, "cuda")


@runtime("pt2-cpu", format_="pt2", device="cpu")
def load_pt2_cpu(path: Path, manifest: Manifest) -> Runner:
    """A program of torch.export in PyTorch, on the CPU."""
    return _runner(_program(path).module(), manifest, "cpu", stop_python)


@runtime("pt2-cuda", format_="pt2", device="cuda", check=torch_cuda_missing)
def load_pt2_cuda(path: Path, manifest: Manifest) -> Runner:
    """A program of torch.export in PyTorch, on CUDA."""
    from torch.export.passes import move_to_device_pass

    # constants of a program lie on the device that it was exported on
    return _runner(move_to_device_pass(_program(path), "cuda").module(), manifest, "cuda", stop_python)


def _program(path: Path) -> torch.export.ExportedProgram:
    import torch

    from posenc_export.write.formats import quiet

    with quiet():  # it logs a traceback of a damaged file, and then raises
        return torch.export.load(path)


@runtime("aoti-cpu", format_="aoti", device="cpu", one_size=READS_BEYOND)
def load_aoti_cpu(path: Path, manifest: Manifest) -> Runner:
    """An AOTInductor package in PyTorch, on the CPU."""
    import torch

    from posenc_export.write.formats import quiet

    expect_cpu(path)
    with quiet():
        package = torch._inductor.aoti_load_package(str(path))

    def call(*args: object) -> object:
        with _silent():  # a package prints an error before it raises it
            return package(*args)

    return _runner(call, manifest, "cpu")


def expect_cpu(path: Path) -> None:
    """Raise Missing where this CPU lacks instructions that an AOTInductor package is compiled for."""
    import torch

    # Only the package's metadata are read: to run such code ends the process.
    problem = cpu_problem(path.name, metadata(path).get(ISA, ""), torch.cpu.get_capabilities())
    if problem:
        raise Missing(problem)


@contextmanager
def _silent() -> Iterator[None]:
    """Drop everything that C++ code prints on stderr."""
    stderr = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def _torchscript(path: Path, manifest: Manifest, device: str) -> Runner:
    import torch

    from posenc_export.write.formats import quiet

    with quiet():
        module = torch.jit.load(str(path), map_location=device)
    return _runner(module, manifest, device)


def _runner(module: Callable[..., object], manifest: Manifest, device: str, stop: Stop | None = None) -> Runner:
    """Return a runner of a function of tensors on a device.

    `stop` ends a call. A script and a package run in C++, which only the end of the process ends.
    """
    outputs = manifest.outputs

    def named(produced: Sequence[Array]) -> dict[str, Array]:
        # outputs that no port names are kept, so that a report can count them
        names = [port.name for port in outputs] + [f"extra{i}" for i in range(len(produced) - len(outputs))]
        return dict(zip(names, produced, strict=False))

    def call(feeds: Feeds) -> dict[str, Array]:
        return named(call_on_arrays(module, [feeds[port.name] for port in manifest.inputs], device))

    def bind(feeds: Feeds) -> Bound:
        return _bound(module, [feeds[port.name] for port in manifest.inputs], named, device)

    return Runner(call, manifest.inputs, outputs, (device,), bind=bind, stop=stop)


def _bound(
    module: Callable[..., object],
    arrays: Sequence[Array],
    named: Callable[[Sequence[Array]], dict[str, Array]],
    device: str,
) -> Bound:
    """Keep the inputs and outputs of a module on a device; a run waits for the device."""
    import torch

    tensors = [to_torch(array).to(device) for array in arrays]
    produced: list[object] = [None]

    def run() -> None:
        with torch.no_grad():
            produced[0] = module(*tensors)
        if device == "cuda":
            # the device works on after the call returns
            torch.cuda.synchronize()

    return Bound(run, lambda: named(flatten(produced[0])))
