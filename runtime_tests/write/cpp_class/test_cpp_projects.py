"""Bundles in a C++ project: several in one program, added, fetched, installed and found; their names."""

import hashlib
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc_export
from helpers.cpp_tools import compiler, written
from helpers.embedded import CPP, run, write_bundles
from helpers.header_rows import BASES, SPEC, row
from helpers.shared import Cli, Once, need
from posenc_export.common.errors import BadInput
from posenc_export.proof.runtimes import RUNTIMES
from posenc_export.proof.runtimes.runner_build import BuildFailed, build
from posenc_export.write.cpp.names import check_name, default_name

TWO = """
cmake_minimum_required(VERSION 3.18)
project(two CXX)
add_compile_options(${FLAGS})
add_link_options(${FLAGS})
foreach(name offset half)
  add_subdirectory(${BUNDLES}/${name}/cpp ${name})
  add_library(use_${name} ${KIND} ${SOURCES}/use_${name}.cpp)
  target_link_libraries(use_${name} PRIVATE posenc::${name})
endforeach()
add_library(use_headers ${KIND} ${SOURCES}/use_headers.cpp)
add_executable(two ${SOURCES}/use_all.cpp)
foreach(target use_headers two)
  target_include_directories(${target} PRIVATE ${HEADERS})
  target_link_libraries(${target} PRIVATE posenc::offset posenc::half)
endforeach()
target_link_libraries(two PRIVATE use_offset use_half use_headers)
"""
STRICTLY = "-Wall;-Wextra;-Wconversion;-Wshadow;-Werror"
COMBINATIONS = [
    ("gcc", "STATIC", "-Wodr;-O0;-flto=auto"),
    ("gcc", "SHARED", "-Wodr;-O3;-flto=auto"),
    ("gcc", "STATIC", "-O2"),
    ("clang", "SHARED", "-O2"),
]
"""Each compiler and kind of library; clang's -flto takes a linker of its own."""


@pytest.fixture
def bundles(once: Once) -> Path:
    return once("variety", write_bundles)


def files_of(bundles: Path) -> list[Path]:
    return [bundles / name / "model.onnx" for name in ("offset", "half")]


def expected(bundles: Path) -> bytes:
    """What the two graphs give from Python for what use_offset.cpp and use_half.cpp feed them."""
    from posenc_export.bundle.folder import Bundle

    one, two = (
        RUNTIMES["ort-cpu"].open(file, Bundle.open(file.parent).manifest, trusted=True) for file in files_of(bundles)
    )
    y = one.run({"x": np.ones((2, 3, 8), np.float32), "start": np.array([5])})["y"]
    ones = np.ones((1, 2, 3, 16), np.float16)
    q = two.run({"q": ones, "k": ones, "positions": np.array([[4, 5, 6]])})["q_rotated"]
    return y.tobytes() + q.tobytes()


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "library", "flags"), COMBINATIONS)
def test_two_bundles_and_two_headers_in_one_program(
    bundles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, kind: str, library: str, flags: str
) -> None:
    need("ort-cpp")
    monkeypatch.setenv("CXX", compiler(kind))
    project = tmp_path / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(TWO)
    for name, base in BASES.items():
        (tmp_path / name).mkdir()
        written(tmp_path / name, "sinusoidal", SPEC, {"d_model": 4, "base": base}, namespace=name)
    settings = {"BUNDLES": str(bundles), "SOURCES": str(CPP), "KIND": library, "FLAGS": f"{STRICTLY};{flags}"}
    settings |= {"HEADERS": str(tmp_path), "BUILD_SHARED_LIBS": "ON" if library == "SHARED" else "OFF"}
    build(project, tmp_path, settings)
    assert "warning" not in (tmp_path / "build.log").read_text()
    done = run(tmp_path / "two", *files_of(bundles), tmp_path / "out.bin")
    assert (done.returncode, done.stderr) == (0, ""), done
    rows = b"".join(row(base).tobytes() for base in BASES.values())
    assert (tmp_path / "out.bin").read_bytes() == expected(bundles) + rows + rows


CONSUMERS = {
    "find_package": "find_package(offset 0.1 CONFIG REQUIRED)\nfind_package(half CONFIG REQUIRED)",
    "add_subdirectory": "add_subdirectory(${BUNDLES}/offset/cpp offset)\nadd_subdirectory(${BUNDLES}/half/cpp half)",
    "FetchContent": """
include(FetchContent)
FetchContent_Declare(offset URL ${ARCHIVES}/offset.tar.gz URL_HASH SHA256=${offset_HASH} SOURCE_SUBDIR cpp)
FetchContent_Declare(half URL ${ARCHIVES}/half.tar.gz URL_HASH SHA256=${half_HASH} SOURCE_SUBDIR cpp)
FetchContent_MakeAvailable(offset half)
""",
    "mixed": "find_package(offset CONFIG REQUIRED)\nadd_subdirectory(${BUNDLES}/half/cpp half)",
}
CONSUMER = """
cmake_minimum_required(VERSION 3.18)
project(consumer CXX)
@get@
add_executable(consumer ${SOURCES}/use_both.cpp ${SOURCES}/use_offset.cpp ${SOURCES}/use_half.cpp)
target_link_libraries(consumer PRIVATE posenc::offset posenc::half)
file(WRITE ${CMAKE_BINARY_DIR}/files.txt "${offset_FILE}\\n${half_FILE}\\n")
get_directory_property(options COMPILE_OPTIONS)
if(options OR CMAKE_BUILD_TYPE)
  message(FATAL_ERROR "a bundle has set what is the project's: ${options} ${CMAKE_BUILD_TYPE}")
endif()
"""


