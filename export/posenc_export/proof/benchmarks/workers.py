"""A process for each contender, so that the threads of one do not slow another; those in a browser share a page."""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection

import numpy as np

from posenc.ports import Array
from posenc_export.bundle.case import Case
from posenc_export.bundle.folder import Bundle
from posenc_export.common.arrays import numpy_dtype, to_stored
from posenc_export.common.errors import BadInput, first_line
from posenc_export.proof.benchmarks import BenchOptions
from posenc_export.proof.benchmarks.contenders import Contender
from posenc_export.proof.benchmarks.lengths import sizes_of_call
from posenc_export.proof.runtimes import RUNTIMES
from posenc_export.write.targets.feeds import feeds_for

WARM_UP, TIMED = 0.1, 0.2
"""Seconds of calls before a round is timed, and while it is; the median call counts."""
SETTLE = 0.25
"""Seconds before a round, in which the threads of the last contender stop spinning."""


Round = Callable[[], float]
"""Has a contender timed for one round; returns seconds, those of the median call."""
Calls = Callable[[float], list[float]]
"""Calls a contender for so many seconds; returns how long each call took."""


@contextmanager
def workers(contenders: Sequence[Contender], length: int, timing: BenchOptions) -> Iterator[dict[str, Round]]:
    """Start processes that hold contenders ready; yield, by name and in order, what has each timed for one round."""
    rounds: dict[str, Round] = {}
    with ExitStack() as stack:
        for group in _groups(contenders):
            rounds.update(stack.enter_context(_worker(group, length, timing)))
        yield {contender.name: rounds[contender.name] for contender in contenders}


def _groups(contenders: Iterable[Contender]) -> list[list[Contender]]:
    """Return the contenders of each process: all that run in a browser have one, every other has its own."""
    groups: dict[str, list[Contender]] = {}
    for contender in contenders:
        in_page = contender.runtime is not None and RUNTIMES[contender.runtime].in_page
        groups.setdefault("browser" if in_page else f"contender {contender.name}", []).append(contender)
    return list(groups.values())


@contextmanager
def _worker(group: Sequence[Contender], length: int, timing: BenchOptions) -> Iterator[dict[str, Round]]:
    """Start a process that holds contenders ready."""
    connection, theirs = multiprocessing.Pipe()
    arguments = (theirs, group, length, timing)
    process = multiprocessing.get_context("spawn").Process(target=_work, args=arguments, daemon=True)
    # the child inherits what this process does on SIGINT
    with _uninterrupted():
        process.start()
    theirs.close()  # else nobody would see that the worker has ended

    def time_a_round(name: str) -> float:
        time.sleep(SETTLE)
        answer = _answer(connection, name)
        if isinstance(answer, str):
            raise BadInput(f"{name} cannot be timed: {answer}")
        return answer

    try:
        yield {contender.name: partial(time_a_round, contender.name) for contender in group}
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


def _answer(connection: Connection, name: str) -> float | str:
    """Have a worker time a round of a contender; return its seconds, or why there are none."""
    try:
        with suppress(BrokenPipeError):  # a worker that has ended has said why
            connection.send(name)
        answer: float | str = connection.recv()
    except (EOFError, ConnectionError):
        return "its process ended; a script that calls bench does so below `if __name__ == '__main__':`"
    return answer


def _work(connection: Connection, group: Sequence[Contender], length: int, timing: BenchOptions) -> None:
    """Time a round of a contender at each request, until the other side closes."""
    try:
        calls = {contender.name: _load(contender, length, timing) for contender in group}
        while name := _received(connection):
            connection.send(_median_of_calls(calls[name]))
    except Exception as error:
        with suppress(OSError):
            connection.send(first_line(error))


def _received(connection: Connection) -> str:
    """Wait for a request, and return the contender that it names; "" once the other side has closed."""
    try:
        return str(connection.recv())
    except (EOFError, ConnectionError):
        return ""


def _load(contender: Contender, length: int, timing: BenchOptions) -> Calls:
    """Load a contender and call it once; return what calls it for some time."""
    bundle = Bundle.open(contender.folder, contender.trusted)
    manifest = bundle.manifest
    case = Case("bench", sizes_of_call((*manifest.inputs, *manifest.outputs), length, timing))
    if contender.runtime is None:
        copied = [to_stored(np.ones(p.shape(case.sizes), numpy_dtype(p.dtype))) for p in manifest.outputs]
        return partial(_times, _copy_of(copied))
    runtime = RUNTIMES[contender.runtime]
    artifact = manifest.artifact(runtime.format)
    assert artifact is not None
    # the same numbers for every contender
    feeds = feeds_for(manifest.inputs, case, 0)
    runner = runtime.open(bundle.path(artifact), manifest, bundle.trusted)
    runner.run(feeds)
    if runner.times is not None:
        return partial(runner.times, feeds)
    if runtime.device == "cpu" or runner.bind is None:
        return partial(_times, lambda: runner.call(feeds))
    # as a program does whose tensors stay on the device: no copies are timed
    return partial(_times, runner.bind(feeds).run)


def _copy_of(arrays: Sequence[Array]) -> Callable[[], None]:
    pairs = [(np.empty_like(array), array) for array in arrays]

    def copy() -> None:
        for destination, array in pairs:
            np.copyto(destination, array)

    return copy


def _median_of_calls(calls: Calls) -> float:
    calls(WARM_UP)
    return float(np.median(calls(TIMED)))


def _times(call: Callable[[], object], seconds: float) -> list[float]:
    """Call until so many seconds have passed, three times at least, and return how long each call took."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times
