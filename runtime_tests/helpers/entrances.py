"""Ways in which an encoding enters a graph, and ways in which other numbers do: small graphs, each with its truth.

Most graphs are in ONNX's text. `NAMES` are stored by name, each graph takes those that its text has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper

from posenc.formulas.parts.windows import differences
from posenc_export.read.values import Array

SAID = "not recognised"
"""The truth of a graph whose positions have no form that a reader knows: it must say so."""
DRAWN = np.random.default_rng(3)
LENGTH = 13
"""Tokens of a graph of one length, as many as a reader takes where a length is free."""


def drawn(*shape: int) -> Array:
    """Return random numbers, as a learned table has them."""
    return DRAWN.standard_normal(shape).astype(np.float32)


def waves(rows: int, width: int = 16) -> Array:
    """Return the rows of sinusoids: sines, then cosines."""
    angle = np.outer(np.arange(rows), 1e4 ** (-np.arange(width // 2) / (width // 2)))
    return np.concatenate([np.sin(angle), np.cos(angle)], 1).astype(np.float32)


def listed(array: Array) -> str:
    """Return numbers as ONNX's text has those of a tensor."""
    return "{" + ", ".join(f"{number:.4f}" for number in array.reshape(-1).tolist()) + "}"


def by_distance(heads: int, length: int = LENGTH) -> Array:
    """Return a learned bias (1, heads, length, length) of each distance."""
    distance = np.arange(length)[:, None] - np.arange(length) + length - 1
    return np.asarray(drawn(heads, 2 * length - 1)[:, distance][None])


def window(heads: int, side: int = 4) -> Array:
    """Return the bias (1, heads, places, places) of a window of `side` by `side`."""
    return np.asarray(drawn(heads, (2 * side - 1) ** 2)[:, differences((side, side))][None])


HALF_ANGLES = np.outer(np.arange(64), 1e4 ** (-np.arange(8) / 8))
ANGLES = np.concatenate([HALF_ANGLES, HALF_ANGLES], 1)
LONG = drawn(64, 16)
ROWS = drawn(LENGTH, 16)
QUANTIZED: Array = np.asarray(DRAWN.integers(-99, 99, (LENGTH, 16)), np.int8)
SLOPES = (2.0 ** -np.arange(2, 9, 2)).astype(np.float32).reshape(4, 1, 1)
CAUSAL = np.where(np.tril(np.ones((LENGTH, LENGTH), bool)), 0, -np.inf).astype(np.float32)
BAND = np.abs(np.arange(LENGTH)[:, None] - np.arange(LENGTH)) < 3
NAMES: Mapping[str, Array] = {
    "c0": np.array(0, np.int64),
    "c1": np.array(1, np.int64),
    "c2": np.array(2, np.int64),
    "c4": np.array(4, np.int64),
    "c7": np.array(7, np.int64),
    "v0": np.array([0], np.int64),
    "v1": np.array([1], np.int64),
    "v2": np.array([2], np.int64),
    "v3": np.array([3], np.int64),
    "v5": np.array([5], np.int64),
    "v8": np.array([8], np.int64),
    "v13": np.array([13], np.int64),
    "v16": np.array([16], np.int64),
    "vm1": np.array([-1], np.int64),
    "v88": np.array([8, 8], np.int64),
    "s_places": np.array([0, -1, 16], np.int64),
    "s_heads": np.array([0, -1, 4, 16], np.int64),
    "s_rows": np.array([13, 16], np.int64),
    "unit": np.array(1, np.float32),
    "half": np.array(0.5, np.float32),
    "low": np.array(-1e9, np.float32),
    "nought": np.array(0, np.float32),
    "steps": np.array(64, np.float32),
    "decay": np.log(np.array([0.9, 0.95, 0.97, 0.99], np.float32)).reshape(4, 1, 1),
    "w": drawn(16, 16),
    "w2": drawn(16, 16),
    "w_one": drawn(1, 16),
    "w_wide": drawn(16, 64),
    "w_up": drawn(1, 300),
    "w_down": drawn(300, 16),
    "gain": np.abs(drawn(16)),
    "shift": drawn(16),
    "conv_w": drawn(16, 3, 4, 4),
    "conv_b": drawn(16),
    "depth_w": drawn(16, 1, 3),
    "words": drawn(50, 16),
    "types": drawn(2, 16),
    "long": LONG,
    "rows": ROWS,
    "rows1": ROWS[None],
    "rows_first": ROWS[:, None],
    "rows_columns": np.ascontiguousarray(ROWS.T),
    "rows_columns1": np.ascontiguousarray(ROWS.T)[None],
    "rows_flat": ROWS.reshape(-1),
    "rows_half": ROWS.astype(np.float16),
    "rows_brain": ROWS.astype(ml_dtypes.bfloat16),
    "rows_bytes": QUANTIZED,
    "rows_narrow": drawn(1, LENGTH, 4),
    "rows_one": drawn(1, LENGTH, 1),
    "scale8": np.array(0.03, np.float32),
    "scales8": np.linspace(0.02, 0.04, 16).astype(np.float32),
    "zero8": np.array(0, np.int8),
    "class_row": drawn(1, 1, 16),
    "registers": drawn(1, 4, 16),
    "rows_class": drawn(1, LENGTH + 1, 16),
    "count": np.arange(LENGTH),
    "count1": np.arange(LENGTH)[None],
    "count_nd": np.arange(LENGTH)[:, None],
    "grid16": drawn(16, 16),
    "map16": drawn(1, 16, 4, 4),
    "map_down": drawn(1, 16, 4, 1),
    "map_across": drawn(1, 16, 1, 4),
    "map_small": drawn(1, 16, 2, 2),
    "sizes44": np.array([1, 16, 4, 4], np.int64),
    "channels": drawn(1, 16, 1, 1),
    "inv_freq": (1e4 ** (-np.arange(8) / 8)).astype(np.float32),
    "slopes": SLOPES,
    "table25": drawn(25, 4),
    "bias_any": drawn(1, 4, LENGTH, LENGTH),
    "bias_one": drawn(1, 1, LENGTH, LENGTH),
    "bias_distance": by_distance(4),
    "bias_window": window(4),
    "bias_alibi": np.ascontiguousarray(SLOPES * -np.abs(np.arange(LENGTH) - np.arange(LENGTH)[:, None])).astype(
        np.float32
    )[None],
    "keys_only": drawn(1, 1, 1, LENGTH),
    "heads_only": drawn(1, 4, 1, 1),
    "causal": CAUSAL,
    "causal_low": np.where(np.isfinite(CAUSAL), CAUSAL, np.finfo(np.float32).min).astype(np.float32),
    "band": np.where(BAND, 0, -1e4).astype(np.float32),
    "band_ones": BAND.astype(np.float32),
    "cosine": np.cos(ANGLES[:LENGTH]).astype(np.float32)[None, None],
    "sine": np.sin(ANGLES[:LENGTH]).astype(np.float32)[None, None],
    "cosine8": np.cos(HALF_ANGLES[:LENGTH]).astype(np.float32)[None, None],
    "sine8": np.sin(HALF_ANGLES[:LENGTH]).astype(np.float32)[None, None],
    "cosines": np.cos(HALF_ANGLES).astype(np.float32),
    "sines": np.sin(HALF_ANGLES).astype(np.float32),
    "factor1": drawn(1, 1, LENGTH, 16),
    "factor2": drawn(1, 1, LENGTH, 16),
    "turns": np.stack([np.linalg.qr(DRAWN.standard_normal((16, 16)))[0] for _ in range(LENGTH)]).astype(np.float32),
    "per_head": drawn(4, 16, 16),
    "distances": drawn(LENGTH, LENGTH, 16),
    "by_query": drawn(16, LENGTH),
    "choose": np.abs(np.arange(LENGTH)[:, None] - np.arange(LENGTH))[None, None].repeat(4, 1),
    "plane_gain": np.abs(drawn(LENGTH, 16)),
    "plane_shift": drawn(LENGTH, 16),
    "hidden0": drawn(1, 1, 16),
    "tall": drawn(1, 64, 16),
    "r_w": drawn(1, 64, 16),
    "r_r": drawn(1, 64, 16),
    "mix": drawn(LENGTH, LENGTH),
    "mix_shift": drawn(LENGTH, 1),
    "latents": drawn(1, 6, 16),
    "waves13": waves(LENGTH),
    "coordinates": np.stack(np.meshgrid(np.linspace(0, 1, 4), np.linspace(0, 1, 4)), -1)
    .reshape(16, 2)
    .astype(np.float32),
    "w_place": drawn(2, 16),
    "fourier": drawn(2, 8),
    "shifts": drawn(1, 6, 16),
    "w_shifts": drawn(16, 96),
    "s_shifts": np.array([0, 6, 16], np.int64),
}


