"""Decoders written operator by operator, with the fused operators of ONNX 23 and 24 and of ONNX Runtime."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from helpers.foreign.models import BOTH, ROWS, rotary
from helpers.foreign.truth import Held
from scripts.unseen_files import BATCH, Called, Feeds, judge, numbers

HEADS, SIZE, WIDTH = 2, 32, 64
Array = np.ndarray[Any, np.dtype[Any]]
MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Turning:
    """How queries and keys are turned.

    Args:
        theta: the base of the frequencies.
        width: how many features of a head are turned.
        is_interleaved: whether neighbours are pairs.
    """

    theta: float = 10000.0
    width: int = SIZE
    is_interleaved: bool = False

    def rows(self) -> tuple[Array, Array]:
        """Return cosines and sines, a column a pair."""
        angles = np.outer(np.arange(ROWS), self.theta ** (-np.arange(0, self.width, 2) / self.width))
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def turned(self, x: Tensor, places: Tensor) -> Tensor:
        """Return (batch, heads, tokens, features) turned by the place of each token."""
        cos, sin = (torch.from_numpy(rows)[places][:, None] for rows in self.rows())
        part, rest = x[..., : self.width], x[..., self.width :]
        first, second = (part[..., 0::2], part[..., 1::2]) if self.is_interleaved else part.chunk(2, -1)
        turned = (first * cos - second * sin, second * cos + first * sin)
        whole = torch.stack(turned, -1).flatten(-2) if self.is_interleaved else torch.cat(turned, -1)
        return torch.cat([whole, rest], -1)


def weights() -> list[list[Tensor]]:
    """Return the weights of two layers: queries, keys, values and what follows."""
    draw = torch.Generator().manual_seed(7)
    return [[torch.randn(WIDTH, WIDTH, generator=draw) * 0.2 for _ in range(4)] for _ in range(2)]


class Eager(nn.Module):
    """What the graphs should compute."""

    def __init__(self, turning: Turning | None, slopes: Sequence[float] = ()) -> None:
        super().__init__()
        self.turning, self.slopes = turning, torch.tensor(slopes)

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        """Return tokens after two layers of causal attention."""
        count = x.shape[1]
        mask = torch.triu(torch.full((count, count), float("-inf")), 1)
        if len(self.slopes):
            index = torch.arange(count)
            mask = mask - (index[:, None] - index[None]).abs() * self.slopes[:, None, None]
        for wq, wk, wv, wo in weights():
            q, k, v = ((x @ w).view(*x.shape[:2], HEADS, SIZE).transpose(1, 2) for w in (wq, wk, wv))
            if self.turning:
                q, k = self.turning.turned(q, places), self.turning.turned(k, places)
            scores = q @ k.transpose(-1, -2) / math.sqrt(SIZE) + mask
            x = x + (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape) @ wo
        return x


class Graph:
    """Nodes and stored tensors, one after the other."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.stored: list[onnx.TensorProto] = []

    def keep(self, name: str, array: Array) -> str:
        """Store a tensor."""
        self.stored.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op: str, inputs: Sequence[str], *, domain: str = "", outputs: int = 1, **attributes: Any) -> str:
        """Add a node; return its first output."""
        names = [f"v{len(self.nodes)}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, domain=domain, **attributes))
        return names[0]


Attend = Callable[[Graph, str, str, str], str]


def by_attention(graph: Graph, q: str, k: str, v: str) -> str:
    """Attend by the operator of ONNX 23, of three axes."""
    return graph.add("Attention", [q, k, v], q_num_heads=HEADS, kv_num_heads=HEADS, is_causal=1)


def with_ids(domain: str, turning: Turning, attend: Attend) -> Attend:
    """Turn by an operator that takes position ids, and attend."""

    def run(graph: Graph, q: str, k: str, v: str) -> str:
        named = {"interleaved": int(turning.is_interleaved), "num_heads": HEADS}
        named |= {"rotary_embedding_dim": turning.width} if turning.width < SIZE else {}
        last = ["position_ids", "cos", "sin"] if domain else ["cos", "sin", "position_ids"]
        q, k = (graph.add("RotaryEmbedding", [x, *last], domain=domain, **named) for x in (q, k))
        return attend(graph, q, k, v)

    return run


def by_rows(graph: Graph, q: str, k: str, v: str) -> str:
    """Gather the rows of ids, turn heads of four axes without ids, and attend with four axes."""
    shape = graph.keep(f"split{len(graph.nodes)}", np.array([0, 0, HEADS, SIZE]))
    back = graph.keep(f"join{len(graph.nodes)}", np.array([0, 0, WIDTH]))
    cos, sin = (graph.add("Gather", [name, "position_ids"]) for name in ("cos", "sin"))
    q, k, v = (graph.add("Transpose", [graph.add("Reshape", [x, shape])], perm=[0, 2, 1, 3]) for x in (q, k, v))
    q, k = (graph.add("RotaryEmbedding", [x, cos, sin]) for x in (q, k))
    out = graph.add("Transpose", [graph.add("Attention", [q, k, v], is_causal=1)], perm=[0, 2, 1, 3])
    return graph.add("Reshape", [out, back])


def by_multi_head(graph: Graph, q: str, k: str, v: str) -> str:
    """Attend by ONNX Runtime's MultiHeadAttention."""
    return graph.add("MultiHeadAttention", [q, k, v], domain=MICROSOFT, num_heads=HEADS, unidirectional=1)


def by_group_query(graph: Graph, q: str, k: str, v: str) -> str:
    """Attend by GroupQueryAttention, which turns queries and keys itself, from its first token on."""
    inputs = [q, k, v, "past", "past", "lengths", "total", "cos", "sin"]
    return graph.add(
        "GroupQueryAttention", inputs, domain=MICROSOFT, outputs=3, num_heads=HEADS, kv_num_heads=HEADS, do_rotary=1
    )


def by_bias(graph: Graph, q: str, k: str, v: str) -> str:
    """Attend by MultiHeadAttention with ALiBi as its bias."""
    return graph.add(
        "MultiHeadAttention", [q, k, v, "", "", "alibi"], domain=MICROSOFT, num_heads=HEADS, unidirectional=1
    )


@dataclass(frozen=True)
class Written:
    """A graph that is written by hand.

    Args:
        name: of its file.
        attend: what attends in a layer.
        turning: how its heads are turned, if they are.
        slopes: of ALiBi, if it has any.
        opset: of ONNX.
        held: what it holds.
    """

    name: str
    attend: Attend
    turning: Turning | None
    slopes: tuple[float, ...]
    opset: int
    held: tuple[Held, ...]


def distances(graph: Graph, slopes: Sequence[float]) -> None:
    """Make the bias of ALiBi from the length of the input."""
    one, zero = graph.keep("one", np.array(1)), graph.keep("zero", np.array(0))
    count = graph.add("Gather", [graph.add("Shape", ["x"]), one])
    places = graph.add("Cast", [graph.add("Range", [zero, count, one])], to=TensorProto.FLOAT)
    far = graph.add("Sub", [graph.add("Unsqueeze", [places, graph.keep("first", np.array([0]))]),
                            graph.add("Unsqueeze", [places, graph.keep("second", np.array([1]))])])  # fmt: skip
    steep = graph.keep("slopes", -np.array(slopes, np.float32).reshape(1, -1, 1, 1))
    bias = graph.add("Mul", [graph.add("Abs", [far]), steep])
    graph.nodes.append(helper.make_node("Identity", [bias], ["alibi"]))


def lengths(graph: Graph) -> None:
    """Make what GroupQueryAttention wants to know: an empty cache, and how many tokens there are."""
    shape = graph.add("Shape", ["x"])
    batch, count = (graph.add("Gather", [shape, graph.keep(f"axis{at}", np.array([at]))]) for at in (0, 1))
    last = graph.add("Sub", [count, graph.keep("less", np.array([1]))])
    whole = graph.add("Expand", [graph.add("Cast", [last], to=TensorProto.INT32), batch])
    graph.nodes.append(helper.make_node("Identity", [whole], ["lengths"]))
    graph.nodes.append(helper.make_node("Cast", [graph.add("Squeeze", [count])], ["total"], to=TensorProto.INT32))
    empty = graph.keep("empty", np.array([HEADS, 0, SIZE]))
    graph.nodes.append(helper.make_node("ConstantOfShape", [graph.add("Concat", [batch, empty], axis=0)], ["past"]))


def write(written: Written, path: Path) -> None:
    """Write a graph, and how far ONNX Runtime is from what it should compute."""
    graph = Graph()
    if written.turning:
        for name, rows in zip(("cos", "sin"), written.turning.rows(), strict=True):
            graph.keep(name, rows)
    if written.slopes:
        distances(graph, written.slopes)
    if written.attend is by_group_query:
        lengths(graph)
    x = "x"
    for layer, parts in enumerate(weights()):
        q, k, v, out = (graph.keep(f"w{layer}{at}", w.numpy()) for at, w in enumerate(parts))
        attended = written.attend(graph, *(graph.add("MatMul", [x, w]) for w in (q, k, v)))
        x = graph.add("Add", [x, graph.add("MatMul", [attended, out])])
    graph.nodes[-1].output[0] = "y"
    needs_ids = any("position_ids" in node.input for node in graph.nodes)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "sequence", WIDTH])]
    inputs += [helper.make_tensor_value_info("position_ids", TensorProto.INT64, ["batch", "sequence"])] * needs_ids
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "sequence", WIDTH])]
    opsets = [helper.make_opsetid("", written.opset), helper.make_opsetid(MICROSOFT, 1)]
    made = helper.make_graph(graph.nodes, written.name, inputs, outputs, graph.stored)
    onnx.save(helper.make_model(made, opset_imports=opsets, ir_version=10), path)
    eager = Eager(written.turning, written.slopes)
    judge(Called(eager, eager, feeds, {}), path)


