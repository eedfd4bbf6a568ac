"""example.cpp: load the graph, make inputs, run, print the first numbers of each output."""

from __future__ import annotations

from collections.abc import Mapping

from posenc.ports import Axis, Grids, Port, axes_of
from posenc_export.bundle.carries import kind_of
from posenc_export.bundle.manifest import Manifest
from posenc_export.common.arrays import INTEGERS
from posenc_export.write.cpp import BUNDLE_TEMPLATES, filled
from posenc_export.write.cpp.arguments import gives_arrays
from posenc_export.write.cpp.names import identifier, qualified_type, spelled
from posenc_export.write.cpp.uses import Uses

ONES = {"float32": "1", "float64": "1", "float16": "posenc::Half{0x3c00}", "bfloat16": "posenc::BFloat16{0x3f80}"}
"""The element that vectors of floats are filled with; those of integers hold the least that they may, or zeros."""
SIZES = {"batch": 1, "heads": 2, "length": 3, "grid": 3, "features": 2}
"""The sizes of axes by their kinds."""


def example(manifest: Manifest, name: str, uses: Uses) -> str:
    """Return the text of example.cpp, for a class of a name."""
    arrays = gives_arrays(manifest.inputs, manifest.outputs)
    ports = (*uses.fed(manifest.inputs), *(() if arrays else manifest.outputs))
    sizes = {axis.name: _size(axis) for axis in axes_of(manifest.inputs)}
    return filled(
        "example.cpp",
        BUNDLE_TEMPLATES,
        name=name,
        axes="".join(f".with_{axis}({size})" for axis, size in sizes.items()),
        vectors="\n".join(_vector(port, sizes) for port in ports),
        given="const auto arrays = " * arrays,
        arguments=", ".join(["axes", *map(_variable, ports)]),
        printed="\n".join(_printed(port, number, arrays) for number, port in enumerate(manifest.outputs)),
    )


def _printed(port: Port, number: int, arrays: bool) -> str:
    """Return the C++ that prints an output: a vector, or one of the arrays that a call gave."""
    element = qualified_type(port)
    numbers = f"posenc::elements<const {element}>(arrays[{number}].data)" if arrays else _variable(port)
    return f'    print<{element}>("{port.name}", {numbers});'


def _variable(port: Port) -> str:
    return f"{identifier(port.name)}_"


def _size(axis: Axis) -> int:
    """Return the size of an axis in the example."""
    if axis.size is not None:
        return axis.size
    # Every length is 3, and so a sum of two axes is 6.
    return len(axis.terms) * max(SIZES[axis.kind], axis.least) * axis.multiple


def _vector(port: Port, sizes: Mapping[str, int]) -> str:
    """Return the C++ that declares and fills the elements of a port, in a call of these sizes."""
    kind, name, size = kind_of(port.carries), _variable(port), f"Model::{spelled(port.name)}_size(axes)"
    if port.dtype == "bool":  # std::vector<bool> packs bits: no span views them
        return filled("bool_vector.cpp", BUNDLE_TEMPLATES, name=name, size=size).rstrip()
    if isinstance(port.carries, Grids):  # one picture of two rows, or as many as share one
        rows = port.carries.multiple
        columns = sizes[port.carries.of] // rows
        return f"    std::vector<{qualified_type(port)}> {name}{{1, {rows}, {columns}}};"
    if kind.cpp_vector and port.dtype in INTEGERS:
        length = _size(port.axes[-1])
        fields = {"name": name, "size": size, "length": length, "type": qualified_type(port)}
        return filled(kind.cpp_vector, BUNDLE_TEMPLATES, **fields).rstrip()
    element = ONES.get(port.dtype) or kind.least(port.carries, port, sizes)
    arguments = size if element is None else f"{size}, {element}"
    return f"    std::vector<{qualified_type(port)}> {name}({arguments});"
