"""A library that may end its process runs in a child process; after the end of a child, the next call starts another.

`in_child` starts `python -P -m posenc_export.proof.runtimes.in_child MODULE FILE PORTS`, which calls
`opened(path, inputs, outputs)` of a module of this package: it loads the file and returns a function from arrays by
name to arrays by name.
The child inherits the limits of its parent: in `posenc validate`, those of memory and time.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, TypeAlias

import numpy as np

from posenc.ports import Array, Feeds, Port
from posenc_export.common.arrays import from_stored, to_stored
from posenc_export.common.child import pipe_of_messages
from posenc_export.common.errors import first_line
from posenc_export.proof.runtimes import Runner
from posenc_export.proof.runtimes.process import Process, python_child


@dataclass(frozen=True)
class ChildPort:
    """A port as a child needs it: an axis is its size, or its name where the size is dynamic."""

    name: str
    dtype: str
    axes: tuple[int | str, ...]


class Ports(Protocol):
    """What a child is told of a file, as a manifest has it."""

    @property
    def inputs(self) -> tuple[Port, ...]:
        """What goes in."""

    @property
    def outputs(self) -> tuple[Port, ...]:
        """What comes out."""


Call: TypeAlias = Callable[[Feeds], dict[str, Array]]
Opened: TypeAlias = Callable[[Path, tuple[ChildPort, ...], tuple[ChildPort, ...]], Call]


class LoadedChild:
    """A loaded file in a process of its own; where that has ended, the next call starts another."""

    def __init__(self, title: str, module: str, path: Path, manifest: Ports) -> None:
        """Load a file; raise RunFailed where the library cannot, Crashed where it ends the process."""
        self.title = title
        self.outputs = manifest.outputs
        ports = [[asdict(slot) for slot in _slots(side)] for side in (manifest.inputs, manifest.outputs)]
        # -P keeps modules of the current folder out: it may be a bundle's
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
        return python_child(self.title, self.command)


def _slots(ports: Iterable[Port]) -> Iterable[ChildPort]:
    for port in ports:
        axes = tuple(axis.name if axis.size is None else axis.size for axis in port.axes)
        yield ChildPort(port.name, port.dtype, axes)


def in_child(title: str, module: str, path: Path, manifest: Ports) -> Runner:
    """Return a runner of a file, by a module of this package in a child process; raise RunFailed as Child does."""
    child = LoadedChild(title, module, path, manifest)
    return Runner(child, manifest.inputs, manifest.outputs, ("CPU",), stop=lambda _: child.kill())


def main(module: str, path: Path, ports: Sequence[Sequence[dict[str, object]]]) -> None:
    """Load a file and run it, a line a call, until the input ends."""
    pipe = pipe_of_messages()
    inputs, outputs = (tuple(_slot(values) for values in side) for side in ports)
    try:
        call = importlib.import_module(module).opened(path, inputs, outputs)
    except Exception as error:
        sys.exit(f"error: {first_line(error)}")
    answer_lines(pipe, lambda _: _answered(call, inputs))


def answer_lines(pipe: BinaryIO, answered: Callable[[str], str]) -> None:
    """Say "ready", and then answer a line at a time until the input ends: with "ok" and more words, or an error.

    Args:
        pipe: where answers go.
        answered: does what a line asks for, and returns the words of its answer.
    """

    def say(text: str) -> None:
        pipe.write(f"{text}\n".encode())
        pipe.flush()

    say("ready")
    for line in sys.stdin:
        try:
            answer = f"ok {answered(line)}".rstrip()
        except Exception as error:
            answer = f"error: {first_line(error)}"
        say(answer)


def _slot(values: dict[str, object]) -> ChildPort:
    axes = values["axes"]
    assert isinstance(axes, list)
    return ChildPort(str(values["name"]), str(values["dtype"]), tuple(axes))


def _answered(call: Call, inputs: Iterable[ChildPort]) -> str:
    """Run a call whose arrays lie in the working folder; there is nothing to say of it."""
    feeds = {slot.name: from_stored(np.load(f"{slot.name}.npy"), slot.dtype) for slot in inputs}
    for name, array in call(feeds).items():
        np.save(f"{name}.npy", to_stored(array))
    return ""


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))
