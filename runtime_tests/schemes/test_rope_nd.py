"""Rotation by the axes of a grid: every form against float64, written anew, and places that count from any number."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from numpy.typing import NDArray

import posenc
from helpers.combinations import run
from helpers.grids import BAKED, CLOSE, DYNAMIC, SPECS, near
from posenc.spec import Spec

Array = NDArray[Any]
WIDTHS = {1: (8,), 2: (8, 8), 3: (4, 8, 6), 4: (4, 6, 2, 8)}
SIZES = (3, 5, 4, 2)


def frequencies(widths: tuple[int, ...], thetas: tuple[float, ...], how: str, axis_of_pair: list[int]) -> Array:
    """The frequency of each pair: the k-th of its axis, or, of those of a whole head, by turns or by its place."""
    whole, seen, rows = sum(widths), [0] * len(widths), []
    for place, axis in enumerate(axis_of_pair):
        k, seen[axis] = seen[axis], seen[axis] + 1
        number = {"own": k / widths[axis], "alternate": (k * len(widths) + axis) / whole, "shared": place / whole}[how]
        rows.append(thetas[axis] ** (-2 * number))
    return np.array(rows)


def axis_of_each_pair(widths: tuple[int, ...], order: str, axis_order: tuple[int, ...]) -> list[int]:
    if order == "axis_by_axis":
        return [axis for axis in axis_order for _ in range(widths[axis] // 2)]
    return [axis for k in range(max(widths)) for axis in axis_order if k < widths[axis] // 2]


def places_of(spec: Spec, axes: int) -> tuple[tuple[int, ...], Array, list[torch.Tensor]]:
    """The sizes of a call, the place of each token on each axis, and what the module is ports beside q and k."""
    if spec.positions == "implicit":
        sizes = SIZES[:axes]
        return sizes, np.indices(sizes)[:, None].astype(np.float64), []
    positions = torch.randint(0, 64, (axes, 2, 7) if axes > 1 else (2, 7))
    return (7,), positions.view(axes, 2, 7).numpy().astype(np.float64), [positions]


def rotated(x: Array, angles: Array, layout: str) -> Array:
    """Rotate pairs of features of (batch, heads, *grid, dim) by angles (batch, *grid, pairs)."""
    y, count = x.astype(np.float64), angles.shape[-1]
    a, b = (slice(0, 2 * count, 2), slice(1, 2 * count, 2))
    if layout == "halves":
        a, b = slice(0, count), slice(count, 2 * count)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    real, imaginary = y[..., a].copy(), y[..., b].copy()
    y[..., a], y[..., b] = real * cos - imaginary * sin, real * sin + imaginary * cos
    return y


FORMS = [
    (axes, how, order)
    for axes, how, order in product(WIDTHS, ("own", "alternate", "shared"), ("axis_by_axis", "by_turns"))
    if how != "alternate" or len(set(WIDTHS[axes])) == 1
]


@pytest.mark.parametrize("positions", ["implicit", "explicit"])
@pytest.mark.parametrize("mode", ["baked", "dynamic"])
@pytest.mark.parametrize("layout", ["halves", "interleaved"])
@pytest.mark.parametrize("tensor_layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("places", [{}, {"first": (1.0,), "scale": (0.75,)}], ids=["from_0", "from_1"])
def test_every_form_rotates_as_float64_does(
    positions: Any, mode: Any, layout: str, tensor_layout: str, places: dict[str, tuple[float, ...]]
) -> None:
    spec = Spec(mode, "exact", positions, 64)
    for axes, how, order in FORMS:
        widths = WIDTHS[axes]
        axis_order = tuple(reversed(range(axes)))
        thetas = tuple(10.0 ** (3 + axis) for axis in range(axes)) if how == "own" else (500.0,) * axes
        params = {"axes_dim": widths, "rope_theta": thetas, "frequencies": how, "order": order}
        params |= {"axis_order": axis_order, "layout": layout, "tensor_layout": tensor_layout, **places}
        module = posenc.build("rope_nd", spec, head_dim=sum(widths) + 4, **params).module
        sizes, at, ports = places_of(spec, axes)
        pairs = axis_of_each_pair(widths, order, axis_order)
        angles = (0.75 * at + 1 if places else at)[pairs] * np.reshape(
            frequencies(widths, thetas, how, pairs), (-1,) + (1,) * (at.ndim - 1)
        )
        q, k = torch.randn(2, 3, *sizes, sum(widths) + 4), torch.randn(2, 3, *sizes, sum(widths) + 4)
        heads = (q, k) if tensor_layout == "bhsd" else (q.movedim(1, -2), k.movedim(1, -2))
        for actual, x in zip(module(*heads, *ports), (q, k), strict=True):
            expected = rotated(x.numpy(), np.moveaxis(angles, 0, -1), layout)
            back = actual if tensor_layout == "bhsd" else actual.movedim(-2, 1)
            # two products of numbers up to 4, each off by 3e-7 of it
            near(back, expected, 3e-6)


@SPECS
@pytest.mark.parametrize(("first", "scale"), [((1.0,), (1.0,)), ((0.0,), (0.5, 2.0, 1.0)), ((-3.5, 0.0, 2.0), (1.5,))])
def test_places_count_from_first_in_steps_of_scale(
    spec: Spec, first: tuple[float, ...], scale: tuple[float, ...]
) -> None:
    explicit = Spec(spec.mode, spec.method, "explicit", 90)
    params: dict[str, Any] = {"head_dim": 24, "axes_dim": (8, 8, 8), "first": first, "scale": scale}
    index = torch.cat([torch.arange(90).expand(3, 1, 90), torch.randint(0, 90, (3, 1, 90))], 1)
    cos, sin = posenc.build("rope_nd", explicit, output="cos_sin", **params).module(index)
    places = np.array(first).reshape(-1, 1, 1) + index.numpy() * np.array(scale).reshape(-1, 1, 1)
    angles = np.concatenate([axis[..., None] * 10000.0 ** (-np.arange(4) / 4) for axis in places], -1)
    close = CLOSE[spec.method] * (8 if spec.method == "trig" else 1)  # angles up to 180
    near(cos, np.cos(angles), close)
    near(sin, np.sin(angles), close)
    # counted places are the same numbers
    q = torch.randn(1, 2, 3, 4, 5, 24)
    grid = torch.from_numpy(np.indices((3, 4, 5)).reshape(3, 1, 60))
    counted = posenc.build("rope_nd", spec, **params).module(q, q)[0].flatten(2, 4)
    tokens = q.flatten(2, 4)
    assert torch.equal(counted, posenc.build("rope_nd", explicit, **params).module(tokens, tokens, grid)[0])


@pytest.mark.exhaustive
@pytest.mark.parametrize("spec", [DYNAMIC, BAKED], ids=["dynamic", "baked"])
def test_files_hold_first_and_scale_without_an_operation_more(spec: Spec, tmp_path: Path) -> None:
    params: dict[str, Any] = {"head_dim": 8, "axes_dim": (4, 4), "rope_theta": (100.0, 200.0)}
    counts = []
    for name, places in (("from_0", {}), ("from_1", {"first": (1.0,), "scale": (0.5, 2.0)})):
        result = run("rope_nd", spec, {**params, **places}, tmp_path / name, formats=("onnx",), validate=bool(places))
        assert [(v.subject, v.check, v.detail) for v in result.verdicts if v.status == "fail"] == []
        assert all(case.eager_tolerance.bits for case in result.manifest.cases if not case.refused)
        graph = onnx.load(result.folder / "model.onnx").graph
        counts.append(sorted(node.op_type for node in graph.node))
    assert counts[0] == counts[1]


@SPECS
@pytest.mark.parametrize("sizes", [(4, 5), (1, 8), (7, 1)])
def test_centered_axes_count_from_the_center(spec: Spec, sizes: tuple[int, int]) -> None:
    params: dict[str, Any] = {"head_dim": 16, "axes_dim": (8, 8), "centered": (1,), "scale": (1.0, 0.5)}
    cos, sin = posenc.build("rope_nd", spec, output="cos_sin", **params).module(torch.zeros(3, *sizes, 2))
    columns = (np.arange(sizes[1]) - (sizes[1] - sizes[1] // 2)) * 0.5
    inv_freq = 10000.0 ** (-np.arange(4) / 4)
    rows = np.broadcast_to((np.arange(sizes[0])[:, None] * inv_freq)[:, None], (*sizes, 4))
    angles = np.concatenate([rows, np.broadcast_to((columns[:, None] * inv_freq)[None], (*sizes, 4))], -1)
    near(cos, np.cos(angles), CLOSE[spec.method])
    near(sin, np.sin(angles), CLOSE[spec.method])


def test_a_table_holds_as_many_centered_places_as_it_was_made_for() -> None:
    params: dict[str, Any] = {"head_dim": 8, "axes_dim": (8,), "centered": (0,)}
    for max_len in (1, 2, 9):
        module = posenc.build("rope_nd", Spec(max_len=max_len), **params).module
        x = torch.zeros(1, 1, max_len + 1, 8)
        assert module(x[:, :, 1:], x[:, :, 1:])[0].shape[2] == max_len
        with pytest.raises(IndexError, match="positions must be in"):
            module(x, x)


@pytest.mark.parametrize("spec", [Spec(max_len=20), DYNAMIC], ids=["baked", "dynamic"])
@pytest.mark.parametrize("params", [{}, {"output": "cos_sin"}], ids=["rotate", "cos_sin"])
@pytest.mark.exhaustive
def test_files_of_centered_axes(spec: Spec, params: dict[str, Any], tmp_path: Path) -> None:
    params = {"head_dim": 12, "axes_dim": (4, 4, 4), "centered": (1, 2), **params}
    result = run("rope_nd", spec, params, tmp_path, formats=("onnx", "torchscript"))
    assert [(v.subject, v.check, v.detail) for v in result.verdicts if v.status == "fail"] == []
    assert all(case.eager_tolerance.bits for case in result.manifest.cases if not case.refused)


@pytest.mark.exhaustive
@pytest.mark.parametrize("spec", [Spec(max_len=20), DYNAMIC], ids=["baked", "dynamic"])
@pytest.mark.parametrize("params", [{}, {"output": "cos_sin", "width": "full"}], ids=["rotate", "cos_sin"])
def test_files_of_parts_of_heads(spec: Spec, params: dict[str, Any], tmp_path: Path) -> None:
    params = {"head_dim": 20, "axes_dim": (8, 8), "layout": "axis_halves", **params}
    result = run("rope_nd", spec, params, tmp_path, formats=("onnx", "torchscript"))
    assert [(v.subject, v.check, v.detail) for v in result.verdicts if v.status == "fail"] == []
    assert all(case.eager_tolerance.bits for case in result.manifest.cases if not case.refused)


@SPECS
@pytest.mark.parametrize("tensor_layout", ["bhsd", "bshd"])
def test_halves_of_parts_are_pairs_of_the_same_numbers(spec: Spec, tensor_layout: str) -> None:
    sizes, params = (3, 4, 2), {"head_dim": 26, "axes_dim": (8, 8, 8), "tensor_layout": tensor_layout}
    x = torch.randn(2, 5, *sizes, 26) if tensor_layout == "bhsd" else torch.randn(2, *sizes, 5, 26)
    # a0 b0 a1 b1 ... of each part -> a0 a1 ... b0 b1 ...
    order = [*(8 * part + 2 * i + k for part in range(3) for k in (0, 1) for i in range(4)), 24, 25]
    expected = posenc.build("rope_nd", spec, **params).module(x, x)[0][..., order]
    actual = posenc.build("rope_nd", spec, layout="axis_halves", **params).module(x[..., order], x[..., order])[0]
    near(actual, expected, 1e-6)
