"""How the headers are built: no contraction, no fast math, no warning, each file by itself."""

import platform
from pathlib import Path
from typing import Any

import pytest

from helpers.cpp_tools import C99, HERE, STRICT, compiled, compiler, written
from helpers.shared import one_of_each
from posenc.spec import Spec

X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="looks for the name that x86 has for it")
C_TOO = ["c++", pytest.param("c", marks=pytest.mark.exhaustive)]


SMALLEST = [
    ("sinusoidal", "dynamic", {"d_model": 2}),
    ("sinusoidal", "dynamic", {"d_model": 4, "layout": "halves"}),
    ("rope", "dynamic", {"head_dim": 2}),
    ("rope", "baked", {"head_dim": 16, "rotary_dim": 8, "layout": "interleaved"}),
    ("rope", "dynamic", {"head_dim": 64}),
]


@X86
@pytest.mark.parametrize("language", C_TOO)
@pytest.mark.parametrize("kind", ["gcc", "clang"])
@pytest.mark.parametrize("dtype", one_of_each(["fp32", "fp64"], lambda _: ""))
@pytest.mark.parametrize("case", SMALLEST)
def test_nothing_is_contracted(
    tmp_path: Path, language: str, kind: str, dtype: Any, case: tuple[str, Any, dict[str, Any]]
) -> None:
    scheme, mode, params = case
    # Of few pairs, loops are unrolled: GCC 12 then makes vfmaddsub of neighbours, with contraction off.
    written(tmp_path, scheme, Spec(mode, "exact", None, 200, dtype), params, language)
    for level in ("-O2", "-O3"):
        assert fused(language, kind, level, scheme, tmp_path) == 0


@X86
@pytest.mark.parametrize("language", C_TOO)
@pytest.mark.parametrize("kind", ["gcc", "clang"])
def test_without_its_pragmas_it_would_be_contracted(tmp_path: Path, language: str, kind: str) -> None:
    written(tmp_path, "rope", Spec("dynamic", "exact", None, 200), {"head_dim": 64}, language)
    path = tmp_path / ("model.hpp" if language == "c++" else "model.h")
    text = path.read_text().replace('#pragma GCC optimize("fp-contract=off")', "")
    path.write_text(text.replace('_Pragma("clang fp contract(off)")', ""))
    assert fused(language, kind, "-O3", "rope", tmp_path) > 0


