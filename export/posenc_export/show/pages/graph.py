"""What an ONNX file is made of: its operators with their numbers, and its tables; read in a process with limits.

A stranger's file is parsed by `python -P -m posenc_export.show.pages.graph FILE`, which prints one line of JSON,
and which this process does not trust.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from posenc_export.common.child import Child, Ended, Hung, pipe_of_messages
from posenc_export.common.errors import PosencError, check_machine, decoded, first_line
from posenc_export.common.memory_limit import limit_memory

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

SECONDS = 60.0
"""Seconds that reading a file may take."""
MOST = 60
"""Operators, and tables, that are named; the others are counted."""
LARGEST = 2**63 - 1
LETTERS = 200
"""Letters of a name."""
Count = Annotated[int, Field(ge=0, lt=2**63)]
Name = Annotated[str, Field(max_length=LETTERS)]


@dataclass(frozen=True)
class OperatorCount:
    """An operator, and how many nodes of a graph are of it."""

    operator: str
    nodes: int


@dataclass(frozen=True)
class StoredTensor:
    """A tensor that a file holds."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class Inside:
    """What an ONNX file is made of.

    Args:
        nodes: How many nodes it has, those of inner graphs and of functions among them.
        operators: The operators with the most nodes.
        kinds: How many operators it has.
        tables: The largest tensors.
        tensors: How many tensors it has.
        bytes: How many bytes those have.
        problem: Why nothing else is known of it, or nothing.
    """

    nodes: int = 0
    operators: tuple[OperatorCount, ...] = ()
    kinds: int = 0
    tables: tuple[StoredTensor, ...] = ()
    tensors: int = 0
    bytes: int = 0
    problem: str = ""


class UsedSaid(TypedDict):
    """An operator, as the process says it."""

    operator: Name
    nodes: Count


class TableSaid(TypedDict):
    """A tensor, as the process says it."""

    name: Name
    dtype: Name
    shape: Annotated[list[Count], Field(max_length=64)]
    bytes: Count


class InsideSaid(TypedDict):
    """What the process says of a file."""

    nodes: Count
    operators: Annotated[list[UsedSaid], Field(max_length=MOST)]
    kinds: Count
    tables: Annotated[list[TableSaid], Field(max_length=MOST)]
    tensors: Count
    bytes: Count
    problem: Annotated[str, Field(max_length=1000)]


def inside(path: Path) -> Inside:
    """Return what a file of ours is made of."""
    import onnx

    return _of_model(onnx.load(path, load_external_data=False))


def inside_apart(path: Path) -> Inside:
    """Return what a stranger's file is made of, as a process of its own says; or why that is not known."""
    child = Child(["-m", __spec__.name, str(path.absolute())])
    try:
        child.go()
        return _read(child.line(SECONDS))
    except Hung:
        return Inside(problem=f"{path.name} takes longer than {SECONDS:g} s to read")
    except Ended as end:
        return Inside(problem=f"the process that reads {path.name} {end}")
    except ValueError:
        return Inside(problem=f"{path.name} cannot be read")
    finally:
        child.end()


def _read(line: bytes) -> Inside:
    """Return what a line of the process says; raise ValueError where no such process writes it."""
    said = TypeAdapter(InsideSaid).validate_json(line, strict=True)
    operators = tuple(OperatorCount(**entry) for entry in said["operators"])
    tables = tuple(
        StoredTensor(entry["name"], entry["dtype"], tuple(entry["shape"]), entry["bytes"]) for entry in said["tables"]
    )
    return Inside(said["nodes"], operators, said["kinds"], tables, said["tensors"], said["bytes"], said["problem"])


def _of_model(model: ModelProto) -> Inside:
    from posenc_export.write.formats.onnx.inner_graphs import graphs_of

    graphs = [*graphs_of(model.graph)]
    # functions are parts of the graph that exporters leave folded
    nodes = [*(node for graph in graphs for node in graph.node), *(n for f in model.functions for n in f.node)]
    # an operator of another domain is another operator
    counts = Counter(_name(node) for node in nodes)
    tables = sorted(map(_table, _tensors(graphs, nodes)), key=lambda table: -table.bytes)
    operators = tuple(OperatorCount(name, count) for name, count in counts.most_common(MOST))
    # a stranger may declare more bytes than there are
    size = min(sum(table.bytes for table in tables), LARGEST)
    return Inside(len(nodes), operators, len(counts), tuple(tables[:MOST]), len(tables), size)


def _tensors(graphs: Iterable[object], nodes: Iterable[NodeProto]) -> list[TensorProto]:
    """Return what a file stores: initializers, and values of Constant nodes by the names of their outputs."""
    import onnx

    stored = [tensor for graph in graphs for tensor in graph.initializer]  # type: ignore[attr-defined]
    for node in nodes:
        for attribute in node.attribute if node.op_type == "Constant" else ():
            if attribute.HasField("t"):
                # the tensor of a Constant has no name of its own
                named = onnx.TensorProto()
                named.CopyFrom(attribute.t)
                named.name = node.output[0] if node.output else ""
                stored.append(named)
    return stored


def _name(node: NodeProto) -> str:
    return f"{node.domain}.{node.op_type}"[:LETTERS] if node.domain else node.op_type[:LETTERS]


def _table(tensor: TensorProto) -> StoredTensor:
    import onnx

    try:
        known = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        width, dtype = known.itemsize, known.name
    except (KeyError, ValueError):
        width, dtype = 0, f"type {tensor.data_type}"
    shape = tuple(max(0, size) for size in tensor.dims[:64])
    # sizes in a file of anybody's may be any numbers
    return StoredTensor(tensor.name[:LETTERS], dtype, shape, min(prod(shape) * width, LARGEST))


def main(path: Path) -> None:
    """Print what a file is made of, as one line of JSON."""
    answer = pipe_of_messages()
    if not sys.stdin.readline():
        return
    # after imports, whose memory is no part of what the file takes
    limit_memory(uses_cuda=False)
    try:
        content = inside(path)
    except Exception as error:
        content = Inside(problem=_problem(path, error))
    answer.write(json.dumps(asdict(content)).encode() + b"\n")
    answer.flush()


def _problem(path: Path, error: Exception) -> str:
    try:
        check_machine(error)
    except PosencError as failure:
        return decoded(failure.message)[:900]
    return decoded(f"{path.name} cannot be read: {first_line(error)}")[:900]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
