"""A command and the process that watches it: Ctrl-C ends it within two seconds, and limits hold whatever it is doing.

Python raises KeyboardInterrupt between two of its own steps, and a library in C++ may take half a minute for one. So a
command forks before it has loaded anything: the child works, and this process waits. On Ctrl-C the child may clean up
for a second; then it is ended, and what it was writing is settled here.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from posenc_export.common.interrupts import STATUS as STOPPED

GRACE = 1.0
"""Seconds that a stopped command has to clean up."""
GRACE_OF_END = 5.0
"""The same where somebody asks a command to end by SIGTERM."""
LOOK = 0.1
"""Seconds between two looks at limits, and at what the command says."""
FIRST_LINE, NEXT_LINE = 0.5, 10.0
"""Seconds until the first line on what a command does, and between the others."""
TERMINATED, LATE, FAILED = 143, 3, 5
"""Exit statuses: after SIGTERM, of a limit that ran out, of a tool that failed."""
FROM_KERNEL = 0x80
"""si_code of a signal that a terminal sent to all processes of a command (SI_KERNEL)."""
SHOW_CURSOR = b"\r\x1b[2K\x1b[?25h"
"""What clears a line of a terminal, and shows its cursor."""

_to_parent: int | None = None


def supervise(settle: Callable[[str], None]) -> None:
    """Fork: return in the child, which is the command; this process waits for it, and ends with its status.

    Args:
        settle: removes what a command that was ended left beside a place where it was writing.
    """
    global _to_parent  # noqa: PLW0603  (one pipe a process)
    if sys.platform != "linux" or not hasattr(os, "fork"):
        return
    watched = {signal.SIGINT, signal.SIGTERM, signal.SIGCHLD}
    reader, writer = os.pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:  # no process more: the command works as well alone
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(reader)
        os.close(writer)
        return
    if pid:
        os.close(writer)
        Watch(pid, reader, settle).wait(watched)
    os.close(reader)
    _to_parent = writer
    from posenc_export.common.child import end_with_parent

    end_with_parent()
    if os.getppid() != parent:  # it ended before the system was asked
        os._exit(FAILED)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def is_supervised() -> bool:
    """Return whether another process watches this one, and ends it if it does not end by itself."""
    return _to_parent is not None


def tell(**message: object) -> None:
    """Tell the process that watches this one; without one, nothing."""
    if _to_parent is not None:
        with suppress(OSError):
            os.write(_to_parent, json.dumps(message).encode() + b"\n")


@contextmanager
def time_limit(seconds: float, words: str) -> Iterator[None]:
    """Let what is done inside take so many seconds, 0 for any; after that the command ends with status 3.

    Args:
        seconds: the limit.
        words: what took too long, as "loading the model".
    """
    tell(seconds=seconds, words=words)
    try:
        yield
    finally:
        tell(seconds=0)


@contextmanager
def scratch() -> Iterator[None]:
    """Have all temporary files of a command in one folder, which is removed also where the command is ended."""
    if _to_parent is None:
        yield
        return
    # PyTorch keeps what it compiles for later commands
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", _inductor_cache())
    try:
        folder = tempfile.mkdtemp(prefix="posenc-")
    except OSError:  # whoever needs one will say so
        yield
        return
    tell(scratch=folder)
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        tempfile.tempdir = None
        os.environ.pop("TMPDIR") if before is None else os.environ.update(TMPDIR=before)


def _inductor_cache() -> str:
    import getpass

    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = str(os.getuid())
    return os.path.join(tempfile.gettempdir(), f"torchinductor_{user}")


@dataclass
class Watch:
    """What the process that waits knows of a command.

    Args:
        pid: of the command.
        reader: the pipe by which it tells.
        settle: removes what it left beside a place.
        places: where it is writing.
        scratch: its folder of temporary files.
        memory: bytes that it may take; 0 for any.
        deadline: until when what it does may take, by the monotonic clock; infinite for any time.
        words: what that is.
        has_said: whether it has said "stopped" itself.
        pulse: what it does, to be printed every ten seconds: words, when it began by the monotonic clock, more words.
        next_line: when that is printed again.
    """

    pid: int
    reader: int
    settle: Callable[[str], None]
    places: list[str] = field(default_factory=list)
    scratch: str = ""
    memory: int = 0
    deadline: float = float("inf")
    seconds: float = 0.0
    words: str = ""
    has_said: bool = False
    pulse: tuple[str, float, str] | None = None
    next_line: float = float("inf")
    _rest: bytes = b""

    def wait(self, watched: set[signal.Signals]) -> None:
        """Wait for the end of the command, and end this process as it ended."""
        os.set_blocking(self.reader, False)
        ends, status = float("inf"), 0  # until when it may clean up, and the status that it ends with then
        while True:
            is_busy = self.memory or self.pulse or self.deadline < float("inf") or ends < float("inf")
            got = signal.sigtimedwait(watched, LOOK if is_busy else 1.0)
            self._hear()
            if got is not None and got.si_signo in (signal.SIGINT, signal.SIGTERM):
                if got.si_code != FROM_KERNEL:  # a terminal has told the command, too
                    os.kill(self.pid, got.si_signo)
                if signal.getsignal(got.si_signo) is not signal.SIG_IGN and ends == float("inf"):
                    is_stop = got.si_signo == signal.SIGINT
                    status = STOPPED if is_stop else TERMINATED
                    ends = time.monotonic() + (GRACE if is_stop else GRACE_OF_END)
            pid, raw = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._hear()
                self._leave(raw, status)
            if time.monotonic() > ends:
                self._end()
                if status == STOPPED and not self.has_said:
                    self._say("stopped")
                self._clean()
                os._exit(status)
            self._check_limits()
            self._beat()

    def _hear(self) -> None:
        """Take what the command has told."""
        with suppress(BlockingIOError):
            while part := os.read(self.reader, 2**16):
                *lines, self._rest = (self._rest + part).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))

    def _take(self, message: Mapping[str, Any]) -> None:
        if "seconds" in message:
            self.seconds, self.words = message["seconds"], message.get("words", "")
            self.deadline = time.monotonic() + self.seconds if self.seconds else float("inf")
        if "place" in message and message["place"] not in self.places:
            self.places.append(message["place"])
        if "pulse" in message:
            began = self.pulse is None and message["pulse"] is not None
            self.pulse = message["pulse"]
            self.next_line = time.monotonic() + FIRST_LINE if began else self.next_line
        self.scratch = message.get("scratch", self.scratch)
        self.memory = message.get("memory", self.memory)
        self.has_said = message.get("said", self.has_said)

    def _beat(self) -> None:
        """Print what the command does, where it is time to."""
        if self.pulse is not None and time.monotonic() > self.next_line:
            before, began, words = self.pulse
            self._say(f"{before}{time.monotonic() - began:.0f} s: {words}")
            self.next_line = time.monotonic() + NEXT_LINE

    def _check_limits(self) -> None:
        """End a command that is beyond a limit."""
        if time.monotonic() > self.deadline:
            reason = f"not run: {self.words} took longer than {self.seconds:g} s (--timeout)"
        elif self.memory and (used := memory_of(self.pid)) > self.memory:
            reason = f"not run: it took {used / 2**30:.2f} GiB, more than {self.memory / 2**30:.2f} GiB (--memory)"
        else:
            return
        self._end()
        self._say(f"Error: {reason}")
        self._clean()
        os._exit(LATE)

    def _leave(self, raw: int, asked: int) -> None:
        """End this process as the command ended."""
        code = os.waitstatus_to_exitcode(raw)
        if code >= 0:
            os._exit(code)
        self._clean()
        if asked:
            if asked == STOPPED and not self.has_said:
                self._say("stopped")
            os._exit(asked)
        name = signal.Signals(-code).name
        memory = ", as where memory is short" * (name == "SIGKILL")
        self._say(f"Error: the command was ended by {name}{memory}")
        os._exit(FAILED)

    def _end(self) -> None:
        """End the command and all that it has started."""
        for pid in reversed([self.pid, *descendants(self.pid)]):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self._hear()
        if os.isatty(2):
            os.write(2, SHOW_CURSOR)  # a display of progress had hidden it

    def _clean(self) -> None:
        """Remove what the command left: its temporary files, and what it was writing beside its places."""
        if self.scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)
        for place in self.places:
            with suppress(Exception):  # the next run does it
                self.settle(place)

    @staticmethod
    def _say(line: str) -> None:
        with suppress(OSError):
            os.write(2, line.encode() + b"\n")


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have started."""
    found: list[int] = []
    with suppress(OSError, ValueError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError, ValueError), open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    return [one for child in found for one in (child, *descendants(child))]


def memory_of(pid: int) -> int:
    """Return the bytes of memory that a process and its descendants have written to; mapped files do not count."""
    return sum(_anonymous(one) for one in (pid, *descendants(pid)))


def _anonymous(pid: int) -> int:
    with suppress(OSError, ValueError), open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0
