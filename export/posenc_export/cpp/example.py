"""example.cpp: load the graph, make inputs, run, print the first numbers of each output."""

from __future__ import annotations

from posenc.ports import Axis, Extents, Mask, Port, Positions, Values, axes_of
from posenc_export.bundle.manifest import Manifest
from posenc_export.cpp import BUNDLE_TEMPLATES, filled
from posenc_export.cpp.names import identifier, qualified_type
from posenc_export.cpp.uses import Uses

ONES = {"float32": "1", "float64": "1", "float16": "posenc::Half{0x3c00}", "bfloat16": "posenc::BFloat16{0x3f80}"}
"""What the vectors of floats are filled with; those of integers, but for masks and sizes of images, hold zeros."""
SIZES = {"batch": 1, "heads": 2, "length": 3, "grid": 3, "features": 2}
"""How long an axis of each kind is."""


def example(manifest: Manifest, name: str, uses: Uses) -> str:
    """Return the text of example.cpp, for a class of a name."""
    ports = (*uses.fed(manifest.inputs), *manifest.outputs)
    return filled(
        "example.cpp",
        BUNDLE_TEMPLATES,
        name=name,
        axes="".join(f".with_{axis.name}({_size(axis)})" for axis in axes_of(manifest.inputs)),
        vectors="\n".join(_vector(port) for port in ports),
        arguments=", ".join(_variable(port) for port in ports),
        printed="\n".join(f'    print<{qualified_type(p)}>("{p.name}", {_variable(p)});' for p in manifest.outputs),
    )


def _variable(port: Port) -> str:
    return f"{identifier(port.name)}_"


def _size(axis: Axis) -> int:
    """Return the size of an axis in the example: every length is 3, so that sums are sums of those."""
    if axis.size is not None:
        return axis.size
    return len(axis.terms) * max(SIZES[axis.kind], axis.least) * axis.multiple


def _least(port: Port) -> str:
    """Return the least integer of a range; nothing where there is none."""
    if not isinstance(port.carries, Values) or port.carries.low is None or port.dtype in ONES:
        return ""
    return str(int(port.carries.low))


def _vector(port: Port) -> str:
    """Return what declares and fills the elements of a port."""
    name, size = _variable(port), f"Model::{port.name}_size(axes)"
    if port.dtype == "bool":  # a vector of bool is none of bools
        return filled("bool_vector.cpp", BUNDLE_TEMPLATES, name=name, size=size).rstrip()
    if isinstance(port.carries, Positions) and port.dtype == "int64":
        length = _size(port.axes[-1])
        return filled("positions_vector.cpp", BUNDLE_TEMPLATES, name=name, size=size, length=length).rstrip()
    counts = isinstance(port.carries, Extents) or (isinstance(port.carries, Mask) and not port.carries.additive)
    ones = ONES.get(port.dtype) or ("1" if counts else _least(port))
    arguments = f"{size}, {ones}" if ones else size
    return f"    std::vector<{qualified_type(port)}> {name}({arguments});"