@dataclass(frozen=True)
class Entrance:
    """A graph, and what a reader must say of it.

    Args:
        name: what enters, and how.
        body: the graph in ONNX's text.
        families: of which at least one must be said; SAID for a line that the numbers are not recognised. None for a
            graph without positions, where nothing is to be said.
        opset: of ONNX's own operators.
        tables: stored beside those of NAMES.
    """

    name: str
    body: str
    families: tuple[str, ...]
    opset: int = 18
    tables: Mapping[str, Array] = field(default_factory=dict)


def joined(nodes: str, join: str) -> str:
    """Return nodes with those that make `s`, where they do not make it themselves."""
    return nodes if re.search(r"\bs = ", nodes) else f"{nodes}  {join}"


def tokens(rows: str, length: str = "13", width: str = "16") -> str:
    """Return a graph that adds rows `r` to tokens that a weight has made, before a norm and another
    weight."""
    return f"""g (float[batch, {length}, 16] x) => (float[batch, {length}, {width}] y) {{
    sh = Shape (x)  len = Gather (sh, c1)  n = Range (c0, len, c1)  h = MatMul (x, w)
    {joined(rows, "s = Add (h, r)")}
    t = LayerNormalization (s, gain, shift)  y = MatMul (t, w2) }}"""


def image(rows: str) -> str:
    """Return a graph that adds rows `r` to a map (batch, 16, 4, 4) of a convolution."""
    return f"""g (float[batch, 3, 16, 16] x) => (float[batch, 16, 4, 4] y) {{
    h = Conv <strides = [4, 4]> (x, conv_w, conv_b)
    {joined(rows, "s = Add (h, r)")}  y = Relu (s) }}"""


def scores(bias: str, length: str = "13") -> str:
    """Return an attention of four heads of 16 features, with a bias `b` that is added to its scores `a`."""
    return f"""g (float[batch, {length}, 16] x) => (float[batch, 4, {length}, 16] y) {{
    sh = Shape (x)  len = Gather (sh, c1)  n = Range (c0, len, c1)  k_at = Cast <to = 1> (n)
    q_at = Unsqueeze (k_at, v1)  d = Sub (k_at, q_at)
    h = MatMul (x, w_wide)  hr = Reshape (h, s_heads)  q = Transpose <perm = [0, 2, 1, 3]> (hr)
    k = Transpose <perm = [0, 2, 3, 1]> (hr)  a = MatMul (q, k)
    {joined(bias, "s = Add (a, b)")}  p = Softmax <axis = -1> (s)  y = MatMul (p, q) }}"""


def heads(turn: str, length: str = "13") -> str:
    """Return an attention whose queries `q` (batch, 4, length, 16) become `t`."""
    return f"""g (float[batch, {length}, 16] x) => (float[batch, 4, {length}, 16] y) {{
    sh = Shape (x)  len = Gather (sh, c1)  n = Range (c0, len, c1)
    h = MatMul (x, w_wide)  hr = Reshape (h, s_heads)  q = Transpose <perm = [0, 2, 1, 3]> (hr)
    {turn}
    k = Transpose <perm = [0, 1, 3, 2]> (t)  a = MatMul (t, k)  p = Softmax <axis = -1> (a)  y = MatMul (p, q) }}"""


LEARNED, EITHER = ("learned",), ("learned", SAID)


