"""What a process that runs strangers' graphs says is read as a stranger's; how it ends is said in words."""

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from helpers.processes import is_gone
from posenc_export.bundle.folder import Bundle
from posenc_export.common.child import Child, Ended, Hung, import_folders
from posenc_export.common.errors import BadInput, Overloaded, ToolFailed, Unavailable
from posenc_export.proof.apart.child import Speaker, Worker
from posenc_export.proof.apart.messages import MAX_CHARACTERS, checked, cut, read, row_json, written
from posenc_export.proof.apart.parent import CRASHES, Ledger, _followed
from posenc_export.proof.judging.verdict import Bin, Comparison, Curve, ValidateOptions, Verdict
from posenc_export.proof.running.steps import OPENING, Step

ROW = Verdict(
    "ort-cpu",
    "agrees",
    "fail",
    "NaN at [0]",
    (Comparison("batch1-seq1", "y", "eager", float("inf"), 3.0, None, False, "NaN at [0]", 2.0),),
    "a note",
    (Curve("y", "reference", (Bin(0, 0.1, 0.2), Bin(2**62, float("inf"), 0.0))),),
)


def test_a_row_is_read_as_it_was() -> None:
    (said,) = read(written(rows=[row_json(ROW)]))["rows"]
    assert checked(said) == ROW
    nan = Verdict("ort-cpu", "agrees", "pass", comparisons=(Comparison("c", "y", "eager", np.nan, 0.0, 1, True),))
    (said,) = read(written(rows=[row_json(nan)]))["rows"]
    assert np.isnan(checked(said).comparisons[0].max_abs)


