"""A C++ header, compiled here and called from Python."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from posenc.scheme import Port
from posenc_export.arrays import Array
from posenc_export.cpp import REALS, filled
from posenc_export.runtimes import Missing, RunFailed, Runner, runtime
from posenc_export.validation.plan import Case

COMPILERS = ("c++", "g++", "clang++")
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
"""Hidden, what a library holds is its own: one that is loaded later would be given the tables of the first."""
Call = Callable[[Mapping[str, Array]], dict[str, Array]]
Function = Callable[..., None]


def compiler() -> list[str]:
    """Return the command of a C++ compiler: $CXX, or the first found; raise Missing where there is none."""
    told = shlex.split(os.environ.get("CXX", ""))
    names = told[:1] or COMPILERS
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is None:
        raise Missing(f"no C++ compiler: {', '.join(names)} not found; set CXX")
    return [found, *told[1:]]


def _check_compiler() -> None:
    compiler()


@runtime("header-cpp", format_="header", device="cpu", check=_check_compiler)
def load_header(path: Path, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Runner:
    """The C++ header, compiled by the C++ compiler of this machine."""
    bind = {"y": _adding, "cos": _turning, "q_rotated": _rotating}[outputs[0].name]
    return Runner(bind(path, inputs, outputs), inputs, outputs)


def _compiled(path: Path, template: str, output: Port, axes: int = 1) -> Function:
    """Return a function of a library around the header, which raises RunFailed where that refuses a position."""
    several = ", ".join(f"p[{axes} * t + {axis}]" for axis in range(axes))
    place = "p[t]" if axes == 1 else f"{{{several}}}"
    fields = {"real": REALS[output.dtype], "width": output.axes[-1], "axes": axes, "place": place}
    with TemporaryDirectory(prefix="posenc-header-", ignore_cleanup_errors=True) as folder:
        source, library = Path(folder, "call.cpp"), Path(folder, "call.so")
        source.write_text(filled(template, header=path.name, **fields), "ascii")
        command = [*compiler(), *FLAGS, "-I", str(path.parent.resolve()), str(source), "-o", str(library)]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            errors = [line for line in made.stderr.splitlines() if "error" in line]
            raise RunFailed(f"{path.name} does not compile: {(errors or [made.stderr.strip()])[0]}")
        call = ctypes.CDLL(str(library)).call
    call.restype = ctypes.c_bool

    def checked(*arguments: Any) -> None:
        if not call(*map(_argument, arguments)):
            raise RunFailed("a position is not among those that the header holds")

    return checked


def _argument(value: Array | int | None) -> Any:
    return ctypes.c_size_t(value) if isinstance(value, int) else ctypes.c_void_p(None if value is None else _at(value))


def _at(array: Array) -> int:
    assert array.flags.c_contiguous
    return int(array.ctypes.data)


def _adding(path: Path, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Call:
    """Return what writes rows, and adds them to x where the output has all of its sequences."""
    (y,) = outputs
    write = _compiled(path, "call_additive.cpp", y)

    def call(feeds: Mapping[str, Array]) -> dict[str, Array]:
        out = np.empty(Case("call", _sizes(feeds, inputs)).shape(y), y.dtype)
        x = np.ascontiguousarray(feeds["x"]) if "x" in feeds and y.axes[0] == "batch" else None
        if "positions" in feeds:
            first, length = np.ascontiguousarray(feeds["positions"]), 1
        else:
            length = out.shape[-2]
            first = np.full(out[..., 0, 0].shape, feeds["start"][0] if "start" in feeds else 0, np.int64)
        write(first, first.size, length, x, out)
        return {y.name: out}

    return call


def _turning(path: Path, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Call:
    """Return what writes cosines and sines."""
    write = _compiled(path, "call_cos_sin.cpp", outputs[0], _axes(inputs))

    def call(feeds: Mapping[str, Array]) -> dict[str, Array]:
        shape = Case("call", _sizes(feeds, inputs)).shape(outputs[0])
        cos, sin = (np.empty(shape, port.dtype) for port in outputs)
        places = _places(feeds, shape[-2:-1])
        write(places, places.shape[0] * places.shape[1], cos, sin)
        return {port.name: array for port, array in zip(outputs, (cos, sin), strict=True)}

    return call


def _rotating(path: Path, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Call:
    """Return what turns queries and keys."""
    write = _compiled(path, "call_rotate.cpp", outputs[0], _axes(inputs))

    def rotated(x: Array, port: Port, feeds: Mapping[str, Array]) -> Array:
        x, out = np.ascontiguousarray(x), np.empty_like(x, order="C")
        heads_first = port.axes[1] in ("head", "head_kv")
        heads, dim = x.shape[1 if heads_first else -2], x.shape[-1]
        places = _places(feeds, x.shape[2:-1] if heads_first else x.shape[1:-2])
        tokens = places.shape[1]
        steps = (dim, tokens * dim) if heads_first else (heads * dim, dim)
        for b in range(x.shape[0]):
            write(places[b % places.shape[0]], tokens, heads, *steps, x[b], out[b])
        return out

    return lambda feeds: {o.name: rotated(feeds[i.name], i, feeds) for i, o in zip(inputs, outputs, strict=False)}


def _sizes(feeds: Mapping[str, Array], inputs: tuple[Port, ...]) -> dict[str, int]:
    return {name: feeds[port.name].shape[i] for port in inputs for i, name in port.dynamic.items()}


def _axes(inputs: tuple[Port, ...]) -> int:
    """Return how many positions a token has."""
    told = next((port.axes for port in inputs if port.name == "positions"), ())
    grid = any("height" in port.axes for port in inputs)
    return int(told[0]) if len(told) == 3 else 2 if grid else 1


def _places(feeds: Mapping[str, Array], lengths: tuple[int, ...]) -> Array:
    """Return every token's positions, as told or counted along the lengths: (1 or batch, tokens, axes)."""
    if "positions" in feeds:
        told = feeds["positions"]
        places = np.moveaxis(told, 0, -1) if told.ndim == 3 else told[..., None]
    else:
        places = np.indices(lengths, np.int64).reshape(1, len(lengths), -1).swapaxes(1, 2)
        places = places + (feeds["start"][0] if "start" in feeds else 0)
    return np.ascontiguousarray(places)