def feeds(length: int) -> Feeds:
    """Return tokens and their places."""
    return {"x": numbers(BATCH, length, WIDTH), "position_ids": torch.arange(length).expand(BATCH, -1).contiguous()}


PART, FAR, NEAR = Turning(width=16, is_interleaved=True), Turning(theta=1e6), Turning()
FARTHER = Turning(theta=500000.0)
WRITTEN: tuple[Written, ...] = (
    Written(
        "operators.onnx_23",
        with_ids("", PART, by_attention),
        PART,
        (),
        23,
        (rotary(layout="interleaved", rotary_dim=16, rows=ROWS),),
    ),
    Written("operators.onnx_24", by_rows, FAR, (), 24, (rotary(theta=1e6, rows=ROWS),)),
    Written("operators.group_query", by_group_query, NEAR, (), 21, (rotary(rows=ROWS),)),
    Written(
        "operators.multi_head",
        with_ids(MICROSOFT, FARTHER, by_multi_head),
        FARTHER,
        (),
        17,
        (rotary(theta=500000.0, rows=ROWS),),
    ),
    Written(
        "operators.bias",
        by_bias,
        None,
        (0.0625, 0.00390625),
        17,
        (Held("alibi", "distance", {"heads": 2, "bias_max": 8.0}, BOTH),),
    ),
)
