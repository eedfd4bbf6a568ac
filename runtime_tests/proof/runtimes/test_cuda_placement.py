"""Where nodes would run on CUDA, without a GPU: ONNX Runtime's own provider says so, and nothing else is claimed."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import parser

import posenc_export
from helpers.shared import Cli, need
from posenc.scheme import SCHEMES
from posenc.spec import Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.common.errors import BadInput
from posenc_export.proof.checks.placement import CPU, placed
from posenc_export.proof.cuda.plan import BundlePlan
from posenc_export.proof.cuda.prove import exported
from posenc_export.proof.judging.verdict import ValidateOptions, unmet
from posenc_export.proof.running.run import validate_bundle
from posenc_export.proof.runtimes import (
    NOT_RUN,
    RUNTIMES,
    Crashed,
    Missing,
    RunFailed,
    Runner,
    cuda_placement,
    cuda_stubs,
)
from posenc_export.proof.runtimes.cuda_stubs import StubLibrary, libraries

NAME = "cuda-placement"
GRAPH = """<ir_version: 8, opset_import: ["": 18]> g (int64[batch, seq] ids, float[batch, seq, 8] x) => (y, n) {
    sizes = Shape (ids)
    one = Constant <value_ints = [1]> ()
    two = Constant <value_int = 2> ()
    n = Add (sizes, one)
    mixed = BitwiseXor (ids, two)
    few = Mod (mixed, two)
    all = Cast <to = 1> (few)
    rows = Unsqueeze (all, two)
    y = Add (rows, x)
}"""
"""A hash of ids, for which CUDA has no kernel, in nodes without names."""


@pytest.fixture(autouse=True)
def _another_process() -> Iterator[None]:
    """A test may stand in for what starts the process: the next test starts its own."""
    yield
    cuda_placement._started.cache_clear()


def opened(path: Path, bundle: Path) -> Runner:
    need(NAME)
    return RUNTIMES[NAME].open(path, Bundle.open(bundle).manifest)


def written(folder: Path, text: str = GRAPH) -> Path:
    path = folder / "made.onnx"
    onnx.save(parser.parse_model(text), path)
    return path


def test_it_places_and_says_that_nothing_ran(small_bundle: Path) -> None:
    need(NAME)
    options = ValidateOptions(runtimes=(NAME,))
    own = [row for row in validate_bundle(Bundle.open(small_bundle), options) if row.subject == NAME]
    (row,) = own
    assert (row.check, row.status, row.comparisons) == ("placement", "pass", ())
    assert row.detail.endswith(f" on the CPU; {NOT_RUN}")
    assert " nodes on CUDA, " in row.detail
    assert unmet(own, (NAME,)) == []


def test_a_report_has_a_row_of_its_own_kind(cli: Cli, bundle: Path) -> None:
    need(NAME)
    result = cli("validate", str(bundle), "--runtime", NAME, "--require", NAME)
    assert result.exit_code == 0, result.output
    (row,) = (line for line in result.output.splitlines() if line.startswith(f"{NAME}  "))
    assert row.split() == [NAME, "placed", "kernels", "not", "run", "1", "check", "passed"]
    assert "agrees on no runtimes" in result.output
    (line,) = (line for line in result.output.splitlines() if line.startswith(f"{NAME} placement: "))
    assert line.endswith(NOT_RUN)
    as_json = json.loads(cli("validate", str(bundle), "--runtime", NAME, "--json").output)
    (verdict,) = (one for one in as_json["verdicts"] if one["subject"] == NAME)
    assert (verdict["code"], NOT_RUN in verdict["detail"]) == ("PE110", True)


def test_unasked_it_does_not_run(small_bundle: Path) -> None:
    need(NAME)
    (row,) = (row for row in validate_bundle(Bundle.open(small_bundle), ValidateOptions()) if row.subject == NAME)
    assert (row.status, row.detail) == ("skip", "takes longer; give --prove")


def test_it_has_no_numbers(small_bundle: Path, cli: Cli) -> None:
    runner = opened(small_bundle / "model.onnx", small_bundle)
    with pytest.raises(RunFailed, match="runs no graph"):
        runner.call({})
    assert cli("bench", str(small_bundle), "--runtime", NAME).exit_code == 2
    with pytest.raises(BadInput, match="there is nothing to time"):
        posenc_export.bench(small_bundle, runtimes=[NAME])


def test_rows_that_cuda_cannot_compute_are_found_by_their_nodes(small_bundle: Path, tmp_path: Path) -> None:
    path = written(tmp_path)
    found = placed(opened(path, small_bundle), path)
    assert found.rows == ("BitwiseXor BitwiseXor 4",)
    assert found.unknown == ()
    assert "mixed" in found.large_copies
    assert found.problems[0] == "on the CPU: BitwiseXor BitwiseXor 4"
    assert found.sizes, "the shape is computed on the CPU"
    on_cuda = written(tmp_path, GRAPH.replace("BitwiseXor", "Add"))
    assert placed(opened(on_cuda, small_bundle), on_cuda).problems == []


def test_nodes_inside_a_branch_are_found_too(small_bundle: Path, tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["": 18]> g (int64[batch, seq] ids, bool mixed) => (y) {
        y = If (mixed) <
            then_branch = a () => (int64[batch, seq] w) { two = Constant <value_int = 2> () w = BitwiseXor (ids, two) },
            else_branch = b () => (int64[batch, seq] v) { one = Constant <value_int = 1> () v = Add (ids, one) }
        >
    }"""
    path = written(tmp_path, text)
    found = placed(opened(path, small_bundle), path)
    assert found.problems[0] == "on the CPU: BitwiseXor BitwiseXor 2"
    assert {"Add 4", "If 0"} <= {name for where, name, _ in opened(path, small_bundle).nodes if where != CPU}


