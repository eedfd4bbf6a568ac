"""Runtimes: a file in, a runner out; a runner takes arrays by name and returns arrays by name.

To add a runtime, write a decorated loader in a file of this folder. A runtime that cannot run raises Missing with the
name of the library that it lacks. No runtime falls back to another device in silence.
"""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from posenc.ports import Array, Feeds, Port
from posenc.registry import Registry
from posenc_export.bundle.manifest import Manifest
from posenc_export.common.errors import check_machine, first_line
from posenc_export.common.install import install_line
from posenc_export.common.limit import NoAnswer, Stop, within
from posenc_export.common.machine import has_nvidia_driver
from posenc_export.write.formats import runs_code

if TYPE_CHECKING:
    from onnx import ModelProto

NEEDS_TRUST = "runs code from the bundle; give --trust"
"""Why code in a bundle that nobody trusts is not run."""
NO_DEVICE = "none"
"""The device of a runtime that runs nothing, and has no numbers."""
NOT_RUN = "kernels not run"
"""What such a runtime says wherever a result of it is shown."""
TAKES_LONGER = "takes longer; give --prove"
"""Why a slow runtime that nobody named is not run."""


class Missing(Exception):
    """A runtime is not available here; the text names what is missing."""


class RunFailed(Exception):
    """A graph could not be loaded, or refused its inputs."""


class Crashed(RunFailed):
    """A graph ended the process that it ran in."""


class TimedOut(Exception):
    """A graph gave no answer in the time that a call may take."""


@dataclass(frozen=True)
class Bound:
    """A call whose inputs and outputs stay in the device's memory: `run` waits for its end, `read` fetches outputs."""

    run: Callable[[], object]
    read: Callable[[], dict[str, Array]]


@dataclass(frozen=True)
class Runner:
    """A loaded graph: `call(feeds)` runs it.

    Args:
        nodes: (provider, node name, operator) of every node, where the runtime reports where its nodes ran.
        optimized: the graph as the runtime runs it, with copies between devices, where it tells; without weights.
        bind: takes feeds and returns the same call with inputs and outputs in the device's memory.
        stop: ends a call from another thread; None where nothing can.
        limit: seconds that a call may take; 0 for no limit.
        times: calls the graph on feeds for so many seconds, and returns those of each call by a clock that is nearer to
            the graph than ours.

    """

    call: Callable[[Feeds], dict[str, Array]]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    providers: tuple[str, ...] = ()
    nodes: tuple[tuple[str, str, str], ...] = ()
    bind: Callable[[Feeds], Bound] | None = None
    stop: Stop | None = None
    limit: float = 0.0
    times: Callable[[Feeds, float], list[float]] | None = None
    optimized: ModelProto | None = None

    def run(self, feeds: Feeds) -> dict[str, Array]:
        """Check the feeds by name, dtype and shape, then run; raise RunFailed, in one line, where either fails.

        Raises TimedOut where there is no answer within the limit.
        """
        problem = check_feeds(feeds, self.inputs)
        if problem:
            raise RunFailed(problem)
        return self.answer(feeds)

    def answer(self, feeds: Feeds) -> dict[str, Array]:
        """Run feeds that nobody has checked; raise RunFailed, in one line, where the graph itself refuses them."""
        try:
            return within(self.limit, partial(self.call, feeds), self.stop)
        except NoAnswer as late:
            raise TimedOut(str(late)) from late
        except Crashed:
            raise
        except Exception as error:
            check_machine(error)
            raise RunFailed(_last_line(error)) from error


def check_package(module: str, extra: str, package: str = "") -> None:
    """Raise Missing where a Python package is not installed.

    Args:
        module: What is imported.
        extra: The name of our extra.
        package: The name on PyPI, where that is another.
    """
    if importlib.util.find_spec(module) is None:
        raise Missing(f"the Python package {package or extra} is not found: {install_line(extra)}")


def check_driver() -> None:
    """Raise Missing where there is no driver of CUDA: known at once, before any library is loaded."""
    if platform.system() == "Linux" and not has_nvidia_driver():
        raise Missing("no NVIDIA driver: libcuda.so.1 is not found")


Loader = Callable[[Path, Manifest], Runner]
Progress = Callable[[str], None]


def _nothing_to_check() -> None:
    """Let a runtime run wherever its Python package is installed."""


def _nothing_to_prepare(progress: Progress) -> None:
    """Leave everything as it is."""


NOTHING_TO_PREPARE = _nothing_to_prepare
"""What prepares a runtime that needs nothing built."""


