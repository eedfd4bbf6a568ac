"""Progress on stderr: one moving line on a terminal; elsewhere, with -v, a line for each step.

A whole model takes minutes: of it a line says every ten seconds what is done, also without -v.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import click

from posenc_export.common.errors import one_line, printable
from posenc_export.common.interrupts import is_command
from posenc_export.common.supervisor import FIRST_LINE, NEXT_LINE, is_supervised, tell

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from posenc_export.proof.runtimes import Progress

REFRESHES = 8
"""How many times a second the line is drawn."""
WHEEL = "|/-\\"
"""The line begins with these in turn: every terminal has them."""


@dataclass
class StepCount:
    """The step that a command is at, the number of steps known, and when it began."""

    text: str = "starting"
    done: int = 0
    known: int = 0
    start: float = field(default_factory=time.monotonic)

    def __call__(self, text: str) -> None:
        """Go on to a step; text behind a colon says how far that step is."""
        # the same step again, further on: text behind a colon differs
        if text.partition(": ")[0] != self.text.partition(": ")[0]:
            self.done += 1
        self.text = text

    def expect(self, steps: int) -> None:
        """Expect at least so many more steps."""
        self.known = max(self.known, self.done + steps)

    def keep(self, text: str) -> None:
        """Print a line."""
        click.echo(printable(text), err=True)

    def __str__(self) -> str:
        """Return "step 3 of 9, 12 s: ..."; without numbers of steps where they are not known."""
        return f"{self.steps}{time.monotonic() - self.start:.0f} s: {one_line(self.text)}"

    @property
    def steps(self) -> str:
        """The words "step 3 of 9, ", or none where steps are not counted."""
        return f"step {self.done} of {max(self.known, self.done)}, " if self.known and self.done else ""


@dataclass
class ProgressLine(StepCount):
    """Steps as one line of a terminal; a thread redraws it, so that it moves while libraries load."""

    console: Console | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw a turning wheel and the text, cut to the width."""
        from rich.text import Text

        # by the clock, not by calls: it turns while a library loads
        wheel = WHEEL[int(time.monotonic() * REFRESHES) % len(WHEEL)]
        yield Text(f"{wheel} {self}", no_wrap=True, overflow="ellipsis", end="")

    def keep(self, text: str) -> None:
        """Print a line above the moving one."""
        assert self.console is not None
        self.console.print(printable(text), highlight=False, markup=False)


class Lines(StepCount):
    """Steps, a line for each."""

    def __call__(self, text: str) -> None:
        """Print a step when it is a new one."""
        before = self.done
        super().__call__(text)
        if self.done > before:
            click.echo(str(self), err=True)


class Pulse(StepCount):
    """Steps of what takes minutes, where no terminal shows them: one line in the first second, then one every ten.

    The process that watches a command prints them, since a library may let no other thread run for half a minute. A
    command that nobody watches prints them by a thread.
    """

    def __enter__(self) -> Self:
        """Begin to print."""
        self._end = threading.Event()
        self._tell()
        if not is_supervised():
            threading.Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Print no more."""
        tell(pulse=None)
        self._end.set()

    def __call__(self, text: str) -> None:
        """Go on to a step."""
        super().__call__(text)
        self._tell()

    def _tell(self) -> None:
        tell(pulse=(self.steps, self.start, one_line(self.text)))

    def _beat(self) -> None:
        seconds = FIRST_LINE
        while not self._end.wait(seconds):
            click.echo(str(self), err=True)
            seconds = NEXT_LINE


@contextmanager
def progress(values: Mapping[str, object]) -> Iterator[Progress]:
    """Yield a function that shows progress on a terminal, and elsewhere only with -v."""
    # --json: stderr stays empty, so that logs of scripts do
    silent = bool(values.get("quiet") or values.get("as_json"))
    # a whole model takes minutes; nobody waits at a log for a call in the process of a test or a program
    takes_minutes = values.get("model") is not None and is_command()
    if silent or not (sys.stderr.isatty() or values.get("verbose") or takes_minutes):
        yield lambda _: None
    elif not sys.stderr.isatty() and values.get("verbose"):
        yield Lines()
    elif not sys.stderr.isatty():
        with Pulse() as pulse:
            yield pulse
    else:
        from rich.console import Console
        from rich.live import Live

        line = ProgressLine(console=Console(file=sys.stderr))  # this very stream: exporters run with another stderr
        # transient: the line is gone when the report comes
        with Live(line, console=line.console, refresh_per_second=REFRESHES, transient=True):
            yield line
