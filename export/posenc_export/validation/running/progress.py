"""What a display of progress may know beside the texts that it is called with: how many steps come, and what ended.

A progress is any function of a text. Those of a text that differ in what follows a colon are one step.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from posenc_export.runtimes import Progress


@runtime_checkable
class Display(Protocol):
    """A progress that counts steps, and keeps lines."""

    def expect(self, steps: int) -> None:
        """Take note that at least so many steps are still to come."""

    def keep(self, text: str) -> None:
        """Show a line that stays."""


@runtime_checkable
class Clock(Protocol):
    """A progress that knows when something begins that may take for ever, or end this process."""

    def begin(self, check: str, call: str) -> None:
        """Take note that a check begins, or a call of what it tries."""


def begin(progress: Progress, check: str, call: str = "") -> None:
    """Say what begins, where a clock runs: a check, or a call of what it tries."""
    if isinstance(progress, Clock):
        progress.begin(check, call)


def expect(progress: Progress, steps: int) -> None:
    """Say how many steps are to come, where that is of use."""
    if isinstance(progress, Display):
        progress.expect(steps)


def keep(progress: Progress, text: str) -> None:
    """Show a line that stays on the display of a terminal; elsewhere report it as any other text."""
    if isinstance(progress, Display):
        progress.keep(text)
    else:
        progress(text)
