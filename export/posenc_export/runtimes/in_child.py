"""A library that may end the process it runs in has one of its own: a child, and after its end another.

`in_child` starts `python -P -m posenc_export.runtimes.in_child MODULE FILE PORTS`, which calls `opened(path, inputs,
outputs)` of a module of this package: that loads the file and returns what takes arrays by name and returns arrays by
name. The child takes the limits of who starts it: in `posenc validate` those of memory, and of time.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np

from posenc.ports import Array, Feeds, Port
from posenc_export.arrays import from_stored, to_stored
from posenc_export.bundle.manifest import Manifest
from posenc_export.errors import first_line
from posenc_export.runtimes import Runner
from posenc_export.runtimes.process import Process, end_with_parent, import_folders


@dataclass(frozen=True)
class Slot:
    """A port as a child needs it: its axes are their sizes, or the names of those that are dynamic."""

    name: str
    dtype: str
    axes: tuple[int | str, ...]


Call: TypeAlias = Callable[[Feeds], dict[str, Array]]
Opened: TypeAlias = Callable[[Path, tuple[Slot, ...], tuple[Slot, ...]], Call]


class Child:
    """A loaded file in a process of its own; where that has ended, the next call starts another.

    what: the library in words.
    """

    def __init__(self, what: str, module: str, path: Path, manifest: Manifest) -> None:
        """Load a file; raise RunFailed where the library cannot, Crashed where that ends the process."""
        self.what = what
        self.outputs = manifest.outputs
        ports = [[asdict(slot) for slot in _slots(side)] for side in (manifest.inputs, manifest.outputs)]
        self.command = [sys.executable, "-P", "-m", __name__, module, str(path.resolve()), json.dumps(ports)]
        self.process = self._started()

    def __call__(self, feeds: Feeds) -> dict[str, Array]:
        """Run the graph once; raise RunFailed with the error of the library, Crashed where it ends the process."""
        if self.process.process.poll() is not None:
            self.process = self._started()
        return self.process(feeds, self.outputs)

    def kill(self) -> None:
        """End a call from another thread."""
        self.process.process.kill()

    def _started(self) -> Process:
        folders = os.pathsep.join(import_folders())
        env = {**os.environ, "PYTHONPATH": folders, "RUST_BACKTRACE": "0"}
        return _starter().submit(Process, self.what, self.command, env).result()


@cache
def _starter() -> ThreadPoolExecutor:
    """Return the thread that starts children: they end with it, so it is one that lives as long as this process."""
    return ThreadPoolExecutor(1, "posenc-starter")


def _slots(ports: Iterable[Port]) -> Iterable[Slot]:
    for port in ports:
        axes = tuple(axis.name if axis.size is None else axis.size for axis in port.axes)
        yield Slot(port.name, port.dtype, axes)


def in_child(what: str, module: str, path: Path, manifest: Manifest) -> Runner:
    """Return what runs a file by a module of this package, in a process of its own; raise RunFailed as Child does."""
    child = Child(what, module, path, manifest)
    return Runner(child, manifest.inputs, manifest.outputs, ("CPU",), stop=lambda _: child.kill())


def main(module: str, path: Path, ports: Sequence[Sequence[dict[str, object]]]) -> None:
    """Load a file and run it, a line a call, until there is no more to read; what libraries print goes to stderr."""
    end_with_parent()
    said = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    inputs, outputs = (tuple(_slot(values) for values in side) for side in ports)
    try:
        call = importlib.import_module(module).opened(path, inputs, outputs)
    except Exception as error:
        sys.exit(f"error: {first_line(error)}")
    print("ready", file=said, flush=True)
    for _ in sys.stdin:
        print(_answered(call, inputs), file=said, flush=True)


def _slot(values: dict[str, object]) -> Slot:
    axes = values["axes"]
    assert isinstance(axes, list)
    return Slot(str(values["name"]), str(values["dtype"]), tuple(axes))


def _answered(call: Call, inputs: Iterable[Slot]) -> str:
    """Run a call whose arrays lie in the working folder, and return the line that says what came of it."""
    try:
        feeds = {slot.name: from_stored(np.load(f"{slot.name}.npy"), slot.dtype) for slot in inputs}
        for name, array in call(feeds).items():
            np.save(f"{name}.npy", to_stored(array))
    except Exception as error:
        return f"error: {first_line(error)}"
    return "ok"


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))
