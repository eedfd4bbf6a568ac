"""What is known of a graph without running it: who makes and reads a tensor, its rank, what is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from onnx import ModelProto, NodeProto, numpy_helper, shape_inference

from posenc.ports import Array

PASSING = {"Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Squeeze", "Unsqueeze", "Reshape", "Concat", "Cast", "Clip"}
"""Operators that counts and sizes pass through."""


@dataclass(frozen=True)
class Use:
    """A tensor as the input of a node, by its number there."""

    node: NodeProto
    index: int

    @property
    def sort(self) -> tuple[str, int]:
        """What reads it, and as which of its inputs."""
        return self.node.op_type, self.index


@dataclass(frozen=True)
class Facts:
    """A graph, looked at."""

    model: ModelProto

    @cached_property
    def makers(self) -> dict[str, NodeProto]:
        """The node that makes each tensor."""
        return {name: node for node in self.model.graph.node for name in node.output}

    @cached_property
    def stored(self) -> dict[str, Array]:
        """What is stored, by name."""
        constants = {
            node.output[0]: numpy_helper.to_array(a.t)
            for node in self.model.graph.node
            for a in node.attribute
            if node.op_type == "Constant" and a.name == "value"
        }
        return {one.name: numpy_helper.to_array(one) for one in self.model.graph.initializer} | constants

    @cached_property
    def shapes(self) -> dict[str, list[int]]:
        """The shape of each tensor of which the rank is known; 0 where a size is not."""
        graph = shape_inference.infer_shapes(self.model).graph
        typed = [*graph.value_info, *graph.input, *graph.output]
        known = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in typed}
        return known | {name: list(array.shape) for name, array in self.stored.items()}

    def rank(self, name: str) -> int:
        """Return the rank of a tensor, or -1."""
        return len(self.shapes[name]) if name in self.shapes else -1

    def uses(self, name: str) -> Iterator[Use]:
        """Yield where a tensor is read."""
        for node in self.model.graph.node:
            yield from (Use(node, i) for i, one in enumerate(node.input) if one == name)

    def maker(self, name: str) -> str:
        """Return the operator that makes a tensor, or nothing."""
        return self.makers[name].op_type if name in self.makers else ""

    def ends(self, name: str) -> set[tuple[str, int]]:
        """Return what reads a count in the end, behind arithmetic: operators, and as which input."""
        readers: set[tuple[str, int]] = set()
        seen, names = {name}, [name]
        while names:
            for use in self.uses(names.pop()):
                if use.node.op_type not in PASSING or use.sort == ("Reshape", 1):
                    readers.add(use.sort)
                else:
                    more = [one for one in use.node.output if one not in seen]
                    seen.update(more)
                    names += more
        return readers

    def reads_numbers(self, name: str) -> bool:
        """Whether a tensor is made of the numbers of an input, and not of sizes alone."""
        if name in {value.name for value in self.model.graph.input}:
            return True
        node = self.makers.get(name)
        return node is not None and node.op_type != "Shape" and any(map(self.reads_numbers, node.input))

    def made_of(self, name: str) -> set[str]:
        """Return the operators that a tensor comes from, all of them."""
        operators: set[str] = set()
        names, seen = [name], {name}
        while names:
            node = self.makers.get(names.pop())
            if node is not None:
                operators.add(node.op_type)
                more = [one for one in node.input if one not in seen]
                seen.update(more)
                names += more
        return operators
