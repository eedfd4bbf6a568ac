"""ONNX files of one attention or a few, written by hand: what a query sees, and what is added to its scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HEADS, WIDTH, WORDS = 4, 16, 64


@dataclass
class Written:
    """A graph that is being written: words, then attentions one after the other.

    Args:
        rows: how many positions the rotary tables have.
    """

    rows: int = 128
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    stored: dict[str, np.ndarray] = field(default_factory=dict)
    gap: str = ""
    places: str = ""
    more: list[onnx.ValueInfoProto] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(0)
        self.rng = rng
        whole = {"zero": 0, "one": 1, "at1": 1}
        self.stored |= {name: np.array(number, np.int64) for name, number in whole.items()}
        self.stored |= {f"a{axis}": np.array([axis], np.int64) for axis in range(4)}
        self.stored |= {"split": np.array([0, 0, HEADS, WIDTH]), "joined": np.array([0, 0, HEADS * WIDTH])}
        self.stored |= {"low": np.array(-1e9, np.float32), "scale": np.array(0.25, np.float32)}
        self.stored["words"] = rng.standard_normal((WORDS, HEADS * WIDTH)).astype(np.float32)

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; return its output."""
        name = f"{operator}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [f"{name}_"], name=name, **attributes))
        return f"{name}_"

    def number(self, value: float, dtype: type = np.int64) -> str:
        """Store a number; return its name."""
        name = f"number{len(self.stored)}"
        self.stored[name] = np.array(value, dtype)
        return name

    def begin(self) -> str:
        """Look the words up, and count places; return the rows of the words."""
        x = self.add("Gather", "words", "ids")
        length = self.add("Gather", self.add("Shape", x), "at1")
        self.places = self.add("Range", "zero", length, "one")
        self.gap = self.add("Sub", self.add("Unsqueeze", self.places, "a1"), self.add("Unsqueeze", self.places, "a0"))
        return x

    def heads(self, x: str) -> str:
        """Return a projection of rows as (batch, heads, tokens, features)."""
        return self.add("Transpose", self.add("Reshape", self.projected(x), "split"), perm=[0, 2, 1, 3])

    def projected(self, x: str) -> str:
        """Return rows times a weight of their own."""
        name = f"weight{len(self.stored)}"
        self.stored[name] = (self.rng.standard_normal((HEADS * WIDTH, HEADS * WIDTH)) * 0.3).astype(np.float32)
        return self.add("MatMul", x, name)

    def earlier(self, window: int | None = None) -> str:
        """Return which keys each query sees: those up to its own place, or the last so many of these."""
        seen = self.add("GreaterOrEqual", self.gap, "zero")
        if window is None:
            return seen
        return self.add("And", seen, self.add("Less", self.gap, self.number(window)))

    def attend(self, sides: tuple[str, str, str], bias: str = "", seen: str = "", by: str = "where") -> str:
        """Return what an attention gives, (batch, tokens, features of all heads)."""
        q, k, v = sides
        scores = self.add("Mul", self.add("MatMul", q, self.add("Transpose", k, perm=[0, 1, 3, 2])), "scale")
        if bias:
            scores = self.add("Add", scores, bias)
        if seen and by == "where":
            scores = self.add("Where", seen, scores, "low")
        elif seen:
            scores = self.add("Add", scores, self.add("Where", seen, self.number(0, np.float32), "low"))
        made = self.add("MatMul", self.add("Softmax", scores, axis=-1), v)
        return self.add("Reshape", self.add("Transpose", made, perm=[0, 2, 1, 3]), "joined")

    def save(self, path: Path, output: str, opset: int = 17) -> Path:
        """Write the file."""
        graph = helper.make_graph(
            self.nodes,
            "main",
            [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "seq"]), *self.more],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", "seq", HEADS * WIDTH])],
            [numpy_helper.from_array(array, name) for name, array in self.stored.items()],
        )
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        onnx.checker.check_model(model)
        onnx.save(model, path)
        return path


def sides_of(written: Written, x: str) -> tuple[str, str, str]:
    """Return queries, keys and values of rows."""
    return written.heads(x), written.heads(x), written.heads(x)


def alibi_file(path: Path, *, is_causal: bool, base: float = 2.0, form: str = "distance") -> Path:
    """Write an attention with ALiBi, by the distance from query to key or by the place of the key."""
    written = Written()
    x = written.begin()
    written.stored["slopes"] = (base ** (-2.0 * np.arange(1, 1 + HEADS)))[:, None, None].astype(np.float32)
    if form == "distance":
        steps = written.add("Neg", written.add("Abs", written.gap))
    else:
        steps = written.add("Unsqueeze", written.places, "a0")
    bias = written.add("Mul", "slopes", written.add("Cast", steps, to=TensorProto.FLOAT))
    seen = written.earlier() if is_causal else ""
    return written.save(path, written.attend(sides_of(written, x), bias, seen))


