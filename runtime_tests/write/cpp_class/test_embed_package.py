"""An AOTInductor package is loaded by the class of its bundle."""

import json
import zipfile
from pathlib import Path

import pytest

from helpers.embedded import CPP, VARIETY, run_watched, write_bundle
from helpers.shared import need
from posenc_export.proof.runtimes.runner_build import build

PACKAGED = """
cmake_minimum_required(VERSION 3.18)
project(used CXX)
add_subdirectory(${BUNDLE}/cpp packaged)
add_executable(program ${PROGRAM})
add_executable(replay ${BUNDLE}/cpp/test/replay.cpp ${BUNDLE}/cpp/test/golden.cpp)
target_compile_definitions(replay PRIVATE POSENC_BACKEND_TORCH)
find_package(Threads REQUIRED)
foreach(made program replay)
  target_link_libraries(${made} PRIVATE posenc::packaged Threads::Threads)
endforeach()
"""


@pytest.mark.exhaustive
def test_a_package_is_loaded_by_the_class(tmp_path: Path) -> None:
    """From its file, on a CPU that has its instructions; replayed like the other graphs."""
    need("aoti-cpp")
    bundle, project, model = tmp_path / "packaged", tmp_path / "project", tmp_path / "packaged" / "model_aoti.pt2"
    write_bundle(bundle, f"{VARIETY['offset']} -f aoti")
    assert f"set(file_torch {model.name})" in (bundle / "cpp" / "CMakeLists.txt").read_text()
    project.mkdir()
    (project / "CMakeLists.txt").write_text(PACKAGED)
    settings = {"POSENC_BACKEND": "torch", "BUNDLE": str(bundle), "PROGRAM": str(CPP / "package.cpp")}
    (tmp_path / "built").mkdir()
    build(project, tmp_path / "built", settings)
    replayed = run_watched(tmp_path / "built" / "replay", model, "cpu", bundle / "cpp" / "golden")
    assert replayed.returncode == 0, replayed
    assert replayed.stdout.endswith(" cases, 0 failed\n")
    relabelled = relabel(model, tmp_path / "other.pt2", "AVX512 AVX10_9")
    shown = run_watched(tmp_path / "built" / "program", model, relabelled).stdout.splitlines()
    kinds = [line.split(": ")[:2] for line in shown]
    assert kinds == [["loaded", "none"], ["other CPU", "device"], ["as before", "none"], ["memory", "bad_file"]], shown
    assert "other.pt2 is compiled for avx512 and avx10_9, this CPU has " in shown[1]
    assert "an AOTInductor package is loaded from its file" in shown[3]


def relabel(package: Path, to: Path, isa: str) -> Path:
    """Copy a package that says that it was compiled for another instruction set."""
    with zipfile.ZipFile(package) as old, zipfile.ZipFile(to, "w") as new:
        for entry in old.infolist():
            text = old.read(entry)
            if entry.filename.endswith("metadata.json"):
                text = json.dumps({**json.loads(text), "AOTI_CPU_ISA": isa}).encode()
            new.writestr(entry, text)
    return to
