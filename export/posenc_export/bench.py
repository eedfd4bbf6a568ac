"""How long a graph takes, beside a copy of what it writes and the plain export of a Sin/Cos module, in one run."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc.scheme import Form
from posenc_export.arrays import Array
from posenc_export.bundle import Bundle, Manifest
from posenc_export.cases import Case, feeds_for
from posenc_export.exporting import Order, write
from posenc_export.formats import FORMATS
from posenc_export.problems import BadInput, first_line
from posenc_export.runtimes import RUNTIMES, Missing
from posenc_export.subject import resolve

if TYPE_CHECKING:
    from rich.console import Console

WARM_UP, TIMED = 0.1, 0.2
"""Seconds of calls before, and while, a round is timed; the median call counts."""
SETTLE = 0.25
"""Seconds before a round, in which the threads of the contender before it stop spinning."""
SLOW = ("onnx-reference",)
COPY = "copy of the same bytes"
PLAIN = "plain Sin/Cos, "
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Contender:
    """Something to be timed: a runtime on the bundle in a folder, or, without a runtime, a copy of what that writes."""

    name: str
    runtime: str | None
    folder: Path


def run(name: str, form: Form | None, given: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Time a scheme, or the bundle in the folder `name`, at every length; return medians and ratios as JSON values."""
    with ExitStack() as stack:
        folder = stack.enter_context(_exported(name, form, given, tell)) if form else Path(name)
        manifest = Bundle.open(folder).manifest
        rivals = _contenders(folder, "", tuple(given["runtimes"]))
        if not rivals:
            raise BadInput("none of the runtimes asked for reads what was exported, or can run here")
        plain = stack.enter_context(_plain(manifest, rivals, tell))
        everyone = [*rivals, *plain, Contender(COPY, None, folder)]
        rows = []
        for length in given["lengths"]:
            if manifest.mode == "baked" and length > manifest.max_len:
                raise BadInput(f"length {length} is beyond the {manifest.max_len} rows of the table: give --max-len")
            rows.append(_at_length(everyone, length, given, tell))
    facts = {"scheme": manifest.scheme, "mode": manifest.mode, "method": manifest.method, "batch": given["batch"]}
    return {**facts, "lengths": rows}


@contextmanager
def _exported(name: str, form: Form, given: Mapping[str, Any], tell: Tell) -> Iterator[Path]:
    tell(f"exporting {name}")
    with TemporaryDirectory(prefix="posenc-bench-") as folder:
        subject = resolve(name, form, given["params"], given["inputs"], 0)
        write(subject, Order(formats=given.get("formats") or tuple(FORMATS)), Path(folder))
        yield Path(folder)


@contextmanager
def _plain(manifest: Manifest, rivals: list[Contender], tell: Tell) -> Iterator[list[Contender]]:
    """Yield the plain Sin/Cos module, exported, where the encoding is one that it computes."""
    comparable = manifest.scheme == "sinusoidal" and [p.name for p in manifest.inputs] == ["x"]
    width = manifest.inputs[0].axes[-1] if comparable else None
    runtimes = tuple(r.runtime for r in rivals if r.runtime and RUNTIMES[r.runtime].format == "onnx")
    if not isinstance(width, int) or manifest.params.get("output") != "add" or not runtimes:
        yield []
        return
    given = {
        "params": (f"d_model={width}", f"base={manifest.params['base']}"),
        "inputs": (str(manifest.inputs[0]),),
        "formats": ("onnx",),
    }
    form = Form(mode="dynamic", max_len=64)
    with _exported("posenc_export.plain:PlainSinusoidal", form, given, tell) as folder:
        yield _contenders(folder, PLAIN, runtimes)


def _contenders(folder: Path, prefix: str, names: tuple[str, ...]) -> list[Contender]:
    """Return a contender for every runtime that can run here: those named, or all but the slow ones."""
    formats = [artifact.format for artifact in Bundle.open(folder).manifest.artifacts]
    found = []
    for runtime in RUNTIMES.values():
        asked = runtime.name in names if names else runtime.name not in SLOW
        if asked and runtime.format in formats and _runs(runtime.check):
            found.append(Contender(prefix + runtime.name, runtime.name, folder))
    return found


def _runs(check: Callable[[], None]) -> bool:
    try:
        check()
    except Missing:
        return False
    return True


