"""How a bundle's graph is loaded and called in Python, C++ and JavaScript, with its own names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from posenc.ports import Axis, Port, Values, axes_of
from posenc_export.bundle.carries import kind_of
from posenc_export.bundle.manifest import Artifact, Manifest
from posenc_export.common.arrays import FLOATS
from posenc_export.write.cpp.names import literal

SIZES = {"batch": 1, "heads": 2, "length": 8, "grid": 4, "features": 4}
"""Sizes of dynamic axes by their kinds."""
MOST = 40
"""Ports of an example."""
NUMPY = {"bfloat16": "ml_dtypes.bfloat16", "bool": "bool"}
CPP = {"float32": "float", "float64": "double", "int64": "std::int64_t", "int32": "std::int32_t", "bool": "bool"}
"""The types of elements that C++ and ONNX Runtime have in common; of halves, bits."""
HALVES = {"float16": "Ort::Float16_t", "bfloat16": "Ort::BFloat16_t"}
SCRIPT = {"float32": "Float32Array", "float64": "Float64Array", "int64": "BigInt64Array", "int32": "Int32Array"}
BYTES = {"float16": "Uint16Array", "bool": "Uint8Array"}


@dataclass(frozen=True)
class Fed:
    """An input of the example: its shape, what each element is, and how the three languages name it and its type.

    Args:
        port: The input.
        variable: What names of variables of it begin with: letters, digits and single underscores.
        shape: Its sizes in the example.
        fill: What each element is.
    """

    port: Port
    variable: str
    shape: tuple[int, ...]
    fill: float | int

    @property
    def key(self) -> str:
        """Its name as a string of Python and of JavaScript."""
        return json.dumps(self.port.name, ensure_ascii=False)

    @property
    def numpy(self) -> str:
        """The dtype in NumPy."""
        return NUMPY.get(self.port.dtype, f"np.{self.port.dtype}")

    @property
    def cpp(self) -> str:
        """The type of an element in C++."""
        return CPP.get(self.port.dtype) or HALVES[self.port.dtype]

    @property
    def script(self) -> str:
        """The typed array of JavaScript, or nothing where ONNX Runtime Web takes none."""
        return SCRIPT.get(self.port.dtype, BYTES.get(self.port.dtype, ""))

    @property
    def count(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    @property
    def in_cpp(self) -> str:
        """An element in C++."""
        if self.port.dtype in HALVES:
            return f"{self.cpp}({float(self.fill)}f)"
        return f"{float(self.fill)}f" if self.port.dtype == "float32" else str(self.fill)

    @property
    def in_script(self) -> str:
        """An element in JavaScript; of float16 its bits."""
        if self.port.dtype == "float16":
            return hex(int(np.float16(self.fill).view(np.uint16)))
        return f"{self.fill}n" if self.port.dtype == "int64" else str(self.fill)


@dataclass(frozen=True)
class Loading:
    """What examples of loading a graph are made of.

    Args:
        onnx: The ONNX file, if the bundle has one.
        beside: The file of its weights, if they lie beside it.
        script: The TorchScript file, if it has one.
        inputs: What goes in.
        outputs: What comes out.
        sizes: The sizes of the dynamic axes in the example, in words.
        in_browsers: Whether ONNX Runtime Web has all of the dtypes.
    """

    onnx: Artifact | None
    beside: Artifact | None
    script: Artifact | None
    inputs: tuple[Fed, ...]
    outputs: tuple[Port, ...]
    sizes: str
    in_browsers: bool

    @property
    def names(self) -> str:
        """The names of the inputs as strings of C++, with commas between."""
        return ", ".join(literal(fed.port.name) for fed in self.inputs)

    @property
    def output_names(self) -> str:
        """The names of the outputs as strings of C++, with commas between."""
        return ", ".join(literal(port.name) for port in self.outputs)


def loading_of(manifest: Manifest) -> Loading | None:
    """Return what examples of a bundle are made of; None where it has too many ports for one."""
    # a decoder with a cache for each layer has hundreds
    if len(manifest.inputs) + len(manifest.outputs) > MOST:
        return None
    # sizes stand in the code as numbers: it must run as it is copied
    sizes = {axis.name: _size(axis) for axis in axes_of(manifest.inputs)}
    variables = variables_of(port.name for port in manifest.inputs)
    inputs = tuple(
        Fed(port, variable, port.shape(sizes), _fill(port, sizes))
        for port, variable in zip(manifest.inputs, variables, strict=True)
    )
    words = ", ".join(f"{name} = {size}" for name, size in sizes.items())
    dtypes = {port.dtype for port in (*manifest.inputs, *manifest.outputs)}
    return Loading(
        manifest.artifact("onnx"),
        manifest.artifact("onnx.data"),
        manifest.artifact("torchscript"),
        inputs,
        manifest.outputs,
        words,
        "bfloat16" not in dtypes,
    )


def _size(axis: Axis) -> int:
    """Return the size of an axis in the example: a usual one that the axis allows."""
    return axis.allowed(max(SIZES[axis.kind], axis.least), axis.most)


def variables_of(names: Iterable[str]) -> list[str]:
    """Return what names of variables begin with, of ports: past_key_values.0.key is past_key_values_0_key.

    No two are alike: where `a.b` and `a_b` are ports of one graph, the later one gets a number.
    """
    variables: list[str] = []
    for name in names:
        word = re.sub("[^A-Za-z0-9]+", "_", name).strip("_")
        word = word if word[:1].isalpha() else f"input_{word}".rstrip("_")
        later, number = word, 2
        while later in variables:
            later, number = f"{word}_{number}", number + 1
        variables.append(later)
    return variables


def _fill(port: Port, sizes: Mapping[str, int]) -> float | int:
    """Return what every element of an input is: one that it may hold."""
    least = kind_of(port.carries).least(port.carries, port, sizes)
    if port.dtype not in FLOATS:
        return least or 0
    if not isinstance(port.carries, Values):
        return 0.0  # a mask that is added to scores hides nothing
    if port.carries.probabilities:
        return 1.0 / max(1, port.shape(sizes)[-1])
    low, high = port.carries.low, port.carries.high
    return min(max(1.0, 1.0 if low is None else low), 1.0 if high is None else high)
