"""A limit on how long a call may take: a graph of a stranger's may hold a loop that never ends."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread
from typing import TypeVar

T = TypeVar("T")
TIMEOUT = 300.0
"""Seconds that a call may take where nothing else is said: the longest of a plan takes some, on the slowest runtime."""
GRACE = 5.0
"""Seconds that a call has to end in after it was told to."""
Stop = Callable[[Thread], object]
"""What ends a call that another thread is in."""


class NoAnswer(Exception):
    """A call took longer than it may."""


def within(seconds: float, work: Callable[[], T], stop: Stop | None) -> T:
    """Return what `work` returns; raise NoAnswer where that takes longer than some seconds, of which 0 are no limit.

    The work is done on a thread of its own, since nothing interrupts a call of C++ on the thread that waits for it.
    Without `stop` there is no limit: a thread that is left running would take the whole process down when that ends.
    """
    if not seconds or stop is None:
        return work()
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
    except BaseException as error:  # the thread that waits is given whatever it is
        future.set_exception(error)


def _end(thread: Thread, stop: Stop) -> None:
    if thread.is_alive():
        stop(thread)
        thread.join(GRACE)


def stop_python(thread: Thread) -> None:
    """End a call of Python code: an exception is raised in its thread before the next line."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
