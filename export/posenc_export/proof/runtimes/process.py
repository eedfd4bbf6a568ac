"""A runner in a process of its own, fed by .npy files, a line a call: in C++, in JavaScript, or in Python."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np

from posenc.own_process import OwnProcess
from posenc.ports import Array, Port
from posenc_export.common.arrays import from_stored, to_stored
from posenc_export.common.child import import_folders, signal_name
from posenc_export.proof.runtimes import Crashed, RunFailed

PATIENCE = 5.0
"""Seconds that a runner has to end once its input is closed."""


class Process(OwnProcess):
    """A runner that has loaded a graph; a call writes its inputs and reads its outputs as .npy files."""

    def __init__(self, title: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Start the runner, which messages call by its `title`; raise RunFailed where it cannot load the graph."""
        super().__init__("posenc-runner-")
        self.title = title
        # a signal to the session of a process that leads one ends its runners, too
        self.start(command, env, leads=not _leads_session(), patience=PATIENCE)
        if self._answer() != "ready":
            raise RunFailed(f"{title} did not start")

    def __call__(self, feeds: Mapping[str, Array], outputs: tuple[Port, ...], line: str = ".\t.") -> dict[str, Array]:
        """Run the graph once; raise RunFailed with the error that the runner answers.

        Args:
            feeds: What goes in, by name.
            outputs: What comes out.
            line: What the runner is asked by; inputs and outputs lie in its working folder.
        """
        folder = self.folder
        for port in outputs:  # nobody must take an output of an earlier call for one of this call
            (folder / f"{port.name}.npy").unlink(missing_ok=True)
        for name, array in feeds.items():
            # the readers in C++ take .npy files in C order alone
            np.save(folder / f"{name}.npy", np.asarray(to_stored(array), order="C"))
        self.ask(line)
        return {p.name: from_stored(np.load(folder / f"{p.name}.npy"), p.dtype) for p in outputs}

    def ask(self, line: str) -> str:
        """Send a line, and return what follows "ok" in the answer; raise RunFailed with any other answer."""
        self.tell(line)
        answer = self._answer()
        word, _, words = answer.partition(" ")
        if word == "crashed:":
            raise Crashed(words)
        if word != "ok":
            raise RunFailed(answer.removeprefix("error: "))
        return words

    def tell(self, line: str) -> None:
        """Send a line that is not answered."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the runner has ended: _answer says how
            self.process.stdin.write(f"{line}\n".encode("utf-8", "replace"))
            self.process.stdin.flush()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode("utf-8", "replace")
        if line:
            return line.rstrip("\r\n")
        status = self.process.wait()
        # a negative status is the number of the signal that ended the process
        if status < 0:
            raise Crashed(f"{self.title} ended by signal {signal_name(-status)}: {self.last_words()}")
        raise RunFailed(self.last_words(f"{self.title} ended with status {status}").removeprefix("error: "))


def python_child(title: str, command: Sequence[str], **variables: str) -> Process:
    """Start a runner in Python that has our modules, and ends with this process; raise RunFailed as Process does.

    Args:
        title: What messages call it.
        command: The words that start it.
        variables: Of its environment, beside ours.
    """
    folders = os.pathsep.join(import_folders())
    # without a backtrace, the reason of a panic is Rust's last line
    env = {**os.environ, "PYTHONPATH": folders, "RUST_BACKTRACE": "0", **variables}
    return _starter().submit(Process, title, command, env).result()


@cache
def _starter() -> ThreadPoolExecutor:
    """Return the thread that starts children. They end with it, so that it lives as long as this process."""
    return ThreadPoolExecutor(1, "posenc-starter")


def _leads_session() -> bool:
    """Return whether this process leads its session."""
    return hasattr(os, "getsid") and os.getsid(0) == os.getpid()
