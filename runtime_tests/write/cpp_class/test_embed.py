"""`--cpp`: the folder builds with the three commands, replays all cases, finds damage, and is safe in threads."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.embedded import CPP, VARIETY, run_watched, write_bundles
from helpers.shared import Cli, Once, need, one_of_each
from posenc.ports import SEQ, Axis, Port, Positions, fixed
from posenc_export.bundle.folder import Bundle
from posenc_export.common.errors import BadInput
from posenc_export.proof.exporter.embedding import uses_of
from posenc_export.proof.runtimes.runner_build import build
from posenc_export.write.cpp.embed import check_embeddable
from posenc_export.write.cpp.example import example
from posenc_export.write.cpp.golden_cases import golden_source
from posenc_export.write.cpp.model_class import model_header
from posenc_export.write.cpp.uses import Uses

BACKENDS = {"onnx": ("ort-cpp", "model.onnx"), "torch": ("libtorch-cpp", "model.pt")}
KINDS = {"onnx": list(VARIETY), "torch": ["offset", "half", "bfloat", "bias", "masked"]}
"""What is replayed by a backend: what differs between kinds is what is shared by backends."""
PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(variety CXX)
add_compile_options(-fsanitize=thread -Wall -Wextra -Wconversion -Wshadow -Werror)
add_link_options(-fsanitize=thread)
find_package(Threads REQUIRED)
string(TOUPPER ${POSENC_BACKEND} backend)
foreach(name ${NAMES})
  add_subdirectory(${BUNDLES}/${name}/cpp ${name})
  add_executable(replay_${name} ${BUNDLES}/${name}/cpp/test/replay.cpp ${BUNDLES}/${name}/cpp/test/golden.cpp)
  target_compile_definitions(replay_${name} PRIVATE POSENC_BACKEND_${backend})
  target_link_libraries(replay_${name} PRIVATE posenc::${name} Threads::Threads)
endforeach()
add_executable(misuse ${MISUSE})
target_link_libraries(misuse PRIVATE posenc::offset posenc::half posenc::bfloat)
"""


TYPEID_AXES = (Axis("typeid", "length"), Axis("Axes", "length"))


@pytest.fixture
def bundles(once: Once) -> Path:
    """A folder of a bundle of each kind, with its C++ folder."""

    return once("variety", write_bundles)


@pytest.fixture
def programs(once: Once, bundles: Path) -> Callable[[str], Path]:
    """Return a function that gives a folder of programs of all bundles, built with ThreadSanitizer for a backend."""

    def make(backend: str) -> Path:
        need(BACKENDS[backend][0])

        def fill(folder: Path) -> None:
            project = folder / "project"
            project.mkdir()
            (project / "CMakeLists.txt").write_text(PROJECT)
            settings = {"BUNDLES": str(bundles), "NAMES": ";".join(KINDS[backend]), "MISUSE": str(CPP / "misuse.cpp")}
            build(project, folder, {"POSENC_BACKEND": backend, **settings})

        return once(f"variety-{backend}", fill)

    return make


@pytest.mark.exhaustive  # programs are built with ThreadSanitizer
@pytest.mark.parametrize(("backend", "name"), [(b, name) for b in BACKENDS for name in KINDS[b]])
def test_every_kind_of_graph_replays_its_cases(
    programs: Callable[[str], Path], bundles: Path, backend: str, name: str
) -> None:
    folder, model = programs(backend), bundles / name / BACKENDS[backend][1]
    done = run_watched(folder / f"replay_{name}", model, "cpu", bundles / name / "cpp" / "golden")
    assert done.returncode == 0, done
    cases = Bundle.open(bundles / name).manifest.cases
    replayed = sum(not case.unlike and not case.hard for case in cases)
    assert done.stdout.endswith(f"{replayed} cases, 0 failed\n")
    assert done.stderr == ""


@pytest.mark.exhaustive  # programs are built with ThreadSanitizer
@pytest.mark.parametrize("backend", BACKENDS)
def test_eight_threads_share_one_model(programs: Callable[[str], Path], bundles: Path, backend: str) -> None:
    model, golden = bundles / "half" / BACKENDS[backend][1], bundles / "half" / "cpp" / "golden"
    done = run_watched(programs(backend) / "replay_half", model, "cpu", golden, 8, 10_000)
    assert (done.returncode, done.stdout) == (0, "10000 runs in 8 threads, 0 failed\n"), done
    assert "ThreadSanitizer" not in done.stderr


