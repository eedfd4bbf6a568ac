"""The headers by GCC and clang, at every optimisation: the bits of eager PyTorch in C++ and in C."""

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers.cpp_tools import LAST, Built, built, call, eager, same, written
from posenc.ports import Array
from posenc.scheme import SCHEMES
from posenc.spec import Spec
from posenc_export.write.targets import Target

FMA = ("-O3", "-march=native") if platform.machine() == "x86_64" else ("-O3",)
OPTIMISED = [("-O0",), ("-O2",), FMA]


@dataclass(frozen=True)
class By:
    """A language, a compiler of it, and its flags."""

    language: str
    kind: str
    flags: tuple[str, ...]

    def built(self, source: str, folder: Path) -> Built:
        """Return the functions of the header in a folder."""
        return built(self.language, self.kind, source, folder, *self.flags)


QUICK = (("c++", "gcc", ("-O2",)), ("c++", "clang", FMA), ("c", "gcc", FMA))
"""Each language, each compiler, and with and without instructions that multiply and add at once."""
BY_EACH = [
    pytest.param(
        By(language, kind, flags),
        id=f"{language}-{kind}{''.join(flags)}",
        marks=(pytest.mark.exhaustive,) if (language, kind, flags) not in QUICK else (),
    )
    for language in ("c++", "c")
    for kind in ("gcc", "clang")
    for flags in OPTIMISED
]


@pytest.mark.parametrize("by", BY_EACH)
@pytest.mark.parametrize(
    ("mode", "params"),
    [
        ("dynamic", {"d_model": 16}),
        ("dynamic", {"d_model": 7, "layout": "halves"}),
        ("dynamic", {"d_model": 7}),
        ("dynamic", {"d_model": 10, "spacing": "half", "padding_row": 64, "scale": 1.3, "scale_x": "sqrt"}),
        ("baked", {"d_model": 16}),
    ],
)
def test_rows_and_sums_by_each_compiler(tmp_path: Path, by: By, mode: Any, params: dict[str, Any]) -> None:
    target = written(tmp_path, "sinusoidal", Spec(mode, "exact", "offset", 200), params, by.language)
    header, width = by.built("use_additive", tmp_path), params["d_model"]
    x = np.random.default_rng(0).standard_normal((1, 130, width), np.float32)
    for start in (0, 1, 63, 70) if mode == "baked" else (0, 1, 63, 32704, LAST - 129):
        (sums,) = eager(target, x, np.array([start]))
        (rows,) = eager(target, np.zeros_like(x), np.array([start]))
        out = np.full_like(x, np.nan)
        assert call(header.rows, start, 130, out)
        assert same(out + np.float32(0), rows)  # 0 + -0 is 0
        assert call(header.row, start + 129, out)
        assert same(out[:, 0] + np.float32(0), rows[:, 129])
        assert call(header.add, start, 130, x, out)
        assert same(out, sums)
        out[:] = x
        assert call(header.add, start, 130, out, out)
        assert same(out, sums)


@pytest.mark.parametrize("by", BY_EACH)
@pytest.mark.parametrize(
    ("mode", "params"),
    [
        ("dynamic", {"rotary_dim": 8}),
        ("dynamic", {"layout": "interleaved", "tensor_layout": "bshd"}),
        ("dynamic", {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}),
        ("baked", {"rotary_dim": 8, "layout": "interleaved"}),
    ],
)
def test_rotations_by_each_compiler(tmp_path: Path, by: By, mode: Any, params: dict[str, Any]) -> None:
    target = written(tmp_path, "rope", Spec(mode, "exact", "explicit", 200), {"head_dim": 16, **params}, by.language)
    header = by.built("use_rotary", tmp_path)
    at = np.array([[0, 63, 64, 199, 150]] if mode == "baked" else [[0, 63, 64, 32768 * 77 + 64 * 5 + 3, LAST]])
    heads_first = params.get("tensor_layout") != "bshd"
    q = np.random.default_rng(0).standard_normal((1, 3, 5, 16) if heads_first else (1, 5, 3, 16), np.float32)
    expected, _ = eager(target, q, q, at)
    a_token_at_a_time(header, at, q, expected, heads_first)
    all_tokens_at_once(header, target, q, at, heads_first)
    cosines_and_sines(header, target, at, q, heads_first)
    if by.language == "c++":
        one = np.empty(16, np.float32)
        assert call(header.one, int(at[0, 1]), q[0, 1, 1], one)
        assert same(one, expected[0, 1, 1])


def a_token_at_a_time(header: Built, at: Array, q: Array, expected: Array, heads_first: bool) -> None:
    out, inside = np.full_like(q, np.nan), q.copy()
    heads, stride = (3, 5 * 16) if heads_first else (3, 16)
    for t, p in enumerate(at[0].tolist()):
        here = (0, slice(None), t) if heads_first else (0, t)
        assert call(header.rotate, p, q[here], out[here], heads, stride)
        assert call(header.rotate, p, inside[here], inside[here], heads, stride)
    assert same(out, expected)
    assert same(inside, expected)


