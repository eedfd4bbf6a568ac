"""ONNX Runtime where it lies: archives and package managers by made-up layouts; what is missing, in words."""

import shutil
from pathlib import Path

import pytest

from posenc_export.proof.runtimes.runner_build import SESSION, BuildFailed, build


def configured(project: Path, text: str, **settings: str) -> str:
    """Configure a project and return all that CMake said; BuildFailed with its message."""
    made = project / "build"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    head = "cmake_minimum_required(VERSION 3.18)\nproject(p NONE)\n"
    (project / "CMakeLists.txt").write_text(head + text)
    build(project, made, settings)
    return (made / "build.log").read_text()


FIND = """
set(CMAKE_FIND_LIBRARY_PREFIXES lib "")
set(CMAKE_FIND_LIBRARY_SUFFIXES .so .lib)
set(CMAKE_SHARED_LIBRARY_SUFFIX .so)
list(APPEND CMAKE_MODULE_PATH ${SESSION})
find_package(ONNXRuntime REQUIRED)
get_target_property(include ONNXRuntime::ONNXRuntime INTERFACE_INCLUDE_DIRECTORIES)
get_target_property(library ONNXRuntime::ONNXRuntime IMPORTED_LOCATION)
message(STATUS "FOUND ${include} ${library}")
"""
HEADER = "onnxruntime_c_api.h"
LAYOUTS = {
    "release archive": (f"include/{HEADER}", "lib/libonnxruntime.so", {}),
    "release archive of 64 bits": (f"include/{HEADER}", "lib64/libonnxruntime.so", {}),
    "old release archive": (f"include/onnxruntime/core/session/{HEADER}", "lib/libonnxruntime.so", {}),
    "vcpkg": (f"include/onnxruntime/{HEADER}", "lib/libonnxruntime.so", {"by": "CMAKE_PREFIX_PATH"}),
    "conan": (f"include/onnxruntime/{HEADER}", "lib/libonnxruntime.so", {"by": "CMAKE_PREFIX_PATH"}),
    "conan on Windows": (f"include/{HEADER}", "lib/onnxruntime.lib", {"by": "CMAKE_PREFIX_PATH"}),
    "NuGet": (f"build/native/include/{HEADER}", "runtimes/linux-x64/native/libonnxruntime.so", {}),
    "Android": (f"headers/{HEADER}", "jni/arm64-v8a/libonnxruntime.so", {"ANDROID_ABI": "arm64-v8a"}),
    "Android's archive": (f"headers/{HEADER}", "jni/x86_64/libonnxruntime.so", {"ANDROID_ABI": "x86_64"}),
}


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python without onnxruntime, and no ONNX Runtime of this machine."""
    if not shutil.which("cmake"):
        pytest.skip("cmake is not found")
    for name in ("ONNXRUNTIME_ROOT", "CMAKE_PREFIX_PATH"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "project"


def settings_of(**more: str) -> dict[str, str]:
    return {
        "SESSION": str(SESSION),
        "POSENC_PYTHON": "/nowhere/python",
        "CMAKE_FIND_USE_CMAKE_SYSTEM_PATH": "OFF",
        **more,
    }


@pytest.mark.parametrize("name", LAYOUTS)
def test_onnx_runtime_is_found_as_it_is_handed_out(nowhere: Path, tmp_path: Path, name: str) -> None:
    header, library, settings = LAYOUTS[name]
    root = tmp_path / "root"
    for file, text in ((header, "#define ORT_API_VERSION 17\n"), (library, "")):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    given = dict(settings)
    by, place = given.pop("by", "ONNXRUNTIME_ROOT"), root
    if name == "Android's archive":
        place = Path(shutil.make_archive(str(tmp_path / "onnxruntime-android-1.17.0"), "zip", root)).rename(
            tmp_path / "onnxruntime-android-1.17.0.aar"
        )
        shutil.rmtree(root)
        root = nowhere / "build" / "onnxruntime-android"
    log = configured(nowhere, FIND, **settings_of(**given, **{by: str(place)}))
    assert f"FOUND {(root / header).parent} {root / library}\n" in log


def test_what_of_onnx_runtime_is_missing_is_said_with_how_to_get_it(nowhere: Path, tmp_path: Path) -> None:
    (tmp_path / "root" / "lib").mkdir(parents=True)
    with pytest.raises(BuildFailed, match=r"library is not found: pip install onnxruntime \(headers alone suffice"):
        configured(nowhere, FIND, **settings_of(ONNXRUNTIME_ROOT=str(tmp_path / "root")))
    (tmp_path / "root" / "lib" / "libonnxruntime.so").touch()
    with pytest.raises(BuildFailed, match=r"headers are not found.*headers alone suffice.*github.com/microsoft"):
        configured(nowhere, FIND, **settings_of(ONNXRUNTIME_ROOT=str(tmp_path / "root")))