def _stored() -> Iterator[Entrance]:
    """Stored rows that are added to tokens, however they get there."""
    ways = {
        "with a batch of one": "r = Identity (rows1)",
        "without a batch": "r = Identity (rows)",
        "a Constant node": f"r = Constant <value = float[13, 16] {listed(ROWS)}> ()",
        "behind Cast": "r = Cast <to = 1> (rows_half)",
        "behind Cast of bfloat16": "r = Cast <to = 1> (rows_brain)",
        "behind Transpose": "r = Transpose <perm = [1, 0]> (rows_columns)",
        "behind Reshape": "r = Reshape (rows_flat, s_rows)",
        "behind Unsqueeze": "r = Unsqueeze (rows, v0)",
        "behind Expand": """o = Slice (sh, v0, v1)  e = Concat <axis = 0> (o, v13, v16)
            r = Expand (rows, e)""",
        "behind Tile": """o = Slice (sh, v0, v1)  e = Concat <axis = 0> (o, v1, v1)  r = Tile (rows1, e)""",
        "a slice of static ends": "r = Slice (long, v0, v13, v0)",
        "a slice of all": "r = Slice (rows, v0, v13, v0)",
        "a slice from row 2 on": "e = Add (v13, v2)  r = Slice (long, v2, e, v0)",
        "a scaled table": "r = Mul (rows1, half)",
        "a gather by a constant": "r = Gather (long, count)",
        "a gather by a constant with a batch": "r = Gather (long, count1)",
        "GatherND by a constant": "r = GatherND (long, count_nd)",
        "a gather of columns": """g = Gather <axis = 1> (rows_columns, count)  r = Transpose <perm = [1, 0]> (g)""",
        "int8": "r = DequantizeLinear (rows_bytes, scale8, zero8)",
        "int8 by column": "r = DequantizeLinear <axis = 1> (rows_bytes, scales8)",
        "a norm of the table": "r = LayerNormalization (rows, gain, shift)",
        "a weighted table": "r = MatMul (rows, w2)",
    }
    for name, body in ways.items():
        yield Entrance(
            f"stored rows: {name}",
            tokens(body),
            EITHER if name.startswith(("a norm", "a weighted", "a scaled")) else LEARNED,
        )
    free = {
        "a slice as long as tokens": "e = Slice (sh, v1, v2)  r = Slice (long, v0, e, v0)",
        "a gather at counted places": "r = Gather (long, n)",
        "a gather at counted ones": """o = ConstantOfShape <value = int64[1] {1}> (lv)  c = CumSum (o, c0)
            m = Sub (c, c1)  r = Gather (long, m)""",
        "a gather at places that are not zero": """o = ConstantOfShape <value = int64[1] {1}> (lv)  z = NonZero (o)
            m = Squeeze (z, v0)  r = Gather (long, m)""",
    }
    for name, body in free.items():
        before = "lv = Unsqueeze (len, v0)  " if "(lv)" in body else ""
        yield Entrance(f"stored rows: {name}", tokens(before + body, "seq"), LEARNED)
    chosen = {
        "clipped places": "m = Min (n, c7)  r = Gather (long, m)",
        "divided places": "m = Div (n, c4)  r = Gather (long, m)",
        "remainders of places": "m = Mod (n, c4)  r = Gather (long, m)",
        "places from the end": "e = Sub (len, n)  r = Gather (long, e)",
        "a one-hot product": "o = OneHot <axis = -1> (n, depth, onoff)  r = MatMul (o, long)",
    }
    more = {"depth": np.array(64), "onoff": np.array([0, 1], np.float32)}
    for name, body in chosen.items():
        yield Entrance(f"rows at {name}", tokens(body, "seq"), EITHER, tables=more if "depth" in body else {})
    joins = {
        "Sum of three": "s = Sum (h, x, rows1)",
        "Sub": "s = Sub (h, rows1)",
        "behind a norm": "m = LayerNormalization (h, gain, shift)  s = Add (m, rows1)",
        "SkipLayerNormalization": """o = Slice (sh, v0, v1)  e = Concat <axis = 0> (o, v13, v16)
            ex = Expand (rows, e)  s = com.microsoft.SkipLayerNormalization (h, ex, gain, shift)""",
        "Where": """z = ReduceSum <keepdims = 1> (h, v1)  q = Greater (z, nought)
            a = Add (h, rows1)  s = Where (q, a, h)""",
        "Where without a sum": """z = ReduceSum <keepdims = 1> (h, v1)  q = Greater (z, nought)
            s = Where (q, rows1, h)""",
        "gates": "s = Mul (h, rows1)",
        "one more than gates": "g = Add (rows1, unit)  s = Mul (h, g)",
        "Div": "s = Div (h, rows1)",
        "Max": "s = Max (h, rows1)",
        "Pow": "s = Pow (h, rows1)",
        "PRelu": "s = PRelu (h, rows1)",
        "a norm of all places": "s = LayerNormalization <axis = 1> (h, plane_gain, plane_shift)",
        "narrow rows that are joined": """o = Slice (sh, v0, v1)  e = Concat <axis = 0> (o, v1, v1)
            r = Tile (rows_narrow, e)  j = Concat <axis = -1> (h, r)
            s = Slice (j, v2, va, v2)""",
        "a number of each place": "s = Add (h, rows_one)",
        "a factor of each place": "s = Mul (h, rows_one)",
        "beside a token's type": "i = Gather (types, c1)  u = Add (h, i)  s = Add (u, rows1)",
        "quantized tokens": """hq = QuantizeLinear (h, scale8, zero8)
            sq = com.microsoft.QLinearAdd (hq, scale8, zero8, rows_bytes, scale8, zero8, scale8, zero8)
            s = DequantizeLinear (sq, scale8, zero8)""",
    }
    for name, body in joins.items():
        named = LEARNED if name.startswith(("Sum", "behind", "beside")) else EITHER
        yield Entrance(
            f"stored rows join: {name}", tokens(body), named, tables={"va": np.array([18])} if "va" in body else {}
        )
    yield Entrance(
        "stored rows join: Gemm",
        "g (float[13, 16] x) => (float[13, 16] y) { h = Gemm (x, w, rows)  y = MatMul (h, w2) }",
        EITHER,
    )
    yield Entrance(
        "stored rows join: joined as features of one sequence",
        """g (float[1, 13, 16] x) => (float[1, 13, 20] y) { h = MatMul (x, w)
            y = Concat <axis = -1> (h, rows_narrow) }""",
        EITHER,
    )
    yield Entrance(
        "stored rows: time first",
        """g (float[13, batch, 16] x) => (float[13, batch, 16] y) { h = MatMul (x, w)
            s = Add (h, rows_first)  y = MatMul (s, w2) }""",
        EITHER,
    )
    yield Entrance(
        "stored rows: channels first",
        """g (float[batch, 13, 16] x) => (float[batch, 16, 13] y) { h = MatMul (x, w)
            t = Transpose <perm = [0, 2, 1]> (h)  y = Add (t, rows_columns1) }""",
        EITHER,
    )
    yield Entrance(
        "stored rows: behind a class token",
        tokens(
            """o = Slice (sh, v0, v1)  e = Concat <axis = 0> (o, v1, v16)
            c = Expand (class_row, e)  j = Concat <axis = 1> (c, h)  s = Add (j, rows_class)""",
            width="16",
        ).replace("[batch, 13, 16] y", "[batch, 14, 16] y"),
        LEARNED,
    )
    yield Entrance(
        "stored rows: joined of two tables",
        tokens(
            """o = Slice (sh, v0, v1)  e = Concat <axis = 0> (o, v1, v16)
            c = Expand (class_row, e)  j = Concat <axis = 1> (c, h)
            r = Concat <axis = 1> (class_row, rows1)  s = Add (j, r)"""
        ).replace("[batch, 13, 16] y", "[batch, 14, 16] y"),
        LEARNED,
    )
    yield Entrance("stored rows: sinusoids", tokens("r = Identity (waves13)"), ("sinusoidal",))
    yield Entrance("a map: learned", image("r = Identity (map16)"), EITHER)
    yield Entrance(
        "a map: resized", image("""r = Resize <mode = "linear"> (map_small, , , sizes44)"""), ("grid", "learned", SAID)
    )
    yield Entrance(
        "a map: rows and columns apart",
        image("u = Add (h, map_down)  s = Add (u, map_across)"),
        ("learned", "grid", SAID),
    )
    yield Entrance("a map: rows and columns in one", image("r = Add (map_down, map_across)"), ("learned", "grid", SAID))
    yield Entrance(
        "a map: flat, features last",
        """g (float[batch, 3, 16, 16] x) => (float[batch, 16, 16] y) { h = Conv <strides = [4, 4]> (x, conv_w, conv_b)
        f = Reshape (h, flat)  t = Transpose <perm = [0, 2, 1]> (f)  y = Add (t, grid16) }""",
        LEARNED,
        tables={"flat": np.array([0, 16, 16])},
    )


def _inside() -> Iterator[Entrance]:
    """Rows inside functions, branches and loops."""
    yield Entrance(
        "inside a function",
        tokens("s = local.embedded (h)")
        + """<domain: "local", opset_import: ["" : 18]> embedded (h) => (s) {
        r = Constant <value = float[13, 2] NUMBERS> ()  p = Concat <axis = 1> (r, r, r, r, r, r, r, r)
            s = Add (h, p) }""".replace("NUMBERS", listed(drawn(26))),
        EITHER,
    )
    branches = """then_branch = a () => (float[batch, 13, 16] t1) { t1 = Add (h, rows1) }, else_branch = b () =>
            (float[batch, 13, 16] t2) { t2 = Identity (h) }"""
    decided = "z = ReduceSum <keepdims = 0> (h)  q = Greater (z, nought)"
    yield Entrance("inside a branch", tokens(f"{decided}  s = If (q) <{branches}>"), EITHER)
    flagged = (
        branches.replace("then_branch", "other").replace("else_branch", "then_branch").replace("other", "else_branch")
    )
    body = tokens(f"s = If (is_plain) <{flagged}>").replace("16] x)", "16] x, bool is_plain)", 1)
    yield Entrance("inside a branch that an input leaves out", body, EITHER)
    rows = """then_branch = a () => (float[13, 16] t1) { t1 = Gather (long, n) }, else_branch = b () =>
            (float[13, 16] t2) { t2 = Slice (tall16, v0, v13, v0) }"""
    yield Entrance(
        "out of a branch that data choose",
        tokens(f"{decided}  r = If (q) <{rows}>", "seq"),
        EITHER,
        tables={"tall16": drawn(20, 16)},
    )
    table = """then_branch = a () => (float[13, 16] t1) { t1 = Identity (rows) }, else_branch = b () => (float[13,
            16] t2) { t2 = Identity (plane_shift) }"""
    yield Entrance("out of a branch that data choose, stored", tokens(f"{decided}  r = If (q) <{table}>"), EITHER)
    yield Entrance(
        "inside a loop of as many turns as tokens",
        """g (float[13, 16] x) => (float[13, 16] y) { h = MatMul (x, w)
            last, y = Loop (c13, , h) <body = turn (int64 i, bool c, float[13, 16] a)
        => (bool going, float[13, 16] a2, float[16] o) { going = Identity (c)  a2 = Identity (a)
            r = Gather (long, i)  u = Gather (a, i)  o = Add (u, r) }> }""",
        EITHER,
        tables={"c13": np.array(13)},
    )
    yield Entrance(
        "rows that a scan takes with tokens",
        """g (float[13, 16] x) => (float[13, 16] y) { h = MatMul (x, w)  z = ReduceSum <keepdims = 0> (h, v0)
        last, y = Scan <num_scan_inputs = 2, body = turn (float[16] c, float[16] a, float[16] b) =>
            (float[16] cs, float[16] o)
        { o = Add (a, b)  cs = Add (c, o) }> (z, h, rows) }""",
        EITHER,
    )
    yield Entrance(
        "rows that a scan takes, sines",
        """g (float[13, 16] x) => (float[13, 16] y) { h = MatMul (x, w)  z = ReduceSum <keepdims = 0> (h, v0)
        last, y = Scan <num_scan_inputs = 2, body = turn (float[16] c, float[16] a, float[16] b) =>
            (float[16] cs, float[16] o)
        { o = Add (a, b)  cs = Add (c, o) }> (z, h, waves13) }""",
        ("sinusoidal", SAID),
    )