def test_a_table_alone_has_nothing_to_place(tmp_path: Path) -> None:
    need(NAME)
    bundle = exported(BundlePlan("swin_bias", Spec("baked"), SCHEMES["swin_bias"].samples[0], ("onnx",)), tmp_path)
    (row,) = (row for row in validate_bundle(bundle, ValidateOptions(runtimes=(NAME,))) if row.subject == NAME)
    assert (row.status, row.detail) == ("pass", f"no nodes on CUDA, no size computations on the CPU; {NOT_RUN}")


def test_weights_may_lie_beside_a_graph(small_bundle: Path, tmp_path: Path) -> None:
    model = onnx.load(small_bundle / "model.onnx")
    onnx.save(model, tmp_path / "apart.onnx", save_as_external_data=True, location="weights.bin", size_threshold=64)
    whole, apart = opened(small_bundle / "model.onnx", small_bundle), opened(tmp_path / "apart.onnx", small_bundle)
    assert apart.nodes == whole.nodes
    for node in model.graph.node:
        node.name = ""
    onnx.save(model, tmp_path / "unnamed.onnx", save_as_external_data=True, location="weights.bin", size_threshold=64)
    unnamed = opened(tmp_path / "unnamed.onnx", small_bundle)
    assert [(where, op) for where, _, op in unnamed.nodes] == [(where, op) for where, _, op in whole.nodes]
    assert sorted(os.listdir(tmp_path)) == ["apart.onnx", "unnamed.onnx", "weights.bin"]


def test_one_process_places_many_files_and_another_takes_its_place(small_bundle: Path, tmp_path: Path) -> None:
    first = opened(small_bundle / "model.onnx", small_bundle)
    process = cuda_placement._child().process
    assert opened(small_bundle / "model.onnx", small_bundle).nodes == first.nodes
    (tmp_path / "broken.onnx").write_bytes(b"no graph")
    with pytest.raises(RunFailed, match=r"cannot load broken\.onnx"):
        opened(tmp_path / "broken.onnx", small_bundle)
    assert cuda_placement._child().process is process
    process.kill()
    process.wait()
    assert opened(small_bundle / "model.onnx", small_bundle).nodes == first.nodes
    assert cuda_placement._child().process is not process


def test_a_graph_that_cannot_be_loaded_fails(small_bundle: Path, tmp_path: Path) -> None:
    path = written(tmp_path, GRAPH.replace("BitwiseXor", "Nonsense"))
    with pytest.raises(RunFailed, match="Nonsense"):
        opened(path, small_bundle)


