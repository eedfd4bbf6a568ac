"""What is going on: one moving line on a terminal, lines with -v elsewhere, and a clean end when stopped."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers.shared import Cli, one_of_each, with_tests
from posenc.spec import Spec
from posenc_export.bundle.case import Case
from posenc_export.cli.output.progressing import Lines, StepCount, progress
from posenc_export.common.estimate import Estimate
from posenc_export.proof.exporter import ExportOptions, steps
from posenc_export.proof.judging.verdict import ValidateOptions
from posenc_export.proof.recording.record import RECORDING, record
from posenc_export.write.targets.scheme import scheme_target

SMALL = ["export", "-p", "d_model=8", "--max-len", "40", "--runtime", "ort-cpu"]


class OnTerminal:
    """A command whose streams are a terminal of 80 columns."""

    def __init__(self, folder: Path, *words: str, first: str = "") -> None:
        self.here, there = pty.openpty()
        env = {**with_tests(), "TERM": "xterm-256color", "COLUMNS": "80"}
        # Processes that a shell starts in the background pass on that Ctrl-C is ignored: a terminal's do not.
        heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        named = "import sys; sys.argv[0] = 'posenc'; "
        command = [sys.executable, "-c", f"{first}{heed}{named}from posenc_export.cli import main; main()", *words]
        self.process = subprocess.Popen(
            command, cwd=folder, env=env, start_new_session=True, stdin=there, stdout=there, stderr=there
        )
        os.close(there)
        self.text = ""

    def until(self, pattern: str, seconds: float = 60) -> None:
        """Read what is shown until a pattern is in it, or the command ends."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.text) and time.monotonic() < end:
            if select.select([self.here], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self.here, 65536).decode()
                except OSError:  # the other end has been closed
                    break

    def ended(self) -> int:
        """Return the status of the command, with all that it has shown read."""
        self.until("(?!)")
        os.close(self.here)
        return self.process.wait(30)


@pytest.mark.exhaustive
def test_a_terminal_shows_steps_out_of_how_many_and_seconds(tmp_path: Path) -> None:
    shown = OnTerminal(tmp_path, *SMALL)
    assert shown.ended() == 0, shown.text
    found = [(int(a), int(b)) for a, b in re.findall(r"step (\d+) of (\d+), \d+ s: ", shown.text)]
    options = ExportOptions(validation=ValidateOptions(("ort-cpu",)))
    assert {total for _, total in found} == {steps(options)}
    assert len(found) > 2 * steps(options)  # it is drawn again while libraries load, and while exporters run
    assert {1, 2} <= {step for step, _ in found}
    before_the_table = shown.text.partition("verdict")[0]
    assert before_the_table.count("\x1b[?25h") == before_the_table.count("\x1b[?25l") == 1  # the cursor is back


@pytest.mark.parametrize("stage", one_of_each(["loading torch", "running model.onnx"], lambda _: ""))
def test_ctrl_c_leaves_a_clean_terminal_and_status_130(tmp_path: Path, stage: str) -> None:
    shown = OnTerminal(tmp_path, "export", "--dynamic")  # long enough to be stopped by a busy machine
    shown.until(stage)
    os.killpg(shown.process.pid, signal.SIGINT)
    assert shown.ended() == 130, shown.text
    assert shown.text.rstrip().endswith("stopped")
    assert "Traceback" not in shown.text
    assert shown.text.rindex("\x1b[?25h") > shown.text.rindex("\x1b[?25l")
    assert list(tmp_path.iterdir()) == []


def test_what_libraries_do_at_the_end_of_a_process_does_not_show(tmp_path: Path) -> None:
    """A thread in C++ that still runs at exit aborts the process: status 134 in the place of 130."""
    abort = "import ctypes; c = ctypes.CDLL(None); c.__cxa_atexit(c.abort, None, None); "
    shown = OnTerminal(tmp_path, "export", "--dynamic", first=abort)
    shown.until("loading torch")
    os.killpg(shown.process.pid, signal.SIGINT)
    assert shown.ended() == 130, shown.text
    assert shown.text.rstrip().endswith("stopped")


