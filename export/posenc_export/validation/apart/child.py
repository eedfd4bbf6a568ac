"""The process that looks into the graphs of a bundle: `python -P -m posenc_export.validation.apart.child DIR REQUEST`.

See `apart` for the process that starts it, and reads what it says. It runs step after step, and says each before it
begins: if that is its end, the other process knows which. Its memory is bounded where the bundle is a stranger's.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten
from typing import Any, BinaryIO

from posenc.memory import GIB, free_memory
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.paths import native_path
from posenc_export.errors import Overloaded, PosencError, first_line
from posenc_export.machine import has_nvidia_driver
from posenc_export.runtimes.process import end_with_parent
from posenc_export.runtimes.requests import check_available
from posenc_export.validation.apart.messages import ERRORS, cut, row_json, written
from posenc_export.validation.judging.verdict import ValidateOptions, Verdict
from posenc_export.validation.running.run import steps_of
from posenc_export.validation.running.steps import OPENING, Key, Step, rows_of

LIBRARIES = ("torch", "onnx.reference", "onnxruntime")
SHARE = 0.75
"""How much of the memory that is free a graph of a stranger's may take."""
LONG = 160
"""Characters of what a library says of memory."""
THREAD = 2**28
"""Addresses that a thread of a library takes, its stack and its heap: of memory it takes what it writes."""


@dataclass
class Speaker:
    """What says how far things are: a line for each, which is a progress too.

    step: the one that runs; call: what it is at.
    """

    pipe: BinaryIO
    step: Key = OPENING
    call: str = ""

    def __call__(self, text: str) -> None:
        """Say how far a step is."""
        self.say(progress=cut(text))

    def begin(self, check: str, call: str) -> None:
        """Say that a check begins, or a call of it."""
        self.call = call
        self.say(call=(check, cut(call)))

    def say(self, **message: object) -> None:
        """Write a line."""
        self.pipe.write(written(**message))
        self.pipe.flush()


@dataclass(frozen=True)
class Worker:
    """What runs the steps that are still to do. limit: GiB that it may take, 0 for any."""

    speaker: Speaker
    done: frozenset[Key]
    over: frozenset[int]
    limit: float

    def run(self, step: Step) -> list[Verdict]:
        """Run a step and say what came of it, if it is to do."""
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
        """Return the rows of a step: one that failed, where a graph takes too much, or gives what nothing can read."""
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
        most = f"{self.limit:.3g} GiB" if self.limit else "there is"
        return f"took more memory than {most} ({shorten(reason, LONG)})"


def main(folder: Path, request: Mapping[str, Any]) -> None:
    """Validate a bundle, and say what comes of it on what was stdout; libraries print to stderr."""
    end_with_parent()
    speaker = Speaker(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    try:
        _validate(speaker, folder, request)
        speaker.say(end=True)
    except PosencError as error:
        kind = next(name for name, kind in ERRORS.items() if isinstance(error, kind))
        speaker.say(error=(kind, cut(error.message)))
    except Exception as error:
        speaker.say(error=("ToolFailed", cut(f"{type(error).__name__}: {first_line(error)}")))


def _validate(speaker: Speaker, folder: Path, request: Mapping[str, Any]) -> None:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in request["options"].items()
    }
    options = ValidateOptions(**values, progress=speaker, timeout=0.0)  # who reads what is said holds the clock
    _load_libraries()
    if not sys.stdin.readline():  # who started this one found something wrong, or is no more
        return
    bundle = Bundle.read(folder, request["trust"])
    check_available(options.required_runtimes)
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
    with native_path(folder) as place:
        for _ in rows_of(steps_of(replace(bundle, folder=place), options, {}), worker.run):
            pass


def _load_libraries() -> None:
    """Load what most steps take, before any clock runs and memory is bounded."""
    for name in LIBRARIES:
        importlib.import_module(name)


def limit_memory() -> float:
    """Let this process take a share of the memory that is free, and return how many GiB; 0 where that cannot be.

    CUDA takes addresses for all the memory of the machine: beside it there is no limit.
    """
    try:
        import resource

        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        size = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmSize:"))
        if has_nvidia_driver():
            return 0.0
        most = int(SHARE * free_memory())
        addresses = size + most + THREAD * (os.cpu_count() or 1)
        resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses))
    except (ImportError, OSError, ValueError, StopIteration):
        return 0.0
    return most / GIB


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
