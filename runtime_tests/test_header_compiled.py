"""The C++ header by each compiler at hand: g++ and clang++, at every optimisation, with every warning an error."""

import ctypes
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from posenc.scheme import Form
from posenc_export.arrays import Array
from posenc_export.exporter import Order, write
from posenc_export.targets.module import Subject, resolve
from test_parity import SMALL

HERE = Path(__file__).parent / "cpp"
STRICT = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wpedantic", "-Wconversion")
LAST = 2**24 - 1
CLANGS = ("clang++", *(f"clang++-{version}" for version in range(20, 13, -1)))
FMA = ("-O3", "-march=native") if platform.machine() == "x86_64" else ("-O3",)


def compiler(kind: str) -> str:
    """Return the path of g++ or clang++; skip without it, or fail where POSENC_TEST_REQUIRE has its name."""
    names = ("g++",) if kind == "gcc" else CLANGS
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is None:
        told = f"no {kind}: {', '.join(names)} not found"
        if kind in os.environ.get("POSENC_TEST_REQUIRE", "").split(","):
            pytest.fail(told)
        pytest.skip(told)
    return found


def compiled(command: list[Any]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)


def library(kind: str, source: str, folder: Path, *flags: str) -> Any:
    target = folder / f"{kind}-{source}{''.join(flags)}.so".replace("=", "-")
    options = [*STRICT, *flags, "-fPIC", "-shared", "-fvisibility=hidden", "-I", folder]
    made = compiled([compiler(kind), *options, HERE / f"{source}.cpp", "-o", target])
    assert (made.returncode, made.stderr) == (0, "")
    return ctypes.CDLL(str(target))


def call(function: Any, *arguments: Array | int) -> bool:
    """Call a function that takes pointers and 64-bit integers, and returns a bool."""
    function.restype = ctypes.c_bool
    told = [ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else ctypes.c_int64(a) for a in arguments]
    return bool(function(*told))


def written(folder: Path, scheme: str, form: Form, params: dict[str, Any]) -> Subject:
    """Write the header of a subject into a folder, unvalidated."""
    texts = tuple(f"{k}={','.join(map(str, v)) if isinstance(v, tuple) else v}" for k, v in params.items())
    subject = resolve(scheme, form, texts, (), 0)
    write(subject, Order(("header",), validate=False), folder)
    return subject


def eager(subject: Subject, *inputs: Array) -> list[Array]:
    with torch.no_grad():
        found = subject.encoding.module(*map(torch.from_numpy, inputs))
    return [part.numpy() for part in (found if isinstance(found, tuple) else (found,))]