@pytest.mark.exhaustive
def test_ctrl_c_ends_a_benchmark_and_its_processes_without_a_word_of_theirs(tmp_path: Path) -> None:
    shown = OnTerminal(tmp_path, "bench", "--length", "16", "--rounds", "90", "--runtime", "ort-cpu", "-p", "d_model=8")
    shown.until("round 2")
    os.killpg(shown.process.pid, signal.SIGINT)
    assert shown.ended() == 130, shown.text
    assert "Traceback" not in shown.text


@pytest.mark.exhaustive
def test_bench_shows_each_contender_as_it_ends(tmp_path: Path) -> None:
    shown = OnTerminal(tmp_path, "bench", "--length", "16", "--rounds", "1", "--runtime", "ort-cpu", "-p", "d_model=8")
    assert shown.ended() == 0, shown.text
    lines = re.findall(r"length 16: ([\w -]+): [\d.]+ ms", shown.text.partition("medians, one run")[0])
    assert lines == ["ort-cpu", "copy of the same bytes"]


def test_elsewhere_it_is_silent_but_for_v(cli: Cli) -> None:
    assert cli(*SMALL).stderr == ""
    assert cli(*SMALL, "-v", "--json", "--force").stderr == ""
    lines = cli(*SMALL, "-v", "--force").stderr.splitlines()
    options = ExportOptions(validation=ValidateOptions(("ort-cpu",)))
    assert len(lines) == steps(options)
    for i, line in enumerate(lines, 1):
        assert re.match(rf"step {i} of {steps(options)}, \d+ s: \w", line), line


def test_validate_counts_its_steps(cli: Cli, small_bundle: Path) -> None:
    lines = cli("validate", str(small_bundle), "-v", "--runtime", "ort-cpu").stderr.splitlines()
    assert [line.partition(",")[0] for line in lines] == [f"step {i} of 3" for i in (1, 2, 3)]


def test_what_follows_a_colon_is_the_same_step() -> None:
    shown = StepCount()
    shown.expect(2)
    for text in ("building the C++ runner: 1 of 9", "building the C++ runner: 2 of 9", "exporting onnx"):
        shown(text)
    assert (shown.done, shown.known) == (2, 2)
    shown("writing")  # one more than was known
    assert str(shown).startswith("step 3 of 3, 0 s: writing")
    assert str(StepCount("a \x1b[2J")) == r"0 s: a \x1b[2J"


def test_what_is_left_of_long_work_is_estimated_by_what_each_call_costs() -> None:
    now = time.monotonic()
    assert Estimate([1, 1, 8], now).after(1) == "", "after no time nothing is known"
    assert Estimate([1, 1, 8], now - 20).after(0) == ""
    assert Estimate([1, 1, 8], now - 20).after(1) == ", about 3 min left"
    assert Estimate([1, 1, 8], now - 20).after(2) == ", about 80 s left"
    assert Estimate([1, 1, 8], now - 20).after(3) == ""


def test_each_call_of_a_recording_is_said() -> None:
    target = scheme_target("sinusoidal", Spec(max_len=40), {"d_model": 8}, 0)
    cases = [Case("a", {"batch": 1, "seq": 2}), Case("b", {"batch": 1, "seq": 5})]
    said: list[str] = []
    record(target.encoding, cases, 0, said.append)
    assert said == [f"{RECORDING}: call {number} of 2" for number in (1, 2)]


def test_lines_that_stay_are_printed_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    lines.keep("length 16: ort-cpu: 0.1 ms")
    assert capsys.readouterr().err == "length 16: ort-cpu: 0.1 ms\n"
    with progress({"quiet": True, "verbose": 1}) as say:
        say("nothing")
    assert capsys.readouterr().err == ""
