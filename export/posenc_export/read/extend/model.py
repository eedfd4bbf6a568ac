"""The file that is rewritten: its stored tensors by name, wherever they are, and what replaces them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from posenc_export.bundle.inside import locations
from posenc_export.common.errors import BadInput
from posenc_export.read.extend.data import TRAILER, gather
from posenc_export.read.extend.held import Array
from posenc_export.read.graph.data import external, put_in

EXTERNAL_FROM = 2**20
"""Bytes from which a new table lies beside a model that keeps others there."""
LARGEST = 3 * 2**29
"""Bytes of new tables that are put into the model file itself: a protobuf ends at 2 GiB."""


@dataclass
class Model:
    """A model whose tensors are replaced.

    Args:
        proto: the model; external data are not loaded.
        path: the file that it was read from, beside which its external data are.
        changed: the new numbers, by the names of tensors.
        beside: those of them that lie in a file beside the model.
    """

    proto: onnx.ModelProto
    path: Path
    changed: dict[str, Array] = field(default_factory=dict)
    beside: set[str] = field(default_factory=set)

    @classmethod
    def load(cls, path: Path) -> Model:
        """Read a file that `read_graph` has accepted."""
        return cls(onnx.load(str(path), load_external_data=False), path)

    def files(self) -> list[Path]:
        """Return the files beside the model that its external data lie in."""
        return [self.path.parent / place for place in dict.fromkeys(locations(self.proto))]

    def tensors(self, name: str) -> list[TensorProto]:
        """Return the stored tensors of a name: initializers, and values of Constant nodes, in all graphs."""
        return [tensor for graph in graphs_of(self.proto.graph) for tensor in _named(graph, name)]

    def array(self, name: str) -> Array:
        """Return the numbers of a stored tensor; BadInput where it is not stored once, as a plain tensor."""
        if name in self.changed:
            return self.changed[name]
        return np.asarray(numpy_helper.to_array(self._tensor(name), str(self.path.parent)))

    def replace(self, name: str, array: Array) -> None:
        """Put other numbers into a stored tensor."""
        if self._tensor(name).data_location == TensorProto.EXTERNAL and array.nbytes >= EXTERNAL_FROM:
            self.beside.add(name)
        self.changed[name] = array
        for graph in graphs_of(self.proto.graph):
            _retype(graph, name, array)

    def _tensor(self, name: str) -> TensorProto:
        tensors = self.tensors(name)
        if len(tensors) != 1:
            stored = "in a function, or as an attribute of another kind" if not tensors else "in several graphs"
            raise BadInput(f"{name} is stored {stored}: it cannot be rewritten")
        return tensors[0]

    def move_data(self, place: Path) -> None:
        """Copy the external data of the tensors that stay as they are into one new file, and point them there."""
        tensors = [tensor for tensor in external(self.proto) if tensor.name not in self.changed]
        if tensors:
            gather(tensors, self.path, place)
            # from here on numbers are read from there
            self.path = place.parent / self.path.name

    def save(self, path: Path, tables: str) -> None:
        """Write the model, and new tensors that lie beside it into a file of that name."""
        is_large = sum(array.nbytes for array in self.changed.values()) > LARGEST
        # an earlier round may have written one
        with (path.parent / tables).open("wb") as file:
            for name, array in self.changed.items():
                tensor = self._tensor(name)
                made = numpy_helper.from_array(np.ascontiguousarray(array), tensor.name)
                made.doc_string = tensor.doc_string
                tensor.CopyFrom(made)
                if name in self.beside or is_large:
                    put_in(tensor, tables, file.tell(), len(made.raw_data))
                    file.write(made.raw_data)
            is_empty = file.tell() == 0
            file.write(TRAILER)
        if is_empty:
            (path.parent / tables).unlink()
        path.write_bytes(self.proto.SerializeToString())


def graphs_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and those inside its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inside in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from graphs_of(inside)


def _named(graph: onnx.GraphProto, name: str) -> Iterator[TensorProto]:
    yield from (tensor for tensor in graph.initializer if tensor.name == name)
    for node in graph.node:
        if node.op_type == "Constant" and name in node.output:
            yield from (attribute.t for attribute in node.attribute if attribute.HasField("t"))


def _retype(graph: onnx.GraphProto, name: str, array: Array) -> None:
    """Say the new shape and element type of a tensor where a graph says them."""
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    for value in (*graph.value_info, *graph.input):
        if value.name == name and value.type.HasField("tensor_type"):
            value.type.CopyFrom(helper.make_tensor_type_proto(kind, array.shape))


def forget_shapes(proto: onnx.ModelProto, names: set[str], sizes: set[int]) -> None:
    """Leave out what a model says of the shapes of values that a table was moved to: they have its old size.

    Args:
        proto: the model.
        names: values that follow from positions.
        sizes: how many rows tables had.
    """
    for graph in graphs_of(proto.graph):
        stale = [
            value
            for value in graph.value_info
            if value.name in names and sizes & {dim.dim_value for dim in value.type.tensor_type.shape.dim}
        ]
        for value in stale:
            graph.value_info.remove(value)
