"""The one host of this process, and the graphs that it holds; see `host.py`."""

from __future__ import annotations

import json
import os
import sys
import threading
import weakref
from dataclasses import dataclass, field
from pathlib import Path

from posenc.ports import Array, Feeds
from posenc_export.bundle.manifest import Manifest
from posenc_export.common.child import import_folders
from posenc_export.proof.runtimes import Missing, RunFailed, Runner
from posenc_export.proof.runtimes.browser.messages import GONE, Said
from posenc_export.proof.runtimes.in_child import Ports
from posenc_export.proof.runtimes.npm import package
from posenc_export.proof.runtimes.onnxruntime_web import PACKAGE, TRIED
from posenc_export.proof.runtimes.process import Process


@dataclass
class Client:
    """A process that drives a browser.

    Attributes:
        process: The process.
        lock: Whoever asks holds it.
        left: The numbers of graphs that nobody calls any more; the next request leaves them.
        call: The number of the last request.
    """

    process: Process
    lock: threading.RLock = field(default_factory=threading.RLock)
    left: list[int] = field(default_factory=list)
    call: int = 0

    @property
    def runs(self) -> bool:
        """Whether the process still runs."""
        return self.process.process.poll() is None

    def line(self, do: str, *values: object) -> str:
        """Return a request as a line."""
        self.call += 1
        left, self.left = self.left, []
        return json.dumps({"do": do, "call": self.call, "left": left, "with": values})

    def ask(self, do: str, *values: object) -> Said:
        """Send a request and return what is answered; raise RunFailed as Process does."""
        with self.lock:
            answer: Said = json.loads(self.process.ask(self.line(do, *values)))
        return answer

    def stop(self) -> None:
        """End the browser amid a call."""
        self.process.tell(json.dumps({"do": "stop", "call": self.call}))


_clients: dict[int, Client] = {}
"""The client of this process, by its number: a fork starts its own."""
_starting = threading.Lock()


def client() -> Client:
    """Return the client of this process; start a host, or another where that has ended."""
    with _starting:
        known = _clients.get(os.getpid())
        if known is None or not known.runs:
            library = package(PACKAGE, TRIED) / "dist"
            words = [sys.executable, "-P", "-m", "posenc_export.proof.runtimes.browser.host", str(library)]
            env = {**os.environ, "PYTHONPATH": os.pathsep.join(import_folders())}
            known = _clients[os.getpid()] = Client(Process("the browser", words, env))
        return known


class PageGraph:
    """A graph in a page; where the page has ended, the next call loads it again."""

    def __init__(self, build: str, path: Path, manifest: Ports) -> None:
        """Load a graph by a build of onnxruntime-web; raise RunFailed where it cannot, Crashed where the page ends."""
        self.build, self.path, self.outputs = build, path.resolve(), manifest.outputs
        self._load()

    def _load(self) -> None:
        self.client = client()
        said = self.client.ask("open", self.build, str(self.path))
        self.number = said["graph"]
        self.nodes = tuple((where, name, operator) for where, name, operator in said["nodes"])
        self.machine = f"Chromium {said['browser']}, {PACKAGE} {said['version']}"
        self.adapter, self.has_half = said["adapter"], said["hasHalf"]
        weakref.finalize(self, self.client.left.append, self.number).atexit = False

    def __call__(self, feeds: Feeds) -> dict[str, Array]:
        """Run the graph once; raise RunFailed with the error of the library, Crashed where the page ends."""
        try:
            return self._call(feeds)
        except RunFailed as failure:
            if str(failure) != GONE and self.client.runs:
                raise
        self._load()
        return self._call(feeds)

    def _call(self, feeds: Feeds) -> dict[str, Array]:
        with self.client.lock:
            return self.client.process(feeds, self.outputs, self.client.line("run", self.number))

    def times(self, feeds: Feeds, seconds: float) -> list[float]:
        """Call for so many seconds; return how long each call took in the page, in seconds."""
        with self.client.lock:
            self._call(feeds)
            said = self.client.ask("time", self.number, 1e3 * seconds)
        return [1e-3 * milliseconds for milliseconds in said["times"]]

    def stop(self, _: object) -> None:
        """End a call from another thread."""
        self.client.stop()


def in_browser(build: str, path: Path, manifest: Manifest, needs_half: bool = False) -> Runner:
    """Return a runner of a file in a page of a browser; raise RunFailed as Graph does.

    Raises Missing where the file needs float16, and the GPU has none.
    """
    graph = PageGraph(build, path, manifest)
    if needs_half and not graph.has_half:
        raise Missing(f"{graph.adapter} has no shader-f16: it computes nothing in float16")
    about = tuple(filter(None, (graph.machine, graph.adapter)))
    inputs, outputs = manifest.inputs, manifest.outputs
    return Runner(graph, inputs, outputs, about, graph.nodes, stop=graph.stop, times=graph.times)
