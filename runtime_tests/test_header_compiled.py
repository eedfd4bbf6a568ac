"""The C++ header by each compiler at hand: g++ and clang++, at every optimisation, gives the bits of eager."""

import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cpp_tools import LAST, call, eager, library, same, written
from posenc.scheme import SCHEMES
from posenc.spec import Spec

FMA = ("-O3", "-march=native") if platform.machine() == "x86_64" else ("-O3",)
OPTIMISED = [("-O0",), ("-O2",), FMA]
BY_EACH = [pytest.param(kind, flags, id=f"{kind}{''.join(flags)}") for kind in ("gcc", "clang") for flags in OPTIMISED]


@pytest.mark.parametrize(("kind", "flags"), BY_EACH)
@pytest.mark.parametrize(
    ("mode", "params"),
    [
        ("dynamic", {"d_model": 16}),
        ("dynamic", {"d_model": 7, "layout": "halves"}),
        ("dynamic", {"d_model": 7}),
        ("baked", {"d_model": 16}),
    ],
)
def test_rows_and_sums_by_each_compiler(
    tmp_path: Path, kind: str, flags: tuple[str, ...], mode: Any, params: dict[str, Any]
) -> None:
    target = written(tmp_path, "sinusoidal", Spec(mode, "exact", "offset", 200), params)
    header, width = library(kind, "use_additive", tmp_path, *flags), params["d_model"]
    x = np.random.default_rng(0).standard_normal((1, 130, width), np.float32)
    for start in (0, 1, 63, 70) if mode == "baked" else (0, 1, 63, 32704, LAST - 129):
        (sums,) = eager(target, x, np.array([start]))
        (rows,) = eager(target, np.zeros_like(x), np.array([start]))
        out = np.full_like(x, np.nan)
        assert call(header.use_rows, start, 130, out)
        assert same(out + np.float32(0), rows)  # 0 + -0 is 0
        assert call(header.use_row, start + 129, out)
        assert same(out[:, 0] + np.float32(0), rows[:, 129])
        assert call(header.use_add, start, 130, x, out)
        assert same(out, sums)
        out[:] = x
        assert call(header.use_add, start, 130, out, out)
        assert same(out, sums)


@pytest.mark.parametrize(("kind", "flags"), BY_EACH)
@pytest.mark.parametrize(
    ("mode", "params"),
    [
        ("dynamic", {"rotary_dim": 8}),
        ("dynamic", {"layout": "interleaved", "tensor_layout": "bshd"}),
        ("dynamic", {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}),
        ("baked", {"rotary_dim": 8, "layout": "interleaved"}),
    ],
)
def test_rotations_by_each_compiler(
    tmp_path: Path, kind: str, flags: tuple[str, ...], mode: Any, params: dict[str, Any]
) -> None:
    target = written(tmp_path, "rope", Spec(mode, "exact", "explicit", 200), {"head_dim": 16, **params})
    header = library(kind, "use_rotary", tmp_path, *flags)
    heads, seq = 3, 5
    at = np.array([[0, 63, 64, 199, 150]] if mode == "baked" else [[0, 63, 64, 32768 * 77 + 64 * 5 + 3, LAST]])
    heads_first = params.get("tensor_layout") != "bshd"
    shape = (1, heads, seq, 16) if heads_first else (1, seq, heads, 16)
    q = np.random.default_rng(0).standard_normal(shape, np.float32)
    expected, _ = eager(target, q, q, at)
    out, inside = np.full_like(q, np.nan), q.copy()
    for t, p in enumerate(at[0].tolist()):
        here = (0, slice(None), t) if heads_first else (0, t)
        stride = seq * 16 if heads_first else 16
        assert call(header.use_heads, p, q[here], out[here], heads, stride)
        assert call(header.use_heads, p, inside[here], inside[here], heads, stride)
        one = np.empty(16, np.float32)
        assert call(header.use_rotate, p, np.ascontiguousarray(q[here][1]), one)
        assert same(one, expected[here][1])
    assert same(out, expected)
    assert same(inside, expected)
    angles = target.encoding.module.get_submodule("angles")
    cos, sin, _, _ = (part.numpy() for part in angles(torch.from_numpy(at)))
    for t, p in enumerate(at[0].tolist()):
        cos_sin = np.empty((2, cos.shape[-1]), np.float32)
        assert call(header.use_row, p, cos_sin[0], cos_sin[1])
        assert same(cos_sin, np.stack([cos[0, t], sin[0, t]]))
        one = q[0, 1, t].copy() if heads_first else q[0, t, 1].copy()
        assert call(header.use_apply_rotary, cos_sin[0], cos_sin[1], one, one)
        assert same(one, expected[0, 1, t] if heads_first else expected[0, t, 1])
    span = torch.arange(60, 190)[None]
    cos, sin, _, _ = (part.numpy()[0] for part in angles(span))
    cos_sin = np.empty((2, *cos.shape), np.float32)
    assert call(header.use_rows, 60, 130, cos_sin[0], cos_sin[1])
    assert same(cos_sin, np.stack([cos, sin]))


