"""A process of its own, for what a stranger made or a library that may end it: how it starts, what it says, its end."""

import contextlib
import os
import signal
import subprocess
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

TAIL = 2**16
"""How many bytes of what libraries printed are read, from the end."""
PANICS = " panicked at "
"""Rust prints this before the reason of a panic; later lines tell only how the process ends."""


class OwnProcess:
    """A process in a scratch folder of its own, which ends, with all that it has started, when nobody holds this.

    Attributes:
        scratch: its working folder, where libraries put temporary files, too.
        errors: what it prints to stderr.
        process: takes lines, and gives lines unless they are dropped; both are bytes.
        end: ends it, and removes its files.
    """

    def __init__(self, prefix: str) -> None:
        """Make the scratch folder, so that something can be put there before the process starts.

        Args:
            prefix: begins the folder's name.
        """
        self.scratch = tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
        self.folder = Path(self.scratch.name)

    def start(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        *,
        leads: bool = True,
        drops: bool = False,
        patience: float = 0.0,
        drain: Callable[[], None] = lambda: None,
    ) -> None:
        """Start it.

        Args:
            command: its words.
            env: its environment.
            leads: whether it leads a session. Then Ctrl-C interrupts only the process that waits, which ends this one.
            drops: whether what it prints to stdout is dropped.
            patience: seconds that it has to end by itself, once its input is closed.
            drain: has the thread that reads its lines leave the pipe, once it has ended.
        """
        self.errors = (self.folder / "stderr").open("w+b")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL if drops else subprocess.PIPE,
            stderr=self.errors,
            cwd=self.folder,
            env={**env, "TMPDIR": self.scratch.name},
            start_new_session=leads,
        )
        self.end = weakref.finalize(self, _end, self.process, self.errors, self.scratch, patience, drain)

    def last_words(self, nothing: str = "it said nothing") -> str:
        """Return the last line that libraries printed; after a panic in Rust, the line with the reason."""
        self.errors.seek(max(0, self.errors.seek(0, os.SEEK_END) - TAIL))
        lines = [line.strip() for line in self.errors.read().decode("utf-8", "replace").splitlines() if line.strip()]
        panic = next((i for i, line in enumerate(lines[:-1]) if PANICS in line), None)
        return lines[-1 if panic is None else panic + 1] if lines else nothing


def _end(
    process: subprocess.Popen[bytes],
    errors: IO[bytes],
    scratch: tempfile.TemporaryDirectory[str],
    patience: float,
    drain: Callable[[], None],
) -> None:
    """End a process and all that it has started, and remove its files."""
    if patience:
        with contextlib.suppress(BrokenPipeError, ValueError, subprocess.TimeoutExpired):
            process.communicate(timeout=patience)
    # of a process that leads no session there is no group of its number
    with contextlib.suppress(ProcessLookupError, PermissionError, AttributeError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        process.kill()
    process.wait()
    drain()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            if pipe is not None:
                pipe.close()
    errors.close()
    scratch.cleanup()
