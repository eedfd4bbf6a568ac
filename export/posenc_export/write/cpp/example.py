"""example.cpp: load the graph, make inputs, run, print the first numbers of each output."""

from __future__ import annotations

from collections.abc import Mapping

from posenc.ports import Axis, Port, axes_of
from posenc_export.bundle.carries import kind_of
from posenc_export.bundle.manifest import Manifest
from posenc_export.common.arrays import INTEGERS
from posenc_export.write.cpp import BUNDLE_TEMPLATES, filled
from posenc_export.write.cpp.names import identifier, qualified_type, spelled
from posenc_export.write.cpp.uses import Uses

ONES = {"float32": "1", "float64": "1", "float16": "posenc::Half{0x3c00}", "bfloat16": "posenc::BFloat16{0x3f80}"}
"""The element that vectors of floats are filled with; those of integers hold the least that they may, or zeros."""
SIZES = {"batch": 1, "heads": 2, "length": 3, "grid": 3, "features": 2}
"""The sizes of axes by their kinds."""


def example(manifest: Manifest, name: str, uses: Uses) -> str:
    """Return the text of example.cpp, for a class of a name."""
    ports = (*uses.fed(manifest.inputs), *manifest.outputs)
    sizes = {axis.name: _size(axis) for axis in axes_of(manifest.inputs)}
    return filled(
        "example.cpp",
        BUNDLE_TEMPLATES,
        name=name,
        axes="".join(f".with_{axis}({size})" for axis, size in sizes.items()),
        vectors="\n".join(_vector(port, sizes) for port in ports),
        arguments=", ".join(_variable(port) for port in ports),
        printed="\n".join(f'    print<{qualified_type(p)}>("{p.name}", {_variable(p)});' for p in manifest.outputs),
    )


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
    if kind.cpp_vector and port.dtype in INTEGERS:
        length = _size(port.axes[-1])
        fields = {"name": name, "size": size, "length": length, "type": qualified_type(port)}
        return filled(kind.cpp_vector, BUNDLE_TEMPLATES, **fields).rstrip()
    element = ONES.get(port.dtype) or kind.least(port.carries, port, sizes)
    arguments = size if element is None else f"{size}, {element}"
    return f"    std::vector<{qualified_type(port)}> {name}({arguments});"
