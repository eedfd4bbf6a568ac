"""A plugin of pytest: a run ends by itself, since after a time no new test begins, and it may begin at any file.

POSENC_TEST_DEADLINE is that time, in seconds since 1970. Tests that did not begin by then are "not run": they neither
passed nor failed, and the status of pytest does not count them. POSENC_TEST_START is a number in base 16, such as that
of a commit. It picks the file that comes first, so that it is not always the same files that no time is left for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

import pytest

DEADLINE, START = "POSENC_TEST_DEADLINE", "POSENC_TEST_START"
NOT_RUN = "not run"
PROPERTY = ("posenc", NOT_RUN)
"""What the report of such a test has; xdist sends it from its workers."""


class Deadline:
    """The hooks of pytest that leave tests out from a time on, and say how many."""

    def __init__(self, at: float) -> None:
        """Take the time, in seconds since 1970."""
        self.at = at
        self.ran: set[str] = set()
        self.left_out: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Report a test whose time has not come as not run."""
        if time.time() < self.at:
            return None
        place = (str(item.path), item.location[1] or 0, NOT_RUN)
        report = pytest.TestReport(
            item.nodeid, item.location, {}, "skipped", place, "setup", user_properties=[PROPERTY]
        )
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test."""
        (self.left_out if _was_left_out(report) else self.ran).add(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Give tests that were not run a name of their own in pytest's last line."""
        return (NOT_RUN, "n", "NOT RUN") if _was_left_out(report) else None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say how many of how many tests were run."""
        all_tests = len(self.ran) + len(self.left_out)
        line = f"{len(self.ran):,} of {all_tests:,} tests were run"
        if self.left_out:
            line += f"; for {len(self.left_out):,} the time was over: they are neither passed nor failed"
        terminalreporter.write_line(line)


def pytest_configure(config: pytest.Config) -> None:
    """Have no test begin after the time that the environment gives."""
    if (deadline := deadline_of()) is not None:
        config.pluginmanager.register(deadline)


@pytest.hookimpl(trylast=True)  # `-m` has left out what is not asked for
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin at the file that the environment picks."""
    items[:] = rotated(items)


def _was_left_out(report: object) -> bool:
    return PROPERTY in map(tuple, getattr(report, "user_properties", ()))


def deadline_of(environment: Mapping[str, str] = os.environ) -> Deadline | None:
    """Return the hooks for the time that the environment gives, or None; raise UsageError where it is no time."""
    text = environment.get(DEADLINE, "")
    if not text:
        return None
    try:
        return Deadline(float(text))
    except ValueError:
        raise pytest.UsageError(f"{DEADLINE} must be seconds since 1970, got {text!r}") from None


def rotated(items: Sequence[pytest.Item], environment: Mapping[str, str] = os.environ) -> list[pytest.Item]:
    """Return tests file after file, from the file that the environment picks; as they are where it picks none."""
    text = environment.get(START, "")
    if not text or not items:
        return list(items)
    try:
        number = int(text, 16)
    except ValueError:
        raise pytest.UsageError(f"{START} must be a number in base 16, got {text!r}") from None
    files = {path: place for place, path in enumerate(dict.fromkeys(item.path for item in items))}
    first = number % len(files)
    return sorted(items, key=lambda item: (files[item.path] - first) % len(files))
