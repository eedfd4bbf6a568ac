"""Runtimes: a file in, a runner out; a runner takes arrays by name and returns arrays by name.

To add one, write a decorated loader in a file of this
folder. A runtime that cannot run says so by raising Missing, with the library it
lacks; nothing falls back to another device in silence.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posenc.registry import Registry
from posenc.scheme import Port
from posenc_export.arrays import Array
from posenc_export.errors import first_line


class Missing(Exception):
    """A runtime is not available here; the text names what is missing."""


class RunFailed(Exception):
    """A graph could not be loaded, or refused its inputs."""


@dataclass(frozen=True)
class Runner:
    """A loaded graph: `call(feeds)` runs it; `nodes` lists (provider, node name, op type) where the runtime tells."""

    call: Callable[[Mapping[str, Array]], dict[str, Array]]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    providers: tuple[str, ...] = ()
    nodes: tuple[tuple[str, str, str], ...] = ()

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Check the feeds by name, dtype and shape, then run; raise RunFailed, in one line, where either fails."""
        problem = check_feeds(feeds, self.inputs)
        if problem:
            raise RunFailed(problem)
        try:
            return self.call(feeds)
        except Exception as error:
            raise RunFailed(_last_line(error)) from error


@dataclass(frozen=True)
class Runtime:
    """A way to run one format on one device.

    check: raises Missing where it cannot run here; quick.
    prepare: makes what can be made here of what it needs, telling how far it is; what is in the way, `check` says.
    lenient: why it may answer where others refuse.
    """

    name: str
    format: str
    device: str
    load: Callable[[Path, tuple[Port, ...], tuple[Port, ...]], Runner]
    summary: str
    check: Callable[[], None] = field(default=lambda: None)
    prepare: Callable[[Callable[[str], None]], None] = field(default=lambda _: None)
    lenient: str = ""

    def open(self, path: Path, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> Runner:
        """Load a file; raise Missing where the runtime is not available, RunFailed where the file cannot be loaded."""
        self.check()
        try:
            return self.load(path, inputs, outputs)
        except (Missing, RunFailed):
            raise
        except Exception as error:
            raise RunFailed(f"cannot load {path.name}: {_last_line(error)}") from error


def _import_runtimes() -> None:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


RUNTIMES: Registry[Runtime] = Registry("runtime", _import_runtimes)

Loader = Callable[[Path, tuple[Port, ...], tuple[Port, ...]], Runner]


def runtime(name: str, *, format_: str, device: str, **more: Any) -> Callable[[Loader], Loader]:
    """Register the decorated loader as a runtime; `more` are fields of Runtime."""

    def register(load: Loader) -> Loader:
        summary = (load.__doc__ or "").partition("\n")[0]
        RUNTIMES.add(name, Runtime(name, format_, device, load, summary, **more))
        return load

    return register


def check_feeds(feeds: Mapping[str, Array], ports: tuple[Port, ...]) -> str:
    """Return what is wrong with the feeds, in one line, or nothing."""
    names = [port.name for port in ports]
    for name in feeds:
        if name not in names:
            return f"there is no input {name!r}: expected {', '.join(names) or 'none'}"
    sizes: dict[str, tuple[int, str]] = {}
    for port in ports:
        if port.name not in feeds:
            return f"input {port.name!r} is missing: expected {port}"
        array = feeds[port.name]
        if array.dtype.name != port.dtype:
            return f"input {port.name!r} is {array.dtype.name}: expected {port}"
        if array.ndim != len(port.axes):
            return f"input {port.name!r} has shape {array.shape}: expected {port}"
        for axis, size in zip(port.axes, array.shape, strict=True):
            if isinstance(axis, int) and size != axis:
                return f"input {port.name!r} has shape {array.shape}: expected {port}"
            if isinstance(axis, str):
                seen, where = sizes.setdefault(axis, (size, port.name))
                if seen != size:
                    return f"axis {axis!r} is {seen} in {where!r} and {size} in {port.name!r}: expected one size"
    return ""


def _last_line(error: BaseException) -> str:
    """Return the line of a runtime's error that says what happened: TorchScript's comes last, after the code."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and "TorchScript interpreter" in str(error):
        return lines[-1]
    return first_line(error)