@pytest.mark.exhaustive  # programs are built with ThreadSanitizer
@pytest.mark.parametrize("backend", BACKENDS)
def test_damage_is_found(programs: Callable[[str], Path], bundles: Path, tmp_path: Path, backend: str) -> None:
    model, replay = bundles / "offset" / BACKENDS[backend][1], programs(backend) / "replay_offset"
    golden = Path(shutil.copytree(bundles / "offset" / "cpp" / "golden", tmp_path / "golden"))
    file = sorted(golden.glob("*.y.bin"))[0]
    expected = np.fromfile(file, np.float32)
    for damage in (np.nextafter(expected, np.float32(9)), np.full_like(expected, np.nan), expected[:-1]):
        damage.tofile(file)
        done = run_watched(replay, model, "cpu", golden)
        assert done.returncode == 1
        assert "1 failed" in done.stdout
    other = run_watched(replay, bundles / "half" / BACKENDS[backend][1], "cpu", golden)
    assert other.returncode == 1, "another graph is not taken for this one"
    assert run_watched(replay, model, "cpu", tmp_path / "nowhere").returncode == 1


@pytest.mark.exhaustive  # programs are built with ThreadSanitizer
@pytest.mark.parametrize("backend", BACKENDS)
def test_masked_tokens_may_be_farther_off_and_others_not(
    programs: Callable[[str], Path], bundles: Path, tmp_path: Path, backend: str
) -> None:
    model, replay = bundles / "masked" / BACKENDS[backend][1], programs(backend) / "replay_masked"
    golden = Path(shutil.copytree(bundles / "masked" / "cpp" / "golden", tmp_path / "golden"))
    flags = sorted(golden.glob("*.y.masked.bin"))[0]
    masked = np.fromfile(flags, bool)
    file = golden / flags.name.replace(".masked", "")
    expected = np.fromfile(file, np.float32)
    for place, failed in ((np.argmax(masked), 0), (np.argmin(masked), 1)):
        changed = expected.copy()
        changed[place] += 1
        changed.tofile(file)
        done = run_watched(replay, model, "cpu", golden)
        assert (done.returncode, f"{failed} failed" in done.stdout) == (failed, True), done


