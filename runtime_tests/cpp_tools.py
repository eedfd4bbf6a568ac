"""Headers compiled and called: the compilers at hand, a shared library of a source in cpp, its functions."""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from posenc.parameters import Value
from posenc.ports import Array
from posenc.spec import Spec
from posenc_export.exporter import ExportOptions, write_bundle
from posenc_export.targets import Target
from posenc_export.targets.scheme import scheme_target

HERE = Path(__file__).parent / "cpp"
STRICT = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wpedantic", "-Wconversion")
LAST = 2**24 - 1
CLANGS = ("clang++", *(f"clang++-{version}" for version in range(20, 13, -1)))


def compiler(kind: str) -> str:
    """Return the path of g++ or clang++; skip without it, or fail where POSENC_TEST_REQUIRE has its name."""
    names = ("g++",) if kind == "gcc" else CLANGS
    path = next((path for path in map(shutil.which, names) if path), None)
    if path is None:
        reason = f"no {kind}: {', '.join(names)} not found"
        if kind in os.environ.get("POSENC_TEST_REQUIRE", "").split(","):
            pytest.fail(reason)
        pytest.skip(reason)
    return path


def compiled(command: list[Any]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)


def library(kind: str, source: str, folder: Path, *flags: str) -> Any:
    shared = folder / f"{kind}-{source}{''.join(flags)}.so".replace("=", "-")
    options = [*STRICT, *flags, "-fPIC", "-shared", "-fvisibility=hidden", "-I", folder]
    process = compiled([compiler(kind), *options, HERE / f"{source}.cpp", "-o", shared])
    assert (process.returncode, process.stderr) == (0, "")
    return ctypes.CDLL(str(shared))


def call(function: Any, *arguments: Array | int) -> bool:
    """Call a function that takes pointers and 64-bit integers, and returns a bool."""
    function.restype = ctypes.c_bool
    values = [ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else ctypes.c_int64(a) for a in arguments]
    return bool(function(*values))


def written(folder: Path, scheme: str, spec: Spec, params: Mapping[str, Value]) -> Target:
    """Write the header of a scheme into a folder, unvalidated, and return what was written."""
    target = scheme_target(scheme, spec, params, 0)
    write_bundle(target, ExportOptions(("header",), validate=False), folder)
    return target


def eager(target: Target, *inputs: Array) -> list[Array]:
    with torch.no_grad():
        result = target.encoding.module(*map(torch.from_numpy, inputs))
    return [part.numpy() for part in (result if isinstance(result, tuple) else (result,))]


def same(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