def same(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


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
    subject = written(tmp_path, "sinusoidal", Form(mode, "exact", "offset", 200), params)
    used, width = library(kind, "use_additive", tmp_path, *flags), params["d_model"]
    x = np.random.default_rng(0).standard_normal((1, 130, width), np.float32)
    for start in (0, 1, 63, 70) if mode == "baked" else (0, 1, 63, 32704, LAST - 129):
        (sums,) = eager(subject, x, np.array([start]))
        (rows,) = eager(subject, np.zeros_like(x), np.array([start]))
        out = np.full_like(x, np.nan)
        assert call(used.use_rows, start, 130, out)
        assert same(out + np.float32(0), rows)  # 0 + -0 is 0
        assert call(used.use_row, start + 129, out)
        assert same(out[:, 0] + np.float32(0), rows[:, 129])
        assert call(used.use_add, start, 130, x, out)
        assert same(out, sums)
        out[:] = x
        assert call(used.use_add, start, 130, out, out)
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
    subject = written(tmp_path, "rope", Form(mode, "exact", "explicit", 200), {"head_dim": 16, **params})
    used = library(kind, "use_rotary", tmp_path, *flags)
    heads, seq = 3, 5
    at = np.array([[0, 63, 64, 199, 150]] if mode == "baked" else [[0, 63, 64, 32768 * 77 + 64 * 5 + 3, LAST]])
    heads_first = params.get("tensor_layout") != "bshd"
    shape = (1, heads, seq, 16) if heads_first else (1, seq, heads, 16)
    q = np.random.default_rng(0).standard_normal(shape, np.float32)
    turned, _ = eager(subject, q, q, at)
    out, inside = np.full_like(q, np.nan), q.copy()
    for t, p in enumerate(at[0].tolist()):
        here = (0, slice(None), t) if heads_first else (0, t)
        stride = seq * 16 if heads_first else 16
        assert call(used.use_heads, p, q[here], out[here], heads, stride)
        assert call(used.use_heads, p, inside[here], inside[here], heads, stride)
        one = np.empty(16, np.float32)
        assert call(used.use_rotate, p, np.ascontiguousarray(q[here][1]), one)
        assert same(one, turned[here][1])
    assert same(out, turned)
    assert same(inside, turned)
    cos, sin, _, _ = (part.numpy() for part in subject.encoding.module.turns(torch.from_numpy(at)))
    for t, p in enumerate(at[0].tolist()):
        found = np.empty((2, cos.shape[-1]), np.float32)
        assert call(used.use_row, p, found[0], found[1])
        assert same(found, np.stack([cos[0, t], sin[0, t]]))
        one = q[0, 1, t].copy() if heads_first else q[0, t, 1].copy()
        assert call(used.use_apply_rotary, found[0], found[1], one, one)
        assert same(one, turned[0, 1, t] if heads_first else turned[0, t, 1])
    span = torch.arange(60, 190)[None]
    cos, sin, _, _ = (part.numpy()[0] for part in subject.encoding.module.turns(span))
    found = np.empty((2, *cos.shape), np.float32)
    assert call(used.use_rows, 60, 130, found[0], found[1])
    assert same(found, np.stack([cos, sin]))


@pytest.mark.parametrize(("kind", "flags"), BY_EACH)
@pytest.mark.parametrize("section_layout", ["sectioned", "interleaved"])
def test_several_positions_by_each_compiler(
    tmp_path: Path, kind: str, flags: tuple[str, ...], section_layout: str
) -> None:
    params = {**SMALL["mrope"], "section_layout": section_layout}
    subject = written(tmp_path, "mrope", Form("dynamic", "exact", "explicit", 200), params)
    used = library(kind, "use_axial", tmp_path, *flags)
    q = np.random.default_rng(0).standard_normal((1, 1, 3, 16), np.float32)
    at = np.array([[[0, 70, LAST]], [[64, 5, LAST - 64]], [[999999, 1, 3]]])
    turned, _ = eager(subject, q, q, at)
    for t in range(3):
        places, one = at[:, 0, t].tolist(), np.empty(16, np.float32)
        assert call(used.use_rotate, *places, np.ascontiguousarray(q[0, 0, t]), one)
        assert same(one, turned[0, 0, t])
        for axis, wrong in ((0, -1), (1, LAST + 1), (2, -(2**63))):
            assert not call(used.use_rotate, *[wrong if i == axis else p for i, p in enumerate(places)], one, one)
            assert same(one, turned[0, 0, t])


@pytest.mark.parametrize("kind", ["gcc", "clang"])
def test_what_is_not_held_is_refused_and_nothing_written(tmp_path: Path, kind: str) -> None:
    written(tmp_path, "sinusoidal", Form("baked", "exact", None, 40), {"d_model": 4})
    used = library(kind, "use_additive", tmp_path, "-O2")
    most, least = 2**63 - 1, -(2**63)
    out = np.full((41, 4), 7, np.float32)
    beyond = ((0, 41), (39, 2), (40, 1), (41, 0), (-1, 1), (-1, 0), (least, 1), (most, 1), (1, -1), (0, least))
    for start, count in beyond:
        assert not call(used.use_rows, start, count, out)
        assert not call(used.use_add, start, count, out, out)
    for position in (-1, 40, least, most):
        assert not call(used.use_row, position, out)
    assert (out == 7).all()
    assert call(used.use_rows, 40, 0, out)
    assert (out == 7).all()


X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="looks for the name that x86 has for it")


SMALLEST = [
    ("sinusoidal", "dynamic", {"d_model": 2}),
    ("sinusoidal", "dynamic", {"d_model": 4, "layout": "halves"}),
    ("rope", "dynamic", {"head_dim": 2}),
    ("rope", "baked", {"head_dim": 16, "rotary_dim": 8, "layout": "interleaved"}),
    ("rope", "dynamic", {"head_dim": 64}),
]


@X86
@pytest.mark.parametrize("kind", ["gcc", "clang"])
@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
@pytest.mark.parametrize("case", SMALLEST)
def test_nothing_is_contracted(tmp_path: Path, kind: str, dtype: Any, case: tuple[str, Any, dict[str, Any]]) -> None:
    scheme, mode, params = case
    # Of few pairs, loops are unrolled: GCC 12 then makes vfmaddsub of neighbours, with contraction off.
    written(tmp_path, scheme, Form(mode, "exact", None, 200, dtype), params)
    source = HERE / ("use_rotary.cpp" if scheme == "rope" else "use_additive.cpp")
    for level in ("-O2", "-O3"):
        assert fused(kind, level, source, tmp_path) == 0


