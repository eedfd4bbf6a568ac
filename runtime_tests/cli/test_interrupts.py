"""Ctrl-C and a reader that has seen enough: the status that shells expect, one word or none, and no traceback."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers.graph_files import written
from helpers.processes import is_gone
from helpers.shared import one_of_each
from posenc_export.common.interrupts import _is_importing

GRAPH = "g (float[b, s, 4] x) => (float[b, s, 4] y) { y = Neg (x) }"


def started(*words: str, folder: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "posenc_export", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        # the shell that runs tests may have it ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )


@pytest.mark.parametrize("seconds", one_of_each([0.3, 0.6, 1.2, 2.0], lambda seconds: seconds > 1))
def test_a_command_is_stopped_in_its_first_seconds_in_one_word(tmp_path: Path, seconds: float) -> None:
    """It imports itself, then torch."""
    process = started("export", "--dynamic", "-o", "out", folder=tmp_path)
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert (process.returncode, said.decode().strip()) == (130, "stopped")
    assert not list(tmp_path.iterdir())


def test_an_interrupt_that_passes_through_a_library_ends_with_the_same_status(tmp_path: Path) -> None:
    """Python kills itself at its end where code that C++ had run was interrupted, whoever caught that."""
    (tmp_path / "mods.py").write_text(
        "import ctypes\n"
        "def module():\n"
        "    run = ctypes.pythonapi.PyRun_String\n"
        "    run.restype, run.argtypes = ctypes.py_object, [ctypes.c_char_p, ctypes.c_int, *[ctypes.py_object] * 2]\n"
        "    run(b'raise KeyboardInterrupt', 257, {}, {})\n"
    )
    process = started("export", "mods:module", "-i", "x: float32[b, 4]", folder=tmp_path)
    _, said = process.communicate(timeout=120)
    assert (process.returncode, said.decode().strip()) == (130, "stopped")


UNINTERRUPTED = """
import torch

class Slow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        open("begun", "w").close()
        {work}

    def forward(self, x):
        return x
"""
"""A module that is in one step of a library for an hour: Python looks at no signal meanwhile."""


@pytest.mark.parametrize(("sent", "status", "words"), [(signal.SIGINT, 130, "stopped"), (signal.SIGTERM, 143, "")])
def test_a_command_ends_in_two_seconds_also_inside_a_step_of_a_library(
    tmp_path: Path, sent: signal.Signals, status: int, words: str
) -> None:
    (tmp_path / "mods.py").write_text(UNINTERRUPTED.format(work="sum(range(10**13))"))
    process = started("export", "mods:Slow", "-i", "x: float32[b, 4]", "-o", "out", folder=tmp_path)
    _wait_for(tmp_path / "begun")
    before = time.monotonic()
    process.send_signal(sent)
    _, said = process.communicate(timeout=120)
    assert (process.returncode, said.decode().strip()) == (status, words)
    # a second to clean up, five after SIGTERM; the rest is the machine's
    assert time.monotonic() - before < (10 if sent == signal.SIGINT else 20)
    assert {path.name for path in tmp_path.iterdir()} <= {"mods.py", "begun", "__pycache__"}


def test_a_command_that_a_library_ends_says_so(tmp_path: Path) -> None:
    (tmp_path / "mods.py").write_text(UNINTERRUPTED.format(work="import os, signal; os.kill(os.getpid(), 11)"))
    process = started("export", "mods:Slow", "-i", "x: float32[b, 4]", "-o", "out", folder=tmp_path)
    _, said = process.communicate(timeout=120)
    assert (process.returncode, said.decode().strip()) == (5, "Error: the command was ended by SIGSEGV")


def test_a_command_ends_with_the_process_that_watches_it(tmp_path: Path) -> None:
    (tmp_path / "mods.py").write_text(
        UNINTERRUPTED.format(work="open('pid', 'w').write(str(__import__('os').getpid())); sum(range(10**13))")
    )
    process = started("export", "mods:Slow", "-i", "x: float32[b, 4]", "-o", "out", folder=tmp_path)
    _wait_for(tmp_path / "pid")
    time.sleep(0.2)
    process.kill()
    process.communicate(timeout=60)
    pid = int((tmp_path / "pid").read_text())
    assert is_gone(pid)


def _wait_for(path: Path) -> None:
    end = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < end, f"{path} does not come"
        time.sleep(0.05)


def test_a_signal_waits_while_something_is_imported(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import os, signal, time\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "end = time.monotonic() + 0.5\n"
        "while time.monotonic() < end: pass\n"
        "done = True\n"
    )
    program = (
        "from posenc_export.common.interrupts import between_imports\n"
        "with between_imports():\n"
        "    try:\n"
        "        import slow\n"
        "        import time; time.sleep(5)\n"
        "    except KeyboardInterrupt:\n"
        "        import sys; print('interrupted', sys.modules['slow'].done)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert done.stdout == "interrupted True\n", done.stderr


def test_nothing_is_imported_here() -> None:
    assert not _is_importing(sys._getframe())


def test_a_reader_that_has_seen_enough_ends_a_command_quietly(tmp_path: Path) -> None:
    path = written(tmp_path, GRAPH)
    process = started("inspect", str(path), folder=tmp_path)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()  # before a line is there: a whole report would fit into the pipe
    assert process.stderr.read() == b""
    assert process.wait(60) == 141


@pytest.mark.exhaustive
def test_an_export_that_takes_more_memory_than_it_may_is_ended(tmp_path: Path) -> None:
    (tmp_path / "mods.py").write_text(UNINTERRUPTED.format(work="held = bytearray(2**31); sum(range(10**13))"))
    process = started("export", "mods:Slow", "-i", "x: float32[b, 4]", "-o", "out", "--memory", "1", folder=tmp_path)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 3
    assert re.fullmatch(r"Error: not run: it took \d\.\d\d GiB, more than 1\.00 GiB \(--memory\)\n", said.decode())
    assert {path.name for path in tmp_path.iterdir()} <= {"mods.py", "begun", "__pycache__"}


def test_what_takes_longer_than_it_may_is_ended(tmp_path: Path) -> None:
    program = (
        "import sys; sys.argv = ['posenc']; import posenc_export\n"
        "from posenc_export.common.supervisor import time_limit\n"
        "with time_limit(0.5, 'loading the model'): sum(range(10**13))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (
        3,
        "Error: not run: loading the model took longer than 0.5 s (--timeout)\n",
    )


def test_lines_of_progress_come_also_while_a_library_lets_no_other_thread_run() -> None:
    program = (
        "import ctypes, sys; sys.argv = ['posenc']; import posenc_export\n"
        "from posenc_export.cli.output.progressing import Pulse\n"
        "with Pulse() as pulse:\n"
        "    pulse.expect(3); pulse('exporting: layer 1'); ctypes.PyDLL(None).sleep(2)\n"  # PyDLL keeps Python's lock
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0
    assert re.fullmatch(r"step 1 of 3, \d s: exporting: layer 1\n", done.stderr)
