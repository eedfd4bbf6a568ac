"""The time limit of a call, since an untrusted graph may loop forever; and a check of the limits that users give.

`memory_limit` sets that of memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread
from typing import TypeVar

T = TypeVar("T")
TIMEOUT = 300.0
"""Seconds that a call may take by default; the longest planned call takes a few, on the slowest runtime."""
LONGEST = 10**9
"""Seconds that a limit of time may be: thirty years, and less than what a wait takes."""
MOST_MEMORY = 2**20
"""GiB that a limit of memory may be."""
ASK_TIMEOUT = 120.0
"""Seconds of computing that a config's model may take to answer; see `posenc_models.asking.process`."""
GRACE = 5.0
"""Seconds to wait for a cancelled call to return."""
Stop = Callable[[Thread], object]
"""Ends a call that another thread is in."""


def check_limits(timeout: float, memory: float) -> None:
    """Raise ValueError, in one line, for seconds or GiB that no process can be given.

    Args:
        timeout: seconds; 0 for any.
        memory: GiB.
    """
    # comparisons with nan are false
    if not 0 <= timeout <= LONGEST:
        raise ValueError(f"timeout must be a number of seconds from 0 to {LONGEST:,}, got {timeout}")
    if not 0 < memory <= MOST_MEMORY:
        raise ValueError(f"memory must be a number of GiB above 0, and at most {MOST_MEMORY:,}, got {memory}")


class NoAnswer(Exception):
    """A call took longer than it may."""


def within(seconds: float, work: Callable[[], T], stop: Stop | None) -> T:
    """Return the result of `work`; raise NoAnswer where it takes longer than `seconds`.

    There is no limit where `seconds` is 0, or `stop` is None.
    """
    if not seconds or stop is None:
        # a thread that nobody can stop would crash the process at its exit
        return work()
    # Nothing interrupts a call of C++ on the thread that waits for it, so that the work gets a thread of its own.
    future: Future[T] = Future()
    thread = Thread(target=_settle, args=(future, work), daemon=True)
    thread.start()
    try:
        if wait([future], seconds).done:
            return future.result()
    except KeyboardInterrupt:
        _end(thread, stop)
        raise
    _end(thread, stop)
    raise NoAnswer(f"no answer within {seconds:g} s (--timeout)")


def _settle(future: Future[T], work: Callable[[], T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # the waiting thread raises it again
        future.set_exception(error)


def _end(thread: Thread, stop: Stop) -> None:
    if thread.is_alive():
        stop(thread)
        thread.join(GRACE)


def stop_python(thread: Thread) -> None:
    """End a call of Python code: Python raises SystemExit in its thread before the next line."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
