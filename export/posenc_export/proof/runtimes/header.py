"""Headers of C++ and C, compiled here and called from Python."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from posenc.call import positions_of
from posenc.ports import Array, Feeds, Integers, Mask, Port, Positions, Values, carrying, sizes_of
from posenc_export.bundle.manifest import Manifest
from posenc_export.proof.runtimes import Missing, RunFailed, Runner, runtime
from posenc_export.write.cpp import REALS, filled
from posenc_export.write.formats.header import integers_of, namespace_of
from posenc_export.write.formats.header.text import in_integers

Call = Callable[[Feeds], dict[str, Array]]
Function = Callable[..., None]
TAKES_SIZES = "functions take one number of tokens, and pointers"
FLAGS = ("-O2", "-fPIC", "-shared", "-fvisibility=hidden")
"""With visible symbols, a library that is loaded later would get the tables of the first."""


@dataclass(frozen=True)
class HeaderLanguage:
    """How a header of a language is compiled and called.

    Args:
        variable: the environment variable that names a compiler.
        compilers: without the variable, the first of these that is found.
        options: of the compiler, for a source in this language.
        joint: the text between a namespace and a name.
        several: takes a number of positions a token, and returns the text of those that begin at p.

    """

    name: str
    variable: str
    compilers: tuple[str, ...]
    options: tuple[str, ...]
    joint: str
    several: Callable[[int], str]

    def compiler(self) -> list[str]:
        """Return the command of a compiler; raise Missing where there is none."""
        words = shlex.split(os.environ.get(self.variable, ""))
        names = words[:1] or self.compilers
        path = next((path for path in map(shutil.which, names) if path), None)
        if path is None:
            raise Missing(f"no {self.name} compiler: {', '.join(names)} not found; set {self.variable}")
        return [path, *words[1:]]

    def check(self) -> None:
        """Raise Missing where there is no compiler."""
        self.compiler()


CPP = HeaderLanguage(
    name="C++",
    variable="CXX",
    compilers=("c++", "g++", "clang++"),
    options=("-std=c++17", "-x", "c++"),
    joint="::",
    several=lambda axes: "{" + ", ".join(f"p[{axes} * t + {axis}]" for axis in range(axes)) + "}",
)
C = HeaderLanguage(
    name="C",
    variable="CC",
    compilers=("cc", "gcc", "clang"),
    options=("-std=c99", "-x", "c"),
    joint="_",
    several=lambda axes: f"p + {axes} * t",
)


@runtime("header-cpp", format_="header", device="cpu", check=CPP.check, one_size=TAKES_SIZES)
def load_header(path: Path, manifest: Manifest) -> Runner:
    """The C++ header, compiled by the C++ compiler of this machine."""
    return Runner(BINDINGS[manifest.family](Header(path, CPP), manifest), manifest.inputs, manifest.outputs)


@runtime("header-c", format_="header-c99", device="cpu", check=C.check, one_size=TAKES_SIZES)
def load_c_header(path: Path, manifest: Manifest) -> Runner:
    """The C99 header, compiled by the C compiler of this machine."""
    return Runner(BINDINGS[manifest.family](Header(path, C), manifest), manifest.inputs, manifest.outputs)


@dataclass(frozen=True)
class Header:
    """A header's file and the language that it is in."""

    path: Path
    language: HeaderLanguage

    def compiled(self, family: str, output: Port, integers: str, **constants: int) -> Function:
        """Return the function of a library around the header; it raises RunFailed for a position beyond the end.

        Args:
            family: What it computes.
            output: An output: its type is that of the header's numbers.
            integers: The dtype of positions.
            constants: Constants that the header must have.
        """
        with TemporaryDirectory(prefix="posenc-header-", ignore_cleanup_errors=True) as folder:
            source, library = Path(folder, "call.txt"), Path(folder, "call.so")
            source.write_text(in_integers(self.source(family, output, **constants), integers), "ascii")
            compile_(self.language, source, library, self.path)
            call = ctypes.CDLL(str(library)).call
        # false where a position is beyond the end
        call.restype = ctypes.c_bool

        def checked(*arguments: Array | int | None) -> None:
            if not call(*map(_argument, arguments)):
                raise RunFailed("a position is not among those that the header holds")

        return checked

    def source(self, family: str, output: Port, **constants: int) -> str:
        """Return the source of a library around the header; raise RunFailed for a header that we did not write."""
        namespace, real = namespace_of(self.path.read_text("utf-8", "replace")), REALS[output.dtype]
        if not namespace:
            raise RunFailed(f"{self.path.name} is no header of posenc-export")
        api = namespace + self.language.joint
        # static assertions: a header of other constants does not compile
        has = [f"sizeof({api}real) == sizeof({real})", *(f"{api}{k} == {v}" for k, v in constants.items())]
        axes = constants.get("axes", 1)
        place = "p[t]" if axes == 1 else self.language.several(axes)
        call = filled(f"call_{family}", api=api, real=real, place=place)
        macro = f"{namespace}_IMPLEMENTATION"
        return filled("call", header=self.path.name, macro=macro, conditions=" && ".join(has), call=call)


def compile_(
    language: HeaderLanguage, source: Path, library: Path, header: Path, flags: tuple[str, ...] = FLAGS
) -> None:
    """Compile a library around a header; raise RunFailed, with the first error, where it does not compile."""
    include = ["-I", str(header.parent.absolute())]
    command = [*language.compiler(), *language.options, *flags, *include, str(source), "-o", str(library)]
    made = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if made.returncode:
        errors = [line for line in made.stderr.splitlines() if "error" in line]
        raise RunFailed(f"{header.name} does not compile: {(errors or [made.stderr.strip()])[0]}")


