"""Mutants that usual numbers do not show: small constants dropped or changed, axes swapped by Reshape."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import ModelProto, helper, numpy_helper

from helpers.mutants.mutation import Mutation
from helpers.mutants.mutations import Mutant

SMALL = 1e-4
"""Constants up to this are small."""
FACTORS = (0.0, -1.0, 1e-3, 1e3)
"""What a small constant is multiplied by; 0 drops it."""


def small_constants(model: ModelProto) -> Iterator[Mutant]:
    """Yield files in which one small constant, or epsilon, is dropped or another."""
    for place, tensor in enumerate(model.graph.initializer):
        array = numpy_helper.to_array(tensor)
        if array.dtype.kind == "f" and array.size == 1 and 0 < abs(float(array.item())) <= SMALL:
            for factor in FACTORS:
                changed = ModelProto.FromString(model.SerializeToString())
                other = (array * factor).astype(array.dtype)
                changed.graph.initializer[place].CopyFrom(numpy_helper.from_array(other, tensor.name))
                words = (str(array.tolist()), str(other.tolist()))
                yield Mutant(Mutation("constants and attributes", "small constant", tensor.name, "", *words), changed)
    for place, node in enumerate(model.graph.node):
        for at, attribute in enumerate(node.attribute):
            if attribute.name == "epsilon":
                for factor in FACTORS[::3]:
                    changed = ModelProto.FromString(model.SerializeToString())
                    changed.graph.node[place].attribute[at].f = attribute.f * factor
                    words = (str(attribute.f), str(attribute.f * factor))
                    yield Mutant(
                        Mutation("constants and attributes", "epsilon", node.name, node.op_type, *words), changed
                    )


def axes_by_reshape(model: ModelProto) -> Iterator[Mutant]:
    """Yield files in which a Transpose is a Reshape to the same shape, so that numbers lie elsewhere."""
    for place, node in enumerate(model.graph.node):
        if node.op_type == "Transpose":
            changed = ModelProto.FromString(model.SerializeToString())
            order = next(a.ints for a in node.attribute if a.name == "perm")
            # the sizes of the input in the order of the output
            names = [f"{node.output[0]}_{word}" for word in ("sizes", "order", "shape")]
            changed.graph.initializer.append(numpy_helper.from_array(np.array(order, np.int64), names[1]))
            made = [
                helper.make_node("Shape", [node.input[0]], names[:1]),
                helper.make_node("Gather", names[:2], names[2:]),
                helper.make_node("Reshape", [node.input[0], names[2]], [node.output[0]]),
            ]
            rest = list(changed.graph.node)
            del changed.graph.node[:]
            changed.graph.node.extend([*rest[:place], *made, *rest[place + 1 :]])
            yield Mutant(Mutation("operators", "axes by Reshape", node.output[0], "Transpose"), changed)
