"""An ONNX file as the interpreter reads it: flat, sorted, with constants that stay closed until asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

from posenc_export.read.graph.store import Store
from posenc_export.read.values import Constant


@dataclass(frozen=True)
class Input:
    """An input of a graph.

    Args:
        name: as the file has it.
        shape: its sizes: a number, the name of a dynamic size, or None where the file says nothing of it.
        dtype: its element type.
    """

    name: str
    shape: tuple[int | str | None, ...]
    dtype: np.dtype[np.generic]


@dataclass(frozen=True)
class Node:
    """A node of a graph, or of a graph inside it.

    Args:
        name: as the file has it, or "OpType#number" by its place in the file.
        op_type: its operator.
        domain: the operator's domain, "" for ONNX's own.
        inputs: names of tensors; "" for an input that is left out.
        outputs: names of tensors; "" for an output that nobody asked for.
        attributes: as Python values; a graph inside stays a GraphProto.
        proto: the node as the file has it.
    """

    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, object]
    proto: onnx.NodeProto


@dataclass(frozen=True)
class Graph:
    """A graph whose functions are inlined and whose nodes are sorted.

    Args:
        path: the file.
        inputs: what a caller gives; initializers that are listed as inputs are not among them.
        outputs: names of tensors.
        nodes: in an order in which each comes after what it takes.
        constants: initializers, by name.
        opsets: versions of operators, by domain.
        missing: files of external data that are not there.
        store: where the bytes of tensors are; a graph inside this one reads its constants there, too.
        roles: what inputs are for, where their numbers or a caller have said it; names say it of the others.
        kinds: what dynamic axes are, by their names, where angles have said it; places say it of the others.
    """

    path: Path
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Constant]
    opsets: Mapping[str, int]
    missing: tuple[str, ...] = field(default=())
    store: Store | None = field(default=None, compare=False, repr=False)
    roles: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