def _argument(value: Array | int | None) -> ctypes.c_size_t | ctypes.c_void_p:
    if isinstance(value, int):
        return ctypes.c_size_t(value)
    assert value is None or value.flags.c_contiguous
    return ctypes.c_void_p(None if value is None else int(value.ctypes.data))


def _adding(header: Header, manifest: Manifest) -> Call:
    """Return a function that writes rows, and adds them to x where the output has a batch."""
    (y,) = manifest.outputs
    write = header.compiled("additive", y, integers_of(manifest.inputs), width=_width(y))

    def call(feeds: Feeds) -> dict[str, Array]:
        out = np.empty(y.shape(sizes_of(manifest.inputs, feeds)), y.dtype)
        values = [feeds[port.name] for port in carrying(manifest.inputs, Values)]
        x = np.ascontiguousarray(values[0]) if values and y.axes[0].is_dynamic else None
        positions = _positions(feeds, manifest, out.shape)
        # Rows of successive positions are written by one call; others by a call each.
        runs = (positions[:, :1], positions.shape[1]) if _counted(manifest) else (positions, 1)
        sequences = out.shape[0] if out.ndim == 3 else 1
        first = np.ascontiguousarray(np.broadcast_to(runs[0], (sequences, runs[0].shape[1])))
        write(first, first.size, runs[1], x, out)
        return {y.name: out}

    return call


def _giving_cos_sin(header: Header, manifest: Manifest) -> Call:
    """Return a function that writes cosines and sines."""
    outputs = manifest.outputs
    integers, axes = integers_of(manifest.inputs), _position_axes(manifest)
    write = header.compiled("cos_sin", outputs[0], integers, axes=axes, width=_width(outputs[0]))

    def call(feeds: Feeds) -> dict[str, Array]:
        shape = outputs[0].shape(sizes_of(manifest.inputs, feeds))
        cos, sin = (np.empty(shape, port.dtype) for port in outputs)
        places = _places(feeds, manifest, shape)
        write(places, places.shape[0] * places.shape[1], cos, sin)
        return {port.name: array for port, array in zip(outputs, (cos, sin), strict=True)}

    return call


def _rotating(header: Header, manifest: Manifest) -> Call:
    """Return a function that rotates queries and keys."""
    outputs = manifest.outputs
    integers, axes = integers_of(manifest.inputs), _position_axes(manifest)
    write = header.compiled("rotary", outputs[0], integers, axes=axes, head_dim=_width(outputs[0]))

    def rotated(x: Array, port: Port, places: Array) -> Array:
        # x: (batch, heads, seq, head_dim), or (batch, seq, heads, head_dim)
        x, out = np.ascontiguousarray(x), np.empty_like(x, order="C")
        heads_first = port.axes[1].kind == "heads"
        heads, dim = x.shape[1 if heads_first else -2], x.shape[-1]
        tokens = places.shape[1]
        steps = (dim, tokens * dim) if heads_first else (heads * dim, dim)
        for b in range(x.shape[0]):
            write(places[b % places.shape[0]], tokens, heads, *steps, x[b], out[b])
        return out

    def call(feeds: Feeds) -> dict[str, Array]:
        values = carrying(manifest.inputs, Values)
        places = _places(feeds, manifest, ())
        return {o.name: rotated(feeds[v.name], v, places) for o, v in zip(outputs, values, strict=True)}

    return call


BINDINGS: Mapping[str, Callable[[Header, Manifest], Call]] = {
    "additive": _adding,
    "cos_sin": _giving_cos_sin,
    "rotary": _rotating,
}
"""By family of encoding."""


def _width(port: Port) -> int:
    """Return the size of a port's last axis, which is fixed."""
    return int(port.axes[-1].size or 0)


def _counted(manifest: Manifest) -> bool:
    """Return whether positions follow one another in every sequence."""
    return not carrying(manifest.inputs, Positions, Mask)


def _position_axes(manifest: Manifest) -> int:
    """Return how many positions a token has."""
    for port in carrying(manifest.inputs, Positions):
        return int(port.axes[0].size or 1) if len(port.axes) == 3 else 1
    grid = [axis for port in carrying(manifest.inputs, Values)[:1] for axis in port.axes if axis.kind == "grid"]
    return len(grid) or 1


def _positions(feeds: Feeds, manifest: Manifest, shape: tuple[int, ...]) -> Integers:
    """Return the positions of a call: (1 or batch, seq), or (axes, ...) with several a token; all rows of a table."""
    positions = positions_of(manifest.max_len if manifest.inputs else shape[0], manifest.inputs, feeds)
    positions = positions.astype(integers_of(manifest.inputs))
    return positions if positions.ndim > 1 else positions[None]


def _places(feeds: Feeds, manifest: Manifest, shape: tuple[int, ...]) -> Array:
    """Return every token's positions: (1 or batch, tokens, axes)."""
    positions = _positions(feeds, manifest, shape)
    if _position_axes(manifest) == 1:
        return np.ascontiguousarray(positions[..., None])
    axes, batch, *_ = positions.shape  # (axes, batch, *grid) -> (batch, tokens, axes)
    return np.ascontiguousarray(np.moveaxis(positions.reshape(axes, batch, -1), 0, -1))
