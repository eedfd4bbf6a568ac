"""Headers compiled and called: the compilers at hand, a shared library of a source in cpp, its functions."""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from posenc.parameters import Value
from posenc.ports import Array
from posenc.spec import Spec
from posenc_export.proof.exporter import ExportOptions, write_bundle
from posenc_export.proof.exporter.settings import with_stored_rows
from posenc_export.write.targets import Target
from posenc_export.write.targets.scheme import scheme_target

HERE = Path(__file__).parents[1] / "cpp"
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow")
STRICT = ("-std=c++17", *WARNINGS, "-Wold-style-cast")
C99 = ("-std=c99", *WARNINGS, "-Wmissing-prototypes")
LAST = 2**24 - 1
FORMAT = {"c++": "header", "c": "header-c99"}
CLANGS = ("clang++", *(f"clang++-{version}" for version in range(20, 13, -1)))


def compiler(kind: str, language: str = "c++") -> str:
    """Return the path of g++ or clang++, or of those of C; skip without, or fail where POSENC_TEST_REQUIRE has it."""
    names = ("g++",) if kind == "gcc" else CLANGS
    if language == "c":
        names = tuple(name.replace("clang++", "clang").replace("g++", "gcc") for name in names)
    path = next((path for path in map(shutil.which, names) if path), None)
    if path is None:
        reason = f"no {kind}: {', '.join(names)} not found"
        if kind in os.environ.get("POSENC_TEST_REQUIRE", "").split(","):
            pytest.fail(reason)
        pytest.skip(reason)
    return path


def compiled(command: list[Any], seconds: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command; raise TimeoutExpired where it takes longer than some seconds."""
    words = [str(part) for part in command]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=seconds)


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


@dataclass(frozen=True)
class Built:
    """A library of a header, its functions by their names: in C its own, in C++ those of a source in cpp."""

    library: Any
    prefix: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.library, self.prefix + name)


def built(language: str, kind: str, source: str, folder: Path, *flags: str) -> Built:
    """Return the functions of the header that `written` wrote into a folder, by a compiler of C or C++."""
    if language == "c":
        return Built(c_library(kind, folder, *flags), "posenc_")
    return Built(library(kind, source, folder, *flags), "use_")


def c_library(kind: str, folder: Path, *flags: str) -> Any:
    """Return a library of model.h alone, written with `written`: it names all posenc_."""
    shared = folder / f"{kind}-c{''.join(flags)}.so".replace("=", "-")
    options = [*C99, *flags, "-fPIC", "-shared", "-Dposenc_IMPLEMENTATION", "-x", "c"]
    process = compiled([compiler(kind, "c"), *options, folder / "model.h", "-o", shared])
    assert (process.returncode, process.stderr) == (0, "")
    return ctypes.CDLL(str(shared))


def written(
    folder: Path,
    scheme: str,
    spec: Spec,
    params: Mapping[str, Value],
    language: str = "c++",
    *,
    namespace: str | None = "posenc",
) -> Target:
    """Write the header of a scheme in a language into a folder, unvalidated, and return what was written.

    Unless the spec says how many rows it stores, it stores those that headers store.
    """
    options = ExportOptions((FORMAT[language],), validate=False, namespace=namespace)
    target = scheme_target(scheme, with_stored_rows(spec, options.formats), params, 0)
    write_bundle(target, options, folder)
    return target


def eager(target: Target, *inputs: Array) -> list[Array]:
    with torch.no_grad():
        result = target.encoding.module(*map(torch.from_numpy, inputs))
    return [part.numpy() for part in (result if isinstance(result, tuple) else (result,))]


def same(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