def buckets_file(path: Path, *, is_causal: bool, bidirectional: bool) -> Path:
    """Write an attention with T5's buckets, on either side of a query or before it alone."""
    written = Written()
    x = written.begin()
    count = 16 if bidirectional else 32
    written.stored["table"] = written.rng.standard_normal((32, HEADS)).astype(np.float32)
    single = count // 2
    distance = written.add("Abs", written.gap) if bidirectional else written.add("Max", written.gap, "zero")
    near = written.number(single)
    one, edge = written.number(1, np.float32), written.number(single, np.float32)
    growth = written.number(math.log(128 / single), np.float32)
    share = written.add("Div", written.add("Max", written.add("Cast", distance, to=TensorProto.FLOAT), one), edge)
    rows = written.add("Mul", written.add("Div", written.add("Log", share), growth), edge)
    far = written.add("Add", written.add("Cast", rows, to=TensorProto.INT64), near)
    clipped = written.add("Min", far, written.number(count - 1))
    chosen = written.add("Where", written.add("Less", distance, near), distance, clipped)
    if bidirectional:
        ahead = written.add("Cast", written.add("Less", written.gap, "zero"), to=TensorProto.INT64)
        chosen = written.add("Add", chosen, written.add("Mul", ahead, written.number(count)))
    bias = written.add("Transpose", written.add("Gather", "table", chosen), perm=[2, 0, 1])
    seen = written.earlier() if is_causal else ""
    return written.save(path, written.attend(sides_of(written, x), bias, seen))


def windows_file(path: Path, windows: tuple[int | None, ...], by: str = "where", rows: int = 128) -> Path:
    """Write rotary attentions, each with a window; None sees all keys up to a query's own place."""
    written = Written(rows)
    x = written.begin()
    turn = rotation(written)
    for window in windows:
        q, k, v = sides_of(written, x)
        x = written.add("Add", x, written.attend((turn(q), turn(k), v), "", written.earlier(window), by))
    return written.save(path, x)


def rotation(written: Written, theta: float = 10000.0) -> Callable[[str], str]:
    """Return what turns (batch, heads, tokens, features) by the rows of stored tables, in halves."""
    angles = np.arange(written.rows)[:, None] * theta ** (-np.arange(0, WIDTH, 2) / WIDTH)
    written.stored |= {name: f(angles).astype(np.float32) for name, f in (("cos", np.cos), ("sin", np.sin))}
    written.stored |= {"half": np.array([WIDTH // 2]), "whole": np.array([WIDTH]), "last": np.array([-1])}
    tables = []
    for name in ("cos", "sin"):
        rows = written.add("Gather", name, written.places)
        tables.append(written.add("Concat", rows, rows, axis=-1))

    def turn(x: str) -> str:
        first = written.add("Slice", x, "a0", "half", "last")
        second = written.add("Slice", x, "half", "whole", "last")
        other = written.add("Concat", written.add("Neg", second), first, axis=-1)
        return written.add("Add", written.add("Mul", x, tables[0]), written.add("Mul", other, tables[1]))

    return turn


def mixed_file(path: Path, *, is_mixed: bool, norm: bool = False, operator: bool = False) -> Path:
    """Write a rotary attention whose heads are made by a Reshape alone, or by a Reshape and a Transpose.

    Args:
        path: of the file.
        is_mixed: whether elements of several tokens lie in a row of a head.
        norm: whether queries and keys are normed before they are turned.
        operator: whether ONNX's own operator turns them.
    """
    written = Written()
    x = written.begin()
    turn = rotation(written)
    written.stored["straight"] = np.array([1, HEADS, -1, WIDTH])
    written.stored["ones"] = np.ones(WIDTH, np.float32)

    def turned(rows: str) -> str:
        heads = written.add("Reshape", rows, "straight" if is_mixed else "split")
        heads = heads if is_mixed else written.add("Transpose", heads, perm=[0, 2, 1, 3])
        heads = written.add("LayerNormalization", heads, "ones", axis=-1) if norm else heads
        if operator:
            ids = written.add("Expand", written.add("Unsqueeze", written.places, "a0"), written.add("Shape", "ids"))
            return written.add("RotaryEmbedding", heads, "cos", "sin", ids)
        return turn(heads)

    def joined(heads: str) -> str:
        """Return heads in the order in which elements lay before."""
        if not is_mixed:
            return heads
        rows = written.add("Reshape", heads, "joined_rows")
        return written.add("Transpose", written.add("Reshape", rows, "split"), perm=[0, 2, 1, 3])

    written.stored["joined_rows"] = np.array([1, -1, HEADS * WIDTH])
    q, k = (joined(turned(written.projected(x))) for _ in range(2))
    return written.save(path, written.attend((q, k, written.heads(x))), 23 if operator else 17)


def added_file(path: Path, *, is_mixed: bool) -> Path:
    """Write an attention over tokens with learned positions, which are added along features where they are mixed."""
    written = Written()
    x = written.begin()
    written.stored["positions"] = written.rng.standard_normal((written.rows, HEADS * WIDTH)).astype(np.float32)
    rows = written.add("Gather", "positions", written.places)
    if is_mixed:
        length = written.add("Unsqueeze", written.add("Gather", written.add("Shape", x), "at1"), "a0")
        written.stored |= {"batch": np.array([1]), "wide": np.array([HEADS * WIDTH])}
        turned = written.add("Reshape", x, written.add("Concat", "batch", "wide", length, axis=0))
        x = written.add("Transpose", turned, perm=[0, 2, 1])
    x = written.add("Add", x, rows)
    return written.save(path, written.attend(sides_of(written, x)))


def operator_file(path: Path, domain: str, name: str, shape: list[int | str]) -> Path:
    """Write an attention whose queries and keys an operator turns, at positions that come in under a name."""
    written = Written()
    x = written.begin()
    rotation(written)
    written.more.append(helper.make_tensor_value_info(name, TensorProto.INT64, shape))
    tables = ("cos", "sin", name) if domain == "" else (name, "cos", "sin")
    q, k, v = sides_of(written, x)
    q, k = (written.add("RotaryEmbedding", side, *tables, domain=domain) for side in (q, k))
    return written.save(path, written.attend((q, k, v)), 23 if domain == "" else 17)