@pytest.mark.parametrize(("kind", "flags"), BY_EACH)
@pytest.mark.parametrize("section_layout", ["sectioned", "interleaved"])
def test_several_positions_by_each_compiler(
    tmp_path: Path, kind: str, flags: tuple[str, ...], section_layout: str
) -> None:
    params = {**SCHEMES["mrope"].samples[0], "section_layout": section_layout}
    target = written(tmp_path, "mrope", Spec("dynamic", "exact", "explicit", 200), params)
    header = library(kind, "use_axial", tmp_path, *flags)
    q = np.random.default_rng(0).standard_normal((1, 1, 3, 16), np.float32)
    at = np.array([[[0, 70, LAST]], [[64, 5, LAST - 64]], [[999999, 1, 3]]])
    expected, _ = eager(target, q, q, at)
    for t in range(3):
        places, one = at[:, 0, t].tolist(), np.empty(16, np.float32)
        assert call(header.use_rotate, *places, np.ascontiguousarray(q[0, 0, t]), one)
        assert same(one, expected[0, 0, t])
        for axis, wrong in ((0, -1), (1, LAST + 1), (2, -(2**63))):
            assert not call(header.use_rotate, *[wrong if i == axis else p for i, p in enumerate(places)], one, one)
            assert same(one, expected[0, 0, t])


@pytest.mark.parametrize("kind", ["gcc", "clang"])
def test_what_is_not_held_is_refused_and_nothing_written(tmp_path: Path, kind: str) -> None:
    written(tmp_path, "sinusoidal", Spec("baked", "exact", None, 40), {"d_model": 4})
    header = library(kind, "use_additive", tmp_path, "-O2")
    most, least = 2**63 - 1, -(2**63)
    out = np.full((41, 4), 7, np.float32)
    beyond = ((0, 41), (39, 2), (40, 1), (41, 0), (-1, 1), (-1, 0), (least, 1), (most, 1), (1, -1), (0, least))
    for start, count in beyond:
        assert not call(header.use_rows, start, count, out)
        assert not call(header.use_add, start, count, out, out)
    for position in (-1, 40, least, most):
        assert not call(header.use_row, position, out)
    assert (out == 7).all()
    assert call(header.use_rows, 40, 0, out)
    assert (out == 7).all()


def test_a_header_of_real_size(tmp_path: Path) -> None:
    target = written(tmp_path, "sinusoidal", Spec("dynamic", "exact", "offset", 64), {"d_model": 512})
    path = tmp_path / "model.hpp"
    assert path.stat().st_size < 9_500_000
    assert max(map(len, path.read_text().splitlines())) <= 120
    header = library("gcc", "use_additive", tmp_path, "-O2")
    out = np.empty((1, 300, 512), np.float32)
    for start in (0, 12345, LAST - 299):
        assert call(header.use_rows, start, 300, out)
        (rows,) = eager(target, np.zeros_like(out), np.array([start]))
        assert same(out + np.float32(0), rows)