def all_tokens_at_once(header: Built, target: Target, q: Array, at: Array, heads_first: bool) -> None:
    """As many tokens as fit no whole number of blocks, at any positions and at consecutive ones."""
    seq = 135
    shape, strides = ((1, 3, seq, 16), (16, seq * 16)) if heads_first else ((1, seq, 3, 16), (3 * 16, 16))
    many = np.random.default_rng(1).standard_normal(shape, np.float32)
    for positions in (np.resize(at, (1, seq)), np.arange(60, 60 + seq)[None]):
        rotated, _ = eager(target, many, many, positions)
        out, inside = np.full_like(many, np.nan), many.copy()
        assert call(header.rotate_tokens, positions, seq, many, out, 3, *strides)
        assert same(out, rotated)
        assert call(header.rotate_tokens, positions, seq, inside, inside, 3, *strides)
        assert same(inside, rotated)
    out[:] = np.nan
    assert call(header.rotate_from, 60, seq, many, out, 3, *strides)
    assert same(out, rotated)
    for start, count in ((-1, seq), (LAST - seq + 2, seq), (60, -1)):
        assert not call(header.rotate_from, start, count, inside, inside, 3, *strides)
    positions[0, -1] = LAST + 1
    assert not call(header.rotate_tokens, positions, seq, inside, inside, 3, *strides)
    assert same(inside, rotated)


def cosines_and_sines(header: Built, target: Target, at: Array, q: Array, heads_first: bool) -> None:
    expected, _ = eager(target, q, q, at)
    angles = target.encoding.module.get_submodule("angles")
    cos, sin, _, _ = (part.numpy() for part in angles(torch.from_numpy(at)))
    for t, p in enumerate(at[0].tolist()):
        cos_sin = np.empty((2, cos.shape[-1]), np.float32)
        assert call(header.row, p, cos_sin[0], cos_sin[1])
        assert same(cos_sin, np.stack([cos[0, t], sin[0, t]]))
        one = q[0, 1, t].copy() if heads_first else q[0, t, 1].copy()
        call(header.apply_rotary, cos_sin[0], cos_sin[1], one, one)
        assert same(one, expected[0, 1, t] if heads_first else expected[0, t, 1])
    span = torch.arange(60, 190)[None]
    cos, sin, _, _ = (part.numpy()[0] for part in angles(span))
    cos_sin = np.empty((2, *cos.shape), np.float32)
    assert call(header.rows, 60, 130, cos_sin[0], cos_sin[1])
    assert same(cos_sin, np.stack([cos, sin]))


@pytest.mark.parametrize("by", BY_EACH)
@pytest.mark.parametrize("section_layout", ["sectioned", "interleaved"])
def test_several_positions_by_each_compiler(tmp_path: Path, by: By, section_layout: str) -> None:
    params = {**SCHEMES["mrope"].samples[0], "section_layout": section_layout}
    target = written(tmp_path, "mrope", Spec("dynamic", "exact", "explicit", 200), params, by.language)
    header = by.built("use_axial", tmp_path)
    q = np.random.default_rng(0).standard_normal((1, 1, 3, 16), np.float32)
    at = np.array([[[0, 70, LAST]], [[64, 5, LAST - 64]], [[999999, 1, 3]]])
    expected, _ = eager(target, q, q, at)
    places = np.ascontiguousarray(at[:, 0].T)
    out = np.empty_like(q)
    assert call(header.rotate_tokens, places, 3, q, out, 1, 16, 3 * 16)
    assert same(out, expected)

    def rotate(place: list[int], x: Array, one: Array) -> bool:
        return (
            call(header.rotate, np.array(place), x, one, 1, 16)
            if by.language == "c"
            else call(header.one, *place, x, one)
        )

    for t, place in enumerate(places.tolist()):
        one = np.empty(16, np.float32)
        assert rotate(place, q[0, 0, t], one)
        assert same(one, expected[0, 0, t])
        for axis, wrong in ((0, -1), (1, LAST + 1), (2, -(2**63))):
            assert not rotate([wrong if i == axis else p for i, p in enumerate(place)], one, one)
            assert same(one, expected[0, 0, t])


@pytest.mark.parametrize("language", ["c++", "c"])
@pytest.mark.parametrize("kind", ["gcc", "clang"])
def test_what_is_not_held_is_refused_and_nothing_written(tmp_path: Path, language: str, kind: str) -> None:
    written(tmp_path, "sinusoidal", Spec("baked", "exact", None, 40), {"d_model": 4}, language)
    header = built(language, kind, "use_additive", tmp_path, "-O2")
    most, least = 2**63 - 1, -(2**63)
    out = np.full((41, 4), 7, np.float32)
    beyond = ((0, 41), (39, 2), (40, 1), (41, 0), (-1, 1), (-1, 0), (least, 1), (most, 1), (1, -1), (0, least))
    for start, count in beyond:
        assert not call(header.rows, start, count, out)
        assert not call(header.add, start, count, out, out)
    for position in (-1, 40, least, most):
        assert not call(header.row, position, out)
    assert (out == 7).all()
    assert call(header.rows, 40, 0, out)
    assert (out == 7).all()


@pytest.mark.parametrize("language", ["c++", pytest.param("c", marks=pytest.mark.exhaustive)])
def test_a_header_of_real_size(tmp_path: Path, language: str) -> None:
    target = written(
        tmp_path, "sinusoidal", Spec("dynamic", "exact", "offset", 64, table_rows=64), {"d_model": 512}, language
    )
    path = tmp_path / ("model.hpp" if language == "c++" else "model.h")
    assert path.stat().st_size < 9_500_000
    assert max(map(len, path.read_text().splitlines())) <= 140
    header = built(language, "gcc", "use_additive", tmp_path, "-O2")
    out = np.empty((1, 300, 512), np.float32)
    for start in (0, 12345, LAST - 299):
        assert call(header.rows, start, 300, out)
        (rows,) = eager(target, np.zeros_like(out), np.array([start]))
        assert same(out + np.float32(0), rows)