def _computed() -> Iterator[Entrance]:
    """Numbers that are computed of counted places, or of ids."""
    sines = """pf = Cast <to = 1> ({of})  pu = Unsqueeze (pf, vm1)  an = Mul (pu, inv_freq)
            si = Sin (an)  co = Cos (an)  r = Concat <axis = -1> (si, co)"""
    ways = {
        "Range": "",
        "CumSum": """lv = Unsqueeze (len, v0)  o = ConstantOfShape <value = int64[1] {1}> (lv)
            c = CumSum (o, c0)  m = Sub (c, c1)""",
        "NonZero": """lv = Unsqueeze (len, v0)  o = ConstantOfShape <value = int64[1] {1}> (lv)
            z = NonZero (o)  m = Squeeze (z, v0)""",
    }
    for name, body in ways.items():
        yield Entrance(
            f"sines of {name}", tokens(f"{body} {sines.format(of='m' if body else 'n')}", "seq"), ("sinusoidal",)
        )
    yield Entrance("sines of a stored count", tokens(sines.format(of="count")), ("sinusoidal",))
    joins = {
        "Mul": "s = Mul (h, r)",
        "Max": "s = Max (h, r)",
        "Min": "s = Min (h, r)",
        "Mean": "s = Mean (h, r)",
        "Where": """z = ReduceSum <keepdims = 1> (h, v1)  q = Greater (z, nought)
            s = Where (q, r, h)""",
        "joined features": """l = Shape (h)  e = Expand (r, l)  j = Concat <axis = -1> (h, e)
            s = Slice (j, v8, va, v2)""",
        "PRelu": "s = PRelu (h, r)",
        "a norm's shift": "s = LayerNormalization <axis = 1> (h, r, r)",
        "a written place": """l = Shape (h)  e = Expand (r, l)  i = Slice (e, v0, v1, v1)  z = Mul (e, half)
            s = ScatterElements <axis = 1> (h, zi, i)""",
        "an operator that nobody knows": "s = acme.Joined (h, r)",
        "a product": """u = Unsqueeze (r, v2)  hu = Unsqueeze (h, v2)
            ut = Transpose <perm = [0, 2, 1]> (u)  m = MatMul (hu, u2)  s = Mul (h, m2)""",
    }
    for name, body in joins.items():
        if name in ("a product", "a written place"):
            continue
        yield Entrance(
            f"sines join: {name}",
            tokens(f"{sines.format(of='n')} {body}", "seq"),
            ("sinusoidal", SAID),
            tables={"va": np.array([24])} if "va" in body else {},
        )
    rows = "pf = Cast <to = 1> (n)  of = Div (pf, steps)  pu = Unsqueeze (of, v1)"
    others = {
        "a weight of one column": f"{rows}  r = MatMul (pu, w_one)",
        "two weights": f"{rows}  u = MatMul (pu, w_up)  a = Relu (u)  r = MatMul (a, w_down)",
        "places themselves": f"{rows}  r = Identity (pu)",
        "joined coordinates": f"""{rows}  l = Shape (h)  o = Slice (l, v0, v2)  e = Concat <axis = 0> (o, v1)
            p = Expand (pu, e)  j = Concat <axis = -1> (h, p)  s = Slice (j, v1, va, v2)""",
        "a logarithm": f"{rows}  m = Add (pu, unit)  r = Log (m)",
        "a power": f"{rows}  m = Add (pu, unit)  s = Pow (h, m)",
    }
    for name, body in others.items():
        yield Entrance(
            f"places through {name}",
            tokens(body, "seq"),
            (SAID,),
            tables={"va": np.array([17])} if "va" in body else {},
        )
    yield Entrance(
        "coordinates of a stored grid through a weight", tokens("r = MatMul (coordinates, w_place)", "16"), EITHER
    )
    yield Entrance(
        "Fourier features of a stored grid",
        tokens(
            """f = MatMul (coordinates, fourier)  si = Sin (f)  co = Cos (f)
            j = Concat <axis = -1> (si, co)  r = MatMul (j, w2)""",
            "16",
        ),
        (SAID, "learned", "fourier"),
    )
    yield Entrance(
        "ids of an input",
        """g (float[batch, seq, 16] x, int64[batch, seq] position_ids) => (float[batch, seq, 16] y) { h =
            MatMul (x, w)
            r = Gather (long, position_ids)  y = Add (h, r) }""",
        LEARNED,
    )
    yield Entrance(
        "ids of an input through a weight",
        """g (float[batch, seq, 16] x, int64[batch, seq] position_ids) => (float[batch, seq, 16] y) { h =
            MatMul (x, w)
            f = Cast <to = 1> (position_ids)  u = Unsqueeze (f, vm1)  r = MatMul (u, w_one)
            y = Add (h, r) }""",
        (SAID,),
    )
    yield Entrance(
        "EmbedLayerNormalization",
        """g (int32[batch, seq] input_ids) => (float[batch, seq, 16] y) { y, m =
            com.microsoft.EmbedLayerNormalization (input_ids, , words, long, , gain, shift) }""",
        LEARNED,
    )


