"""The class of a bundle: what it refuses and in which words, without exceptions, without allocations; its positions."""

import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.embedded import CPP, VARIETY, run, write_bundle, write_bundles
from helpers.other_graphs import FILES, OTHERS, STRIP, STRIPPED, refused, write_others
from helpers.shared import Once, need
from posenc_export.proof.runtimes.runner_build import RUNNER, build

PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(used CXX)
add_compile_options(-Wall -Wextra -Wconversion -Wshadow -Werror ${FLAGS})
add_link_options(${FLAGS})
foreach(name offset half bfloat bias scores)
  add_subdirectory(${BUNDLES}/${name}/cpp ${name})
endforeach()
foreach(name ${PROGRAMS})
  add_executable(${name} ${SOURCES}/${name}.cpp)
  target_link_libraries(${name} PRIVATE posenc::offset posenc::half posenc::bfloat posenc::bias posenc::scores)
  if(TARGET ONNXRuntime::ONNXRuntime)
    target_link_libraries(${name} PRIVATE ONNXRuntime::ONNXRuntime)
  endif()
endforeach()
"""
TOGETHER = (("misuse", "memory"), ("nothrow",), ("threads",))
"""Programs that are built together."""


@pytest.fixture
def program(once: Once) -> Callable[..., Path]:
    """Return a function that builds a program of cpp with five bundles, for a backend, with flags."""
    bundles = once("variety", write_bundles)

    def make(name: str, backend: str = "onnx", flags: str = "") -> Path:
        need({"onnx": "ort-cpp", "torch": "libtorch-cpp"}[backend])
        programs = next(programs for programs in TOGETHER if name in programs)

        def fill(folder: Path) -> None:
            project = folder / "project"
            project.mkdir()
            (project / "CMakeLists.txt").write_text(PROJECT)
            settings = {"BUNDLES": str(bundles), "SOURCES": str(CPP), "PROGRAMS": ";".join(programs)}
            build(project, folder, {**settings, "POSENC_BACKEND": backend, "FLAGS": flags})

        return once(re.sub(r"[^a-z]+", "-", f"{programs[0]}-{backend}-{flags}"), fill) / name

    return make


NO_TENSOR = "a size is negative, or they are too many"
REFUSED = f"""
fine: none: fine
longer: bad_argument: 'x' has 48 elements, expected those of shape (2, 4, 8)
short: bad_argument: 'y' has 5 elements, expected those of shape (2, 3, 8)
below: bad_argument: there is no tensor of shape (-2, -3, 8): {NO_TENSOR}
huge: bad_argument: there is no tensor of shape (2147483648, 1073741824, 8): {NO_TENSOR}
null: bad_argument: 'x' is a null pointer, expected the elements of shape (2, 3, 8)
fine again: none: fine
start: none: fine
start: out_of_range: 'start' is 16777214, out of range: expected 0 to 16777213, since 3 positions count from it, \
below 16777216
start: out_of_range: 'start' is 16777216, out of range: expected 0 to 16777213, since 3 positions count from it, \
below 16777216
start: out_of_range: 'start' is -1, out of range: expected 0 to 16777213, since 3 positions count from it, \
below 16777216
in place: none: fine
same: 1
beside: bad_argument: output 'y' overlaps 'x': give it memory of its own, or all of 'x'
both in place: none: fine
crosswise: bad_argument: output 'q_rotated' overlaps 'k': give it memory of its own, or all of 'q'
twice: bad_argument: output 'k_rotated' overlaps 'q': give it memory of its own, or all of 'k'
moved from: bad_argument: this session holds no graph: none was loaded, or it was moved from
moved to: none: fine
moved back: none: fine
not loaded: bad_file: nowhere.onnx is not a file
as before: none: fine
missing: bad_file: nowhere.onnx is not a file
"""


IN_MEMORY = "the graph in memory"
BACKENDS = ["onnx", pytest.param("torch", marks=pytest.mark.exhaustive)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_refused_and_in_which_words(program: Callable[..., Path], once: Once, backend: str) -> None:
    bundles, file = once("variety", write_bundles), FILES[backend]
    other = bundles / ("half" if backend == "onnx" else "text") / file
    built = program("misuse", backend)
    done = run(built, bundles / "offset" / file, bundles / "half" / file, other)
    assert done.returncode == 0, done
    assert done.stderr == ""
    expected = REFUSED.strip().splitlines()
    assert done.stdout.splitlines()[: len(expected)] == expected
    lines = dict(line.split(": ", 1) for line in done.stdout.splitlines()[len(expected) :])
    assert lines["memory"] == "none: fine"
    assert lines["noise"].startswith("bad_file: ")
    assert lines["threads"].startswith("bad_argument: threads is ")
    if backend == "onnx":
        assert lines["other graph"] == (
            "bad_file: model.onnx is another graph than this class was made for: scheme is rope, expected sinusoidal"
        )
    assert not re.search(r"\.(cc|cpp|h|hpp):\d", done.stdout), "no place in a source file"


KINDS = [
    *(pytest.param("onnx", name, kind) for name, kind in (("half", "theta"), ("bfloat", "seed"))),
    *(pytest.param(backend, name, "", marks=pytest.mark.exhaustive) for backend in FILES for name in OTHERS),
]


@pytest.mark.parametrize(("backend", "name", "kind"), KINDS)
def test_every_other_graph_of_the_same_ports_is_refused(
    program: Callable[..., Path], once: Once, tmp_path: Path, *, backend: str, name: str, kind: str
) -> None:
    """By the class that `name` is: one other graph in the quick run, then all."""
    bundles, file = once("variety", write_bundles), FILES[backend]
    others = once(f"others-{name}-{kind}", lambda folder: write_others(folder, name, kind))
    STRIP[backend](bundles / name / file, tmp_path / file)
    graphs: list[object] = [bundles / name / file, tmp_path / file, "any", tmp_path / file]
    expected = ["none: ", *(f"bad_file: {place} {STRIPPED}" for place in (file, IN_MEMORY)), "none: "]
    expected = [expected[0], *expected, expected[-1]]
    for other in sorted(others.glob("*/")):
        graphs.append(other / file)
        expected += [f"bad_file: {refused(place, OTHERS[name][other.name])}" for place in (file, IN_MEMORY)]
    done = run(program("misuse", backend), "load", name, *graphs)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert [line.partition(": ")[2] for line in done.stdout.splitlines()] == expected


@pytest.mark.exhaustive
def test_a_package_is_known_before_its_code_is_loaded(program: Callable[..., Path], once: Once, tmp_path: Path) -> None:
    """Its class loads what another export of the same graph wrote; another class refuses that, were there no code."""
    once("variety", write_bundles)
    write_bundle(tmp_path / "aoti", f"{VARIETY['bfloat']} -f aoti -f torchscript")
    package, empty = tmp_path / "aoti" / "model_aoti.pt2", tmp_path / "empty.pt2"
    with zipfile.ZipFile(package) as whole, zipfile.ZipFile(empty, "w") as part:
        for name in whole.namelist():
            if not name.endswith((".so", ".cpp", ".json")):
                part.writestr(name, whole.read(name))
    built = program("misuse", "torch")
    assert run(built, "load", "bfloat", package).stdout == "file: none: \n"
    words = "is another graph than this class was made for: scheme is learned, expected rope\n"
    done = run(built, "load", "half", package, empty)
    assert done.stdout == "".join(f"file: bad_file: {file.name} {words}" for file in (package, empty))


@pytest.mark.exhaustive
def test_sessions_of_a_program_share_their_threads(program: Callable[..., Path], once: Once) -> None:
    """Unless one asks for a number of its own, or the program made an environment that has no threads to share."""
    bundles = once("variety", write_bundles)
    built = program("threads")

    def counted(*how: str) -> list[int]:
        done = run(built, *(bundles / name / "model.onnx" for name in ("offset", "half")), *how)
        assert (done.returncode, done.stderr) == (0, ""), done
        return [int(word) for word in done.stdout.split()]

    none, one, two, ran = counted()
    assert one == two == ran
    shared = one - none
    none, one, two, ran = counted("own")
    assert (two - one, ran) == (2, two), "three threads are two beside the caller's"
    none, one, two, ran = counted("env")
    assert (two - one, ran) == (one - none, two), "sessions of an environment without threads have their own"
    assert one - none <= shared


WITHOUT_MEMORY = """
class: less than k
same without memory: 11
'k' is a null pointer, expected the elements of shape (1, 8, 4096, 64)
"""
KEPT = {
    "onnx": "first: as much as k\nsame: 1\nthen: less than k\n",
    "torch": "env and session_options are ONNX Runtime's: this session was built for libtorch\n",
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_inputs_of_which_sizes_count_ask_for_no_memory(program: Callable[..., Path], once: Once, backend: str) -> None:
    bundles, file = once("variety", write_bundles), FILES[backend]
    done = run(program("memory", backend), bundles / "bias" / file, bundles / "scores" / file)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout == WITHOUT_MEMORY.lstrip() + KEPT[backend] + "in place: 1\n"


@pytest.mark.exhaustive
def test_it_compiles_and_runs_without_exceptions_and_type_information(
    program: Callable[..., Path], once: Once, tmp_path: Path
) -> None:
    bundles = once("variety", write_bundles)
    built = program("nothrow", flags="-fno-exceptions;-fno-rtti")
    done = run(built, bundles / "offset" / "model.onnx", bundles / "half" / "model.onnx", tmp_path / "y.bin")
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout.splitlines() == ["not loaded: 1", "loaded: 0", "ran: 0", "hook: 1", "other dtype: 3", "far: 2"]


@pytest.mark.exhaustive
def test_a_call_allocates_what_the_runtime_allocates_and_nothing_else(once: Once, tmp_path: Path) -> None:
    need("ort-cpp")
    write_bundle(tmp_path / "additive", "sinusoidal --dynamic -f onnx")
    write_bundle(tmp_path / "rotary", "rope --dynamic -p head_dim=128 -f onnx")

    def fill(folder: Path) -> None:
        settings = {"POSENC_BACKEND": "onnx", "POSENC_OVERHEAD": str(tmp_path), "POSENC_WERROR": "ON"}
        build(RUNNER, folder, settings)
        assert run("cmake", "--build", folder, "--target", "overhead").returncode == 0

    done = run(once("overhead", fill) / "overhead", tmp_path, 1000)
    counts = re.findall(r"us, (\d+) allocations.*us, (\d+) allocations", done.stdout)
    assert len(counts) == 6, done
    for theirs, ours in counts:
        assert int(theirs) > 1000, "the count counts"
        assert abs(int(ours) - int(theirs)) < 500, "less than one in two calls: threads of the runtime come and go"
