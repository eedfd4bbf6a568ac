"""How long a graph takes, beside a copy of what it writes and the plain export of a Sin/Cos module, in one run."""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc.scheme import Form, Port
from posenc_export.arrays import Array
from posenc_export.benchmarks.baselines import write_one_op
from posenc_export.bundle.folder import Bundle, Manifest
from posenc_export.errors import BadInput, first_line
from posenc_export.exporter import Order, write
from posenc_export.formats import FORMATS
from posenc_export.runtimes import RUNTIMES, Missing
from posenc_export.targets.module import Subject, resolve
from posenc_export.validation.plan import Case, axes_of, feeds_for

if TYPE_CHECKING:
    from rich.console import Console

WARM_UP, TIMED = 0.1, 0.2
"""Seconds of calls before, and while, a round is timed; the median call counts."""
SETTLE = 0.25
"""Seconds before a round, in which the threads of the contender before it stop spinning."""
SLOW = ("onnx-reference", "ort-cpp", "ort-cpp-cuda", "libtorch-cpp", "libtorch-cpp-cuda", "aoti-cpp")
"""Runtimes that are timed only where they are named: runners in a process of their own are fed by files."""
COPY = "copy of the same bytes"
PLAIN = "plain Sin/Cos, "
ONE_OP = "one operator, baked cache, "
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """What to time: lengths, sequences in a call, heads of queries and keys, rounds, and runtimes, if not all."""

    lengths: tuple[int, ...]
    batch: int = 1
    heads: int = 32
    rounds: int = 7
    runtimes: tuple[str, ...] = ()

    @property
    def formats(self) -> tuple[str, ...]:
        """What the runtimes read; where none is named, whatever is quickly written."""
        read = {RUNTIMES[name].format for name in self.runtimes}
        return tuple(f.name for f in FORMATS.values() if (f.name in read if read else not f.note))

    def sizes(self, ports: tuple[Port, ...], length: int) -> dict[str, int]:
        """Return the sizes of the axes of ports in a call of a length."""
        fixed = {"batch": self.batch, "dim": 512, "head": self.heads, "head_kv": self.heads}
        return {axis: fixed.get(axis, length) for axis in axes_of(ports)}


@dataclass(frozen=True)
class Contender:
    """Something to be timed: a runtime on the bundle in a folder, or, without a runtime, a copy of what that writes."""

    name: str
    runtime: str | None
    folder: Path


Source = Path | tuple[Callable[[], Subject], Mapping[str, Any]]
"""A bundle's folder, or what makes a subject, with the fields of its order."""


def run(source: Source, asked: Asked, tell: Tell) -> dict[str, Any]:
    """Time a bundle, or a subject, at every length; return medians and ratios as JSON values."""
    with ExitStack() as stack:
        folder = (
            source
            if isinstance(source, Path)
            else stack.enter_context(_exported(source[0], {"formats": asked.formats, **source[1]}, tell))
        )
        manifest = Bundle.open(folder).manifest
        rivals = _contenders(folder, "", asked.runtimes)
        if not rivals:
            raise BadInput("none of the runtimes asked for reads what was exported, or can run here")
        plain = stack.enter_context(_plain(manifest, rivals, tell))
        everyone = [*rivals, *plain, Contender(COPY, None, folder)]
        rows = []
        for length in asked.lengths:
            if manifest.mode == "baked" and length > manifest.max_len:
                raise BadInput(f"length {length} is beyond the {manifest.max_len} rows of the table: give --max-len")
            rows.append(_at_length(everyone, length, asked, tell))
    facts = {"scheme": manifest.scheme, "mode": manifest.mode, "method": manifest.method, "batch": asked.batch}
    return {**facts, "lengths": rows}


@contextmanager
def _exported(make: Callable[[], Subject], order: Mapping[str, Any], tell: Tell) -> Iterator[Path]:
    tell("exporting")
    with TemporaryDirectory(prefix="posenc-bench-") as folder:
        subject = make()
        formats = tuple(name for name in order["formats"] if not FORMATS[name].refuses(subject.encoding))
        write(subject, Order(**{**order, "formats": formats}), Path(folder))
        del subject
        yield Path(folder)


@contextmanager
def _plain(manifest: Manifest, rivals: list[Contender], tell: Tell) -> Iterator[list[Contender]]:
    """Yield the usual module, exported, and one operator with a baked cache, where the encoding is what they are."""
    runtimes = tuple(r.runtime for r in rivals if r.runtime and RUNTIMES[r.runtime].format == "onnx")
    params = usual(manifest)
    if params is None or not runtimes:
        yield []
        return
    name = f"posenc_export.benchmarks.baselines:{'PlainRotary' if manifest.scheme == 'rope' else 'PlainSinusoidal'}"
    form = Form(mode="dynamic", max_len=64)
    inputs = tuple(map(str, manifest.inputs))
    with ExitStack() as stack:
        folder = stack.enter_context(
            _exported(lambda: resolve(name, form, params, inputs, 0), {"formats": ("onnx",)}, tell)
        )
        found = _contenders(folder, PLAIN, runtimes)
        if manifest.rotary_op != "decomposed":
            beside = Path(stack.enter_context(TemporaryDirectory(prefix="posenc-bench-"))) / "one-op"
            shutil.copytree(folder, beside)
            write_one_op(manifest, beside / FORMATS["onnx"].file)
            found += _contenders(beside, ONE_OP, runtimes)
        yield found


