"""A child process that works on what a stranger made: its lines, and its end, by itself or by SIGKILL."""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO

import posenc
from posenc.own_process import OwnProcess

LINE = 2**26
"""Bytes of the longest line."""
AHEAD = 1000
"""Lines that may wait to be read."""
PR_SET_PDEATHSIG = 1


class Hung(Exception):
    """A process has said nothing for longer than it may."""


class Ended(Exception):
    """A process has ended; the text says how."""


def path_text(path: Path) -> str:
    """Return an absolute path as a child process reads it, which takes the bytes of a name as UTF-8."""
    return os.fsencode(path.absolute()).decode("utf-8", "surrogateescape")


class Child(OwnProcess):
    """A Python process in a session and a scratch folder of its own; it prints messages to stdout, a line each."""

    def __init__(self, words: Sequence[str]) -> None:
        """Start `python -P WORDS`; it does not share this process's working folder, nor its current imports."""
        super().__init__("posenc-validate-")
        self.lines: queue.Queue[bytes] = queue.Queue(AHEAD)
        # libraries in C++ take paths as UTF-8, whatever the locale is
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(import_folders()), "PYTHONUTF8": "1"}
        self.start([sys.executable, "-P", *words], env, drain=partial(_drain, self.lines))
        assert self.process.stdout is not None
        threading.Thread(target=_read, args=(self.process.stdout, self.lines), daemon=True).start()

    def go(self) -> None:
        """Let the process begin, which has only loaded libraries until now."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # if it has ended, the next `line` says so
            self.process.stdin.write(b"go\n")
            self.process.stdin.close()

    def line(self, seconds: float | None) -> bytes:
        """Return the next line; raise Hung if none comes within some seconds, Ended if the process has ended."""
        try:
            line = self.lines.get(timeout=seconds)
        except queue.Empty:
            raise Hung from None
        if line:
            return line
        self.lines.put(b"")  # for later calls, which must not wait
        with contextlib.suppress(subprocess.TimeoutExpired):  # it may close its output and go on
            self.process.wait(timeout=1)
        raise Ended(self._how())

    def _how(self) -> str:
        status = self.process.poll()
        if status is None:
            return "ended what it says"
        if status >= 0:
            return f"ended with status {status}: {self.last_words()[:300]}"
        name = signal_name(-status)
        return f"ended by signal {name}" + (", as where memory is short" if name == "SIGKILL" else "")


def _read(pipe: IO[bytes], lines: queue.Queue[bytes]) -> None:
    """Put lines into a queue, and an empty one behind the last."""
    with contextlib.suppress(OSError, ValueError):
        while line := pipe.readline(LINE):
            lines.put(line)
    lines.put(b"")


def _drain(lines: queue.Queue[bytes]) -> None:
    """Take the lines that nobody waits for: the reading thread may wait for room in the queue."""
    with contextlib.suppress(queue.Empty):
        while lines.get(timeout=1):
            pass


def signal_name(number: int) -> str:
    """Return the name of a signal, as SIGABRT."""
    return next((known.name for known in signal.Signals if known == number), str(number))


def import_folders() -> list[str]:
    """Return where this process finds modules, without the current folder, unless this package lies there."""
    own = [str(Path(posenc.__file__).parents[1]), str(Path(__file__).parents[2])]
    current = {os.path.realpath(os.curdir)} - {os.path.realpath(folder) for folder in own}
    folders = [os.path.abspath(folder) for folder in sys.path if folder and os.path.realpath(folder) not in current]
    return list(dict.fromkeys([*folders, *own]))


def end_with_parent() -> None:
    """Ask the system (Linux) to end this process with the thread that started it: nobody else would."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def pipe_of_messages() -> BinaryIO:
    """Return what was stdout: from here on libraries print to stderr, and the process ends with its parent."""
    end_with_parent()
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return pipe
