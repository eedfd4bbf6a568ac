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

import numpy as np

from posenc.ports import Array, Feeds, Port
from posenc_export.bundle.case import Case
from posenc_export.bundle.manifest import Manifest
from posenc_export.cpp import REALS, filled
from posenc_export.runtimes import Missing, RunFailed, Runner, runtime

COMPILERS = ("c++", "g++", "clang++")
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
"""Hidden, what a library holds is its own: one that is loaded later would be given the tables of the first."""
Call = Callable[[Feeds], dict[str, Array]]
Function = Callable[..., None]


def compiler() -> list[str]:
    """Return the command of a C++ compiler: $CXX, or the first there is; raise Missing where there is none."""
    words = shlex.split(os.environ.get("CXX", ""))
    names = words[:1] or COMPILERS
    path = next((path for path in map(shutil.which, names) if path), None)
    if path is None:
        raise Missing(f"no C++ compiler: {', '.join(names)} not found; set CXX")
    return [path, *words[1:]]


def _check_compiler() -> None:
    compiler()


@runtime("header-cpp", format_="header", device="cpu", check=_check_compiler)
def load_header(path: Path, manifest: Manifest) -> Runner:
    """The C++ header, compiled by the C++ compiler of this machine."""
    return Runner(BINDINGS[manifest.family](path, manifest), manifest.inputs, manifest.outputs)


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

    def checked(*arguments: Array | int | None) -> None:
        if not call(*map(_argument, arguments)):
            raise RunFailed("a position is not among those that the header holds")

    return checked


def _argument(value: Array | int | None) -> ctypes.c_size_t | ctypes.c_void_p:
    if isinstance(value, int):
        return ctypes.c_size_t(value)
    assert value is None or value.flags.c_contiguous
    return ctypes.c_void_p(None if value is None else int(value.ctypes.data))


def _adding(path: Path, manifest: Manifest) -> Call:
    """Return what writes rows, and adds them to x where the output has all of its sequences."""
    (y,) = manifest.outputs
    write = _compiled(path, "call_additive.cpp", y)

    def call(feeds: Feeds) -> dict[str, Array]:
        out = np.empty(_shape(feeds, manifest, y), y.dtype)
        x = np.ascontiguousarray(feeds["x"]) if "x" in feeds and y.axes[0] == "batch" else None
        if "positions" in feeds:
            first, length = np.ascontiguousarray(feeds["positions"]), 1
        else:
            length = out.shape[-2]
            first = np.full(out[..., 0, 0].shape, feeds["start"][0] if "start" in feeds else 0, np.int64)
        write(first, first.size, length, x, out)
        return {y.name: out}

    return call


def _giving_cos_sin(path: Path, manifest: Manifest) -> Call:
    """Return what writes cosines and sines."""
    outputs = manifest.outputs
    write = _compiled(path, "call_cos_sin.cpp", outputs[0], _axes(manifest))

    def call(feeds: Feeds) -> dict[str, Array]:
        shape = _shape(feeds, manifest, outputs[0])
        cos, sin = (np.empty(shape, port.dtype) for port in outputs)
        places = _places(feeds, shape[-2:-1])
        write(places, places.shape[0] * places.shape[1], cos, sin)
        return {port.name: array for port, array in zip(outputs, (cos, sin), strict=True)}

    return call


def _rotating(path: Path, manifest: Manifest) -> Call:
    """Return what rotates queries and keys."""
    inputs, outputs = manifest.inputs, manifest.outputs
    write = _compiled(path, "call_rotate.cpp", outputs[0], _axes(manifest))

    def rotated(x: Array, port: Port, feeds: Feeds) -> Array:
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


BINDINGS: Mapping[str, Callable[[Path, Manifest], Call]] = {
    "additive": _adding,
    "cos_sin": _giving_cos_sin,
    "rotary": _rotating,
}
"""By family of encoding."""


def _shape(feeds: Feeds, manifest: Manifest, output: Port) -> tuple[int, ...]:
    sizes = {name: feeds[port.name].shape[i] for port in manifest.inputs for i, name in port.dynamic.items()}
    return Case("call", sizes).shape(output)


def _axes(manifest: Manifest) -> int:
    """Return how many positions a token has."""
    axes = next((port.axes for port in manifest.inputs if port.name == "positions"), ())
    grid = any("height" in port.axes for port in manifest.inputs)
    return int(axes[0]) if len(axes) == 3 else 2 if grid else 1


def _places(feeds: Feeds, lengths: tuple[int, ...]) -> Array:
    """Return every token's positions, as given or counted along the lengths: (1 or batch, tokens, axes)."""
    if "positions" in feeds:
        positions = feeds["positions"]
        places = np.moveaxis(positions, 0, -1) if positions.ndim == 3 else positions[..., None]
    else:
        places = np.indices(lengths, np.int64).reshape(1, len(lengths), -1).swapaxes(1, 2)
        places = places + (feeds["start"][0] if "start" in feeds else 0)
    return np.ascontiguousarray(places)