@pytest.fixture
def prefix(once: Once, bundles: Path) -> Path:
    """A folder into which two bundles are installed."""
    need("ort-cpp")

    def fill(folder: Path) -> None:
        for name in ("offset", "half"):
            made = folder / f"build-{name}"
            made.mkdir()
            build(bundles / name / "cpp", made, {"CMAKE_INSTALL_PREFIX": str(folder / "prefix")})
            assert run("cmake", "--install", made).returncode == 0
            shutil.rmtree(made)  # what is installed needs no more of it

    return once("installed", fill) / "prefix"


@pytest.mark.exhaustive
@pytest.mark.parametrize("way", CONSUMERS)
def test_a_consumer_of_its_own(
    bundles: Path, prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    settings = {"BUNDLES": str(bundles), "ARCHIVES": str(tmp_path), "SOURCES": str(CPP)}
    for name in ("offset", "half"):
        with tarfile.open(tmp_path / f"{name}.tar.gz", "w:gz") as archive:
            archive.add(bundles / name, name)
        settings[f"{name}_HASH"] = hashlib.sha256((tmp_path / f"{name}.tar.gz").read_bytes()).hexdigest()
    (tmp_path / "CMakeLists.txt").write_text(CONSUMER.replace("@get@", CONSUMERS[way]))
    made = tmp_path / "build"
    made.mkdir()
    moved = shutil.copytree(prefix, tmp_path / "moved")
    build(tmp_path, made, {**settings, "CMAKE_PREFIX_PATH": f"{moved};{os.environ.get('CMAKE_PREFIX_PATH', '')}"})
    files = (made / "files.txt").read_text().splitlines()
    done = run(made / "consumer", *files, tmp_path / "out.bin")
    assert (done.returncode, done.stderr) == (0, ""), done
    assert (tmp_path / "out.bin").read_bytes() == expected(bundles)


def test_sessions_of_two_versions_are_not_mixed(bundles: Path, tmp_path: Path) -> None:
    text = "add_library(posenc_session INTERFACE)\nadd_library(posenc::session ALIAS posenc_session)\n"
    text += "set_target_properties(posenc_session PROPERTIES POSENC_SESSION_VERSION 1)\n"
    text += f"add_subdirectory({bundles}/offset/cpp offset)\n"
    (tmp_path / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.18)\nproject(p CXX)\n{text}")
    with pytest.raises(BuildFailed, match=r"of version 1, offset needs 4: export both bundles anew"):
        build(tmp_path, tmp_path, {})


def test_the_name_in_cpp(cli: Cli, tmp_path: Path) -> None:
    words = ["--dynamic", "-p", "d_model=8", "--max-len", "8", "-f", "onnx", "--no-validate", "-q", "-o", "my-rope.v2"]
    assert cli("export", *words, "--cpp").exit_code == 0
    text = Path("my-rope.v2/cpp/include/my_rope_v2.hpp").read_text()
    assert "namespace posenc::my_rope_v2 {" in text
    assert cli("export", *words, "--cpp", "--namespace", "vision_rope").exit_code == 0
    assert [p.name for p in Path("my-rope.v2/cpp/include").iterdir()] == ["vision_rope.hpp"]
    assert "add_library(posenc::vision_rope ALIAS vision_rope)" in Path("my-rope.v2/cpp/CMakeLists.txt").read_text()
    for wrong, reason in (("2d", "expected letters"), ("a__b", "expected letters"), ("class", "choose another")):
        result = cli("export", *words, "--cpp", "--namespace", wrong)
        assert (result.exit_code, reason in result.output) == (2, True), result.output
    assert "or --cpp with it" in cli("export", *words, "--namespace", "a").output


def test_the_old_name_of_the_option_and_of_the_argument(cli: Cli) -> None:
    words = ["-p", "d_model=8", "--max-len", "8", "-f", "onnx", "--no-validate", "-q", "-o", "made", "--cpp"]
    result = cli("export", *words, "--cpp-name", "vision_rope")
    assert (result.exit_code, Path("made/cpp/include/vision_rope.hpp").exists()) == (0, True), result.output
    assert "deprecated. Give --namespace" in result.output
    assert "--cpp-name" not in cli("export", "--help").output
    both = cli("export", *words, "--cpp-name", "a", "--namespace", "b")
    assert (both.exit_code, "the old name of --namespace: leave it out" in both.output) == (2, True), both.output
    settings: dict[str, Any] = {"formats": "onnx", "d_model": 8, "max_len": 8, "validate": False, "cpp": True}
    with pytest.warns(DeprecationWarning, match=r"cpp_name is namespace from posenc-export 0\.2 on") as warned:
        made = posenc_export.export(to="from-python", cpp_name="old", **settings)
    assert warned[0].filename == __file__
    assert (made.folder / "cpp" / "include" / "old.hpp").exists()


@pytest.mark.parametrize(
    ("folder", "name"),
    [("vision-rope", "vision_rope"), ("2d", "model_2d"), ("...", "model"), ("std", "std_model"), ("a__b-", "a_b")],
)
def test_the_default_name_is_that_of_the_folder(folder: str, name: str) -> None:
    assert default_name(Path(folder)) == name
    check_name(name)


@pytest.mark.parametrize("name", ["posenc", "session", "Session", "v2", "test", "_a", "a_", "é", "", "a b", "main"])
def test_a_name_that_something_else_has(name: str) -> None:
    with pytest.raises(BadInput):
        check_name(name)
