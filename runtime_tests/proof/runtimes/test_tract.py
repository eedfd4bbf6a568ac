"""tract, in a process of its own: its bits, its refusals, its end, and what the process that asked must not feel."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from helpers import hostile_graphs as graphs
from helpers.combinations import by_length
from helpers.one_runtime import SPECS, verdicts
from helpers.processes import is_gone
from helpers.runner_tools import a_case
from helpers.samples import Parameters
from helpers.shared import Cli, Once, need, one_of_each, written_once
from posenc.ports import Array, Feeds
from posenc.scheme import SCHEMES
from posenc.spec import DType, Mode, Positions, Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.judging.verdict import worst
from posenc_export.proof.running.refusals import refusal
from posenc_export.proof.runtimes import RUNTIMES, Crashed, Missing, RunFailed, Runner, TimedOut
from posenc_export.proof.runtimes.in_child import LoadedChild
from posenc_export.proof.runtimes.tract import NO_HALF

ABORTED = "tract ended by signal SIGABRT: range end index "
CANNOT = {
    "clipped_relative": "Pad",
    "swin_bias": "Undetermined symbol",
    "swin_cpb": "Undetermined symbol",
    "t5_bias": "Pad",
}
"""Schemes whose computed form tract does not load where nothing says positions, and what it says."""


def opened(bundle: Path) -> Runner:
    need("tract")
    return RUNTIMES["tract"].open(bundle / "model.onnx", Bundle.open(bundle).manifest)


def child_of(runner: Runner) -> LoadedChild:
    assert isinstance(runner.call, LoadedChild)
    return runner.call


@pytest.mark.exhaustive
@pytest.mark.parametrize(("scheme", "spec", "params"), {one[0]: one for one in SPECS}.values())
def test_it_gives_the_bits_of_eager_or_names_what_it_does_not_load(
    once: Once, scheme: str, spec: Spec, params: Parameters
) -> None:
    need("tract")
    found = verdicts(once, scheme, spec, params, "tract")
    agrees = found["agrees"]
    if agrees.status == "skip":
        assert agrees.detail.startswith("tract cannot load model.onnx: ")
        assert CANNOT[scheme] in agrees.detail
        return
    assert agrees.status == "pass", agrees.detail
    eager = worst(agrees.comparisons, "eager")
    assert eager is not None
    divides = scheme == "xpos"  # a key by its scale
    assert (eager.max_abs == 0) == (not divides) or by_length(params) or spec.mode in SCHEMES[scheme].sums
    assert {verdict.status for verdict in found.values()} == {"pass"}


WRITTEN: list[tuple[str, Mode, Positions, Parameters]] = [
    ("rope", "dynamic", "explicit", {"head_dim": 16}),
    ("rope", "dynamic", "implicit", {"head_dim": 16}),
    ("sincos_2d", "dynamic", "implicit", {"dim": 20, "base": 100.0, "crop": 90, "base_size": 64}),
    ("sine_2d", "dynamic", "mask", {"dim": 8}),
    ("interpolated", "dynamic", "implicit", {"d_model": 6}),
    ("clipped_relative", "dynamic", "implicit", {"head_dim": 6, "left": 4, "right": 4, "output": "values"}),
]
"""What tract loads and computes right for how it is written: lengths, first rows, a crop, circles, a product."""


@pytest.mark.parametrize(("scheme", "mode", "positions", "params"), one_of_each(WRITTEN, lambda _: ""))
def test_forms_that_it_loads(once: Once, scheme: str, mode: Mode, positions: Positions, params: Parameters) -> None:
    need("tract")
    spec = Spec(mode, positions=positions, max_len=70)
    found = verdicts(once, scheme, spec, params, "tract")
    assert {verdict.status for verdict in found.values()} == {"pass"}, found
    nodes = onnx.load(written_once(once, scheme, spec, params) / "model.onnx").graph.node
    assert not [node for node in nodes if node.op_type == "Split" and len(node.input) > 1]


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp64"])
def test_other_dtypes_agree_or_are_refused(once: Once, dtype: DType) -> None:
    need("tract")
    agrees = verdicts(once, "rope", Spec("dynamic", "exact", "explicit", 70, dtype), {"head_dim": 16}, "tract")
    half = dtype == "bf16"
    assert (agrees["agrees"].status, agrees["agrees"].detail) == (
        ("skip", NO_HALF) if half else ("pass", agrees["agrees"].detail)
    )


def test_a_call_that_ends_the_process_is_one_line_and_the_next_one_is_answered_by_another(bundle: Path) -> None:
    runner = opened(bundle)
    _, feeds, expected = a_case(bundle)
    first = child_of(runner).process.process.pid
    with pytest.raises(Crashed, match=f"^{ABORTED}") as crash:
        runner.run({**feeds, "start": np.array([2**24], np.int64)})
    assert "\n" not in str(crash.value)
    assert runner.run(feeds)["y"].tobytes() == expected.tobytes()
    assert child_of(runner).process.process.pid != first


def test_its_end_counts_as_a_refusal_and_that_of_others_does_not(bundle: Path) -> None:
    need("tract")
    golden = next(one for one in Bundle.open(bundle).golden() if one.case.refused)

    def ending(feeds: Feeds) -> dict[str, Array]:
        raise Crashed("it ended by signal SIGABRT: of a row that there is not")

    manifest = Bundle.open(bundle).manifest
    runner = Runner(ending, manifest.inputs, manifest.outputs)
    assert refusal(RUNTIMES["tract"], runner, golden).status == "pass"
    assert refusal(RUNTIMES["ort-cpp"], runner, golden).status == "fail"


def test_a_call_that_does_not_end_is_ended_and_the_next_one_is_answered(bundle: Path) -> None:
    runner = replace(opened(bundle), limit=1.0)
    _, feeds, expected = a_case(bundle)
    hung = child_of(runner).process.process
    hung.send_signal(signal.SIGSTOP)
    with pytest.raises(TimedOut, match=r"no answer within 1 s \(--timeout\)"):
        runner.run(feeds)
    assert hung.poll() == -signal.SIGKILL
    assert runner.run(feeds)["y"].tobytes() == expected.tobytes()


def cut_short(bundle: Path) -> None:
    (bundle / "model.onnx").write_bytes((bundle / "model.onnx").read_bytes()[:1000])


@pytest.mark.parametrize(
    ("put", "kind", "words"),
    [
        (cut_short, RunFailed, "cannot load model.onnx: "),
        (graphs.endless, Missing, "tract cannot load model.onnx: "),
        (graphs.large_of(2**40), Missing, "tract cannot load model.onnx: tract ended by signal SIGABRT: "),
    ],
)
def test_a_file_that_it_cannot_load_is_one_line(
    bundle: Path, put: Callable[[Path], None], kind: type[Exception], words: str
) -> None:
    need("tract")
    manifest = Bundle.open(bundle).manifest
    put(bundle)
    with pytest.raises(kind) as failure:
        RUNTIMES["tract"].open(bundle / "model.onnx", manifest)
    assert str(failure.value).startswith(words)
    assert "\n" not in str(failure.value)


@pytest.mark.exhaustive
@pytest.mark.apart
def test_what_it_cannot_load_fails_no_proof_but_where_it_is_required(cli: Cli, bundle: Path) -> None:
    need("tract")
    graphs.large_of(2**40)(bundle)
    result = cli("validate", str(bundle), "--runtime", "tract", "--require", "tract", "--timeout", "20", "--json")
    assert result.stdout, result.output
    (row,) = [row for row in json.loads(result.stdout)["verdicts"] if row["subject"] == "tract"]
    assert (row["status"], result.exit_code) == ("skip", 3)
    assert row["detail"].startswith("tract cannot load model.onnx: tract ended by signal SIGABRT: ")


WAITS = """
import os, resource, signal, sys, time
from pathlib import Path
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.runtimes import RUNTIMES
folder = Path(sys.argv[1])
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs in the background
resource.setrlimit(resource.RLIMIT_AS, (2**36, 2**36))
runner = RUNTIMES["tract"].open(folder / "model.onnx", Bundle.open(folder).manifest)
print(runner.call.process.process.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_it_has_the_limits_of_who_asked_and_ends_with_it(bundle: Path, number: signal.Signals) -> None:
    need("tract")
    asking = subprocess.Popen(
        [sys.executable, "-c", WAITS, str(bundle)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert asking.stdout is not None
    child = int(asking.stdout.readline())
    limits = Path(f"/proc/{child}/limits").read_text()
    assert [line.split()[3] for line in limits.splitlines() if "address space" in line] == [str(2**36)]
    os.kill(child, signal.SIGSTOP)  # it reads nothing, and so sees no end of its input
    asking.send_signal(number)
    asking.communicate(timeout=20)
    assert is_gone(child)
