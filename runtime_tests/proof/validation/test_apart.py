"""A graph that ends the process that runs it, keeps it for ever or takes its memory is a row of the report."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import posenc_export
from helpers import hostile
from helpers import hostile_graphs as graphs
from helpers.shared import Cli

pytestmark = pytest.mark.apart
Rows = dict[tuple[str, str], tuple[str, str]]
SAID = ("integrity", "static-axis", "structure", "lost-input")
"""Checks that read a graph, and run nothing of it."""
MAIN = "import sys; from posenc_export.cli import main; main(sys.argv[1:])"
LATE = "no answer within 5 s (--timeout)"


def by_check(verdicts: list[dict[str, Any]]) -> Rows:
    return {(row["subject"], row["check"]): (row["status"], row["detail"]) for row in verdicts}


def rows(cli: Cli, bundle: Path, *args: str) -> Rows:
    return by_check(hostile.rows(cli, bundle, "--runtime", "ort-cpu", *args))


def test_what_ends_a_process_is_a_row_and_the_rest_is_looked_at(cli: Cli, bundle: Path) -> None:
    graphs.overflowing(bundle)
    found = rows(cli, bundle, "--timeout", "20")
    assert found["onnx", "tables"] == ("fail", "ended by signal SIGFPE")
    assert found["ort-cpu", "agrees"] == ("fail", "loading model.onnx: ended by signal SIGFPE")
    assert {found["onnx", check] for check in SAID} == {("pass", "")}


def test_a_good_bundle_passes(cli: Cli, bundle: Path) -> None:
    result = cli("validate", str(bundle), "--runtime", "ort-cpu")
    assert result.exit_code == 0, result.output


IN_A_FRESH_PROCESS = """
import json, sys, posenc_export
from posenc_export.proof.report.report import verdict_json
result = posenc_export.validate(sys.argv[1], runtimes=["ort-cpu"], timeout=1)
loaded = [name for name in ("torch", "onnx", "onnxruntime") if name in sys.modules]
print(json.dumps([loaded, [verdict_json(verdict) for verdict in result.verdicts]]))
"""


def test_the_process_of_the_user_loads_no_graph_and_no_library_that_does(bundle: Path) -> None:
    graphs.doubling(bundle)
    words = [sys.executable, "-c", IN_A_FRESH_PROCESS, str(bundle)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded, verdicts = json.loads(done.stdout)
    late = "no answer within 1 s (--timeout)"
    assert loaded == []
    assert by_check(verdicts)["golden.npz", "integrity"] == ("pass", "")
    assert by_check(verdicts)["onnx", "structure"] == ("fail", late)
    assert by_check(verdicts)["ort-cpu", "agrees"] == ("skip", f"nothing more of model.onnx runs: structure: {late}")


HOSTILE: dict[str, tuple[Callable[[Path], None], tuple[str, str], str]] = {
    "overflowing when it is run": (graphs.overflowing_when_run, ("ort-cpu", "agrees"), "batch1-seq1: ended by signal"),
    "doubling": (graphs.doubling, ("onnx", "structure"), LATE),
    "endless": (graphs.endless, ("onnx", "half-safe"), LATE),
    "large": (graphs.large_of(2**45), ("ort-cpu", "agrees"), "batch1-seq1: took more memory than"),
    "growing": (graphs.growing, ("onnx", "half-safe"), "took more memory than"),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_graph_is_a_row(cli: Cli, bundle: Path, name: str) -> None:
    put, key, detail = HOSTILE[name]
    put(bundle)
    status, words = rows(cli, bundle, "--timeout", "5")[key]
    assert (status, words.startswith(detail)) == ("fail", True), words


@pytest.mark.exhaustive
def test_a_good_bundle_is_validated_apart_as_it_is_here(cli: Cli, bundle: Path) -> None:
    apart = cli("validate", str(bundle), "--json")
    code = f"import posenc_export.proof.apart.parent as apart; apart.validating = apart.in_process\n{MAIN}"
    words = [sys.executable, "-c", code, "validate", str(bundle), "--json"]
    here = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (apart.exit_code, here.returncode) == (0, 0), here.stderr
    assert json.loads(apart.stdout) == json.loads(here.stdout)


@pytest.mark.exhaustive
def test_code_that_is_trusted_runs_apart_too(tmp_path: Path) -> None:
    place = tmp_path / "b"
    assert posenc_export.export(to=place, d_model=8, max_len=16, formats=["torchscript"]).passed
    assert posenc_export.validate(place, trust=True, require=["torchscript-cpu"]).passed
    assert "libtorch-cpp" not in {v.subject for v in posenc_export.validate(place).verdicts if v.status == "pass"}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_what_stops_the_tool_stops_the_other_process(
    bundle: Path, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    graphs.doubling(bundle)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    words = ["-c", f"import signal; signal.signal({int(signal.SIGINT)}, signal.default_int_handler)\n{MAIN}"]
    process = subprocess.Popen(
        [sys.executable, *words, "validate", str(bundle), "--timeout", "0", "-v"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    )
    assert process.stderr is not None
    while "checking model.onnx" not in (line := process.stderr.readline()):
        assert line, "it has ended"
    time.sleep(1)  # by then it is in the check that never ends
    (other,) = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == status
    with pytest.raises(ProcessLookupError):
        os.kill(other, 0)
    assert list(scratch.iterdir()) == []
