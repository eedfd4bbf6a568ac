"""How many numbers the values of a graph hold: a few in every call, many, or as many as its inputs have tokens.

Shapes are inferred anew, as those that stand in a file may be of another export: by onnx, which follows sizes through
shape computations, and where that is not enough by ONNX Runtime's symbolic inference. What neither knows, the file may
say.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from posenc_export.write.formats.onnx.inner_graphs import attributes_of, graphs_of

if TYPE_CHECKING:
    from onnx import AttributeProto, ModelProto, TypeProto

Size = Literal["few", "many", "unknown"]
FEW = 100
"""Numbers at most, where a value is a size or a count; ONNX Runtime, too, takes no more for part of a shape."""
Shape = tuple[int | str, ...]
"""Sizes of axes: a number, the name of what decides it, or "" where it is not known."""
NAMES = re.compile(r"[A-Za-z_]\w*")


def sizes_of(models: Sequence[ModelProto], wanted: Collection[str]) -> dict[str, Size]:
    """Return how many numbers each of the wanted values holds.

    Args:
        models: forms of one graph, such as a file and what a runtime has made of it: an earlier one is asked first.
        wanted: names of values.
    """
    sizes: dict[str, Size] = dict.fromkeys(wanted, "unknown")
    for model in models:
        for shapes, dynamic in _sources(model):
            asked = [name for name, size in sizes.items() if size == "unknown"]
            sizes |= {name: _size(shapes[name], dynamic) for name in asked if name in shapes}
            if "unknown" not in sizes.values():
                return sizes
    return sizes


def outputs_by_node(model: ModelProto) -> dict[str, set[str]]:
    """Return the outputs of all nodes of a name, those of branches and loops included."""
    outputs: dict[str, set[str]] = {}
    for graph in graphs_of(model.graph):
        for node in graph.node:
            outputs.setdefault(node.name, set()).update(filter(None, node.output))
    return outputs


def worst(sizes: Collection[Size]) -> Size:
    """Return "many" where a size is that, else "unknown" where one is, or where there is none."""
    return "many" if "many" in sizes else "unknown" if "unknown" in sizes or not sizes else "few"


def _size(shape: Shape, dynamic: Collection[str]) -> Size:
    """Return how many numbers a shape holds, where names decide which a call chooses."""
    if any(isinstance(axis, str) and set(NAMES.findall(axis)) & set(dynamic) for axis in shape):
        return "many"
    known = [axis for axis in shape if isinstance(axis, int)]
    if len(known) < len(shape):
        return "unknown"
    return "few" if math.prod(known) <= FEW else "many"


def _sources(model: ModelProto) -> Iterator[tuple[Mapping[str, Shape], set[str]]]:
    """Yield shapes of values, and the names in them that a call decides: what is inferred, then what stands there."""
    bare, dynamic = _bare(model)
    for infer in (_by_onnx, _by_symbols):
        yield _shapes(infer(bare)), dynamic
    yield _shapes(model), {name for value in model.graph.input for name in _axis_names(value.type.tensor_type)}


def _bare(model: ModelProto) -> tuple[ModelProto, set[str]]:
    """Return a copy without the shapes that stand in it, its inputs' axes named anew, and those names."""
    import onnx

    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for graph in graphs_of(bare.graph):
        del graph.value_info[:]
        for attribute in attributes_of(graph):
            _hold_as_tensor(attribute)
    names: dict[str, str] = {}
    stored = {tensor.name for tensor in bare.graph.initializer}
    for value in bare.graph.input:
        if value.name in stored:
            continue
        for place, axis in enumerate(value.type.tensor_type.shape.dim):
            if not axis.HasField("dim_value"):
                axis.dim_param = names.setdefault(axis.dim_param or f"{value.name} {place}", f"axis_{len(names)}")
    for value in bare.graph.output:
        value.type.tensor_type.ClearField("shape")
    return bare, set(names.values())


def _hold_as_tensor(attribute: AttributeProto) -> None:
    """Write numbers that a Constant holds as a tensor, in place: ONNX Runtime's inference reads no others."""
    from onnx import helper, numpy_helper

    if attribute.name in ("value_int", "value_ints", "value_float", "value_floats"):
        numbers = np.asarray(helper.get_attribute_value(attribute))
        dtype = np.int64 if "int" in attribute.name else np.float32
        attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(numbers.astype(dtype))))


def _by_onnx(model: ModelProto) -> ModelProto:
    """Return a model with the shapes that onnx infers; none where it refuses the graph."""
    import onnx

    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError):
        return onnx.ModelProto()


def _by_symbols(model: ModelProto) -> ModelProto:
    """Return a model with the shapes that ONNX Runtime infers by symbols: up to the first node that it cannot.

    Its own `infer_shapes` writes what it did not finish into the current folder; these are its steps without that.
    """
    import onnx

    logger = logging.getLogger("onnxruntime.tools.symbolic_shape_infer")
    disabled, logger.disabled = logger.disabled, True
    try:
        from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

        inference = SymbolicShapeInference(2**31 - 1, True, False, 0)
        inferred = onnx.ModelProto()
        try:
            inference._preprocess(model)
            while inference.run_:
                inference._infer_impl()
        except Exception:  # it asserts what it expects of a graph
            known = getattr(inference, "known_vi_", {})
            inferred.graph.value_info.extend(known.values())
            return inferred
        inferred.graph.value_info.extend(inference.known_vi_.values())
        return inferred
    except ImportError:
        return onnx.ModelProto()
    finally:
        logger.disabled = disabled


def _shapes(model: ModelProto) -> dict[str, Shape]:
    """Return the shapes that stand in a model, by value; none of values without a rank."""
    values = (v for graph in graphs_of(model.graph) for v in (*graph.value_info, *graph.input, *graph.output))
    return {
        value.name: tuple(axis.dim_value if axis.HasField("dim_value") else axis.dim_param for axis in shape.dim)
        for value in values
        for shape in ([value.type.tensor_type.shape] if value.type.tensor_type.HasField("shape") else [])
    }


def _axis_names(kind: TypeProto.Tensor) -> set[str]:
    return {name for axis in kind.shape.dim for name in NAMES.findall(axis.dim_param)}
