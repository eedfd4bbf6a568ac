"""Rotary pairs that turn by coordinates that come in, two or three of each token, have the scheme of such places."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.misread import read
from posenc_export.read.inspection import FoundEncoding, Inspection

OWN = (100.0 ** (-np.arange(4) / 4)).astype(np.float32)
OTHER = (10000.0 ** (-np.arange(4) / 4)).astype(np.float32)
HEAD = """placed (float[batch, 2, seq, 16] q, {kind}[batch, seq, {count}] coords) => (float[batch, 2, seq, 16] y) {{
    given = Cast <to = 1> (coords)
    a0 = Gather <axis = 2> (given, g0)  r0 = Unsqueeze (a0, last)  h0 = Mul (r0, f0)
    a1 = Gather <axis = 2> (given, g1)  r1 = Unsqueeze (a1, last)  h1 = Mul (r1, f1)
"""
WHOLE = """h = Concat <axis = -1> (h0, h1)  hh = Concat <axis = -1> (h, h)  a = Unsqueeze (hh, axis1)
    c = Cos (a)  s = Sin (a)
    x1, x2 = Split <axis = -1> (q, eights)  m2 = Neg (x2)  t = Concat <axis = -1> (m2, x1)
    qc = Mul (q, c)  qs = Mul (t, s)  y = Add (qc, qs) }"""
PART = """hh{n} = Concat <axis = -1> (h{n}, h{n})  a{n}u = Unsqueeze (hh{n}, axis1)
    c{n} = Cos (a{n}u)  s{n} = Sin (a{n}u)
    x{n}1, x{n}2 = Split <axis = -1> (q{n}, fours)  m{n} = Neg (x{n}2)  t{n} = Concat <axis = -1> (m{n}, x{n}1)
    qc{n} = Mul (q{n}, c{n})  qs{n} = Mul (t{n}, s{n})  y{n} = Add (qc{n}, qs{n})
"""
PARTS = f"""q0, q1 = Split <axis = -1> (q, eights)
    {PART.format(n=0)} {PART.format(n=1)} y = Concat <axis = -1> (y0, y1) }}"""


def placed(folder: Path, body: str, one: np.ndarray, two: np.ndarray, **other: int) -> Inspection:
    """Return what is said of queries whose pairs turn by two coordinates of each token."""
    kind, count = "int64" if other.get("whole", 1) else "float", other.get("count", 2)
    axes = other.get("first", 0), other.get("second", 1)
    tables = {"f0": one, "f1": two, "g0": np.array(axes[0], np.int64), "g1": np.array(axes[1], np.int64)}
    tables |= {"fours": np.array([4, 4], np.int64)} if "fours" in body else {}
    return read(folder, HEAD.format(kind=kind, count=count) + body, tables)


def only(made: Inspection) -> FoundEncoding:
    """Return the only encoding."""
    (entry,) = made.encodings
    return entry


@pytest.mark.parametrize("whole", [0, 1])
def test_pairs_in_one_sum_are_a_scheme_of_places(tmp_path: Path, whole: int) -> None:
    entry = only(placed(tmp_path, WHOLE, OWN, OWN, whole=whole))
    assert (entry.scheme, entry.positions) == ("rope_2d -p head_dim=16 -p rope_theta=100 -p layout=halves", "coords")
    assert entry.errors is not None
    assert (entry.errors.last_position or 0) > 10**4


@pytest.mark.parametrize("whole", [0, 1])
def test_parts_of_heads_are_one_encoding(tmp_path: Path, whole: int) -> None:
    entry = only(placed(tmp_path, PARTS, OWN, OWN, whole=whole))
    assert entry.scheme == "rope_nd -p head_dim=16 -p axes_dim=8,8 -p rope_theta=100 -p layout=axis_halves"
    assert len(entry.nodes) == 2
    assert entry.errors is not None
    assert (entry.errors.last_position or 0) > 10**4


@pytest.mark.parametrize("body", [WHOLE, PARTS])
def test_the_order_of_axes_and_their_bases_are_read(tmp_path: Path, body: str) -> None:
    entry = only(placed(tmp_path, body, OWN, OTHER, first=1, second=0))
    assert entry.name == "rope_nd"
    assert entry.parameters["axes_dim"] == (8, 8)
    assert entry.parameters["axis_order"] == (1, 0)
    # the base of axis 0, and of axis 1
    assert entry.parameters["rope_theta"] == (10000.0, 100.0)


def test_frequencies_of_no_rule_have_no_scheme(tmp_path: Path) -> None:
    drawn = np.array([0.9, 0.7, 0.23, 0.05], np.float32)
    entry = only(placed(tmp_path, WHOLE, drawn, OWN))
    assert (entry.name, entry.scheme) == ("unknown frequencies", "")
    assert entry.parameters["sections"] == (4, 4)


def test_a_part_that_is_no_coordinate_of_the_scheme_keeps_its_own_line(tmp_path: Path) -> None:
    """Two parts that turn by one coordinate are no grid."""
    made = placed(tmp_path, PARTS, OWN, OWN, second=0)
    assert [entry.name for entry in made.encodings] == ["default", "default"]
    assert [entry.parameters["coordinate"] for entry in made.encodings] == [0, 0]
    assert [entry.scheme for entry in made.encodings] == ["", ""]


def test_the_last_two_of_three_coordinates_are_those_of_an_image(tmp_path: Path) -> None:
    """The first coordinate turns nothing: no scheme of three axes has that, and none of two is told from it."""
    made = placed(tmp_path, WHOLE, OWN, OWN, count=3, first=1, second=2)
    assert only(made).parameters["sections"] == (4, 4)
