"""The headers on aarch64, where compilers contract by default: the bits of eager PyTorch, and no fused instruction.

Programs are cross-compiled and run in an emulator: `cpp/fetch_cross.sh` unpacks both on Debian.
"""

import re
import shutil
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.cpp_tools import HERE, LAST, compiled, compiler, eager, written
from helpers.shared import required
from posenc.spec import Spec

FUSED = re.compile(r"\b(f(n?m(add|sub)|ml[as]|cmla))\b")
"""A product and a sum in one instruction, of scalars, vectors and complex numbers."""
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "rows": ("sinusoidal", {"d_model": 16}),
    "odd": ("sinusoidal", {"d_model": 7, "layout": "halves"}),
    "halves": ("rope", {"head_dim": 16, "rotary_dim": 8}),
    "interleaved": ("rope", {"head_dim": 64, "layout": "interleaved"}),
    "two": ("rope", {"head_dim": 2}),
}
OPTIMISED = (("-O0",), ("-O2",), ("-O3",), ("-O3", "-march=armv8.3-a"))
QUICK = ("c++", ("-O3",), "halves")
EACH = [
    pytest.param(*each, marks=() if each == QUICK else (pytest.mark.exhaustive,))
    for each in product(("c++", "c"), OPTIMISED, CASES)
]


def tool(*names: str) -> str:
    """Return the path of a tool for aarch64; skip without it, or fail where POSENC_TEST_REQUIRE has aarch64."""
    path = next((path for path in map(shutil.which, names) if path), None)
    if path is None and "aarch64" in required():
        pytest.fail(f"aarch64 is required: {names[0]} not found")
    if path is None:
        pytest.skip(f"no {names[0]}: runtime_tests/cpp/fetch_cross.sh unpacks it")
    return path


@pytest.mark.parametrize(("language", "flags", "case"), EACH)
def test_the_bits_on_aarch64(tmp_path: Path, language: str, flags: tuple[str, ...], case: str) -> None:
    emulator = tool("qemu-aarch64-static", "qemu-aarch64")
    cross = tool("aarch64-linux-gnu-g++" if language == "c++" else "aarch64-linux-gnu-gcc")
    scheme, params = CASES[case]
    target = written(tmp_path, scheme, Spec("dynamic", "exact", "offset", 200), params, language)
    # gnu99 contracts, c99 does not.
    standard = ["-std=c++17", "-x", "c++"] if language == "c++" else ["-std=gnu99", "-Dposenc_IMPLEMENTATION"]
    family = ["-DROTARY"] if scheme == "rope" else []
    options = [*standard, *flags, *family, "-Wall", "-Wextra", "-Werror", "-static", "-I", tmp_path]
    done = compiled([cross, *options, HERE / "use_aarch64.c", "-o", tmp_path / "program"])
    assert (done.returncode, done.stderr) == (0, "")
    width = params["head_dim"] if scheme == "rope" else params["d_model"]
    shape = (1, 3, 135, width) if scheme == "rope" else (1, 135, width)
    x = (np.arange(np.prod(shape)) % 1013).astype(np.float32) / np.float32(1013) - np.float32(0.5)
    x = x.reshape(shape)
    for start in (0, 63, 32704, LAST - 134):
        inputs = (x, x) if scheme == "rope" else (x,)
        expected, *_ = eager(target, *inputs, np.array([start]))
        printed = subprocess.run([emulator, tmp_path / "program", str(start)], stdout=subprocess.PIPE, check=True)
        assert printed.stdout == expected.tobytes()


@pytest.mark.parametrize(
    ("kind", "case"),
    [
        pytest.param(kind, case, marks=() if (kind, case) == ("clang", "two") else (pytest.mark.exhaustive,))
        for kind, case in product(("gcc", "clang"), ("rows", "interleaved", "two"))
    ],
)
def test_nothing_is_contracted_on_aarch64(tmp_path: Path, kind: str, case: str) -> None:
    """And would be without the pragmas: clang makes code for aarch64 wherever it is, GCC another compiler."""
    scheme, params = CASES[case]
    written(tmp_path, scheme, Spec("dynamic", "exact", None, 200), params, "c")
    assert [fused(kind, level, tmp_path) for level in (["-O2"], ["-O3"], ["-O3", "-march=armv8.3-a"])] == [0, 0, 0]
    text = (tmp_path / "model.h").read_text().replace('#pragma GCC optimize("fp-contract=off")', "")
    (tmp_path / "model.h").write_text(text.replace('_Pragma("clang fp contract(off)")', ""))
    assert fused(kind, ["-O3", "-ffp-contract=fast"] if kind == "clang" else ["-O3"], tmp_path) > 0


def fused(kind: str, flags: list[str], folder: Path) -> int:
    """Return how many fused instructions a compiler makes of the C header for aarch64."""
    clang = [compiler("clang", "c"), "--target=aarch64-linux-gnu", "-ffreestanding"] if kind == "clang" else []
    cross = clang or [tool("aarch64-linux-gnu-gcc")]
    options = ["-std=gnu99", *flags, "-S", "-o", "-", "-Dposenc_IMPLEMENTATION", "-x", "c"]
    done = compiled([*cross, *options, folder / "model.h"])
    assert done.returncode == 0, done.stderr
    return len(FUSED.findall(done.stdout))
