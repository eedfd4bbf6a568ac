"""What a display of progress may take beside texts: how many steps will come, what begins, and lines that stay.

A progress is any function of a text. Texts that are equal up to a colon belong to one step.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from posenc_export.proof.runtimes import Progress


@runtime_checkable
class Display(Protocol):
    """A progress that counts steps, and keeps lines."""

    def expect(self, steps: int) -> None:
        """Note that at least so many steps will come."""

    def keep(self, text: str) -> None:
        """Show a line that stays."""


@runtime_checkable
class Clock(Protocol):
    """A progress that is told what begins, since it may take for ever or end this process."""

    def begin(self, check: str, call: str) -> None:
        """Note that a check begins, or one of its calls."""


def begin(progress: Progress, check: str, call: str = "") -> None:
    """Say, where a clock runs, that a check begins, or one of its calls."""
    if isinstance(progress, Clock):
        progress.begin(check, call)


def expect(progress: Progress, steps: int) -> None:
    """Say how many steps will come, where a display counts them."""
    if isinstance(progress, Display):
        progress.expect(steps)


def keep(progress: Progress, text: str) -> None:
    """Show a line that stays on a terminal's display; elsewhere report it like any other text."""
    if isinstance(progress, Display):
        progress.keep(text)
    else:
        progress(text)
