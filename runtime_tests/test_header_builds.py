"""How the C++ header is built: no contraction, no fast math, twice or beside another in one program."""

import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cpp_tools import HERE, STRICT, compiled, compiler, written
from posenc.spec import Spec

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
    written(tmp_path, scheme, Spec(mode, "exact", None, 200, dtype), params)
    source = HERE / ("use_rotary.cpp" if scheme == "rope" else "use_additive.cpp")
    for level in ("-O2", "-O3"):
        assert fused(kind, level, source, tmp_path) == 0


@X86
@pytest.mark.parametrize("kind", ["gcc", "clang"])
def test_without_its_pragmas_it_would_be_contracted(tmp_path: Path, kind: str) -> None:
    written(tmp_path, "rope", Spec("dynamic", "exact", None, 200), {"head_dim": 64})
    path = tmp_path / "model.hpp"
    text = path.read_text().replace('#pragma GCC optimize("fp-contract=off")', "")
    path.write_text(text.replace('_Pragma("clang fp contract(off)")', ""))
    assert fused(kind, "-O3", HERE / "use_rotary.cpp", tmp_path) > 0


def fused(kind: str, level: str, source: Path, folder: Path) -> int:
    """Return how many fused multiply-adds a compiler makes of a source."""
    process = compiled([compiler(kind), "-std=c++17", level, "-march=haswell", "-S", "-o", "-", "-I", folder, source])
    assert process.returncode == 0, process.stderr
    return process.stdout.count("vfm") + process.stdout.count("vfnm")


@pytest.mark.parametrize("kind", ["gcc", "clang"])
@pytest.mark.parametrize("flag", ["-ffast-math", "-Ofast"])
def test_fast_math_is_refused(tmp_path: Path, kind: str, flag: str) -> None:
    written(tmp_path, "sinusoidal", Spec("baked", "exact", None, 40), {"d_model": 4})
    process = compiled([compiler(kind), "-std=c++17", flag, "-fsyntax-only", "-I", tmp_path, HERE / "use_additive.cpp"])
    assert process.returncode != 0
    assert "posenc: -ffast-math changes the bits" in process.stderr


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
        written(tmp_path / name, "sinusoidal", Spec("dynamic", "exact", None, 40), {"d_model": 4, "base": base})
    (tmp_path / "main.cpp").write_text(MAIN)
    (tmp_path / "other.cpp").write_text(OTHER.format(second))
    files = [tmp_path / "main.cpp", tmp_path / "other.cpp"]
    process = compiled([compiler(kind), *STRICT, "-I", tmp_path, *files, "-o", tmp_path / "main"])
    assert (process.returncode, process.stderr) == (0, "")
    values = [float.fromhex(line) for line in compiled([tmp_path / "main"]).stdout.split()]
    assert values[0] == values[2] == np.float32(np.sin(3.0))
    names = [
        line.split()[2].lower()
        for name in ("one", "two")
        for line in (tmp_path / name / "model.hpp").read_text().splitlines()
        if line.startswith("inline namespace")
    ]
    both = '#include "one/model.hpp"\n#include "two/model.hpp"\nbool f(float* y);\nbool f(float* y) { return '
    both += f"posenc::{names[0]}::row(0, y) && posenc::{names[1]}::row(0, y); }}\n"
    (tmp_path / "both.cpp").write_text(both)
    process = compiled([compiler(kind), *STRICT, "-I", tmp_path, "-fsyntax-only", tmp_path / "both.cpp"])
    assert (process.returncode, process.stderr) == (0, "")
