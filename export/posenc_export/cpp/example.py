"""example.cpp: load the graph, make inputs, run, print the first numbers of each output."""

from __future__ import annotations

from posenc.ports import Port, axes_of, is_length
from posenc_export.bundle.manifest import Manifest
from posenc_export.cpp import BUNDLE_TEMPLATES, filled
from posenc_export.cpp.names import identifier, qualified_type

ONES = {"float32": "1", "float64": "1", "float16": "posenc::Half{0x3c00}", "bfloat16": "posenc::BFloat16{0x3f80}"}
"""What the vectors of floats are filled with; those of integers hold zeros."""


def example(manifest: Manifest) -> str:
    """Return the text of example.cpp."""
    ports = (*manifest.inputs, *manifest.outputs)
    return filled(
        "example.cpp",
        BUNDLE_TEMPLATES,
        axes=", ".join(f".{identifier(axis)} = {_size(axis)}" for axis in axes_of(manifest.inputs)),
        vectors="\n".join(_vector(port) for port in ports),
        arguments=", ".join(_variable(port) for port in ports),
        printed="\n".join(f'    print<{qualified_type(p)}>("{p.name}", {_variable(p)});' for p in manifest.outputs),
    )


def _variable(port: Port) -> str:
    return f"{identifier(port.name)}_"


def _size(axis: str | int) -> int:
    if isinstance(axis, int):
        return axis
    return 3 if is_length(axis) else 1 if axis == "batch" else 2


def _vector(port: Port) -> str:
    """Return what declares and fills the elements of a port."""
    name, size = _variable(port), f"posenc::Model::{port.name}_size(axes)"
    if port.dtype == "bool":  # a vector of bool is none of bools
        return filled("bool_vector.cpp", BUNDLE_TEMPLATES, name=name, size=size).rstrip()
    if (port.name, port.dtype) == ("positions", "int64"):
        length = _size(port.axes[-1])
        return filled("positions_vector.cpp", BUNDLE_TEMPLATES, name=name, size=size, length=length).rstrip()
    arguments = f"{size}, {ONES[port.dtype]}" if port.dtype in ONES else size
    return f"    std::vector<{qualified_type(port)}> {name}({arguments});"