def _biases() -> Iterator[Entrance]:
    """What is added to scores, or multiplied with them."""
    relative = ("relative", "t5")
    yield Entrance("a bias of all pairs", scores("b = Identity (bias_any)"), (SAID, "relative"))
    yield Entrance("a bias of one head", scores("b = Identity (bias_one)"), (SAID, "relative"))
    yield Entrance("a bias of each key", scores("b = Identity (keys_only)"), (SAID,))
    yield Entrance("a bias by distance", scores("b = Identity (bias_distance)"), relative)
    yield Entrance("a bias of a window", scores("b = Identity (bias_window)", "16"), ("window",))
    yield Entrance("slopes, stored", scores("b = Identity (bias_alibi)"), ("alibi",))
    yield Entrance("slopes, computed", scores("f = Abs (d)  e = Neg (f)  b = Mul (slopes, e)", "seq"), ("alibi",))
    yield Entrance(
        "a decay of scores",
        scores("f = Abs (d)  m = Mul (f, decay)  g = Exp (m)  s = Mul (a, g)", "seq"),
        (SAID, "relative"),
    )
    yield Entrance("a decay of scores, stored", scores("s = Mul (a, bias_any)"), (SAID, "relative"))
    yield Entrance(
        "scores that a stored distance chooses", scores("s = GatherElements <axis = 3> (a, choose)"), (SAID, "relative")
    )
    yield Entrance(
        "a temperature of each query", scores("""m = Add (q_at, unit)  l = Log (m)  s = Mul (a, l)""", "seq"), (SAID,)
    )
    yield Entrance(
        "queries by stored distances",
        scores('b = Einsum <equation = "bhqd,qkd->bhqk"> (q, distances)'),
        (SAID, "relative"),
    )
    yield Entrance(
        "queries by rows of each key",
        scores('b = Einsum <equation = "bhqd,dk->bhqk"> (q, by_query)'),
        (SAID, "relative"),
    )
    yield Entrance("queries by rows of each key, a product", scores("b = MatMul (q, by_query)"), (SAID, "relative"))
    skew = """e = MatMul (q, by_query)  pd = Pad (e, pads)  rs = Reshape (pd, skewed)  cut = Slice (rs, v1, v14, v2)
    b = Reshape (cut, back)"""
    skewed = {
        "pads": np.array([0, 0, 0, 1, 0, 0, 0, 0]),
        "skewed": np.array([0, 0, 14, 13]),
        "back": np.array([0, 0, 13, 13]),
        "v14": np.array([14]),
    }
    yield Entrance("queries by rows that are skewed", scores(skew), (SAID, "relative"), tables=skewed)
    operators = {
        "MultiHeadAttention": "y = com.microsoft.MultiHeadAttention <num_heads = 4> (h, h, h, , , {bias})",
        "Attention of ONNX Runtime": "y = com.microsoft.Attention <num_heads = 4> (x, w_three, b_three, , , {bias})",
        "Attention of ONNX": "y = Attention <q_num_heads = 4, kv_num_heads = 4> (h, h, h, {bias})",
    }
    wide = {"w_three": drawn(16, 192), "b_three": drawn(192)}
    for name, body in operators.items():
        for what, bias, families in (
            ("a bias of all pairs", "bias_any", (SAID, "relative")),
            ("a bias by distance", "bias_distance", relative),
            ("a causal mask", "causal_low" if name.endswith("of ONNX") else "causal4", ()),
        ):
            yield Entrance(
                f"{name}: {what}",
                f"""g (float[batch, 13, 16] x) => (float[batch, 13, 64] y) {{ h = MatMul (x, w_wide)
            {body.format(bias=bias)} }}""",
                families,
                opset=23 if name.endswith("of ONNX") else 18,
                tables={
                    **(wide if "w_three" in body else {}),
                    **(
                        {"causal4": np.where(np.isfinite(CAUSAL), CAUSAL, -1e9)[None, None].astype(np.float32)}
                        if bias == "causal4"
                        else {}
                    ),
                },
            )
    yield Entrance(
        "RelativePositionBias",
        scores(
            """b = com.microsoft.RelativePositionBias <max_distance = 128, is_bidirectional = 1> (table32, len,
            len)""",
            "seq",
        ),
        ("t5",),
        tables={"table32": drawn(32, 4)},
    )
    yield Entrance(
        "GatedRelativePositionBias",
        """g (float[batch, 13, 16] x) => (float[batch, 4, 13, 13] y) { h = MatMul (x, w_wide)
        b = com.microsoft.GatedRelativePositionBias <num_heads = 4> (h, shift64, bias_any, gate_w, gate_b, gate_c)
        q = MatMul (x, w_wide)  hr = Reshape (q, s_heads)  qt = Transpose <perm = [0, 2, 1, 3]> (hr)
            kt = Transpose <perm = [0, 2, 3, 1]> (hr)
        a = MatMul (qt, kt)  y = Add (a, b) }""",
        (SAID, "relative"),
        tables={"shift64": drawn(64), "gate_w": drawn(16, 8), "gate_b": drawn(8), "gate_c": drawn(1, 4, 1, 1)},
    )
    yield Entrance(
        "PackedAttention",
        """g (float[tokens, 16] x, int32[batch, 13] places, int32[rows] counts) => (float[tokens, 64] y) {
        y = com.microsoft.PackedAttention <num_heads = 4> (x, w_three, b_three, places, counts, bias_any) }""",
        (SAID, "relative"),
        tables=wide,
    )


def _rotations() -> Iterator[Entrance]:
    """Queries that are turned, or made longer and shorter, by place."""
    halves = """x1, x2 = Split <axis = -1> (q, v88)  m2 = Neg (x2)
            j = Concat <axis = -1> (m2, x1)  qc = Mul (q, {c})  qs = Mul (j, {s})
            t = Add (qc, qs)"""
    yield Entrance("a rotation, stored", heads(halves.format(c="cosine", s="sine")), ("rotary",))
    yield Entrance(
        "a rotation by pairs of products",
        heads(
            """x1, x2 = Split <axis = -1> (q, v88)  a1 = Mul (x1, cosine8)
            a2 = Mul (x2, sine8)  b1 = Mul (x1, sine8)  b2 = Mul (x2, cosine8)
            re = Sub (a1, a2)  im = Add (b1, b2)  t = Concat <axis = -1> (re, im)"""
        ),
        ("rotary",),
    )
    yield Entrance("two products that turn nothing", heads(halves.format(c="factor1", s="factor2")), (SAID,))
    yield Entrance("a factor of each place and feature", heads("t = Mul (q, factor1)"), (SAID,))
    yield Entrance(
        "a matrix of each place",
        heads("qu = Unsqueeze (q, v3)  m = MatMul (qu, turns)  t = Squeeze (m, v3)"),
        (SAID, "rotary"),
    )
    yield Entrance(
        "a matrix of each place, Einsum",
        heads("""t = Einsum <equation = "bhnd,nde->bhne"> (q, turns)"""),
        (SAID, "rotary"),
    )
    yield Entrance(
        "RotaryEmbedding",
        """g (float[batch, 4, seq, 16] q, int64[batch, seq] position_ids) => (float[batch, 4, seq, 16] y) { y
            = com.microsoft.RotaryEmbedding (q, position_ids, cosines, sines) }""",
        ("rotary",),
    )
    yield Entrance(
        "GemmaRotaryEmbedding",
        """g (float[batch, 4, seq, 16] q, float[batch, seq, 16] angles) =>
            (float16[batch, 4, seq, 16] o1, float16[batch, 4, seq, 16] o2) {
        h = Cast <to = 10> (q)  o1, o2 = com.microsoft.GemmaRotaryEmbedding (angles, h, h, h, h) }""",
        ("rotary", SAID),
    )


