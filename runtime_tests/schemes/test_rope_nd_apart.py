"""Neighbours that turn apart on a grid, as those of V-JEPA 2: against its code and float64; how far they are off."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import posenc
from helpers.combinations import run
from helpers.grids import BAKED, CLOSE, DYNAMIC, SPECS, near
from helpers.shared import EPS
from posenc.ports import Array
from posenc.sources.rotary.encode import PAIR_RADIUS, _apart
from posenc.spec import Spec

pytest.importorskip("transformers")
SIZES = (3, 6, 5)


def angles_of(places: Array, widths: tuple[int, ...], thetas: tuple[float, ...]) -> Array:
    """Return the angle of each feature at places (axes, ...): the frequencies of an axis, and once more."""
    runs = []
    for place, width, theta in zip(places, widths, thetas, strict=True):
        inv_freq = theta ** (-2.0 * np.arange(width // 2) / width)
        runs.append(place[..., None] * np.tile(inv_freq, 2))
    return np.concatenate(runs, -1)


def turned(x: Array, angles: Array) -> Array:
    """Return heads (batch, heads, *grid, dim), each feature turned by its own of the angles (*grid, features)."""
    y, count = x.astype(np.float64), angles.shape[-1]
    swapped = np.empty_like(y[..., :count])
    swapped[..., 0::2], swapped[..., 1::2] = -y[..., 1:count:2], y[..., 0:count:2]
    y[..., :count] = y[..., :count] * np.cos(angles) + swapped * np.sin(angles)
    return y


@SPECS
@pytest.mark.parametrize("head_dim", [32, 16, 6])
def test_v_jepa_2_rotates_as_its_own_code_does(spec: Spec, head_dim: int) -> None:
    from transformers.models.vjepa2 import VJEPA2Config, modeling_vjepa2

    config = VJEPA2Config(crop_size=96)  # 6 x 6 patches
    rotate: Any = modeling_vjepa2.VJEPA2RopeAttention(config, 2 * head_dim, 2)
    frames, side, width = 3, 6, 2 * (head_dim // 3 // 2)
    q = torch.randn(2, 2, frames * side * side, head_dim)
    expected = rotate.apply_rotary_embeddings(q, rotate.get_position_ids(torch.zeros(1, q.shape[2], 1)))
    params: dict[str, Any] = {"head_dim": head_dim, "axes_dim": (width,) * 3, "layout": "axis_tiled"}
    grid = q.unflatten(2, (frames, side, side))
    for actual in posenc.build("rope_nd", spec, **params).module(grid, grid):
        near(actual.flatten(2, 4), expected, 4 * CLOSE[spec.method])


@SPECS
@pytest.mark.parametrize("tensor_layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("widths", [(6,), (4, 10), (2, 8, 6)])
def test_each_feature_turns_by_its_own_angle(spec: Spec, tensor_layout: str, widths: tuple[int, ...]) -> None:
    thetas = tuple(10.0 ** (2 + axis) for axis in range(len(widths)))
    params: dict[str, Any] = {"head_dim": sum(widths) + 4, "axes_dim": widths, "rope_theta": thetas}
    params |= {"layout": "axis_tiled", "first": (1.0,), "scale": (0.75,)}
    sizes = SIZES[: len(widths)]
    angles = angles_of(1 + 0.75 * np.indices(sizes), widths, thetas)
    x = torch.randn(2, 3, *sizes, params["head_dim"])
    expected = turned(x.numpy(), angles)
    heads = x if tensor_layout == "bhsd" else x.movedim(1, -2)
    actual = posenc.build("rope_nd", spec, tensor_layout=tensor_layout, **params).module(heads, heads)[1]
    near(actual if tensor_layout == "bhsd" else actual.movedim(-2, 1), expected, 8 * CLOSE[spec.method])
    # a column a feature, none of them negated, at places that are given
    explicit = Spec(spec.mode, spec.method, "explicit", 90)
    index = torch.from_numpy(np.indices(sizes).reshape(len(sizes), 1, -1))
    encoding = posenc.build("rope_nd", explicit, output="cos_sin", width="full", **params)
    rows = angles.reshape(1, -1, sum(widths))
    for columns, exact in zip(
        encoding.module(index if len(widths) > 1 else index[0]), (np.cos(rows), np.sin(rows)), strict=True
    ):
        near(columns, exact, CLOSE[spec.method])


@SPECS
def test_an_axis_that_counts_from_its_center(spec: Spec) -> None:
    params: dict[str, Any] = {"head_dim": 12, "axes_dim": (4, 8), "axis_order": (1, 0), "centered": (1,)}
    places = np.indices((4, 5))
    places[1] -= 3
    x = torch.randn(1, 2, 4, 5, 12)
    expected = turned(x.numpy(), angles_of(places[::-1], (8, 4), (1e4, 1e4)))
    near(posenc.build("rope_nd", spec, layout="axis_tiled", **params).module(x, x)[0], expected, 8 * CLOSE[spec.method])


FILES = [
    pytest.param(
        *(spec, positions, output),
        ("onnx", "torchscript"),
        marks=pytest.mark.exhaustive,
        id=f"{spec.mode}-{positions}-{output}",
    )
    for spec in (BAKED, DYNAMIC)
    for positions in ("implicit", "explicit")
    for output in ("rotate", "cos_sin")
]
"""What files are made of, and in which formats."""


@pytest.mark.parametrize(("spec", "positions", "output", "formats"), FILES)
def test_files_of_pairs_that_turn_apart(
    spec: Spec, positions: Any, output: str, formats: tuple[str, ...], tmp_path: Path
) -> None:
    params: dict[str, Any] = {"head_dim": 16, "axes_dim": (4, 4, 6), "layout": "axis_tiled", "output": output}
    params |= {"width": "full"} if output == "cos_sin" else {}
    spec = Spec(spec.mode, spec.method, positions, 20)
    result = run("rope_nd", spec, params, tmp_path, formats=formats)
    assert [(v.subject, v.check, v.detail) for v in result.verdicts if v.status == "fail"] == []
    assert all(case.eager_tolerance.bits for case in result.manifest.cases if not case.refused)


def errors(pairs: Array, angle: Array, off: Array) -> tuple[Array, Array]:
    """Return how far float32 pairs are off whose cosines and sines are, and what comes out in float64: (n, 2) each.

    Args:
        pairs: two features, (n, 2) of float32.
        angle: the angle of each, (n, 2).
        off: what each cosine, and each sine, is off by, (2, n, 2).
    """
    cos, sin = (
        (exact + error).astype(np.float32) for exact, error in zip((np.cos(angle), np.sin(angle)), off, strict=True)
    )
    exact = turned(pairs, angle)
    a, b = pairs.T
    rounded = np.stack([a * cos[:, 0] - b * sin[:, 0], b * cos[:, 1] + a * sin[:, 1]], -1)
    return np.abs(rounded - exact), exact


def worst(length: float, shift: float) -> tuple[float, float]:
    """Return the largest error of pairs of a length, searched for, and its largest share of the pair that comes out.

    Cosines and sines are off by `shift` in the direction that counts: of each feature's terms both grow.
    """
    rng = np.random.default_rng(0)
    count = 200_000
    angle = rng.uniform(0, 2 * math.pi, (count, 2))
    # a third of them at right angles, where both features may vanish; a third of pairs with |a| = |b|
    angle[::3, 1] = angle[::3, 0] + math.pi / 2
    turn = rng.uniform(0, 2 * math.pi, count)
    turn[::3] = math.pi / 2 - angle[::3, 0]  # a cos x = b sin x
    turn[1::3] = math.pi / 4 + rng.integers(0, 4, len(turn[1::3])) * math.pi / 2
    pairs = (length * np.stack([np.cos(turn), np.sin(turn)], -1)).astype(np.float32)
    a, b = (np.sign(column) for column in pairs.T)
    off = shift * np.stack([np.stack([a, b], -1), np.stack([-b, a], -1)])
    error, exact = errors(pairs, angle, off)
    return float(error.max()), float((error.max(-1) / np.abs(exact).max(-1)).max())


@pytest.mark.parametrize("shift", [0.0, 1e-7, 1e-6, 1e-4])
def test_no_pair_is_off_by_more_than_the_bound_and_no_share_of_it_is_one(shift: float) -> None:
    cos_sin = shift + EPS / 4  # and their rounding to float32
    bound = _apart(cos_sin, 1.25 * EPS).atol
    largest, share = worst(PAIR_RADIUS, shift)
    assert 0.5 * bound < largest <= bound
    # twice what pairs have that turn together is no bound
    assert share > 1000 * 2 * (2 * cos_sin + 1.25 * EPS)


def test_pairs_of_recorded_calls_are_not_longer() -> None:
    longest = max(
        float(np.linalg.norm(np.random.default_rng(seed).standard_normal((1_000_000, 2)), axis=-1).max())
        for seed in range(4)
    )
    assert 5 < longest < PAIR_RADIUS


def test_a_module_is_within_its_bound_where_heads_nearly_vanish() -> None:
    encoding = posenc.build("rope_nd", DYNAMIC, head_dim=6, axes_dim=(6,), layout="axis_tiled")
    place = np.arange(4000)
    angle = angles_of(place[None], (6,), (1e4,))[:, :2]
    row = int(np.argmin(np.abs(np.cos(angle[:, 0] - angle[:, 1]))))  # nearest to a right angle
    head = np.array([np.sin(angle[row, 0]), np.cos(angle[row, 0]), 0, 0, 0, 0]) * PAIR_RADIUS
    x = torch.zeros(1, 1, len(place), 6)
    x[0, 0, row] = torch.from_numpy(head)
    expected = turned(x.numpy(), angles_of(place[None], (6,), (1e4,)))
    actual: Tensor = encoding.module(x, x)[0]
    assert np.abs(expected).max() < 0.01 * PAIR_RADIUS
    near(actual, expected, _apart(CLOSE["exact"], 1.25 * EPS).atol)
