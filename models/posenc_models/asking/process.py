"""A model is asked in a process of its own: a config may come from anybody, and make a library do anything.

The child is started early, as importing torch and a library takes seconds; `answers` waits for it.
"""

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from posenc.own_process import OwnProcess
from posenc.ports import Array, Feeds
from posenc_models.asking.load import library_of
from posenc_models.asking.model import CannotAsk, Question

TIMEOUT = 120.0
"""Seconds of computing that a model may take: the largest take a tenth of it. 0 is any."""
PATIENCE = 10.0
"""How many times as long it may take by the clock: a busy machine is no reason to give up, one that sleeps is."""
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",  # idle threads would count as computing
}
NO_ANSWER = "the model gave no answer within"


class AskingFailed(Exception):
    """The child crashed, or found no place for what was read; one line says which."""


@dataclass(frozen=True)
class Answers:
    """A model's answers: outputs by case and name, and the other fields of `Model`."""

    words: str
    library: str
    note: str
    amplitude: float
    permutation: tuple[int, ...]
    outputs: Mapping[str, Mapping[str, Array]]
    atol: float = 0.0


class Asking(OwnProcess):
    """A model that is being asked in a child."""

    def __init__(self, question: Question, library: str = "transformers", timeout: float = TIMEOUT) -> None:
        """Start the child; raise CannotAsk where the library is not installed.

        Args:
            question: what the model is asked.
            library: whose code is asked.
            timeout: seconds of computing that it may take; 0 for any.
        """
        library_of(library)
        super().__init__("posenc-asking-")
        (self.folder / "question.pickle").write_bytes(pickle.dumps(question))
        self.timeout = timeout
        self.deadline = time.monotonic() + timeout * PATIENCE
        words = [sys.executable, "-P", "-m", "posenc_models.asking", str(self.folder), f"{timeout:g}"]
        env = {**os.environ, **OFFLINE, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.start(words, env, drops=True)

    def answers(self, cases: Mapping[str, Feeds]) -> Answers:
        """Return the model's outputs in each case, and end the child.

        Raises CannotAsk, in one line, where the model cannot be asked, or takes longer than it may; AskingFailed where
        the child crashed.
        """
        self._write_calls(cases)
        try:
            self._run()
            return self._read()
        finally:
            self.end()

    def _write_calls(self, cases: Mapping[str, Feeds]) -> None:
        """Write the calls where the child reads them."""
        (self.folder / "feeds.pickle").write_bytes(pickle.dumps({name: dict(feeds) for name, feeds in cases.items()}))

    def _run(self) -> None:
        """Tell the child that there are calls, and wait for its end."""
        try:
            with contextlib.suppress(BrokenPipeError):
                left = max(self.deadline - time.monotonic(), 1.0) if self.timeout else None
                self.process.communicate(b"go\n", timeout=left)
        except subprocess.TimeoutExpired:
            raise CannotAsk(f"{NO_ANSWER} {self.timeout * PATIENCE:g} s by the clock (--ask-timeout)") from None
        if self.process.returncode == -getattr(signal, "SIGXCPU", 0):
            raise CannotAsk(f"{NO_ANSWER} {self.timeout:g} s of computing (--ask-timeout)")
        if self.process.returncode:
            status = self.process.returncode
            end = f"signal {-status}" if status < 0 else f"status {status}"
            raise AskingFailed(f"the process that asked the model ended with {end}: {self.last_words('no word')[:300]}")

    def _read(self) -> Answers:
        """Return what the child wrote; raise what it says went wrong."""
        answer = json.loads((self.folder / "model.json").read_text(encoding="utf-8"))
        if "disagrees" in answer:
            raise AskingFailed(answer["disagrees"])
        if "cannot" in answer:
            raise CannotAsk(answer["cannot"])
        outputs: dict[str, dict[str, Array]] = {}  # from "case/name"
        with np.load(self.folder / "answers.npz", allow_pickle=False) as arrays:
            for key in arrays.files:
                case, _, name = key.rpartition("/")
                outputs.setdefault(case, {})[name] = arrays[key]
        return Answers(**{**answer, "permutation": tuple(answer["permutation"]), "outputs": outputs})