def usual(manifest: Manifest) -> tuple[str, ...] | None:
    """Return the parameters of the usual module that does the work of a bundle; None where there is none.

    Frequencies of a rope type that scales them cost what unscaled ones do: those are timed.
    """
    names, params = [p.name for p in manifest.inputs], manifest.params
    if manifest.scheme == "sinusoidal" and names == ["x"] and params["output"] == "add":
        width = manifest.inputs[0].axes[-1]
        return (f"d_model={width}", f"base={params['base']}") if isinstance(width, int) else None
    if manifest.scheme == "rope" and names == ["q", "k", "positions"]:
        whole = params["rotary_dim"] in (None, params["head_dim"])
        if whole and params["layout"] == "halves" and params["tensor_layout"] == "bhsd":
            return (f"head_dim={params['head_dim']}", f"rope_theta={params['rope_theta']}")
    return None


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


def _at_length(everyone: list[Contender], length: int, asked: Asked, tell: Tell) -> dict[str, Any]:
    """Time everyone at one length, in rounds: each in a process of its own, so that nobody's threads slow another."""
    times: dict[str, list[float]] = {one.name: [] for one in everyone}
    with ExitStack() as stack:
        workers = {one.name: stack.enter_context(_worker(one, length, asked)) for one in everyone}
        for turn in range(asked.rounds):
            for name, timed in workers.items():
                tell(f"length {length}, round {turn + 1} of {asked.rounds}: {name}")
                times[name].append(timed())
    medians = {name: float(np.median(values)) for name, values in times.items()}
    return {"length": length, "milliseconds": {name: 1e3 * t for name, t in medians.items()}, **_ratios(medians)}


@contextmanager
def _worker(one: Contender, length: int, asked: Asked) -> Iterator[Callable[[], float]]:
    """Start a process that holds a contender ready; yield a function that has it time one round, in seconds."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_work, args=(there, one, length, asked), daemon=True)
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


def _work(there: Connection, one: Contender, length: int, asked: Asked) -> None:
    """Time a round each time one is asked for, until nobody asks any more."""
    try:
        call = _ready(one, length, asked)
    except Exception as error:
        there.send(first_line(error))
        return
    while True:
        try:
            there.recv()
        except EOFError:
            return
        there.send(_median_of_calls(call))


def _ready(one: Contender, length: int, asked: Asked) -> Callable[[], Any]:
    """Load a contender, try it once and return what a call is."""
    bundle = Bundle.open(one.folder)
    manifest = bundle.manifest
    case = Case("bench", asked.sizes(manifest.inputs, length))
    if one.runtime is None:
        return _copying([np.ones(case.shape(p), p.dtype.replace("bfloat16", "uint16")) for p in manifest.outputs])
    runtime = RUNTIMES[one.runtime]
    path = next(bundle.path(a) for a in manifest.artifacts if a.format == runtime.format)
    feeds = feeds_for(manifest.inputs, case, 0)
    runner = runtime.open(path, manifest.inputs, manifest.outputs)
    runner.run(feeds)
    return lambda: runner.call(feeds)


def _copying(sources: list[Array]) -> Callable[[], None]:
    pairs = [(np.empty_like(source), source) for source in sources]

    def copy() -> None:
        for target, source in pairs:
            np.copyto(target, source)

    return copy


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
    """Return how many times as long as a copy each takes, and how many times as fast as its usual exports."""
    copy = medians[COPY]
    ratios: dict[str, Any] = {"times_a_copy": {name: t / copy for name, t in medians.items() if name != COPY}}
    for key, prefix in (("faster_than_plain", PLAIN), ("faster_than_one_op", ONE_OP)):
        usual = {name.removeprefix(prefix): t for name, t in medians.items() if name.startswith(prefix)}
        ratios[key] = {name: usual[name] / t for name, t in medians.items() if name in usual}
    return ratios


def print_table(console: Console, results: Mapping[str, Any]) -> None:
    """Print one row a contender and length."""
    from rich.table import Table

    method = f", {results['method']}" if results["method"] else ""
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    table.title = f"{results['scheme']}, {results['mode']}{method}, batch {results['batch']}: medians, one run"
    for column in ("length", "what", "ms", "x a copy", "x faster than plain", "than one operator"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for row in results["lengths"]:
        for name, ms in row["milliseconds"].items():
            ratios = [row[key].get(name) for key in ("times_a_copy", "faster_than_plain", "faster_than_one_op")]
            table.add_row(str(row["length"]), name, f"{ms:.3f}", *map(_number, ratios))
    console.print(table)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