@pytest.mark.parametrize(
    "change",
    [
        {"status": "certified"},
        {"detail": "x" * (MAX_CHARACTERS + 1)},
        {"detail": 7},
        {"subject": 7},
        {"more": 1},
        {"comparisons": [{"case": "c"}]},
        {"check": "no-such-check"},
        {"curves": [{"output": "y", "against": "nobody", "bins": []}]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_row_that_no_validation_gives_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        checked(read(written(rows=[{**row_json(ROW), **change}]))["rows"][0])


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b'{"pickle": 1}', b'{"error": ["SystemExit", "x"]}', b'{"step": [0, "onnx"]}', b"\xff"]
)
def test_a_line_that_no_validation_says_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(line)


def test_a_text_is_cut_and_half_of_a_pair_is_no_text() -> None:
    assert len(cut("x" * 10**6)) == MAX_CHARACTERS
    assert read(written(progress=cut("a\udce9b")))["progress"] == "a�b"


class Said:
    """In the place of a process: what it says, and how it ends."""

    def __init__(self, lines: Iterable[bytes], end: Exception) -> None:
        self.lines, self.how, self.seconds, self.ended = list(lines), end, list[float | None](), False

    def go(self) -> None:
        pass

    def line(self, seconds: float | None) -> bytes:
        self.seconds.append(seconds)
        if not self.lines:
            raise self.how
        return self.lines.pop(0)

    def end(self) -> None:
        self.ended = True


def opened(*lines: dict[str, object]) -> list[bytes]:
    return [written(step=OPENING), written(rows=[]), *(written(**line) for line in lines)]


def followed(said: Said, ledger: Ledger) -> bool:
    is_complete = _followed(cast(Child, said), ledger)
    assert said.ended
    return is_complete


def ledger_of(bundle: Path) -> Ledger:
    """Nothing is said yet of the ONNX file alone, on two runtimes."""
    whole = Bundle.read(bundle)
    alone = replace(whole, manifest=replace(whole.manifest, artifacts=whole.manifest.artifacts[:1]))
    return Ledger(alone, ValidateOptions(runtimes=("ort-cpu", "onnx-reference"), timeout=5.0))


def test_after_a_time_out_nothing_more_of_the_file_runs(small_bundle: Path) -> None:
    ledger = ledger_of(small_bundle)
    said = Said(opened({"step": (0, "ort-cpu", "agrees")}, {"call": ("agrees", "batch1-seq1")}), Hung())
    assert followed(said, ledger)
    late = "no answer within 5 s (--timeout)"
    assert [(row.subject, row.status, row.detail) for row in ledger.rows] == [
        ("ort-cpu", "fail", f"batch1-seq1: {late}"),
        ("onnx-reference", "skip", f"nothing more of model.onnx runs: agrees: {late}"),
    ]
    assert said.seconds == [None, 5.5, 5.5, 5.5, 5.5]  # libraries load for as long as they take


def test_after_a_crash_the_next_step_runs_until_there_were_too_many(small_bundle: Path) -> None:
    ledger = ledger_of(small_bundle)
    for check in ("structure", "half-safe", "tables")[:CRASHES]:
        assert not ledger.over
        done = followed(Said(opened({"step": (0, "onnx", check)}), Ended("ended by signal SIGSEGV")), ledger)
    assert (done, ledger.over) == (True, {0})
    assert [row.status for row in ledger.rows] == ["fail"] * 3 + ["skip"] * 2


def test_a_process_that_lies_is_ended(small_bundle: Path) -> None:
    lies: list[dict[str, object]] = [{"rows": [row_json(ROW)] * 2000}, {"step": (7, "onnx", "tables")}]
    lies.append({"call": ("no-check", "")})
    for lie in lies:
        ledger = ledger_of(small_bundle)
        assert followed(Said(opened({"step": (0, "onnx", "tables")}, lie), Hung()), ledger)
        assert ledger.rows[0] == Verdict("onnx", ledger.check, "fail", "sent a message that no validation sends")


def test_what_ends_a_validation_is_raised(small_bundle: Path) -> None:
    for kind in (BadInput, Unavailable, ToolFailed):
        with pytest.raises(kind, match="one line"):
            followed(Said([written(error=(kind.__name__, "one line"))], Hung()), ledger_of(small_bundle))
    with pytest.raises(ToolFailed, match="the process that validates ended with status 1"):
        followed(Said([], Ended("ended with status 1: no torch")), ledger_of(small_bundle))
    with pytest.raises(BadInput, match="a graph that cannot be read: no answer within 5 s"):
        followed(Said([written(step=OPENING)], Hung()), ledger_of(small_bundle))


def test_what_a_step_raises_is_its_row(tmp_path: Path) -> None:
    def run(error: Exception) -> str:
        def fail() -> list[Verdict]:
            raise error

        with (tmp_path / "said").open("wb") as pipe:
            (row,) = Worker(Speaker(pipe), frozenset(), frozenset(), 1.5).run(Step((0, "onnx", "tables"), "", fail))
        assert (row.subject, row.check, row.status) == ("onnx", "tables", "fail")
        return row.detail

    assert run(MemoryError("1 TiB")) == "took more memory than 1.5 GiB (MemoryError: 1 TiB)"
    assert run(Overloaded("RecursionError: too deep")) == "RecursionError: too deep"
    assert run(KeyError("config")) == "KeyError: 'config'"
    with pytest.raises(BadInput):
        run(BadInput("golden.npz is damaged"))


def said_by(code: str) -> Child:
    return Child(["-c", code])


def test_how_a_process_ends_is_said() -> None:
    for code, words in (
        ("import os; os.kill(os.getpid(), 8)", "ended by signal SIGFPE"),
        ("raise SystemExit('no room')", "ended with status 1: no room"),
    ):
        child = said_by(code)
        with pytest.raises(Ended, match=words):
            child.line(30)
        child.end()


STARTS_ANOTHER = """
import subprocess, sys, time
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(99)"]).pid, flush=True)
time.sleep(99)
"""


def test_a_process_ends_with_all_that_it_started() -> None:
    child = said_by(STARTS_ANOTHER)
    pid = int(child.line(30))
    with pytest.raises(Hung):
        child.line(0.01)
    scratch = Path(child.scratch.name)
    assert scratch.is_dir()
    child.end()
    assert not scratch.exists()
    assert is_gone(pid)


def test_the_folder_that_the_tool_runs_in_is_no_place_of_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    assert str(tmp_path) not in import_folders()
    assert "" not in import_folders()


LIMITED = """
import posenc_export.common.memory_limit as limits
limits.free_memory, limits.THREAD = (lambda: 2**28), 0
print(limits.limit_memory())
bytearray(2**27)
bytearray(2**29)
"""


def test_memory_is_bounded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert (done.stdout.strip(), done.stderr.strip().splitlines()[-1]) == ("0.1875", "MemoryError")
