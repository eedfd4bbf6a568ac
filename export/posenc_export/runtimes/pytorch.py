"""PyTorch in Python, on the CPU and on CUDA."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from posenc.scheme import Port
from posenc_export.arrays import Array, to_torch
from posenc_export.runtimes import Missing, Runner, runtime


def torch_cuda_missing() -> None:
    """Raise Missing where PyTorch cannot use CUDA."""
    import torch

    if not torch.backends.cuda.is_built():
        raise Missing(f"torch {torch.__version__} is a CPU build: install one with CUDA")
    if not torch.cuda.is_available():
        raise Missing("torch finds no CUDA device: no NVIDIA driver, or no GPU")


@runtime("torchscript-cpu", format_="torchscript", device="cpu")
def load_torchscript_cpu(path: Path, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Runner:
    """TorchScript in PyTorch, on the CPU."""
    return _torchscript(path, inputs, outputs, "cpu")


@runtime("torchscript-cuda", format_="torchscript", device="cuda", check=torch_cuda_missing)
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
