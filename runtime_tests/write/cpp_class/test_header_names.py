"""What headers are named: two of them in one program never clash, and code names nothing that a re-export changes."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from helpers.cpp_tools import STRICT, compiled, compiler, written
from helpers.header_rows import BASES, SPEC, row
from helpers.shared import Cli
from posenc_export.common.errors import BadInput
from posenc_export.proof.exporter import ExportOptions
from posenc_export.proof.exporter.options import check_options

# ---- their names -----------------------------------------------------------------------------------------------------


def test_a_header_is_named_after_its_scheme_or_as_asked_for(cli: Cli) -> None:
    args = ["export", "rope", "-p", "head_dim=8", "--max-len", "40", "-f", "header", "-f", "header-c99", "-q"]
    for more, name in (([], "posenc_rope"), (["--namespace", "vision_rope"], "vision_rope")):
        result = cli(*args, *more, "--require", "header-cpp", "--require", "header-c", "-o", name)
        assert result.exit_code == 0, result.output
        cpp, c = (Path(name, file).read_text() for file in ("model.hpp", "model.h"))
        assert f"\nnamespace {name} {{\ninline namespace e" in cpp
        assert f"\n{name}_API bool {name}_rotate(int64_t position, " in c
        assert f"{name}::rotate_from(0, " in cpp.partition("#if")[0]
        assert f"{name}_rotate_from(0, " in c.partition("#if")[0]


@pytest.mark.parametrize("name", ["", "2d", "a-b", "a::b", "_a", "a__b", "double", "std", "unix", "é"])
def test_what_is_no_namespace_is_one_line(cli: Cli, name: str) -> None:
    result = cli("export", "-f", "header", "--namespace", name)
    assert (result.exit_code, result.output.count("\n")) == (2, 1), result.output
    assert f"--namespace must be a name that C++ does not use itself, got {name!r}" in result.output or (
        f"--namespace must be letters, digits and single _, a letter first, got {name!r}" in result.output
    )


def test_a_namespace_of_no_header_is_refused() -> None:
    with pytest.raises(BadInput, match=r"--namespace is for C\+\+: give -f header or -f header-c99, or --cpp with it"):
        check_options(ExportOptions(namespace="rope"))


# ---- two in one program ----------------------------------------------------------------------------------------------

MAIN = """
#include <cstdio>
#include "vision/model.hpp"
#include "text/model.hpp"
#define text_IMPLEMENTATION
#include "text/model.h"
#include "vision/model.h"
bool there(float* text_row, float* vision_row);
int main() {
  float rows[6][4];
  if (!text::row(77, rows[0]) || !vision::row(77, rows[1]) || !there(rows[2], rows[3])) return 1;
  if (!text_row(77, rows[4]) || !vision_row(77, rows[5])) return 1;
  for (auto& row : rows)
    for (float value : row) std::printf("%a\\n", static_cast<double>(value));
}
"""
THERE = """
#include "text/model.hpp"
#include "vision/model.hpp"
#include "vision/model.h"
#define vision_IMPLEMENTATION
#include "vision/model.h"
bool there(float* text_row, float* vision_row);
bool there(float* text_row, float* vision_row) { return text::row(77, text_row) && vision::row(77, vision_row); }
"""
BUILDS = [
    pytest.param(kind, how, flags, marks=() if (kind, how, flags) == QUICK else (pytest.mark.exhaustive,))
    for QUICK in [("gcc", "shared", ("-O2", "-flto", "-Wodr"))]
    for kind, how, level, more in product(
        ("gcc", "clang"), ("static", "shared"), ("-O0", "-O1", "-O2", "-O3"), ((), ("-flto", "-Wodr"))
    )
    for flags in [(level, *more)]
    if kind == "gcc" or not more  # clang of Debian has no linker for its link-time optimisation beside it
]


@pytest.mark.parametrize(("kind", "how", "flags"), BUILDS)
def test_two_headers_in_one_file_and_in_two(tmp_path: Path, kind: str, how: str, flags: tuple[str, ...]) -> None:
    """In C++ and in C, text beside vision, in two object files that are linked, or of which one is a shared library."""
    for name, base in BASES.items():
        (tmp_path / name).mkdir()
        for language in ("c++", "c"):
            written(tmp_path / name, "sinusoidal", SPEC, {"d_model": 4, "base": base}, language, namespace=name)
    (tmp_path / "main.cpp").write_text(MAIN)
    (tmp_path / "there.cpp").write_text(THERE)
    options = [compiler(kind), *STRICT, *flags, "-fPIC", "-I", tmp_path]
    there, program = tmp_path / ("there.o" if how == "static" else "there.so"), tmp_path / "main"
    for command in (
        [*options, "-c" if how == "static" else "-shared", tmp_path / "there.cpp", "-o", there],
        [*options, tmp_path / "main.cpp", there, "-o", program],
    ):
        process = compiled(command)
        assert (process.returncode, process.stderr) == (0, "")
    values = np.array([float.fromhex(line) for line in compiled([program]).stdout.split()], np.float32).reshape(6, 4)
    assert values.tolist() == [row(BASES["text"]).tolist(), row(BASES["vision"]).tolist()] * 3


OTHER = '#include "two/model.hpp"\nbool other(float* out);\nbool other(float* out) { return rope::row(3, out); }\n'
OLD = """
#include <cstdio>
#include "one/model.hpp"
bool other(float* out);
int main() {
  float a[4], b[4];
  if (!rope::row(3, a) || !other(b)) return 1;
  for (float v : {a[1], b[1]}) std::printf("%a\\n", static_cast<double>(v));
}
"""


@pytest.mark.parametrize("kind", ["gcc", "clang"])
def test_a_program_may_be_linked_of_parts_built_before_and_after_a_new_export(tmp_path: Path, kind: str) -> None:
    for name, layout in (("one", "interleaved"), ("two", "halves")):
        (tmp_path / name).mkdir()
        written(tmp_path / name, "sinusoidal", SPEC, {"d_model": 4, "layout": layout}, namespace="rope")
    (tmp_path / "main.cpp").write_text(OLD)
    (tmp_path / "other.cpp").write_text(OTHER)
    files = [tmp_path / "main.cpp", tmp_path / "other.cpp"]
    process = compiled([compiler(kind), *STRICT, "-I", tmp_path, *files, "-o", tmp_path / "main"])
    assert (process.returncode, process.stderr) == (0, "")
    values = [float.fromhex(line) for line in compiled([tmp_path / "main"]).stdout.split()]
    assert np.allclose(values, [np.cos(3.0), np.sin(0.03)], rtol=1e-6, atol=0)  # column 1 of each layout


@pytest.mark.parametrize("language", ["c++", "c"])
def test_two_exports_of_one_name_in_one_file_are_one_clear_line(tmp_path: Path, language: str) -> None:
    file = "model.hpp" if language == "c++" else "model.h"
    for name, base in BASES.items():
        (tmp_path / name).mkdir()
        written(tmp_path / name, "sinusoidal", SPEC, {"d_model": 4, "base": base}, language, namespace="rope")
    text = f'#include "text/{file}"\n#include "vision/{file}"\n'
    process = compiled(
        [compiler("gcc", language), "-fsyntax-only", "-x", language, "-I", tmp_path, source(tmp_path, text)]
    )
    assert process.returncode != 0
    (line,) = (line for line in process.stderr.splitlines() if "error: " in line)
    assert "rope: two exports in one file have this name: give one of them a --namespace of its own" in line
    twice = f'#include "text/{file}"\n' * 2
    assert (
        compiled(
            [compiler("gcc", language), "-fsyntax-only", "-x", language, "-I", tmp_path, source(tmp_path, twice)]
        ).returncode
        == 0
    )


def source(folder: Path, text: str) -> Path:
    (folder / "source").write_text(text)
    return folder / "source"