def _others() -> Iterator[Entrance]:
    """Numbers that are no positions: nothing is to be said."""
    none: tuple[str, ...] = ()
    yield Entrance("no position: a bias of features", tokens("r = Identity (shift)"), none)
    yield Entrance("no position: a scale of features", tokens("s = Mul (h, gain)"), none)
    yield Entrance("no position: a bias of channels", image("r = Identity (channels)"), none)
    yield Entrance("no position: a factor of heads", scores("s = Mul (a, heads_only)"), none)
    yield Entrance("no position: a causal mask", scores("b = Identity (causal)"), none)
    yield Entrance("no position: a causal mask of the least number", scores("b = Identity (causal_low)"), none)
    yield Entrance("no position: a band of a window", scores("b = Identity (band)"), none)
    yield Entrance("no position: a band of ones", scores("s = Mul (a, band_ones)"), none)
    yield Entrance(
        "no position: a causal mask, computed",
        scores("g = Greater (d, nought)  b = Where (g, low, nought)", "seq"),
        none,
    )
    yield Entrance(
        "no position: a causal choice", scores("g = Greater (d, nought)  s = Where (g, low, a)", "seq"), none
    )
    yield Entrance("no position: a type of tokens", tokens("i = Gather (types, c1)  r = Unsqueeze (i, v0)"), none)
    yield Entrance(
        "no position: a class token",
        tokens(
            """o = Slice (sh, v0, v1)  e = Concat <axis = 0> (o, v1, v16)
            c = Expand (class_row, e)  s = Concat <axis = 1> (c, h)"""
        ).replace("[batch, 13, 16] y", "[batch, 14, 16] y"),
        none,
    )
    yield Entrance(
        "no position: registers",
        tokens(
            """o = Slice (sh, v0, v1)  e = Concat <axis = 0> (o, v1, v1)
            c = Tile (registers, e)  s = Concat <axis = 1> (h, c)"""
        ).replace("[batch, 13, 16] y", "[batch, 17, 16] y"),
        none,
    )
    yield Entrance(
        "no position: a convolution of neighbours",
        tokens(
            """t1 = Transpose <perm = [0, 2, 1]> (h)
            c = Conv <group = 16, pads = [1, 1]> (t1, depth_w, conv_b)
            r = Transpose <perm = [0, 2, 1]> (c)""",
            "seq",
        ),
        none,
    )
    yield Entrance(
        "no position: tokens that are mixed",
        tokens("""t1 = Transpose <perm = [0, 2, 1]> (h)  m = MatMul (t1, mix)
            r = Transpose <perm = [0, 2, 1]> (m)"""),
        none,
    )
    yield Entrance("no position: a weight of each head", heads("t = MatMul (q, per_head)"), none)
    yield Entrance(
        "no position: a last token",
        tokens("e = Sub (len, c1)  g = Gather <axis = 1> (h, e)  r = Unsqueeze (g, v1)", "seq"),
        none,
    )
    yield Entrance(
        "no position: shifts and scales of a norm",
        tokens(
            """m = ReduceMean <keepdims = 1> (h, v1)  mw = MatMul (m, w_shifts)
            mr = Reshape (mw, s_shifts)  ms = Add (mr, shifts)
            a, b, c, d, e, f = Split <axis = 1, num_outputs = 6> (ms)  u = Mul (h, a)
            s = Add (u, b)"""
        ),
        none,
    )
    yield Entrance(
        "no position: means of tokens",
        tokens(
            """f = Cast <to = 1> (len)  z = ReduceSum <keepdims = 1> (h, v1)  m = Div (z, f)
            s = Sub (h, m)""",
            "seq",
        ),
        none,
    )
    yield Entrance(
        "no position: a network that recurs",
        """g (float[13, 1, 16] x) => (float[13, 1, 1, 16] y) { y, a, b = LSTM <hidden_size = 16> (x, r_w, r_r,
            , , hidden0, hidden0) }""",
        none,
    )
    yield Entrance(
        "no position: latent tokens",
        """g (float[batch, 13, 16] x) => (float[batch, 6, 16] y) { h = MatMul (x, w)
        sh = Shape (x)  o = Slice (sh, v0, v1)  e = Concat <axis = 0> (o, v1, v1)  l = Tile (latents, e)
            q = MatMul (l, w2)
        k = Transpose <perm = [0, 2, 1]> (h)  a = MatMul (q, k)  p = Softmax <axis = -1> (a)
            v = MatMul (p, h)  u = MatMul (v, w2)  y = Add (l, u) }""",
        none,
    )
    yield Entrance(
        "no position: a padding mask",
        """g (float[batch, seq, 16] x, int64[batch, seq] attention_mask) =>
            (float[batch, seq, 16] y) { h = MatMul (x, w)
        f = Cast <to = 1> (attention_mask)  u = Unsqueeze (f, vm1)  y = Mul (h, u) }""",
        none,
    )
    yield Entrance(
        "no position: words",
        """g (int64[batch, seq] input_ids) => (float[batch, seq, 16] y) { h = Gather (words, input_ids)
            y = MatMul (h, w) }""",
        none,
    )
    yield Entrance(
        "no position: Attention of ONNX, causal",
        """g (float[batch, seq, 16] x) => (float[batch, seq, 64] y) { h = MatMul (x, w_wide)
            y = Attention <q_num_heads = 4, kv_num_heads = 4, is_causal = 1> (h, h, h) }""",
        none,
        opset=23,
    )
    yield Entrance(
        "no position: pixels that are normalized",
        """g (float[batch, 3, 16, 16] x) => (float[batch, 16, 4, 4] y) { m = Sub (x, mean)
            n = Div (m, deviation)  y = Conv <strides = [4, 4]> (n, conv_w, conv_b) }""",
        none,
        tables={"mean": drawn(1, 3, 1, 1), "deviation": np.abs(drawn(1, 3, 1, 1))},
    )


def _more() -> Iterator[Entrance]:
    """Ways that fewer networks have."""
    with_mask = np.where(np.isfinite(CAUSAL), NAMES["bias_alibi"], -np.inf).astype(np.float32)
    yield Entrance(
        "slopes with a causal mask in them", scores("b = Identity (masked)"), ("alibi",), tables={"masked": with_mask}
    )
    masked = np.where(np.isfinite(CAUSAL), NAMES["bias_any"], -np.inf).astype(np.float32)
    yield Entrance(
        "a bias with a causal mask in it",
        scores("b = Identity (masked)"),
        (SAID, "relative"),
        tables={"masked": masked},
    )
    masked = np.where(np.isfinite(CAUSAL), NAMES["bias_distance"], -1e9).astype(np.float32)
    yield Entrance(
        "a bias by distance with a causal mask in it",
        scores("b = Identity (masked)"),
        (SAID, "relative"),
        tables={"masked": masked},
    )
    numbers = {
        "table_window": drawn(49, 4),
        "index_window": differences((4, 4)).reshape(-1),
        "s_window": np.array([16, 16, 4]),
    }
    body = """g = Gather (table_window, index_window)  r = Reshape (g, s_window)
            t = Transpose <perm = [2, 0, 1]> (r)  b = Unsqueeze (t, v0)"""
    yield Entrance("a window's rows by a stored index", scores(body, "16"), ("window",), tables=numbers)
    merged = """u = Add (a, b)  m = Reshape (u, s_windows)  e = Add (m, shifted)
            s = Reshape (e, s_back)"""
    shifted = np.where(DRAWN.random((1, 4, 1, 16, 16)) < 0.5, 0, -100).astype(np.float32)
    yield Entrance(
        "a window's bias beside a mask of windows",
        scores("b = Identity (bias_window)  " + merged, "16").replace("batch", "windows"),
        ("window",),
        tables={
            "shifted": shifted[:, :1],
            "s_windows": np.array([-1, 1, 4, 16, 16]),
            "s_back": np.array([-1, 4, 16, 16]),
        },
    )
    yield Entrance(
        "RotaryEmbedding of tables that come in",
        """g (float[batch, 4, seq, 16] q, int64[batch, seq] position_ids, float[64, 8] c, float[64, 8] s) =>
            (float[batch, 4, seq, 16] y) { y = com.microsoft.RotaryEmbedding (q, position_ids, c, s) }""",
        ("rotary", SAID),
    )
    small = np.stack([np.cos(HALF_ANGLES), -np.sin(HALF_ANGLES), np.sin(HALF_ANGLES), np.cos(HALF_ANGLES)], -1)
    yield Entrance(
        "a small matrix of each pair and place",
        heads("u = Reshape (q, s_pairs)  m = MatMul (small, u)  t = Reshape (m, s_whole)"),
        (SAID, "rotary"),
        tables={
            "small": small[:13].reshape(13, 8, 2, 2).astype(np.float32),
            "s_pairs": np.array([0, 4, 13, 8, 2, 1]),
            "s_whole": np.array([0, 4, 13, 16]),
        },
    )
    yield Entrance("rows in a sum of products", heads("""t = Einsum <equation = "bhnd,nd->bhnd"> (q, rows)"""), (SAID,))
    yield Entrance(
        "coordinates that are joined to a map",
        image("""j = Concat <axis = 1> (h, map_two)  s = Slice (j, v2, va, v1)""").replace("batch", "1"),
        (SAID, "learned", "grid"),
        tables={"map_two": drawn(1, 2, 4, 4), "va": np.array([18])},
    )
    yield Entrance(
        "coordinates that are joined to pixels",
        """g (float[1, 2, 16, 16] x) => (float[1, 16, 4, 4] y) { j = Concat <axis = 1> (x, rising)
            y = Conv <strides = [4, 4]> (j, conv_w, conv_b) }""",
        (SAID,),
        tables={"rising": np.linspace(-1, 1, 16, dtype=np.float32)[None, None, None].repeat(16, 2)},
    )
    yield Entrance(
        "narrow rows that are added to what comes in",
        """g (float[batch, 13, 4] x) => (float[batch, 13, 16] y) { s = Add (x, rows_narrow)
            y = MatMul (s, w_four) }""",
        (SAID, "learned"),
        tables={"w_four": drawn(4, 16)},
    )
    yield Entrance(
        "anchors of a detector",
        image("""p = Sigmoid (h)  c = Add (p, corners)  s = Mul (c, half)"""),
        (SAID, "grid", "learned"),
        tables={"corners": np.stack(np.meshgrid(np.arange(4), np.arange(4)), 0).repeat(8, 0)[None].astype(np.float32)},
    )