@pytest.mark.parametrize("backend", one_of_each(BACKENDS, lambda _: ""))
@pytest.mark.exhaustive
def test_the_three_commands(bundles: Path, tmp_path: Path, backend: str) -> None:
    need(BACKENDS[backend][0])
    moved = Path(shutil.copytree(bundles / "offset", tmp_path / "moved to a folder with spaces"))
    option = "" if backend == "onnx" else f"-DPOSENC_BACKEND={backend}"
    commands = f"cmake -B build {option} && cmake --build build --parallel 2 && ctest --test-dir build"
    done = subprocess.run(["bash", "-c", commands], cwd=moved / "cpp", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stdout + done.stderr
    assert "100% tests passed, 0 tests failed out of 3" in done.stdout
    shown = run_watched(moved / "cpp" / "build" / "example", moved / BACKENDS[backend][1])
    assert re.fullmatch(r"y:( \S+)+ \.\.\. \(24\)\n", shown.stdout), shown


def test_the_python_that_cmake_asks_is_the_one_on_the_path() -> None:
    assert shutil.which("python3"), "the three commands look for libraries in the packages of python3"


def test_what_the_class_is_made_of(bundles: Path) -> None:
    manifest = Bundle.open(bundles / "offset").manifest
    text = model_header(manifest, "offset", uses_of(Bundle.open(bundles / "offset", trusted=True)))
    assert "Ort" not in text
    assert "onnx" not in text.lower()
    for expected in (
        "Span<const float> x",
        "Span<const std::int64_t> start",
        "Span<float> y",
        "x: float32[batch, seq, 8]",
        "start: int64[1] < 16777216",
    ):
        assert expected in text
    assert text == (bundles / "offset" / "cpp" / "include" / "offset.hpp").read_text()


def test_what_counts_by_its_sizes_alone_is_no_argument(bundles: Path) -> None:
    bundle = Bundle.open(bundles / "bias")
    assert bundle.manifest.unread == ("q", "k")
    text = (bundles / "bias" / "cpp" / "include" / "bias.hpp").read_text()
    assert "k: float32[batch, kv_heads, seq_k, head_dim]: its shape alone, and no argument" in text
    assert re.findall(r"Span<.*> \w+", text) == 2 * ["Span<float> bias"]
    assert "k_size" not in text
    golden = {path.name.split(".")[1] for path in (bundles / "bias" / "cpp" / "golden").iterdir()}
    assert golden == {"bias"}


ASSERTED, COUNT = Axis("static_assert", "length"), Axis("count", "length")
ODD = ["class_", "new", "inputs_", "outputs", "view", "View", "session_", "wchar_t"]
ODD += ["thread_local", "constexpr", "unix", "axes", "Span", "std", "i", "posenc"]


def test_the_folder_holds_what_a_build_takes_and_no_templates(bundles: Path) -> None:
    for name in VARIETY:
        files = {path.suffix for path in (bundles / name / "cpp").rglob("*") if path.is_file()}
        assert files == {".bin", ".cmake", ".cpp", ".hpp", ".txt"}


def test_names_that_cpp_has_itself(bundles: Path, tmp_path: Path) -> None:
    need("header-cpp")
    manifest = Bundle.open(bundles / "offset").manifest
    dtypes = ["bool", "float16", "float32", "int64"] * 4
    inputs = tuple(Port(n, (ASSERTED, COUNT, fixed(3)), d) for n, d in zip(ODD, dtypes, strict=True))
    odd = replace(manifest, inputs=(*inputs, Port("positions", (COUNT,), "float16", Positions())), cases=())
    odd = replace(odd, outputs=(Port("y", TYPEID_AXES, "bool"), Port("z", (fixed(70_000),) * 2, "int32")))
    odd = replace(odd, params={"text": "a\nint main(*/\\", "x": "\\"})
    odd = replace(odd, inputs=(*odd.inputs, Port("typeid_", TYPEID_AXES, "int64")))
    check_embeddable(odd.inputs, odd.outputs)
    uses = Uses(frozenset({"inputs_", "std"}))
    here = Path(shutil.copytree(bundles / "offset" / "cpp", tmp_path / "cpp"))
    (here / "include" / "offset.hpp").write_text(model_header(odd, "offset", uses))
    (here / "example.cpp").write_text(example(odd, "offset", uses))
    (here / "test" / "golden.cpp").write_text(golden_source(odd, {}, uses))
    flags = ["-std=gnu++17", "-fsyntax-only", *["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]]
    flags += [f"-I{here / folder}" for folder in ("session/include", "include")]
    done = run_watched(os.environ.get("CXX", "c++"), *flags, here / "example.cpp", here / "test" / "golden.cpp")
    assert done.returncode == 0, done.stderr


def test_a_class_gives_arrays_where_outputs_have_sizes_of_their_own(bundles: Path, tmp_path: Path) -> None:
    need("header-cpp")
    manifest = Bundle.open(bundles / "offset").manifest
    rows = Port("rows", (Axis("y_axis0", "length"), fixed(4)), "float32")
    free = replace(manifest, outputs=(rows, Port("arrays_", (fixed(2),), "int64")), cases=())
    check_embeddable(free.inputs, free.outputs)
    text = model_header(free, "offset", Uses())
    assert "std::vector<Array>& arrays_) const noexcept" in text
    assert "rows_size" not in text
    here = Path(shutil.copytree(bundles / "offset" / "cpp", tmp_path / "cpp"))
    (here / "include" / "offset.hpp").write_text(text)
    (here / "example.cpp").write_text(example(free, "offset", Uses()))
    (here / "test" / "golden.cpp").write_text(golden_source(free, {}, Uses()))
    flags = ["-std=gnu++17", "-fsyntax-only", *["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]]
    flags += [f"-I{here / folder}" for folder in ("session/include", "include")]
    done = run_watched(os.environ.get("CXX", "c++"), *flags, here / "example.cpp", here / "test" / "golden.cpp")
    assert done.returncode == 0, done.stderr


def test_what_cannot_be_embedded_is_one_line(cli: Cli) -> None:
    cache = Port("past_key_values.0.key", (SEQ, COUNT), "float32")
    with pytest.raises(BadInput, match=r"--cpp needs outputs as long as inputs are: y: .* has 'axis0'"):
        check_embeddable((cache,), (Port("y", (Axis("axis0", "length"),), "float32"),))
    with pytest.raises(BadInput, match=r"--cpp cannot tell two inputs, outputs or axes apart that it calls 'y'"):
        check_embeddable((Port("y", (SEQ,), "float32"),), (Port("y", (SEQ,), "float32"),))
    with pytest.raises(BadInput, match=r"that it calls 'class_'"):
        check_embeddable((Port("x", (Axis("class", "length"), Axis("class_", "length")), "float32"),), ())
    result = cli("export", "--cpp", "-f", "pt2")
    assert result.exit_code == 2
    assert "--cpp is for graphs that C++ loads: give -f onnx, -f torchscript or -f aoti with it" in result.output


def test_a_bundle_without_the_flag_has_no_such_folder(small_bundle: Path) -> None:
    assert not (small_bundle / "cpp").exists()


def test_golden_data_are_those_of_the_bundle(bundles: Path) -> None:
    golden: Any = np.load(bundles / "half" / "golden.npz")
    manifest = json.loads((bundles / "half" / "manifest.json").read_text())
    for case in manifest["cases"]:
        if "unlike" in case:  # no call of the class: it takes one size of each axis
            continue
        key = f"{case['name']}/positions"
        stored = np.fromfile(bundles / "half" / "cpp" / "golden" / f"{case['name']}.positions.bin", np.int64)
        assert stored.tobytes() == golden[key].tobytes()