def _at_length(everyone: list[Contender], length: int, given: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Time everyone at one length, in rounds: each in a process of its own, so that nobody's threads slow another."""
    times: dict[str, list[float]] = {one.name: [] for one in everyone}
    with ExitStack() as stack:
        workers = {one.name: stack.enter_context(_worker(one, length, given["batch"])) for one in everyone}
        for turn in range(given["rounds"]):
            for name, timed in workers.items():
                tell(f"length {length}, round {turn + 1} of {given['rounds']}: {name}")
                times[name].append(timed())
    medians = {name: float(np.median(values)) for name, values in times.items()}
    return {"length": length, "milliseconds": {name: 1e3 * t for name, t in medians.items()}, **_ratios(medians)}


@contextmanager
def _worker(one: Contender, length: int, batch: int) -> Iterator[Callable[[], float]]:
    """Start a process that holds a contender ready; yield a function that has it time one round, in seconds."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_work, args=(there, one, length, batch), daemon=True)
    process.start()
    there.close()

    def timed() -> float:
        time.sleep(SETTLE)
        here.send("go")
        answer = here.recv()
        if isinstance(answer, str):
            raise BadInput(f"{one.name} cannot be timed: {answer}")
        return float(answer)

    try:
        yield timed
    finally:
        here.close()
        process.join(5)
        process.terminate()


def _work(there: Connection, one: Contender, length: int, batch: int) -> None:
    """Time a round each time one is asked for, until nobody asks any more."""
    try:
        call = _ready(one, length, batch)
    except Exception as error:
        there.send(first_line(error))
        return
    while True:
        try:
            there.recv()
        except EOFError:
            return
        there.send(_median_of_calls(call))


def _ready(one: Contender, length: int, batch: int) -> Callable[[], Any]:
    """Load a contender, try it once and return what a call is."""
    bundle = Bundle.open(one.folder)
    manifest = bundle.manifest
    axes = {a for port in manifest.inputs for a in port.dynamic.values()}
    sizes = {a: {"batch": batch, "dim": 512}.get(a, length) for a in axes}
    if one.runtime is None:
        port = manifest.outputs[0]
        return _copying(np.ones(Case("bench", sizes).shape(port), port.dtype.replace("bfloat16", "uint16")))
    runtime = RUNTIMES[one.runtime]
    path = next(bundle.path(a) for a in manifest.artifacts if a.format == runtime.format)
    feeds = feeds_for(manifest.inputs, Case("bench", sizes), 0)
    runner = runtime.open(path, manifest.inputs, manifest.outputs)
    runner.run(feeds)
    return lambda: runner.call(feeds)


def _copying(source: Array) -> Callable[[], None]:
    target = np.empty_like(source)
    return lambda: np.copyto(target, source)


def _median_of_calls(call: Callable[[], Any]) -> float:
    _times(call, WARM_UP)
    return float(np.median(_times(call, TIMED)))


def _times(call: Callable[[], Any], seconds: float) -> list[float]:
    """Call until so many seconds have passed, three times at least, and return how long each call took."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def _ratios(medians: Mapping[str, float]) -> dict[str, Any]:
    """Return how many times as long as a copy each takes, and how many times as fast as its plain export."""
    copy = medians[COPY]
    plain = {name.removeprefix(PLAIN): t for name, t in medians.items() if name.startswith(PLAIN)}
    return {
        "times_a_copy": {name: t / copy for name, t in medians.items() if name != COPY},
        "faster_than_plain": {name: plain[name] / t for name, t in medians.items() if name in plain},
    }


def print_table(console: Console, results: Mapping[str, Any]) -> None:
    """Print one row a contender and length."""
    from rich.table import Table

    method = f", {results['method']}" if results["method"] else ""
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    table.title = f"{results['scheme']}, {results['mode']}{method}, batch {results['batch']}: medians, one run"
    for column in ("length", "what", "ms", "x a copy", "x faster than plain"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for row in results["lengths"]:
        for name, ms in row["milliseconds"].items():
            copies, faster = row["times_a_copy"].get(name), row["faster_than_plain"].get(name)
            table.add_row(str(row["length"]), name, f"{ms:.3f}", _number(copies), _number(faster))
    console.print(table)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
