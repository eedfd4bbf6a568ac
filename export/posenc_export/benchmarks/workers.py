"""A process for each contender, so that the threads of one do not slow another."""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection

import numpy as np

from posenc.ports import Array
from posenc_export.arrays import numpy_dtype, to_stored
from posenc_export.benchmarks import BenchOptions
from posenc_export.benchmarks.contenders import Contender
from posenc_export.benchmarks.lengths import sizes_of_call
from posenc_export.bundle.case import Case
from posenc_export.bundle.folder import Bundle
from posenc_export.errors import BadInput, first_line
from posenc_export.runtimes import RUNTIMES
from posenc_export.validation.planning.feeds import feeds_for

WARM_UP, TIMED = 0.1, 0.2
"""Seconds of calls before a round is timed, and while it is; the median call counts."""
SETTLE = 0.25
"""Seconds before a round, in which the threads of the last contender stop spinning."""


@contextmanager
def worker(contender: Contender, length: int, timing: BenchOptions) -> Iterator[Callable[[], float]]:
    """Start a process that holds a contender ready; yield a function that has it time one round, in seconds."""
    connection, theirs = multiprocessing.Pipe()
    arguments = (theirs, contender, length, timing)
    process = multiprocessing.get_context("spawn").Process(target=_work, args=arguments, daemon=True)
    # the child inherits what this process does on SIGINT
    with _uninterrupted():
        process.start()
    theirs.close()  # else nobody would see that the worker has ended

    def time_a_round() -> float:
        time.sleep(SETTLE)
        answer = _answer(connection)
        if isinstance(answer, str):
            raise BadInput(f"{contender.name} cannot be timed: {answer}")
        return answer

    try:
        yield time_a_round
    finally:
        connection.close()
        process.join(5)
        process.terminate()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Start processes that ignore Ctrl-C, which is for the tool alone: a worker ends with its pipe."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _answer(connection: Connection) -> float | str:
    """Have a worker time a round; return its seconds, or why there are none."""
    try:
        with suppress(BrokenPipeError):  # a worker that has ended has said why
            connection.send("go")
        answer: float | str = connection.recv()
    except (EOFError, ConnectionError):
        return "its process ended; a script that calls bench does so below `if __name__ == '__main__':`"
    return answer


def _work(connection: Connection, contender: Contender, length: int, timing: BenchOptions) -> None:
    """Time a round at each request, until the other side closes."""
    try:
        call = _load(contender, length, timing)
        while _receives(connection):
            connection.send(_median_of_calls(call))
    except Exception as error:
        with suppress(OSError):
            connection.send(first_line(error))


def _receives(connection: Connection) -> bool:
    """Wait for a request; return False once the other side has closed."""
    try:
        connection.recv()
    except (EOFError, ConnectionError):
        return False
    return True


def _load(contender: Contender, length: int, timing: BenchOptions) -> Callable[[], object]:
    """Load a contender and call it once; return the call that is timed."""
    bundle = Bundle.open(contender.folder, contender.trusted)
    manifest = bundle.manifest
    case = Case("bench", sizes_of_call((*manifest.inputs, *manifest.outputs), length, timing))
    if contender.runtime is None:
        return _copy_of([to_stored(np.ones(p.shape(case.sizes), numpy_dtype(p.dtype))) for p in manifest.outputs])
    runtime = RUNTIMES[contender.runtime]
    artifact = manifest.artifact(runtime.format)
    assert artifact is not None
    # the same numbers for every contender
    feeds = feeds_for(manifest.inputs, case, 0)
    runner = runtime.open(bundle.path(artifact), manifest, bundle.trusted)
    runner.run(feeds)
    if runtime.device == "cpu" or runner.bind is None:
        return lambda: runner.call(feeds)
    return runner.bind(feeds).run  # as a program does whose tensors stay on the device: no copies are timed


def _copy_of(arrays: Sequence[Array]) -> Callable[[], None]:
    pairs = [(np.empty_like(array), array) for array in arrays]

    def copy() -> None:
        for destination, array in pairs:
            np.copyto(destination, array)

    return copy


def _median_of_calls(call: Callable[[], object]) -> float:
    _times(call, WARM_UP)
    return float(np.median(_times(call, TIMED)))


def _times(call: Callable[[], object], seconds: float) -> list[float]:
    """Call until so many seconds have passed, three times at least, and return how long each call took."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times
