"""Patches of images and of videos that are turned by their places: tokens in a row, heads side by side."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.misread import codes, read
from posenc_export.read.values import Array

Floats = NDArray[np.float64]
PATCHES = {"axis0": np.array([0], np.int64), "axis2": np.array([2], np.int64)}


def places(*sides: int, first: int = 0) -> list[Floats]:
    """Return the place of each token on each axis, tokens in a row."""
    return [axis.reshape(-1).astype(np.float64) + first for axis in np.indices(sides)]


def waves(angle: Floats) -> dict[str, Array]:
    return {"c": np.cos(angle).astype(np.float32), "s": np.sin(angle).astype(np.float32)}


def shared(width: int) -> Floats:
    """Return frequencies of so many features."""
    return np.asarray(1e4 ** (-np.arange(0, width, 2) / width))


HALVES = """turned (float[1, 2, 32, 16] q) => (float[1, 2, 32, 16] y) {
    x1, x2 = Split <axis = -1> (q, eights)  m2 = Neg (x2)  t = Concat <axis = -1> (m2, x1)
    qc = Mul (q, c)  qs = Mul (t, s)  y = Add (qc, qs) }"""
BESIDE = """turned (float[1, 33, 96] qkv) => (float[1, 2, 32, 16] y) {
    all = Slice (qkv, zeros, width, axis2)  heads = Reshape (all, shape)  h = Transpose <perm = [0, 2, 1, 3]> (heads)
    q = Slice (h, ones, end, axis2)
    x1 = Slice (q, zeros, sixteen, axis3, twos)  x2 = Slice (q, ones, sixteen, axis3, twos)  m2 = Neg (x2)
    u1 = Unsqueeze (x1, last)  u2 = Unsqueeze (m2, last)  pairs = Concat <axis = -1> (u2, u1)
    t = Reshape (pairs, turned_shape)  qc = Mul (q, c)  qs = Mul (t, s)  y = Add (qc, qs) }"""
OF_HEADS: dict[str, Array] = {
    name: np.array(numbers, np.int64)
    for name, numbers in {
        "zeros": [0], "ones": [1], "twos": [2], "width": [32], "end": [33], "sixteen": [16], "axis2": [2],
        "axis3": [3], "shape": [1, 33, 2, 16], "turned_shape": [1, 2, 32, 16],
    }.items()
}  # fmt: skip
IN_TWO_SUMS = """turned (float[1, 32, 32] x) => (float[1, 32, 2, 16] y) {
    q = Reshape (x, shape)  x1 = Slice (q, zeros, sixteen, axis3, twos)  x2 = Slice (q, ones, sixteen, axis3, twos)
    a = Mul (x1, c)  b = Mul (x2, s)  first = Sub (a, b)  d = Mul (x1, s)  e = Mul (x2, c)  second = Add (d, e)
    u1 = Unsqueeze (first, last)  u2 = Unsqueeze (second, last)  pairs = Concat <axis = -1> (u1, u2)
    y = Reshape (pairs, shape) }"""


def test_frequencies_that_rows_and_columns_take_in_turn(tmp_path: Path) -> None:
    row, column = places(4, 8)
    inv_freq = shared(16)
    half = np.concatenate([np.outer(row, inv_freq[0::2]), np.outer(column, inv_freq[1::2])], -1)
    made = read(tmp_path, HALVES, waves(np.concatenate([half, half], -1)[None, None]))
    assert [entry.scheme for entry in made.encodings] == [
        "rope_nd -p head_dim=16 -p axes_dim=8,8 -p rope_theta=10000 -p layout=halves -p frequencies=alternate"
    ]
    assert not made.not_judged


def test_places_that_count_from_one_beside_a_token_that_is_not_turned(tmp_path: Path) -> None:
    row, column = places(4, 8, first=1)
    pairs = np.concatenate([np.outer(column, shared(8)), np.outer(row, shared(8))], -1)
    made = read(tmp_path, BESIDE, {**OF_HEADS, **waves(np.repeat(pairs, 2, -1))})
    assert [entry.scheme for entry in made.encodings] == [
        "rope_nd -p head_dim=16 -p axes_dim=8,8 -p rope_theta=10000 -p layout=interleaved -p axis_order=1,0 -p first=1"
    ]


def test_learned_frequencies_of_each_head(tmp_path: Path) -> None:
    row, column = places(4, 8)
    across, down = np.random.default_rng(0).normal(size=(2, 2, 8)) / 2
    angle = column[:, None] * across[:, None] + row[:, None] * down[:, None]
    made = read(tmp_path, BESIDE, {**OF_HEADS, **waves(np.repeat(angle, 2, -1))})
    assert [entry.scheme for entry in made.encodings] == ["rope_mixed -p heads=2 -p head_dim=16"]


def of_a_video() -> Floats:
    """Return the angles of places (2, 4, 4): frame, row and column."""
    axes = zip(places(2, 4, 4), (8, 4, 4), strict=True)
    return np.concatenate([np.outer(axis, shared(width)) for axis, width in axes], -1)


def test_the_two_features_of_a_pair_in_sums_of_their_own(tmp_path: Path) -> None:
    tables = {**OF_HEADS, "shape": np.array([1, 32, 2, 16]), **waves(of_a_video()[None, :, None])}
    made = read(tmp_path, IN_TWO_SUMS, tables)
    assert [entry.scheme for entry in made.encodings] == [
        "rope_nd -p head_dim=16 -p axes_dim=8,4,4 -p rope_theta=10000 -p layout=interleaved"
    ]


def test_neighbours_that_turn_apart_are_those_of_a_formula(tmp_path: Path) -> None:
    axes = zip(places(2, 4, 4), (4, 4, 8), strict=True)
    tiled = np.concatenate([np.tile(np.outer(axis, shared(width)), 2) for axis, width in axes], -1)
    tables = {**OF_HEADS, **waves(tiled)}
    made = read(tmp_path, BESIDE, tables)
    assert [entry.scheme for entry in made.encodings] == [
        "rope_nd -p head_dim=16 -p axes_dim=4,4,8 -p rope_theta=10000 -p layout=axis_tiled"
    ]
    assert "PE220" not in codes(made)


@pytest.mark.parametrize("wrong", ["a row", "a pair"])
def test_a_place_that_is_turned_otherwise_has_no_name(tmp_path: Path, wrong: str) -> None:
    angle = of_a_video()
    if wrong == "a row":
        angle[5] = angle[6]
    else:
        angle[:, 1] *= 1.1
    tables = {**OF_HEADS, "shape": np.array([1, 32, 2, 16]), **waves(angle[None, :, None])}
    made = read(tmp_path, IN_TWO_SUMS, tables)
    assert {entry.family for entry in made.encodings} == {"not recognised"}


def test_a_fade_that_is_one_in_the_middle_of_a_call_has_no_center_of_its_own(tmp_path: Path) -> None:
    """xPos as TorchScale has it: the middle of this call, and another place in a longer one."""
    share = np.arange(0, 16, 2) / 16
    place = np.arange(32)[:, None]
    fade = ((share + 0.4) / 1.4) ** ((place - 16) / 512)
    angle = place * 1e4**-share
    tables = {name: (wave(angle) * fade).astype(np.float32) for name, wave in (("c", np.cos), ("s", np.sin))}
    made = read(tmp_path, HALVES, {name: np.concatenate([half, half], -1) for name, half in tables.items()})
    assert [entry.parameters.get("center") for entry in made.encodings] == ["length"]


@pytest.mark.parametrize("text", [0.0, 0.5], ids=["zeros", "other rows"])
def test_sines_of_a_video_behind_rows_of_its_text(tmp_path: Path, text: float) -> None:
    """CogVideoX: zeros for the words, then sines of frame, column and row."""
    frame, row, column = places(2, 4, 4)
    waves_of = [np.outer(axis, shared(width)) for axis, width in ((frame, 4), (column, 6), (row, 6))]
    rows = np.concatenate([np.concatenate([np.sin(wave), np.cos(wave)], -1) for wave in waves_of], -1)
    table = np.concatenate([np.full((6, 16), text), rows])[None].astype(np.float32)
    made = read(tmp_path, "video (float[1, 38, 16] x) => (float[1, 38, 16] y) { y = Add (x, table) }", {"table": table})
    found = [(entry.family, entry.name, entry.parameters.get("class_tokens")) for entry in made.encodings]
    assert (found == [("grid", "sincos_3d", 6)]) is (text == 0.0)
