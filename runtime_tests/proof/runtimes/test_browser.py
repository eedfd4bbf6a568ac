"""Graphs in a real browser: what is promised of each provider, where nodes run, and dtypes."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from helpers.one_runtime import verdicts
from helpers.runner_tools import a_case
from helpers.shared import Cli, Once, need, one_of_each, sample_bundle
from posenc.ports import Axis, Port, Values
from posenc.spec import DType, Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.runtimes import RUNTIMES, Missing, RunFailed
from posenc_export.proof.runtimes.browser.client import PageGraph
from scripts.browsers import RUNTIMES as NAMES
from scripts.browsers import results
from scripts.compat_table import BROWSERS, cells
from scripts.old_runtimes import GOOD
from scripts.phones import samples

MEASURED = {(cell.file, cell.runtime): cell for cell in cells(BROWSERS)}
QUICK = NAMES[:2]
SMALL = ("t5_bias baked", "swin_bias baked", "rope baked")
"""Baked samples that take the least time; all are among those of the table."""


def test_both_versions_are_known(small_bundle: Path) -> None:
    need("browser-wasm")
    runner = RUNTIMES["browser-wasm"].open(small_bundle / "model.onnx", Bundle.open(small_bundle).manifest)
    assert re.fullmatch(r"Chromium \d+(\.\d+)+, onnxruntime-web \d+(\.\d+)+", runner.providers[0])
    assert {provider for provider, _, _ in runner.nodes} == {"CPUExecutionProvider"}


def test_without_playwright_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "playwright", None)
    install = "the Python package playwright is not found: pip install 'playwright>=1.50'"
    with pytest.raises(Missing, match=re.escape(install)):
        RUNTIMES["browser-wasm"].check()


@pytest.mark.parametrize("file", SMALL)
def test_a_sample_of_each_family_agrees(once: Once, file: str) -> None:
    for name in QUICK:
        need(name)
    found = results(sample_bundle(once, file), QUICK)
    assert set(found.values()) <= set(GOOD), found
    assert found["browser-wasm"] == found["browser-webgpu"], "with this adapter the bits are those of a CPU"


@pytest.mark.exhaustive
@pytest.mark.parametrize("file", list(samples()))
def test_the_table_says_what_is_so(once: Once, file: str) -> None:
    for name in NAMES:
        need(name)
    found = results(sample_bundle(once, file))
    for name, words in found.items():
        cell = MEASURED.get((file, name))
        if cell is not None:  # a new scheme waits for the next table
            assert (words in GOOD) == cell.good, (name, words, cell.words)
        if name == "browser-wasm":
            assert words in GOOD
    if file.endswith("baked"):
        assert found["browser-wasm"] == found["browser-webgpu"], "with this adapter the bits are those of a CPU"


def test_the_table_has_every_provider_and_each_hole_its_reason() -> None:
    assert {runtime for _, runtime in MEASURED} == set(NAMES)
    assert all(cell.good for cell in MEASURED.values() if cell.runtime == "browser-wasm")
    assert all(cell.good or len(cell.words) > 5 for cell in MEASURED.values()), "a hole without its reason"


def test_the_report_says_where_nodes_run(cli: Cli, small_bundle: Path) -> None:
    need("browser-webgpu")
    result = cli("validate", str(small_bundle), "--runtime", "browser-webgpu", "-v")
    assert result.exit_code == 0, result.output
    assert re.search(r"placement: Chromium .*; \w.*: \d+ of \d+ nodes on the GPU; on the CPU: \d+ ", result.output)


@pytest.mark.parametrize("name", one_of_each(["browser-wasm", "browser-webgpu", "browser-jsep"], lambda _: ""))
def test_a_call_that_is_refused_is_one_line_and_the_next_one_is_answered(bundle: Path, name: str) -> None:
    need(name)
    runner = RUNTIMES[name].open(bundle / "model.onnx", Bundle.open(bundle).manifest)
    _, feeds, expected = a_case(bundle)
    for _ in range(2):
        beyond = {**feeds, "start": np.array([2**24], np.int64)}
        if RUNTIMES[name].lenient:
            assert runner.run(beyond)["y"].tobytes() != expected.tobytes()
        else:
            with pytest.raises(RunFailed, match="indices element out of data bounds"):
                runner.run(beyond)
        assert runner.run(feeds)["y"].tobytes() == expected.tobytes()


@dataclass
class Told:
    """Ports of a graph, as a manifest has them."""

    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = (Port("y", (Axis("n", "features"),), "float32", Values()),)


@pytest.mark.parametrize("build", one_of_each(["webgpu", "jsep"], lambda _: ""))
def test_after_an_exception_on_the_cpu_the_session_is_made_again(tmp_path: Path, build: str) -> None:
    """Sums of int64 run on the CPU; sizes that do not meet throw, and a session that has thrown never answers again."""
    need("browser-webgpu")
    ports = [helper.make_tensor_value_info(name, TensorProto.INT64, [name]) for name in "ab"]
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])
    nodes = [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Cast", ["sum"], ["y"], to=1)]
    graph = helper.make_graph(nodes, "adds", ports, [made])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    called = PageGraph(build, path, Told())
    three, four = np.arange(3), np.arange(4)
    for _ in range(2):
        with pytest.raises(RunFailed, match="Attempting to broadcast"):
            called({"a": three, "b": four})
        assert called({"a": three, "b": three})["y"].tolist() == [0, 2, 4]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp64"])
def test_other_dtypes_agree_or_are_named(once: Once, name: str, dtype: DType) -> None:
    need(name)
    spec = Spec("dynamic", "exact", "explicit", 70, dtype)
    agrees = verdicts(once, "rope", spec, {"head_dim": 16}, name)["agrees"]
    reason = OTHER_DTYPES.get((name, dtype), "")
    assert agrees.status == ("skip" if reason else "pass"), agrees.detail
    assert reason in agrees.detail


OTHER_DTYPES: dict[tuple[str, str], str] = {
    **{(name, "bf16"): "has no tensors of bfloat16" for name in NAMES},
    **{(name, "fp16"): "has no shader-f16" for name in NAMES[1:]},
    ("browser-webgpu", "fp64"): "computes nothing in float64",
}


def test_times_are_those_of_one_page(cli: Cli, small_bundle: Path) -> None:
    need("browser-wasm")
    words = ["bench", str(small_bundle), "--runtime", "browser-wasm", "--rounds", "1", "--length", "4", "--json"]
    result = cli(*words)
    assert result.exit_code == 0, result.output
    assert '"browser-wasm"' in result.stdout
