"""The machine that figures are measured on, and the versions of its software."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from posenc import __version__

PACKAGES = ("torch", "onnx", "onnxscript", "onnxruntime-gpu", "onnxruntime", "numpy")


def has_nvidia_driver() -> bool:
    """Return whether the library of a CUDA driver is found."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def cache_folder() -> Path:
    """Return the folder of this user's cache in which built programs and unpacked browsers lie."""
    # it is imported where something is built, and not at each start
    from platformdirs import user_cache_path

    return user_cache_path("posenc-export")


def versions() -> dict[str, str]:
    """Return the versions of Python, the platform and the packages that make a bundle."""
    facts = {"python": platform.python_version(), "platform": f"{sys.platform} {platform.machine()}"}
    facts["posenc-export"] = __version__  # the code that runs: what pip has noted of a checkout may be older
    for package in PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            continue
    return facts


def processor() -> str:
    """Return the name of the CPU and how many cores this process may use."""
    name = platform.processor() or platform.machine()
    listing = Path("/proc/cpuinfo")
    if listing.is_file():
        lines = listing.read_text(encoding="utf-8").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    # cores of this process, which a container may limit
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {cores} cores"


def card() -> str:
    """Return the name of the first GPU, its memory and its driver's version; nothing where there is none."""
    words = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(words, capture_output=True, encoding="utf-8", errors="replace", check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return ""
    name, memory, driver = (part.strip() for part in done.stdout.splitlines()[0].split(","))
    return f"{name}, {memory}, driver {driver}"


def facts() -> dict[str, str]:
    """Return what a table of figures names: the CPU, the GPU and CUDA where there are any, and every version."""
    import torch

    of_cuda = {"GPU": card(), "CUDA": torch.version.cuda or ""}
    return {"CPU": processor(), **{name: value for name, value in of_cuda.items() if value}, **versions()}
