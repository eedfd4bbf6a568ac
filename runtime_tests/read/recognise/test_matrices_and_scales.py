"""Rotations that are written as matrices (2, 2), and rotations that fade by scales of their own (xPos), are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.misread import codes, families, read, turned
from posenc_export.read.inspection import FoundEncoding, Inspection

DIM, PAIRS = 16, 8
SHAPES = {
    "in_pairs": np.array([0, 2, -1, PAIRS, 2], np.int64),
    "in_rows": np.array([0, 2, -1, DIM], np.int64),
    "matrix": np.array([-1, PAIRS, 2, 2], np.int64),
    "first": np.array(0, np.int64),
    "second": np.array(1, np.int64),
    "behind": np.array([-1], np.int64),
    "before_last": np.array([-2], np.int64),
}
ANGLES = """matrices (float[batch, 2, seq, 16] q) => (float[batch, 2, seq, 16] y) {
    sh = Shape (q)  length = Gather (sh, two)  n = Range (zero, length, one)
    pf = Cast <to = 1> (n)  pu = Unsqueeze (pf, axis1)  h = Mul (pu, inv_freq)
    c = Cos (h)  s = Sin (h)  z = Neg (s)  w = Neg (c)  o = Div (c, c)
    pairs = Reshape (q, in_pairs)
"""
TURNED = ("c", "z", "s", "c")
WRITTEN = {
    "a matrix and columns": "v = Unsqueeze (pairs, behind)  t = MatMul (m, v)  y = Reshape (t, in_rows)",
    "rows and a matrix": """v = Unsqueeze (pairs, before_last)  b = Transpose <perm = [0, 1, 3, 2]> (m)
    t = MatMul (v, b)  y = Reshape (t, in_rows)""",
    "einsum": """t = Einsum <equation = "npij,bhnpj->bhnpi"> (m, pairs)  y = Reshape (t, in_rows)""",
    "einsum of data first": """t = Einsum <equation = "bhnpj, npij -> bhnpi"> (pairs, m)  y = Reshape (t, in_rows)""",
    "sums of products": """v = Unsqueeze (pairs, before_last)  e = Mul (m, v)
    t = ReduceSum <keepdims = 0> (e, behind)  y = Reshape (t, in_rows)""",
    "columns of matrices": """m0 = Gather <axis = 3> (m, first)  m1 = Gather <axis = 3> (m, second)
    p0 = Gather <axis = 4> (pairs, first)  p1 = Gather <axis = 4> (pairs, second)
    v0 = Unsqueeze (p0, behind)  v1 = Unsqueeze (p1, behind)
    e0 = Mul (m0, v0)  e1 = Mul (m1, v1)  t = Add (e0, e1)  y = Reshape (t, in_rows)""",
}


def matrices(folder: Path, entries: tuple[str, ...], written: str) -> Inspection:
    """Return what is said of pairs that are multiplied by matrices of four entries, row by row."""
    stacked = "  ".join(f"u{place} = Unsqueeze (h{place}, behind)" for place in range(4))
    names = "  ".join(f"h{place} = Identity ({name})" for place, name in enumerate(entries))
    body = f"{ANGLES} {names} {stacked} f = Concat <axis = 2> (u0, u1, u2, u3)  m = Reshape (f, matrix)"
    used = {name: array for name, array in SHAPES.items() if name in body + WRITTEN[written]}
    return read(folder, f"{body} {WRITTEN[written]} }}", used)


@pytest.mark.parametrize("written", WRITTEN)
def test_matrices_that_turn_are_a_rotation(tmp_path: Path, written: str) -> None:
    made = matrices(tmp_path, TURNED, written)
    (entry,) = made.encodings
    assert entry.scheme == "rope -p head_dim=16 -p rope_theta=10000 -p layout=interleaved"
    assert entry.errors is not None
    assert entry.errors.last_position is not None
    assert entry.errors.last_position > 10**6
    # float32 angles are off far out, and nothing is off near
    near = [error for at, error in zip(entry.errors.positions, entry.errors.errors, strict=True) if at < 64]
    assert max(near) < 1e-5


@pytest.mark.parametrize("written", WRITTEN)
def test_matrices_of_the_other_direction_say_so(tmp_path: Path, written: str) -> None:
    (entry,) = matrices(tmp_path, ("c", "s", "z", "c"), written).encodings
    assert (entry.family, entry.parameters.get("direction")) == ("rotary", "backward")


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize(
    "entries", [("c", "s", "s", "w"), ("c", "z", "s", "o"), ("c", "s", "s", "c"), ("s", "z", "s", "c")]
)
def test_matrices_that_turn_nothing_are_no_rotation(tmp_path: Path, written: str, entries: tuple[str, ...]) -> None:
    assert families(matrices(tmp_path, entries, written)) == ["not recognised"]


SHARE = 2 * np.arange(PAIRS) / DIM
ZETA = ((SHARE + 0.4) / 1.4).astype(np.float32)
TABLES = {"zeta": np.concatenate([ZETA, ZETA]), "base": np.array(512, np.float32)}
SCALE = "g = Div (pu, base)  f = Pow (zeta, g)"
FADING = {
    "after": "qc = Mul (q, c)  qs = Mul (t, s)  r = Add (qc, qs)  y = Mul (r, f)",
    "divided after": "qc = Mul (q, c)  qs = Mul (t, s)  r = Add (qc, qs)  y = Div (r, f)",
    "in both products": """qc = Mul (q, c)  qf = Mul (qc, f)  qs = Mul (t, s)  tf = Mul (qs, f)  y = Add (qf, tf)""",
    "in the tables": "cf = Mul (c, f)  sf = Mul (s, f)  qc = Mul (q, cf)  qs = Mul (t, sf)  y = Add (qc, qs)",
}


def faded(folder: Path, scale: str, how: str, tables: dict[str, np.ndarray]) -> list[FoundEncoding]:
    """Return the encodings of queries that are turned, and scaled."""
    start, _ = turned("p = Identity (n)").split("qc = Mul")
    body = f"{start} {scale} {FADING[how]} }}"
    return list(read(folder, body, {name: array for name, array in tables.items() if name in body}).encodings)


@pytest.mark.parametrize("how", FADING)
def test_xpos_is_named_wherever_its_scale_is_put(tmp_path: Path, how: str) -> None:
    (entry,) = faded(tmp_path, SCALE, how, TABLES)
    assert entry.scheme == (
        "xpos -p head_dim=16 -p rope_theta=10000 -p gamma=0.4 -p scale_base=512 -p center=0 -p layout=halves"
    )


def test_xpos_of_data_that_fade_before_they_are_turned_is_named(tmp_path: Path) -> None:
    body = turned("p = Identity (n)").replace("x1, x2 = Split <axis = -1> (q, eights)", "FADED")
    start, rest = body.split("FADED")
    before = f"{SCALE}  qf = Mul (q, f)  x1, x2 = Split <axis = -1> (qf, eights)"
    (entry,) = read(tmp_path, f"{start} {before} {rest}".replace("Mul (q, c)", "Mul (qf, c)"), TABLES).encodings
    assert entry.name == "xpos"


@pytest.mark.parametrize("center", ["down", "up"])
def test_the_center_of_xpos_is_half_of_a_length_in_either_way(tmp_path: Path, center: str) -> None:
    halved = "lh = Div (length, two)" if center == "down" else "l1 = Add (length, one)  lh = Div (l1, two)"
    scale = f"{halved}  nm = Sub (n, lh)  nf = Cast <to = 1> (nm)  nu = Unsqueeze (nf, axis1)  g = Div (nu, base)"
    (entry,) = faded(tmp_path, f"{scale}  f = Pow (zeta, g)", "after", TABLES)
    expected = "length, rounded down" if center == "down" else "length"
    assert (entry.name, entry.parameters["center"]) == ("xpos", expected)
    assert bool(entry.scheme) == (center == "up")


NO_XPOS = {
    "one scale for all pairs": "g = Div (pu, base)  e = Exp (g)  f = Mul (e, ones)",
    "a scale of no formula": "g = Div (pu, base)  f = Pow (drawn, g)",
    "scales that grow evenly": "g = Div (pu, base)  e = Mul (g, zeta)  f = Add (e, ones)",
}
OTHER = {**TABLES, "ones": np.ones(DIM, np.float32)}
OTHER["drawn"] = np.tile(np.random.default_rng(0).uniform(0.3, 0.9, PAIRS), 2).astype(np.float32)


@pytest.mark.parametrize("how", FADING)
@pytest.mark.parametrize("scale", NO_XPOS)
def test_other_scales_are_not_xpos(tmp_path: Path, scale: str, how: str) -> None:
    entries = faded(tmp_path, NO_XPOS[scale], how, OTHER)
    assert "xpos" not in {entry.name for entry in entries}
    assert "not recognised" in {entry.family for entry in entries}


def test_a_scale_of_features_or_of_tokens_leaves_a_rotation_a_rotation(tmp_path: Path) -> None:
    tables = {"weight": np.linspace(0.5, 2, DIM).astype(np.float32)}
    by_feature = faded(tmp_path, "f = Identity (weight)", "after", tables)
    assert [entry.name for entry in by_feature] == ["default"]
    by_token = faded(tmp_path, "g = Div (pu, base)  f = Exp (g)", "after", TABLES)
    assert [entry.name for entry in by_token if entry.family == "rotary"] == ["default"]


def test_a_weight_of_two_features_is_no_matrix_of_positions(tmp_path: Path) -> None:
    body = """two (float[batch, seq, 2] x) => (float[batch, seq, 2] y) { y = MatMul (x, weight) }"""
    made = read(tmp_path, body, {"weight": np.array([[0.6, -0.8], [0.8, 0.6]], np.float32)})
    assert (families(made), "PE217" in codes(made)) == ([], False)
