"""How the C++ runners are found and built: once, on demand; what is missing is one line."""

import json
import os
import shutil
from pathlib import Path

import pytest

from helpers.runner_tools import is_one_clear_line, run
from helpers.shared import Cli, need
from posenc_export.proof.runtimes import runner_build as native
from posenc_export.proof.runtimes.cpp import ORT
from posenc_export.proof.runtimes.runner_build import (
    FAILED_BEFORE,
    RUNNER,
    SESSION,
    BuildFailed,
    Program,
    build,
    explain,
)


@pytest.mark.exhaustive
def test_headers_newer_than_the_library_are_refused_before_anything_runs(tmp_path: Path) -> None:
    need("ort-cpp")
    cache = (ORT.folder / "CMakeCache.txt").read_text()
    include = Path(next(li for li in cache.splitlines() if li.startswith("ONNXRuntime_INCLUDE_DIR")).partition("=")[2])
    newer = Path(shutil.copytree(include, tmp_path / "root" / "include"))
    text = (newer / "onnxruntime_c_api.h").read_text()
    (newer / "onnxruntime_c_api.h").write_text(text.replace("define ORT_API_VERSION ", "define ORT_API_VERSION 9", 1))
    folder = tmp_path / "build"
    folder.mkdir()
    with pytest.raises(BuildFailed, match="newer than the library"):
        build(RUNNER, folder, {"POSENC_BACKEND": "onnx", "ONNXRUNTIME_ROOT": str(tmp_path / "root")})
    # A library that does not say its version in its name: the runner itself finds out, when it starts.
    (tmp_path / "root" / "lib").mkdir()
    library = next(p for p in (ORT.folder / "onnxruntime").iterdir() if p.name == "libonnxruntime.so.1").resolve()
    for name in ("libonnxruntime.so", "libonnxruntime.so.1"):
        shutil.copy(library, tmp_path / "root" / "lib" / name)
    shutil.rmtree(folder)
    folder.mkdir()
    build(RUNNER, folder, {"POSENC_BACKEND": "onnx", "ONNXRUNTIME_ROOT": str(tmp_path / "root")})
    is_one_clear_line(run(folder / "ort_runner", "--version"), "is older than the headers of 1.9")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """A program that is not built, with an empty cache and a small project for sources."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project = tmp_path / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.18)\nproject(p NONE)\n")
    monkeypatch.setattr(native, "RUNNER", project)
    return Program("p", "onnx", "onnxruntime")


def write_project(text: str) -> None:
    (native.RUNNER / "CMakeLists.txt").write_text(text)


def test_a_program_is_built_once_and_says_what_is_missing(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which("cmake"):
        pytest.skip("cmake is not found")
    assert "not built yet" in program.problem()
    head = "cmake_minimum_required(VERSION 3.18)\nproject(p NONE)\n"
    write_project(f'{head}message(FATAL_ERROR "the headers are not found: {"look " * 30}")')
    program.build()
    assert f"cannot build p: the headers are not found: {'look ' * 30}(all of it: " in program.problem()
    (program.folder / "builder").write_text("0")
    assert program.problem() == FAILED_BEFORE
    (program.folder / "builder").write_text(str(os.getppid()))  # a process that this one is the child of
    assert "cannot build p" in program.problem()
    write_project(
        f"{head}"
        'file(WRITE ${CMAKE_BINARY_DIR}/p "#!/bin/sh\\necho version 1")\n'
        "execute_process(COMMAND chmod +x ${CMAKE_BINARY_DIR}/p)\n"
    )
    lines: list[str] = []
    program.build(lines.append)
    assert program.problem() == ""
    assert any(line.startswith("building the C++ runner: ") for line in lines)
    with monkeypatch.context() as patch:
        patch.setattr(native, "build", None)  # a second time nothing is built
        program.build()
    program.executable.unlink()  # what no longer starts is built anew
    program.executable.write_text("#!/bin/sh\nexit 3")
    program.executable.chmod(0o755)
    program.build()
    assert program.version_output().stdout == "version 1\n"
    monkeypatch.setenv("ONNXRUNTIME_ROOT", "/elsewhere")  # another library is another program
    assert "not built yet" in program.problem()


def test_without_cmake_or_a_compiler_one_line_says_so(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("cmake"):
        write_project("cmake_minimum_required(VERSION 3.18)\nproject(p CXX)\n")
        with monkeypatch.context() as patch:
            patch.setenv("CXX", "/nowhere/c++")
            program.build()
            assert "CXX" in program.problem()
            assert "\n" not in program.problem()
    monkeypatch.setenv("PATH", "/nowhere")
    program.build()
    assert program.problem() == (
        "cannot build p: cmake is not found: install it, from your system or with pip install cmake"
    )


def test_what_a_failed_build_says_is_one_line() -> None:
    cmake = "-- one\nCMake Error at a/CMakeLists.txt:3 (message):\n  the headers of it\n  are not found\nCall Stack\n"
    assert explain(cmake) == "the headers of it are not found"
    assert explain("make: x\na.cpp:3:1: error: no\nmake: *** Error 1\n") == "a.cpp:3:1: error: no"


def test_a_runtime_that_is_not_built_is_a_row_that_says_how(
    cli: Cli, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    report = json.loads(cli("validate", str(bundle), "--trust", "--json").stdout)
    rows = {v["subject"]: v for v in report["verdicts"] if v["check"] == "agrees"}
    for name in ("ort-cpp", "libtorch-cpp"):
        assert rows[name]["status"] == "skip"
        assert rows[name]["detail"] == "not built yet: naming it with --runtime does that"
    assert not (tmp_path / "cache").exists(), "nothing is built unless --runtime names it"


def test_the_session_needs_no_private_headers() -> None:
    text = "".join(f.read_text() for f in SESSION.rglob("*") if f.is_file())
    assert not [f.name for f in (SESSION / "include").rglob("*.hpp") if "Ort::" in f.read_text()]
    assert "nlohmann" not in text
    assert "xtensor" not in text
