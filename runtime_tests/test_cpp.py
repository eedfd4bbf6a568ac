"""The C++ runners: the same bits, one clear line for whatever is wrong, sanitizers; how they are found and built."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import Cli, Once, need
from posenc.scheme import Form
from posenc_export.bundle.folder import Bundle
from posenc_export.runtimes import RUNTIMES, RunFailed
from posenc_export.runtimes import runner_build as native
from posenc_export.runtimes.cpp import ORT, TORCH
from posenc_export.runtimes.runner_build import RUNNER, SESSION, BuildFailed, Program, build, explain
from test_parity import MORE
from test_parity import run as export_scheme

PROGRAMS = {"ort_runner": (ORT, "ort-cpp", "model.onnx"), "torch_runner": (TORCH, "libtorch-cpp", "model.pt")}
SANITIZED = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "halt_on_error=1"}
"""Leaks of the libraries, which are not instrumented, are not ours to judge."""


Sanitized = Callable[[str], Path]


@pytest.fixture
def sanitized(once: Once) -> Sanitized:
    """Return a function that gives a runner built with AddressSanitizer and UBSan."""

    def built(name: str) -> Path:
        program, runtime, _ = PROGRAMS[name]
        need(runtime)
        settings = {"POSENC_BACKEND": program.backend, "POSENC_SANITIZE": "address,undefined", "POSENC_WERROR": "ON"}
        return once(f"sanitized-{name}", lambda folder: build(RUNNER, folder, settings)) / name

    return built


@pytest.fixture
def bundle(small_bundle: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small_bundle, tmp_path / "moved to a folder with spaces"))


def a_case(bundle: Path) -> tuple[str, dict[str, np.ndarray], np.ndarray]:
    manifest = Bundle.open(bundle).manifest
    name = next(t.case.name for t in manifest.trials if not t.case.refused and t.case.sizes["batch"] == 3)
    with np.load(bundle / "golden.npz") as golden:
        return name, {p.name: golden[f"{name}/{p.name}"] for p in manifest.inputs}, golden[f"{name}/y"]


def run(program: Path, *words: object) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **SANITIZED}
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False, env=env)


def save(folder: Path, feeds: dict[str, np.ndarray]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, array in feeds.items():
        np.save(folder / f"{name}.npy", array)
    return folder


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_case_by_hand(sanitized: Sanitized, bundle: Path, tmp_path: Path, name: str) -> None:
    _, feeds, expected = a_case(bundle)
    out = tmp_path / "out"
    out.mkdir()
    done = run(sanitized(name), bundle, save(tmp_path / "in", feeds), out)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    found = np.load(out / "y.npy")
    assert found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()


def lose(feeds: dict[str, np.ndarray]) -> None:
    del feeds["start"]


def narrow(feeds: dict[str, np.ndarray]) -> None:
    feeds["x"] = feeds["x"][..., :4]


def flatten(feeds: dict[str, np.ndarray]) -> None:
    feeds["x"] = feeds["x"][0]


def widen(feeds: dict[str, np.ndarray]) -> None:
    feeds["x"] = feeds["x"].astype(np.float64)


def too_far(feeds: dict[str, np.ndarray]) -> None:
    feeds["start"] = np.array([2**24], np.int64)


def negative(feeds: dict[str, np.ndarray]) -> None:
    feeds["start"] = np.array([-1], np.int64)


BAD_FEEDS = [
    (lose, "input 'start' is missing: expected start: int64[1] in "),
    (narrow, "input 'x' has shape (3, 2, 4): expected x: float32[batch, seq, 8]"),
    (flatten, "input 'x' has shape (2, 8): expected x: float32[batch, seq, 8]"),
    (widen, "expected x: float32[batch, seq, 8]"),
    (too_far, ""),
    (negative, ""),
]


def is_one_clear_line(done: subprocess.CompletedProcess[str], text: str) -> None:
    assert done.returncode == 1, done
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert text in done.stderr


@pytest.mark.parametrize(("change", "text"), BAD_FEEDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_bad_inputs_are_one_line(
    sanitized: Sanitized, bundle: Path, name: str, change: Callable[..., None], text: str
) -> None:
    _, feeds, _ = a_case(bundle)
    change(feeds)
    folder = save(bundle / "in", feeds)
    is_one_clear_line(run(sanitized(name), bundle, folder, folder), text)


@pytest.mark.parametrize("name", PROGRAMS)
def test_damaged_npy_files_are_one_line(sanitized: Sanitized, bundle: Path, tmp_path: Path, name: str) -> None:
    _, feeds, _ = a_case(bundle)
    path = save(tmp_path / "in", feeds) / "x.npy"
    whole = path.read_bytes()
    for damaged in (b"", whole[:5], whole[:60], whole[:-8], b"\0" * 200, whole.replace(b"(3,", b"(9,", 1)):
        path.write_bytes(damaged)
        is_one_clear_line(run(sanitized(name), bundle, path.parent, tmp_path), "x.npy cannot be read")


@pytest.mark.parametrize("name", PROGRAMS)
def test_damaged_graphs_and_bundles_are_one_line(sanitized: Sanitized, bundle: Path, tmp_path: Path, name: str) -> None:
    program, file = sanitized(name), bundle / PROGRAMS[name][2]
    _, feeds, _ = a_case(bundle)
    given = (save(tmp_path / "in", feeds), tmp_path)
    whole, manifest = file.read_bytes(), (bundle / "manifest.json").read_text()
    for damaged in (b"", whole[:1000], whole[: len(whole) // 2], b"\x07" * 5000):
        file.write_bytes(damaged)
        is_one_clear_line(run(program, bundle, *given), "")
    file.unlink()
    is_one_clear_line(run(program, bundle, *given), "")
    file.write_bytes(whole)
    edits = [
        (manifest[:100], "manifest.json is damaged"),
        ("[]", "manifest.json is damaged"),
        (manifest.replace('"float32"', '"float31"'), "unknown dtype 'float31'"),
        (manifest.replace(f'"{file.name}"', f'"../{file.name}"'), "is not a file of the bundle"),
        (manifest.replace('"format": "', '"format": "not-'), "holds nothing that this runs"),
    ]
    for text, told in edits:
        (bundle / "manifest.json").write_text(text)
        is_one_clear_line(run(program, bundle, *given), told)
    is_one_clear_line(run(program, tmp_path / "nowhere", *given), "is not a bundle")


def test_wrong_usage_is_one_line(sanitized: Sanitized, bundle: Path) -> None:
    program = sanitized("ort_runner")
    for words, text in (
        ((bundle, "in"), "expected BUNDLE, or BUNDLE IN OUT"),
        ((bundle, "--devise", "cpu"), "unknown option --devise"),
        ((bundle, "--device"), "--device needs a value"),
        ((bundle, "--device", "tpu"), "--device is 'tpu': expected cpu or cuda"),
        ((bundle, "--format", "torchscript"), "holds nothing that this runs: expected torchscript"),
    ):
        is_one_clear_line(run(program, *words), text)
    assert run(program, "--help").returncode == 0
    assert "headers 1." in run(program, "--version").stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_cuda_that_is_not_there_is_one_line(sanitized: Sanitized, bundle: Path, name: str) -> None:
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine has CUDA: the CUDA runtimes are tested in its place")
    is_one_clear_line(run(sanitized(name), bundle, "--device", "cuda"), "")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_runner_answers_each_line_and_outlives_errors(bundle: Path, tmp_path: Path, name: str) -> None:
    _, runtime, file = PROGRAMS[name]
    need(runtime)
    manifest = Bundle.open(bundle).manifest
    runner = RUNTIMES[runtime].open(bundle / file, manifest.inputs, manifest.outputs)
    _, feeds, expected = a_case(bundle)
    for _ in range(2):
        with pytest.raises(RunFailed):
            runner.run({**feeds, "start": np.array([2**24], np.int64)})
        assert runner.run(feeds)["y"].tobytes() == expected.tobytes()
    assert (
        runner.run({**feeds, "x": feeds["x"].swapaxes(0, 1).copy().swapaxes(0, 1)})["y"].tobytes() == expected.tobytes()
    )


def test_a_runner_that_dies_says_of_what(bundle: Path) -> None:
    need("ort-cpp")
    from posenc_export.runtimes.cpp import Process

    _, feeds, _ = a_case(bundle)
    process = Process(ORT, bundle, format_="onnx", device="cpu")
    process.process.send_signal(signal.SIGSEGV)
    for _ in range(2):
        with pytest.raises(RunFailed, match="the C\\+\\+ runner crashed: signal 11"):
            process(feeds, ())


SAME_LIBRARY = [
    ("sinusoidal", {"d_model": 16}, Form("dynamic", "trig", "implicit", 70), {}),
    ("sinusoidal", {"d_model": 16}, Form("dynamic", "trig", "offset", 70, "fp16"), {}),
    ("sinusoidal", {"d_model": "auto"}, Form("dynamic", "trig", "explicit", 70), {}),
    ("rope", MORE["rope"][3], Form("dynamic", "exact", "explicit", 70), {}),
    ("rope", {"head_dim": 16}, Form("dynamic", "exact", "explicit", 70), {"rotary_op": "onnx", "opset": 23}),
    ("rope", {"head_dim": 16}, Form("baked", "exact", "offset", 70, "fp16"), {"rotary_op": "microsoft"}),
    ("xpos", {"head_dim": 16}, Form("dynamic", "trig", "explicit", 70, "bf16"), {}),
]
"""What need not have the eager bits: from Python and from C++ a library gives the same ones all the same."""


@pytest.mark.parametrize(("scheme", "params", "form", "order"), SAME_LIBRARY)
def test_cpp_gives_the_bits_that_python_gives(
    tmp_path: Path, scheme: str, params: dict[str, Any], form: Form, order: dict[str, Any]
) -> None:
    outcome = export_scheme(scheme, form, params, tmp_path, validate=False, **order)
    manifest = outcome.manifest
    for python, cpp, file in (("ort-cpu", "ort-cpp", "model.onnx"), ("torchscript-cpu", "libtorch-cpp", "model.pt")):
        need(cpp)
        one, other = (RUNTIMES[n].open(outcome.folder / file, manifest.inputs, manifest.outputs) for n in (python, cpp))
        for spec, recorded in Bundle.open(outcome.folder).recorded():
            if not spec.case.refused:
                expected, found = one.run(recorded.feeds), other.run(recorded.feeds)
                for name, array in expected.items():
                    assert found[name].dtype == array.dtype
                    assert found[name].tobytes() == array.tobytes(), (cpp, spec.case.name, name)


# ---- finding and building --------------------------------------------------------------------------------------------


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
    write_project(
        f"{head}"
        'file(WRITE ${CMAKE_BINARY_DIR}/p "#!/bin/sh\\necho version 1")\n'
        "execute_process(COMMAND chmod +x ${CMAKE_BINARY_DIR}/p)\n"
    )
    told: list[str] = []
    program.build(told.append)
    assert program.problem() == ""
    assert any(line.startswith("building the C++ runner: ") for line in told)
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
    report = json.loads(cli("validate", str(bundle), "--json").stdout)
    rows = {v["subject"]: v for v in report["verdicts"] if v["check"] == "agrees"}
    for name in ("ort-cpp", "libtorch-cpp"):
        assert rows[name]["status"] == "skip"
        assert rows[name]["detail"] == "not built yet: naming it with --runtime does that"
    assert not (tmp_path / "cache").exists(), "nothing is built that was not asked for"


def test_the_session_needs_no_private_headers() -> None:
    text = "".join(f.read_text() for f in SESSION.iterdir())
    assert "Ort::" not in (SESSION / "session.hpp").read_text()
    assert "nlohmann" not in text
    assert "xtensor" not in text