@X86
@pytest.mark.parametrize("kind", ["gcc", "clang"])
def test_without_its_pragmas_it_would_be_contracted(tmp_path: Path, kind: str) -> None:
    written(tmp_path, "rope", Form("dynamic", "exact", None, 200), {"head_dim": 64})
    path = tmp_path / "model.hpp"
    text = path.read_text().replace('#pragma GCC optimize("fp-contract=off")', "")
    path.write_text(text.replace('_Pragma("clang fp contract(off)")', ""))
    assert fused(kind, "-O3", HERE / "use_rotary.cpp", tmp_path) > 0


def fused(kind: str, level: str, source: Path, folder: Path) -> int:
    """Return how many fused multiply-adds a compiler makes of a source."""
    made = compiled([compiler(kind), "-std=c++17", level, "-march=haswell", "-S", "-o", "-", "-I", folder, source])
    assert made.returncode == 0, made.stderr
    return made.stdout.count("vfm") + made.stdout.count("vfnm")


@pytest.mark.parametrize("kind", ["gcc", "clang"])
@pytest.mark.parametrize("flag", ["-ffast-math", "-Ofast"])
def test_fast_math_is_refused(tmp_path: Path, kind: str, flag: str) -> None:
    written(tmp_path, "sinusoidal", Form("baked", "exact", None, 40), {"d_model": 4})
    made = compiled([compiler(kind), "-std=c++17", flag, "-fsyntax-only", "-I", tmp_path, HERE / "use_additive.cpp"])
    assert made.returncode != 0
    assert "posenc: -ffast-math changes the bits" in made.stderr


MAIN = """
#include <cstdio>
#include "one/model.hpp"
bool other(float* out);
int main() {
  float a[64], b[64];
  if (!posenc::row(3, a) || !other(b)) return 1;
  for (float v : {a[0], a[1], b[0], b[1]}) std::printf("%a\\n", static_cast<double>(v));
}
"""
OTHER = '#include "{}/model.hpp"\nbool other(float* out);\nbool other(float* out) {{ return posenc::row(3, out); }}\n'


@pytest.mark.parametrize("kind", ["gcc", "clang"])
@pytest.mark.parametrize("second", ["one", "two"])
def test_a_program_may_include_it_twice_or_two_of_them(tmp_path: Path, kind: str, second: str) -> None:
    for name, base in (("one", 10000.0), ("two", 100.0)):
        (tmp_path / name).mkdir()
        written(tmp_path / name, "sinusoidal", Form("dynamic", "exact", None, 40), {"d_model": 4, "base": base})
    (tmp_path / "main.cpp").write_text(MAIN)
    (tmp_path / "other.cpp").write_text(OTHER.format(second))
    files = [tmp_path / "main.cpp", tmp_path / "other.cpp"]
    made = compiled([compiler(kind), *STRICT, "-I", tmp_path, *files, "-o", tmp_path / "main"])
    assert (made.returncode, made.stderr) == (0, "")
    found = [float.fromhex(line) for line in compiled([tmp_path / "main"]).stdout.split()]
    assert found[0] == found[2] == np.float32(np.sin(3.0))
    names = [
        line.split()[2].lower()
        for name in ("one", "two")
        for line in (tmp_path / name / "model.hpp").read_text().splitlines()
        if line.startswith("inline namespace")
    ]
    both = '#include "one/model.hpp"\n#include "two/model.hpp"\nbool f(float* y);\nbool f(float* y) { return '
    both += f"posenc::{names[0]}::row(0, y) && posenc::{names[1]}::row(0, y); }}\n"
    (tmp_path / "both.cpp").write_text(both)
    made = compiled([compiler(kind), *STRICT, "-I", tmp_path, "-fsyntax-only", tmp_path / "both.cpp"])
    assert (made.returncode, made.stderr) == (0, "")


def test_a_header_of_real_size(tmp_path: Path) -> None:
    subject = written(tmp_path, "sinusoidal", Form("dynamic", "exact", "offset", 64), {"d_model": 512})
    path = tmp_path / "model.hpp"
    assert path.stat().st_size < 9_500_000
    assert max(map(len, path.read_text().splitlines())) <= 120
    used = library("gcc", "use_additive", tmp_path, "-O2")
    out = np.empty((1, 300, 512), np.float32)
    for start in (0, 12345, LAST - 299):
        assert call(used.use_rows, start, 300, out)
        (rows,) = eager(subject, np.zeros_like(out), np.array([start]))
        assert same(out + np.float32(0), rows)
