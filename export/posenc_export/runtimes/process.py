"""A runner in a process of its own, fed by .npy files, a line a call: in C++, or in JavaScript."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from posenc.ports import Array, Port
from posenc_export.arrays import from_stored, to_stored
from posenc_export.runtimes import RunFailed


class Process:
    """A runner that has loaded a graph; a call writes its inputs and reads its outputs as .npy files.

    what: the runner in words.
    """

    def __init__(self, what: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Start the runner; raise RunFailed, with what it prints, where it cannot load the graph."""
        self.what = what
        self.scratch = tempfile.TemporaryDirectory(prefix="posenc-runner-")
        self.stderr = (Path(self.scratch.name) / "stderr").open("w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            encoding="utf-8",
            errors="replace",
            cwd=self.scratch.name,
            env={**env, "TMPDIR": self.scratch.name},  # libtorch unpacks packages there
            start_new_session=not _leads_session(),  # Ctrl-C interrupts this process; the runner ends with its input
        )
        self._stop = weakref.finalize(self, _stop, self.process, self.stderr, self.scratch)
        if self._answer() != "ready":
            raise RunFailed(f"{what} did not start")

    def __call__(self, feeds: Mapping[str, Array], outputs: tuple[Port, ...]) -> dict[str, Array]:
        """Run the graph once; raise RunFailed with the error that the runner answers."""
        folder = Path(self.scratch.name)
        for name, array in feeds.items():
            np.save(folder / f"{name}.npy", np.asarray(to_stored(array), order="C"))
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the runner has ended: _answer says how
            self.process.stdin.write(".\t.\n")
            self.process.stdin.flush()
        answer = self._answer()
        if answer != "ok":
            raise RunFailed(answer.removeprefix("error: "))
        return {p.name: from_stored(np.load(folder / f"{p.name}.npy"), p.dtype) for p in outputs}

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line: str = self.process.stdout.readline()
        if line:
            return line.rstrip("\n")
        status = self.process.wait()
        self.stderr.seek(0)
        errors = self.stderr.read().strip().splitlines()
        if status < 0:
            raise RunFailed(f"{self.what} crashed: signal {-status}; {errors[-1] if errors else 'it said nothing'}")
        raise RunFailed(errors[-1].removeprefix("error: ") if errors else f"{self.what} ended: status {status}")


def _leads_session() -> bool:
    """Return whether no Ctrl-C of a terminal comes here anyway, and what ends this process ends its whole session."""
    return hasattr(os, "getsid") and os.getsid(0) == os.getpid()


def _stop(process: subprocess.Popen[str], stderr: IO[str], scratch: tempfile.TemporaryDirectory[str]) -> None:
    """End a runner: closing its input does that, and a signal where it does not; then remove what it had."""
    with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
        process.communicate(timeout=5)
    process.kill()
    process.wait()
    stderr.close()
    scratch.cleanup()
