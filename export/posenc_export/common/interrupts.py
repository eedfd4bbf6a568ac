"""Ctrl-C, from the first import of a command to its end: always "stopped" and status 130, and never a traceback.

Python raises KeyboardInterrupt wherever it is. Inside an import that ends in a traceback, and where a library in C++ is
being loaded, in SIGABRT. A signal that comes meanwhile waits until nothing is being imported.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import NoReturn

STATUS = 130
"""As shells expect after Ctrl-C."""
AGAIN = 0.05
"""Seconds until a signal that waits is looked at again."""
COMMANDS = ("posenc", "posenc-export")
IMPORTING = "<frozen importlib._bootstrap>"
Handler = Callable[[int, FrameType | None], object]


def is_helper() -> bool:
    """Return whether this process was started by one of ours, as `python -m posenc_export.ROOM.FILE`."""
    return sys.argv[:1] == ["-m"] and "." in sys.orig_argv[-len(sys.argv)]


def is_command() -> bool:
    """Return whether this process was started as one of the commands, or as `python -m posenc_export`."""
    if sys.argv[:1] == ["-m"]:  # until the module is found
        return sys.orig_argv[-len(sys.argv)].removeprefix("-m").split(".")[0] == "posenc_export"
    folder, name = os.path.split(sys.argv[0] if sys.argv else "")
    is_module = name == "__main__.py" and os.path.basename(folder) == "posenc_export"
    return is_module or name.removesuffix(".exe") in COMMANDS


def leave_at_once() -> None:
    """Until a command begins: end on Ctrl-C, with a word, since there is nothing yet to clean up."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell may have it ignored
        signal.signal(signal.SIGINT, _leave)


def _leave(*_: object) -> None:
    os.write(2, b"stopped\n")
    os._exit(STATUS)


def end_stopped() -> NoReturn:
    """End a command that was stopped and has cleaned up, before libraries in C++ do what they do at the end.

    A thread of theirs that still runs then aborts the process: "terminate called without an active exception". And
    where KeyboardInterrupt came out of code that such a library ran, Python kills itself by SIGINT instead of a status.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    atexit._run_exitfuncs()
    os._exit(STATUS)


@contextmanager
def between_imports(once: bool = False) -> Iterator[None]:
    """While a command runs: raise KeyboardInterrupt on Ctrl-C, when nothing is being imported.

    Args:
        once: whether only the first Ctrl-C counts. A terminal and the process that waits may both send it: the second
            must not break what the first has begun to clean up.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before not in (_leave, signal.default_int_handler):
        yield
        return
    alarm = getattr(signal, "SIGALRM", None)
    alarm_before = signal.getsignal(alarm) if alarm else None
    signal.signal(signal.SIGINT, partial(_interrupt, once))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if alarm:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(alarm, alarm_before)


def _interrupt(once: bool, number: int, frame: FrameType | None) -> None:
    alarm = getattr(signal, "SIGALRM", None)
    if alarm and _is_importing(frame):
        signal.signal(alarm, partial(_interrupt, once))
        signal.setitimer(signal.ITIMER_REAL, AGAIN)
        return
    if once:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            return True
        frame = frame.f_back
    return False
