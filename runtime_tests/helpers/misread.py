"""Small graphs whose positions are easily misread, in ONNX's text, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from helpers.graph_files import written
from posenc_export.read.examine import Examining, examine
from posenc_export.read.facts import facts_of
from posenc_export.read.graph.read import read_graph
from posenc_export.read.inspection import Inspection
from posenc_export.read.values import Array

FREQUENCIES = (1e4 ** (-np.arange(0, 16, 2) / 16)).astype(np.float32)
"""Of heads of 16 features."""
NUMBERS: dict[str, Array] = {
    "zero": np.array(0, np.int64),
    "one": np.array(1, np.int64),
    "two": np.array(2, np.int64),
    "axis0": np.array([0], np.int64),
    "axis1": np.array([1], np.int64),
    "last": np.array([-1], np.int64),
    "eights": np.array([8, 8], np.int64),
    "inv_freq": FREQUENCIES,
}
"""Constants that most of the graphs have."""


def angles(rows: int, shift: int = 0) -> Array:
    """Return angles of 16 features, halves, in float64."""
    half = np.outer(np.arange(rows) + shift, 1e4 ** (-np.arange(0, 16, 2) / 16))
    return np.concatenate([half, half], 1)


def turned(counts: str, table: str = "") -> str:
    """Return a graph that turns q (batch, 2, seq, 16) at positions `p`.

    Args:
        counts: nodes that make `p` of the counted places `n`.
        table: nodes that make `c` and `s` of `p`; the angles are computed without them.
    """
    computed = """
    pf = Cast <to = 1> (p)  pu = Unsqueeze (pf, axis1)  h = Mul (pu, inv_freq)  a = Concat <axis = -1> (h, h)
    c = Cos (a)  s = Sin (a)"""
    return f"""turned (float[batch, 2, seq, 16] q) => (float[batch, 2, seq, 16] y) {{
    sh = Shape (q)  length = Gather (sh, two)  n = Range (zero, length, one)
    {counts} {table or computed}
    x1, x2 = Split <axis = -1> (q, eights)  m2 = Neg (x2)  t = Concat <axis = -1> (m2, x1)
    qc = Mul (q, c)  qs = Mul (t, s)  y = Add (qc, qs) }}"""


def added(rows: str) -> str:
    """Return a graph that adds rows `r` to x (batch, seq, 16); `n` counts the places."""
    return f"""added (float[batch, seq, 16] x) => (float[batch, seq, 16] y) {{
    sh = Shape (x)  length = Gather (sh, one)  n = Range (zero, length, one)  {rows}  y = Add (x, r) }}"""


def biased(bias: str, heads: int = 4) -> str:
    """Return a graph that adds `bias` to scores (batch, heads, seq, seq); `d` is key - query, float."""
    return f"""biased (float[batch, {heads}, seq, seq] x) => (float[batch, {heads}, seq, seq] y) {{
    sh = Shape (x)  length = Gather (sh, two)  n = Range (zero, length, one)  k = Cast <to = 1> (n)
    q = Unsqueeze (k, axis1)  d = Sub (k, q)  {bias}  y = Add (x, bias) }}"""


def operator(domain: str = "com.microsoft") -> str:
    """Return a graph with a rotary operator that takes the tables `c` and `s`."""
    inputs = "q, position_ids, c, s" if domain else "q, c, s, position_ids"
    name = f"{domain}.RotaryEmbedding" if domain else "RotaryEmbedding"
    ports = "float[batch, 2, seq, 16] q, int64[batch, seq] position_ids"
    return f"rotary ({ports}) => (float[batch, 2, seq, 16] y) {{ y = {name} ({inputs}) }}"


def read(
    folder: Path, body: str, tables: Mapping[str, Array] | None = None, opset: int = 18, bound: float | None = None
) -> Inspection:
    """Return what is said of a graph, which may use NUMBERS."""
    used = {name: array for name, array in NUMBERS.items() if name in body}
    path = written(folder, body, {**used, **(tables or {})}, opset)
    return inspected(path, bound)


def inspected(path: Path, bound: float | None = None) -> Inspection:
    """Return what is said of a file."""
    graph = read_graph(path)
    return examine(graph, facts_of(graph, path.name), Examining(path.name, bound, 120.0, lambda _: None))


def codes(made: Inspection) -> dict[str, str]:
    """Return the findings, their severity by their code."""
    return {entry.code: entry.severity for entry in made.findings}


def families(made: Inspection) -> list[str]:
    """Return the families of encodings."""
    return [encoding.family for encoding in made.encodings]