def fused(language: str, kind: str, level: str, scheme: str, folder: Path) -> int:
    """Return how many fused multiply-adds a compiler makes of a header; -std=gnu99 is the C that contracts."""
    source: list[str | Path] = [HERE / ("use_rotary.cpp" if scheme == "rope" else "use_additive.cpp")]
    if language == "c":
        source = ["-Dposenc_IMPLEMENTATION", "-x", "c", folder / "model.h"]
    standard = "-std=c++17" if language == "c++" else "-std=gnu99"
    process = compiled(
        [compiler(kind, language), standard, level, "-march=haswell", "-S", "-o", "-", "-I", folder, *source]
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.count("vfm") + process.stdout.count("vfnm")


@pytest.mark.parametrize("kind", ["gcc", "clang"])
@pytest.mark.parametrize("flag", ["-ffast-math", "-Ofast"])
def test_fast_math_is_refused(tmp_path: Path, kind: str, flag: str) -> None:
    for language, source in (("c++", HERE / "use_additive.cpp"), ("c", tmp_path / "model.h")):
        written(tmp_path, "sinusoidal", Spec("baked", "exact", None, 40), {"d_model": 4}, language)
        more = ["-std=c++17"] if language == "c++" else ["-std=c99", "-x", "c", "-Dposenc_IMPLEMENTATION"]
        process = compiled([compiler(kind, language), flag, "-fsyntax-only", "-I", tmp_path, *more, source])
        assert process.returncode != 0
        assert "posenc: -ffast-math changes the bits" in process.stderr


OLDER = [
    *(("c", standard, "this header is C99: compile it with -std=c99 or later") for standard in ("c89", "gnu89")),
    *(
        ("c++", f"c++{year}", "this header is C++17: compile it with -std=c++17 or later")
        for year in ("98", "11", "14")
    ),
]


@pytest.mark.parametrize("kind", ["gcc", "clang"])
@pytest.mark.parametrize(("language", "standard", "text"), one_of_each(OLDER, lambda case: case[0]))
def test_an_older_language_is_refused_by_one_error_at_once(
    tmp_path: Path, kind: str, language: str, standard: str, text: str
) -> None:
    """GCC goes on behind an #error, and is busy for minutes with thousands of constants that it cannot read."""
    written(tmp_path, "rope", Spec("dynamic"), {"head_dim": 64}, language)
    header = tmp_path / ("model.h" if language == "c" else "model.hpp")
    (tmp_path / "alone").write_text(f'#include "{header.name}"\n')
    command = [compiler(kind, language), f"-std={standard}", "-Dposenc_IMPLEMENTATION", "-fsyntax-only"]
    done = compiled([*command, "-x", language, tmp_path / "alone"], seconds=10)
    errors = [line for line in done.stderr.splitlines() if "error:" in line and "C++ style comments" not in line]
    assert done.returncode != 0
    assert len(errors) == 1
    assert f"posenc: {text}" in errors[0]


@pytest.mark.parametrize("standard", one_of_each(["c++98", "c++14"], lambda _: ""))
def test_c_in_an_older_cpp_takes_hexadecimal_floats(tmp_path: Path, standard: str) -> None:
    written(tmp_path, "rope", Spec("dynamic"), {"head_dim": 64}, "c")
    command = [compiler("gcc"), "-Dposenc_IMPLEMENTATION", "-fsyntax-only", "-x", "c++", tmp_path / "model.h"]
    done = compiled([*command, f"-std={standard}"], seconds=10)
    assert done.stderr.count("error:") == 1
    assert "this header has hexadecimal floats: in C++ compile it with -std=c++17 or later" in done.stderr
    assert compiled([*command, f"-std={standard.replace('c', 'gnu', 1)}"], seconds=10).returncode == 0


USES = """
#include "model.hpp"
int main() {
  static float q[32 * 128];
  return posenc::rotate_from(1000, 1, q, q, 32, 128, 128) && q[0] == 0 ? 0 : 1;
}
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["gcc", "clang"])
def test_a_program_with_rope_is_little_more_than_its_tables(tmp_path: Path, kind: str) -> None:
    written(tmp_path, "rope", Spec("dynamic", "exact", "offset"), {"head_dim": 128})
    (tmp_path / "main.cpp").write_text(USES)
    program = tmp_path / "main"
    process = compiled([compiler(kind), *STRICT, "-O2", tmp_path / "main.cpp", "-o", program])
    assert (process.returncode, process.stderr) == (0, "")
    assert compiled([program]).returncode == 0
    tables = 4352 * 128
    assert tables < program.stat().st_size < 600_000


EACH = [
    ("sinusoidal", Spec("dynamic", "exact", None, 40), {"d_model": 4}),
    ("sinusoidal", Spec("baked", "exact", None, 40, "fp64"), {"d_model": 5}),
    ("rope", Spec("dynamic", "exact", None, 40), {"head_dim": 8, "layout": "interleaved"}),
    ("rope", Spec("baked", "exact", "explicit", 40), {"head_dim": 8, "output": "cos_sin", "width": "full"}),
    ("mrope", Spec("dynamic", "exact", None, 40), {"head_dim": 16, "sections": (4, 2, 2)}),
]


@pytest.mark.parametrize("kind", ["gcc", "clang"])
@pytest.mark.parametrize(
    "case", [EACH[2], *(pytest.param(case, marks=pytest.mark.exhaustive) for case in EACH if case is not EACH[2])]
)
def test_no_header_has_a_warning(tmp_path: Path, kind: str, case: tuple[str, Spec, dict[str, Any]]) -> None:
    """Of strict compilers, in C99 and C11, in C++17 and C++20, and of the C header inside a C++ program."""
    scheme, spec, params = case
    for language in ("c", "c++"):
        written(tmp_path, scheme, spec, params, language)
    (tmp_path / "both.cpp").write_text('#define posenc_IMPLEMENTATION\n#include "model.h"\n#include "model.hpp"\n')
    (tmp_path / "user.c").write_text('#include "model.h"\n#define posenc_IMPLEMENTATION\n#include "model.h"\n')
    c, cpp = [compiler(kind, "c"), *C99], [compiler(kind), *STRICT]
    for command in (
        [*c, tmp_path / "user.c"],
        [*c, "-std=c11", "-Dposenc_API=static inline", tmp_path / "user.c"],
        [*cpp, tmp_path / "both.cpp"],
        [*cpp, "-std=c++20", tmp_path / "both.cpp"],
    ):
        process = compiled([*command, "-O2", "-c", "-o", tmp_path / "made.o"])
        assert (process.returncode, process.stderr) == (0, "")