def _rarer() -> Iterator[Entrance]:
    """Ways that hardly any network has, and other numbers that are no positions."""
    none: tuple[str, ...] = ()
    places = "pf = Cast <to = 1> (n)  of = Div (pf, steps)  pu = Unsqueeze (of, v1)"
    yield Entrance(
        """places through an operator without a kernel and a weight""",
        tokens(
            f"""{places}  e = Expand (pu, s16)  a = com.microsoft.QuickGelu (e)
            r = MatMul (a, w)""",
            "seq",
        ),
        (SAID,),
        tables={"s16": np.array([1, 16])},
    )
    yield Entrance(
        "places through an operator without a kernel",
        tokens(f"""{places}  e = Expand (pu, s16)  r = com.microsoft.QuickGelu (e)""", "seq"),
        (SAID,),
        tables={"s16": np.array([1, 16])},
    )
    counted = """g = Sigmoid (a)  c = CumSum (g, c3)  f = Floor (c)  i = Cast <to = 7> (f)
    e = MatMul (q, by_query)  b = GatherElements <axis = 3> (e, i)"""
    cut = """e = Slice (sh, v2, v3)  wt = Slice (w_tall, v0, e, v0)  r = MatMul (h, wt)"""
    yield Entrance(
        "no position: a weight that is cut by a size", tokens(cut, "seq"), none, tables={"w_tall": drawn(48, 16)}
    )
    folded = """f = Reshape (h, s_pairs)  u = Transpose <perm = [0, 2, 1, 3]> (f)  v = Reshape (u, s_map)
    p = Transpose <perm = [0, 2, 3, 1]> (v)  m = Reshape (p, s_rows16)  y = LayerNormalization (m, gain, shift) }"""
    body = image("s = Identity (h)").split("s = Identity")[0] + folded
    unfolded: dict[str, Array] = {
        "s_pairs": np.array([32, 2, 2, 2]),
        "s_map": np.array([1, 16, 4, 4]),
        "s_rows16": np.array([4, 4, 16]),
    }
    ports = body.replace("[batch, 3", "[1, 3").replace("[batch, 16, 4, 4]", "[4, 4, 16]")
    yield Entrance("no position: a norm behind patches that were unfolded", ports, none, tables=unfolded)
    yield Entrance("rows that gates count", scores(counted), (SAID,), tables={"c3": np.array(3)})
    taken = """z = ReduceSum <keepdims = 0> (h, vm1)  q = Greater (z, nought)  o = Cast <to = 7> (q)
    c = CumSum (o, c1)  r = Gather (long, c)"""
    yield Entrance("rows at places that data count", tokens(taken), EITHER)
    chosen = np.stack([np.arange(13)[:, None] + 0 * np.arange(13), np.abs(np.arange(13)[:, None] - np.arange(13))], -1)
    yield Entrance(
        """scores that GatherND chooses by a stored distance""",
        scores("""t1 = Transpose <perm = [2, 3, 0, 1]> (a)  g = GatherND (t1, pairs)
            s = Transpose <perm = [2, 3, 0, 1]> (g)"""),
        (SAID, "relative"),
        tables={"pairs": chosen},
    )
    yield Entrance(
        "rows in half precision",
        """g (float16[batch, 13, 16] x) => (float16[batch, 13, 16] y) { h = MatMul (x, wh)
            s = Add (h, rows_half)  y = MatMul (s, wh) }""",
        LEARNED,
        tables={"wh": drawn(16, 16).astype(np.float16)},
    )
    yield Entrance(
        "narrow rows behind a batch of data",
        """g (float[13, 4] x, float[batch, 13, 4] z) => (float[batch, 13, 16] y) { h = MatMul (z, w4)
            u = MatMul (x, w4)  r = MatMul (u, w44)  s = Add (h, r)
            p = Add (s, rows_narrow)  y = MatMul (p, w_four) }""",
        (SAID, "learned"),
        tables={"w4": drawn(4, 4), "w44": drawn(4, 4), "w_four": drawn(4, 16)},
    )
    taken = """e = Slice (sh, v1, v2)  rq = Slice (long_bytes, v0, e, v0)
        hq = QuantizeLinear (h, scale8, zero8)
        sq = com.microsoft.QLinearAdd (hq, scale8, zero8, rq, scale8, zero8, scale8, zero8)
        s = DequantizeLinear (sq, scale8, zero8)"""
    long_bytes: Array = np.asarray(DRAWN.integers(-99, 99, (64, 16)), np.int8)
    tables: dict[str, Array] = {"long_bytes": long_bytes}
    yield Entrance("a slice of bytes in a quantized sum", tokens(taken, "seq"), EITHER, tables=tables)
    flat = """f = Reshape (h, s_flat)  r = Add (f, rows_narrow13)  s = Reshape (r, s_unflat)"""
    tables = {"s_flat": np.array([-1, 16]), "s_unflat": np.array([-1, 13, 16]), "rows_narrow13": drawn(13, 16)}
    yield Entrance("rows of one flat sequence", tokens(flat).replace("batch", "1"), EITHER, tables=tables)
    parts = """hr = Reshape (h, s_heads)  hp = Add (hr, rows_heads)  s = Reshape (hp, s_joined)"""
    tables = {"rows_heads": drawn(1, 13, 4, 4), "s_heads": np.array([0, 0, 4, 4]), "s_joined": np.array([0, 0, 16])}
    yield Entrance("rows of each head", tokens(parts), EITHER, tables=tables)
    parts = """hr = Reshape (h, s_video)  u = Add (hr, frames)  v = Add (u, pixels)  s = Reshape (v, s_places)"""
    tables = {"s_video": np.array([0, 3, 2, 2, 16]), "frames": drawn(1, 3, 1, 1, 16), "pixels": drawn(1, 1, 2, 2, 16)}
    yield Entrance("rows of frames and of pixels", tokens(parts, "12"), EITHER, tables=tables)
    parts = """hr = Reshape (h, s_windows)  u = Add (hr, inside)  s = Reshape (u, s_places)"""
    tables = {"s_windows": np.array([-1, 4, 16]), "inside": drawn(4, 16), "s_places": np.array([-1, 12, 16])}
    yield Entrance("rows of each window", tokens(parts, "12"), EITHER, tables=tables)
    stacked = "(float[13, 16] x) => (float[13, 16] y) { h = MatMul (x, w)"
    yield Entrance(
        "no position: layers that a scan takes",
        f"""g {stacked}  y, last = Scan <num_scan_inputs = 1, body = turn (float[13, 16] a, float[16] b)
        => (float[13, 16] a2, float[16] o) {{ o = Identity (b)  u = Add (a, b)  a2 = Relu (u) }}> (h, rows) }}""",
        none,
    )
    yield Entrance(
        "no position: layers that a loop takes",
        f"""g {stacked}  y = Loop (c13, , h) <body = turn (int64 i, bool c, float[13, 16] a)
        => (bool going, float[13, 16] a2) {{ going = Identity (c)  b = Gather (rows, i)  u = Add (a, b)
            a2 = Relu (u) }}> }}""",
        none,
        tables={"c13": np.array(13)},
    )
    yield Entrance(
        "no position: a bias of tokens that are mixed",
        tokens("""t1 = Transpose <perm = [0, 2, 1]> (h)  m = MatMul (t1, mix)  mb = Add (m, b13)
            e = Relu (mb)  m2 = MatMul (e, mix)  mc = Add (m2, b13)
            r = Transpose <perm = [0, 2, 1]> (mc)"""),
        none,
        tables={"b13": drawn(13)},
    )
    yield Entrance(
        "no position: experts",
        """g (float[1, 13, 16] x) => (float[4, 13, 16] y) { h = MatMul (x, w)
            y = MatMul (h, per_head) }""",
        none,
    )
    yield Entrance(
        "no position: experts in a sum of products",
        """g (float[13, 16] x) => (float[4, 13, 16] y) { h = MatMul (x, w)
            y = Einsum <equation = "nd,edf->enf"> (h, per_head) }""",
        none,
    )
    yield Entrance(
        "no position: a bias of each head's queries",
        """g (float[batch, 13, 16] x) => (float[batch, 13, 4, 16] y) { h = MatMul (x, w_wide)
            r = Reshape (h, s_heads)  y = Add (r, u_heads) }""",
        none,
        tables={"u_heads": drawn(4, 16)},
    )
    yield Entrance(
        "no position: a gain of each head's queries",
        heads("t = Mul (q, g_heads)"),
        none,
        tables={"g_heads": drawn(1, 4, 1, 16)},
    )
    yield Entrance(
        "no position: keys of a memory",
        heads("t = Identity (q)")
        .replace(
            "k = Transpose",
            """o = Slice (sh, v0, v1)  e = Concat <axis = 0> (o, v1, v1, v1)
            l = Tile (memory, e)  j = Concat <axis = 2> (t, l)  k = Transpose""",
        )
        .replace("(t)  a =", "(j)  a =")
        .replace("y = MatMul (p, q)", "y = MatMul (p, j)"),
        none,
        tables={"memory": drawn(1, 4, 3, 16)},
    )
    yield Entrance(
        "no position: a scale of layers, features last",
        """g (float[batch, 3, 16, 16] x) => (float[batch, 4, 4, 16] y) { h = Conv <strides = [4, 4]> (x,
            conv_w, conv_b)
            t = Transpose <perm = [0, 2, 3, 1]> (h)  y = Mul (t, gain) }""",
        none,
    )
    yield Entrance(
        "no position: a mask of patches",
        tokens("""z = ReduceSum <keepdims = 1> (h, vm1)  q = Greater (z, nought)
            s = Where (q, gain, h)"""),
        none,
    )
    yield Entrance(
        "no position: frames with a window",
        """g (float[batch, 13, 16] x) => (float[batch, 13, 16] y) { m = Mul (x, gain)
            y = MatMul (m, w) }""",
        none,
    )
    yield Entrance(
        "no position: tokens in another order",
        tokens("r = Gather <axis = 1> (h, order)"),
        none,
        tables={"order": np.arange(13)[::-1].copy()},
    )
    yield Entrance(
        "no position: a cut of an image",
        image("""g1 = Gather <axis = 2> (h, order)  g2 = Gather <axis = 3> (g1, order)
            s = Add (h, g2)"""),
        none,
        tables={"order": np.array([2, 3, 0, 1])},
    )