@dataclass(frozen=True)
class Runtime:
    """A way to run one format on one device.

    Args:
        device: cpu, cuda, webgpu, or NO_DEVICE where nothing is run.
        check: raises Missing where the runtime cannot run here; it is quick.
        prepare: builds what the runtime needs, and reports its progress; `check` says afterwards what went wrong.
        lenient: why the runtime may answer where others refuse.
        rounds: why its last digits may differ from those of eager PyTorch on a CPU.
        slow: it runs only where it is named, or with --prove.
        ends_process: it ends its process where others refuse; that counts as a refusal.
        one_size: why no call can give it inputs of unlike lengths: its functions take one length, not shapes.
        in_page: its graphs run in pages of one browser, where they are timed by turns.

    """

    name: str
    format: str
    device: str
    load: Loader
    summary: str
    check: Callable[[], None] = _nothing_to_check
    prepare: Callable[[Progress], None] = _nothing_to_prepare
    lenient: str = ""
    rounds: str = ""
    slow: bool = False
    ends_process: bool = False
    one_size: str = ""
    in_page: bool = False

    @property
    def runs(self) -> bool:
        """Whether it runs graphs: one that does not says where their nodes would run, and has no numbers."""
        return self.device != NO_DEVICE

    @property
    def same_bits(self) -> bool:
        """Whether the bits of eager PyTorch are promised, of tables and angle addition: on CPUs."""
        return self.device == "cpu" and not self.rounds

    @property
    def runs_code(self) -> bool:
        """Whether to load a file of its format is to run code from that file."""
        return runs_code(self.format)

    def left_out(self) -> str:
        """Return why it does not run where nobody names it: something is missing, or it takes longer."""
        try:
            self.check()
        except Missing as missing:
            return str(missing)
        return TAKES_LONGER

    def open(self, path: Path, manifest: Manifest, trusted: bool = False) -> Runner:
        """Load a file; raise Missing where the runtime is not available, RunFailed where the file cannot be loaded.

        Without `trusted`, a file of a format that runs code is Missing trust.
        """
        if self.runs_code and not trusted:
            raise Missing(NEEDS_TRUST)
        self.check()
        try:
            return self.load(path, manifest)
        except (Missing, RunFailed):
            raise
        except Exception as error:
            check_machine(error)
            raise RunFailed(f"cannot load {path.name}: {_last_line(error)}") from error


RUNTIMES: Registry[Runtime] = Registry("runtime", __name__)


def runtime(
    name: str,
    *,
    format_: str,
    device: str,
    check: Callable[[], None] = _nothing_to_check,
    prepare: Callable[[Progress], None] = _nothing_to_prepare,
    lenient: str = "",
    rounds: str = "",
    slow: bool = False,
    ends_process: bool = False,
    one_size: str = "",
    in_page: bool = False,
) -> Callable[[Loader], Loader]:
    """Register the decorated loader as a runtime; see Runtime for what the arguments mean."""

    def register(load: Loader) -> Loader:
        summary = (load.__doc__ or "").partition("\n")[0]
        made = Runtime(
            name, format_, device, load, summary, check, prepare, lenient, rounds, slow, ends_process, one_size, in_page
        )
        RUNTIMES.add(name, made)
        return load

    return register


def check_feeds(feeds: Feeds, ports: tuple[Port, ...]) -> str:
    """Return what is wrong with the names, dtypes or shapes of the feeds, in one line, or an empty text."""
    names = [port.name for port in ports]
    for name in feeds:
        if name not in names:
            return f"there is no input {name!r}: expected {', '.join(names) or 'none'}"
    sizes: dict[str, tuple[int, str]] = {}  # by axis, its size and the input that had it first
    for port in ports:
        if port.name not in feeds:
            return f"input {port.name!r} is missing: expected {port}"
        array = feeds[port.name]
        if array.dtype.name != port.dtype:
            return f"input {port.name!r} is {array.dtype.name}: expected {port}"
        if array.ndim != len(port.axes):
            return f"input {port.name!r} has shape {array.shape}: expected {port}"
        for axis, size in zip(port.axes, array.shape, strict=True):
            if axis.size not in (None, size):
                return f"input {port.name!r} has shape {array.shape}: expected {port}"
            if axis.is_dynamic:
                seen, where = sizes.setdefault(axis.name, (size, port.name))
                if seen != size:
                    return f"axis {axis.name!r} is {seen} in {where!r} and {size} in {port.name!r}: expected one size"
    return ""


def _last_line(error: BaseException) -> str:
    """Return the line of a runtime's error that says what happened; TorchScript puts it last, after the code."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and "TorchScript interpreter" in str(error):
        return lines[-1]
    return first_line(error)
