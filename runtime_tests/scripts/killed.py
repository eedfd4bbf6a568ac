"""A process that kills itself at a chosen step: a call that changes a file, a folder or a lock."""

import fcntl
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posenc_export.bundle import replacement

CALLS = ("rename", "replace", "unlink", "remove", "rmdir", "mkdir")
RECORD = "steps.json"


@dataclass
class Steps:
    """Counts the steps of a process; kills it at one of them."""

    kill_at: int = 0
    moment: str = ""
    kill_name: str = ""
    names: list[str] = field(default_factory=list)

    def take(self, name: str, act: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        self.names.append(name)
        here = len(self.names) == self.kill_at or name == self.kill_name
        if here and self.moment == "before":
            kill()
        if here and self.moment == "middle":
            (half or act)()
            kill()
        try:
            return act()
        finally:
            if here:
                kill()

    def wrap(self, owner: Any, name: str, said: Callable[..., str], half: Callable[..., Any] | None = None) -> None:
        act = getattr(owner, name)

        def step(*args: Any, **settings: Any) -> Any:
            return self.take(said(*args), lambda: act(*args, **settings), half and (lambda: half(act, *args)))

        setattr(owner, name, step)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def watch(steps: Steps, exchange: bool) -> None:
    """Make steps of all calls that change something in this process, which is a child and ends with them."""
    for name in CALLS:
        steps.wrap(os, name, lambda path, *_, name=name: f"{name} {Path(path).name}")
    steps.wrap(fcntl, "flock", lambda *_: "flock")
    for name in ("write_text", "write_bytes"):
        steps.wrap(Path, name, lambda path, *_: f"write {path.name}", write_half)
    if exchange:
        steps.wrap(replacement, "exchange", lambda *_: "exchange")
    else:
        vars(replacement)["exchange"] = lambda *_: False


def in_child(folder: Path, work: Callable[[], None], steps: Steps, exchange: bool) -> bool:
    """Do something in a process of its own, watched; return whether it was killed, not whether it came out well."""
    child = os.fork()
    if child == 0:
        try:
            watch(steps, exchange)
            work()
            steps.names, names = [], steps.names
            with open(folder / RECORD, "w", encoding="utf-8") as file:
                json.dump(names, file)
            os._exit(0)
        except BaseException as error:
            print(f"the run ended with {error!r}", file=sys.stderr)
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) and status != 0:
        raise SystemExit("a run that was not killed failed")
    return os.WIFSIGNALED(status)


def write_half(write: Callable[..., Any], path: Path, body: str | bytes, *_: Any) -> None:
    write(path, body[: len(body) // 2])
