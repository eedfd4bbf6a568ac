"""The process that looks into the graphs of a bundle: `python -P -m posenc_export.proof.apart.child DIR REQUEST`.

`parent.py` starts it and reads its messages. It runs one step after another, and names each before it begins: if a step
ends this process, the parent knows which. Its memory is bounded unless the bundle is trusted.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import BinaryIO

from posenc_export.bundle.folder import Bundle
from posenc_export.common.child import pipe_of_messages
from posenc_export.common.errors import Overloaded, PosencError, first_line
from posenc_export.common.memory_limit import limit_memory
from posenc_export.proof.apart.messages import ERRORS, ProcessRequest, cut, row_json, written
from posenc_export.proof.judging.verdict import ValidateOptions, Verdict
from posenc_export.proof.running.run import steps_of
from posenc_export.proof.running.steps import OPENING, Key, Step, rows_of
from posenc_export.proof.runtimes.requests import check_available

LIBRARIES = ("torch", "onnx.reference", "onnxruntime")
LONG = 160
"""Characters of a library's message on memory, at most."""


@dataclass
class Speaker:
    """Writes messages to the parent, a line each; it is a progress, too.

    Args:
        pipe: Where lines are written.
        step: The step that runs.
        call: The call that it is at.
    """

    pipe: BinaryIO
    step: Key = OPENING
    call: str = ""

    def __call__(self, text: str) -> None:
        """Say how far a step is (as a progress does)."""
        self.say(progress=cut(text))

    def begin(self, check: str, call: str) -> None:
        """Say that a check begins, or one of its calls."""
        self.call = call
        self.say(call=(check, cut(call)))

    def say(self, **message: object) -> None:
        """Write a line."""
        self.pipe.write(written(**message))
        self.pipe.flush()


@dataclass(frozen=True)
class Worker:
    """Runs the steps that are still to do.

    Args:
        speaker: What messages are written with.
        done: Steps that ran in earlier processes.
        over: Files whose steps do not run any more.
        limit: GiB that this process may take; 0 for any.
    """

    speaker: Speaker
    done: frozenset[Key]
    over: frozenset[int]
    limit: float

    def run(self, step: Step) -> list[Verdict]:
        """Run a step and send its rows, if it is still to do."""
        if step.key[0] in self.over or step.key in self.done:
            return []
        self.speaker.step, self.speaker.call = step.key, ""
        self.speaker.say(step=step.key)
        if step.text:
            self.speaker(step.text)
        rows = self._rows(step)
        self.speaker.say(rows=[row_json(row) for row in rows])
        return rows

    def _rows(self, step: Step) -> list[Verdict]:
        """Return the rows of a step; one that failed where a graph takes too much memory, or cannot be read."""
        try:
            return step.run()
        except Overloaded as error:
            reason = self._overload(error.message)
        except PosencError:
            raise
        except MemoryError as error:
            reason = self._overload(f"{type(error).__name__}: {first_line(error)}")
        except Exception as error:
            reason = f"{type(error).__name__}: {first_line(error)}"
        detail = f"{self.speaker.call}: {reason}" if self.speaker.call else reason
        return [Verdict(step.key[1], step.key[2], "fail", detail)]

    def _overload(self, reason: str) -> str:
        if "RecursionError" in reason:
            return reason
        limit = f"{self.limit:.3g} GiB" if self.limit else "there is"
        return f"took more memory than {limit} ({shorten(reason, LONG)})"


def main(folder: Path, request: ProcessRequest) -> None:
    """Validate a bundle, and write messages to what was stdout; libraries print to stderr."""
    speaker = Speaker(pipe_of_messages())
    try:
        _validate(speaker, folder, request)
        speaker.say(end=True)
    except PosencError as error:
        kind = next(name for name, kind in ERRORS.items() if isinstance(error, kind))
        speaker.say(error=(kind, cut(error.message)))
    except Exception as error:
        speaker.say(error=("ToolFailed", cut(f"{type(error).__name__}: {first_line(error)}")))


def _validate(speaker: Speaker, folder: Path, request: ProcessRequest) -> None:
    runtimes, require = tuple(request["runtimes"]), tuple(request["require"])
    # no timeout: the parent holds the clock
    options = ValidateOptions(
        runtimes=runtimes,
        require=require,
        atol=request["atol"],
        rtol=request["rtol"],
        timeout=0.0,
        progress=speaker,
        prove=request["prove"],
        default=tuple(request["default"]),
    )
    _load_libraries()
    if not sys.stdin.readline():  # the parent found something wrong, or has ended
        return
    bundle = Bundle.read(folder, request["trust"], request["part"])
    for name in options.required_runtimes:
        check_available(name, is_required=True)
    limit = 0.0 if bundle.trusted else limit_memory()
    speaker.say(step=OPENING)
    bundle.check_graphs()
    speaker.say(rows=[])
    worker = Worker(
        speaker,
        frozenset((number, subject, check) for number, subject, check in request["done"]),
        frozenset(request["over"]),
        limit,
    )
    with bundle.native() as native:
        for _ in rows_of(steps_of(native, options, {}), worker.run):
            pass


def _load_libraries() -> None:
    """Load the libraries that most steps need, before a clock runs and memory is bounded."""
    for name in LIBRARIES:
        importlib.import_module(name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