def _ones() -> Iterator[Entrance]:
    """Ones and zeros that say a place, and biases of keys alone."""
    joined_ones = """eb = Expand ({ones}, shape)  j = Concat <axis = -1> (h, eb)  s = Slice (j, v0, v16, v2)"""
    counted = """lb = Slice (sh, v0, v1)  ln = Slice (sh, v1, v2)  shape = Concat <axis = 0> (lb, ln, {width})  """
    bits = """bu = Unsqueeze (n, v1)  bd = Div (bu, powers)  bm = Mod (bd, c2)  bf = Cast <to = 1> (bm)"""
    ones = counted.replace("{width}", "v4") + bits + "  " + joined_ones.replace("{ones}", "bf")
    powers: dict[str, Array] = {"powers": np.array([1, 2, 4, 8]), "v4": np.array([4])}
    yield Entrance("bits of places that are joined", tokens(ones, "seq"), (SAID,), tables=powers)
    hot = """o = OneHot <axis = -1> (n, depth, onoff)"""
    ones = counted.replace("{width}", "depth1") + hot + "  " + joined_ones.replace("{ones}", "o")
    depths: dict[str, Array] = {"depth": np.array(64), "depth1": np.array([64]), "onoff": np.array([0, 1], np.float32)}
    yield Entrance("one-hot places that are joined", tokens(ones, "seq"), (SAID,), tables=depths)
    eye: dict[str, Array] = {"eye": np.eye(13, dtype=np.float32)[None]}
    ports = "g (float[1, 13, 16] x) => (float[1, 13, 29] y) { h = MatMul (x, w)  y = Concat <axis = -1> (h, eye) }"
    yield Entrance("one-hot places that are joined, stored", ports, (SAID,), tables=eye)
    keys = """lb = Slice (sh, v0, v1)  shape = Concat <axis = 0> (lb, v1, v1, v13)  b = Expand (keys_only, shape)"""
    yield Entrance("a bias of each key, repeated for a batch", scores(keys), (SAID,))


def model_of(entrance: Entrance, is_beside: bool = False) -> onnx.ModelProto:
    """Return the graph of an entrance with its numbers.

    Args:
        entrance: what enters, and how.
        is_beside: whether a learned table is added to other tokens of the same graph, which has a name: nothing that
            is named may hide what is not.
    """
    header = f'<ir_version: 8, opset_import: ["" : {entrance.opset}, "com.microsoft" : 1, "local" : 1]>'
    model = onnx.parser.parse_model(f"{header} {entrance.body}")
    words = set(re.findall(r"\w+", entrance.body))
    stored = {name: array for name, array in {**NAMES, **entrance.tables}.items() if name in words}
    if is_beside:
        stored |= {"beside_w": drawn(24, 24), "beside_rows": drawn(9, 24)}
        model.graph.node.extend(
            [
                onnx.helper.make_node("MatMul", ["beside_x", "beside_w"], ["beside_h"], "beside_product"),
                onnx.helper.make_node("Add", ["beside_h", "beside_rows"], ["beside_y"], "beside_sum"),
            ]
        )
        ports = [
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["beside_batch", 9, 24])
            for name in ("beside_x", "beside_y")
        ]
        model.graph.input.append(ports[0])
        model.graph.output.append(ports[1])
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in stored.items())
    return model


def all_entrances() -> list[Entrance]:
    """Return all graphs."""
    return [*_stored(), *_inside(), *_computed(), *_biases(), *_rotations(), *_others(), *_more(), *_rarer(), *_ones()]