# ---- what it needs ---------------------------------------------------------------------------------------------------


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without a driver, and a cache without stubs."""
    monkeypatch.setattr(cuda_placement, "has_nvidia_driver", lambda: False)
    monkeypatch.setattr(cuda_stubs, "cache_folder", lambda: tmp_path / "cache")
    cuda_placement._started.cache_clear()


@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize(
    ("lacking", "message"),
    [("cc gcc clang", "no C compiler: cc, gcc, clang not found"), ("objdump llvm-objdump", "install binutils")],
)
def test_what_compiles_stubs_is_named_where_it_is_not_there(
    lacking: str, message: str, monkeypatch: pytest.MonkeyPatch, small_bundle: Path
) -> None:
    monkeypatch.delenv("CC", raising=False)
    which = shutil.which
    monkeypatch.setattr("shutil.which", lambda name: None if name in lacking.split() else which(name))
    with pytest.raises(Missing, match=message):
        RUNTIMES[NAME].check()
    rows = validate_bundle(Bundle.open(small_bundle), ValidateOptions(runtimes=(NAME,)))
    (row,) = (row for row in rows if row.subject == NAME)
    assert (row.status, message in row.detail) == ("skip", True)


@pytest.mark.usefixtures("no_driver")
def test_a_compiler_that_fails_is_named_and_leaves_nothing(
    small_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "false")
    with pytest.raises(Missing, match=r"the stub of lib\w+\.so\.\d+ does not compile: the compiler says nothing"):
        RUNTIMES[NAME].open(small_bundle / "model.onnx", Bundle.open(small_bundle).manifest)
    assert [one.suffix for one in (tmp_path / "cache" / "cuda-stubs").iterdir()] == [".lock"]


@pytest.mark.usefixtures("no_driver")
def test_stubs_are_compiled_once(small_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert opened(small_bundle / "model.onnx", small_bundle).nodes
    folder = cuda_stubs.stubs()
    assert {name.partition(".so")[0] for name in os.listdir(folder)} >= {"libcudart", "libcublas", "libcublasLt"}
    monkeypatch.setattr(cuda_stubs, "_compile", lambda *_: pytest.fail("they are there"))
    assert cuda_stubs.stubs() == folder
    assert [one for one in os.listdir(folder.parent) if one.startswith("making-")] == []


@pytest.mark.usefixtures("no_driver")
def test_a_session_that_does_not_come_up_is_no_placement(
    small_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nothing").mkdir()
    monkeypatch.setattr(cuda_stubs, "stubs", lambda: tmp_path / "nothing")
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    with pytest.raises(Missing, match=r"does not start CUDA here: Failed to create CUDAExecutionProvider\."):
        opened(small_bundle / "model.onnx", small_bundle)


def test_a_process_that_ends_says_nothing_of_the_file(small_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended:
        def ask(self, line: str) -> str:
            raise Crashed("CUDA without a GPU ended by signal SIGSEGV: it said nothing")

    monkeypatch.setattr(cuda_placement, "_child", Ended)
    with pytest.raises(Missing, match="no session came up: CUDA without a GPU ended by signal SIGSEGV"):
        opened(small_bundle / "model.onnx", small_bundle)


def test_with_a_driver_nothing_is_stubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(cuda_placement, "has_nvidia_driver", lambda: True)
    monkeypatch.setattr(cuda_placement, "ort_cuda_missing", lambda: asked.append("CUDA"))
    monkeypatch.setattr(cuda_stubs, "stubs", lambda: pytest.fail("stubs"))
    monkeypatch.setattr(cuda_placement, "python_child", lambda title, command, **env: (command[-1], env))
    cuda_placement._started.cache_clear()
    RUNTIMES[NAME].check()
    started: object = cuda_placement._started()
    assert started == ("driver", {})
    assert asked == ["CUDA"]


def test_a_release_that_does_not_say_where_nodes_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "get_provider_graph_assignment_info"
    monkeypatch.delattr(next(kind for kind in onnxruntime.InferenceSession.__mro__ if name in vars(kind)), name)
    with pytest.raises(Missing, match=r"does not say where nodes run, 1\.24 and newer do"):
        RUNTIMES[NAME].check()


def test_a_build_for_the_cpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_placement, "has_nvidia_driver", lambda: False)
    monkeypatch.setattr(Path, "is_file", lambda self: "providers_cuda" not in self.name)
    with pytest.raises(Missing, match="install 'onnxruntime-gpu"):
        RUNTIMES[NAME].check()


LISTING = """
  NEEDED               libcudart.so.12
  NEEDED               libcudnn.so.9
  NEEDED               libc.so.6
Version References:
  required from libcudart.so.12:
    0x0ff3db22 0x00 07 libcudart.so.12
  required from libc.so.6:
    0x06969194 0x00 12 GLIBC_2.14
  required from libcudnn.so.9:
    0x0ff3db29 0x00 09 libcudnn.so.9

DYNAMIC SYMBOL TABLE:
0000000000000000      DF *UND*\t0000000000000000 (libcudart.so.12) cudaMalloc
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.14)  memcpy
0000000000000000      DF *UND*\t0000000000000000  Base        cuTensorMapEncodeTiled
0000000000000000      DF *UND*\t0000000000000000 (libcudnn.so.9) cudnnCreate
0000000000000000      D  *UND*\t0000000000000000  Base        Provider_GetHost
0000000000000010 g    DF .text\t0000000000000020  Base        GetProvider
"""


def test_names_are_read_by_the_library_that_has_their_version() -> None:
    assert list(libraries(LISTING)) == [
        StubLibrary("libcudart.so.12", (("cudaMalloc", "libcudart.so.12"),)),
        StubLibrary("libcudnn.so.9", (("cudnnCreate", "libcudnn.so.9"),)),
        StubLibrary("libcuda.so.1", (("cuTensorMapEncodeTiled", ""),)),
    ]
    assert cuda_stubs._cuda_major(list(libraries(LISTING))) == 12
    newer = list(libraries(LISTING.replace("libcudart.so.12", "libcudart.so.14")))
    with pytest.raises(Missing, match="needs CUDA 14: there are stubs of CUDA 12 and 13"):
        cuda_stubs._cuda_major(newer)
