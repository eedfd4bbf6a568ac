"""The process that drives a browser: `python -P -m posenc_export.proof.runtimes.browser.host LIBRARY`.

LIBRARY is the folder with the builds of onnxruntime-web. The process answers lines, as every runner does
(`proof/runtimes/process.py`); each line is a request in JSON. It ends its browser, and itself, when its input ends:
so it leaves nothing behind whoever started it.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from posenc_export.common.errors import first_line
from posenc_export.common.memory_limit import bound_data_instead
from posenc_export.proof.runtimes import Missing
from posenc_export.proof.runtimes.browser.chromium import Chromium, find_chromium, launch
from posenc_export.proof.runtimes.browser.messages import GONE, STOPPED, Request
from posenc_export.proof.runtimes.browser.server import PageServer, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright

GRAPHS = 24
"""Graphs that a page loads before it is left for a new one: WebAssembly gives no memory back."""
GOING = 10.0
"""Seconds that a browser has to end."""


class Crash(Exception):
    """A page, or the browser, has ended."""


@dataclass
class Tab:
    """A page, the graphs that it holds, and how many it has loaded."""

    page: Page
    graphs: set[int] = field(default_factory=set)
    loaded: int = 0
    is_over: bool = False


@dataclass
class Host:
    """One browser, with a page for each build of onnxruntime-web.

    Attributes:
        tabs: The pages, by build.
        pid: The process of the browser; 0 without one.
        stopped: The call that was stopped last.
        count: How many graphs were loaded.
    """

    playwright: Playwright
    chromium: Chromium
    server: PageServer
    browser: Browser | None = None
    tabs: dict[str, Tab] = field(default_factory=dict)
    pid: int = 0
    stopped: int = -1
    count: int = 0

    def start(self) -> Browser:
        """Return the running browser; start one where none runs."""
        if self.browser is None or not self.browser.is_connected():
            self.tabs.clear()
            self.browser = launch(self.playwright, self.chromium)
            processes = self.browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
            self.pid = next(int(process["id"]) for process in processes if process["type"] == "browser")
        return self.browser

    def kill(self) -> None:
        """End the browser now, from any thread: a graph in it may not answer any more."""
        pid, self.pid = self.pid, 0
        if pid:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def open(self, build: str, model: str) -> dict[str, object]:
        """Load a graph; return its number, and what the page says of it."""
        self.count += 1
        self.server.files[f"model/{self.count}"] = Path(model)
        tab = self._tab(build)
        tab.loaded += 1
        said = self._ask(tab, "open", build, self.count)
        tab.graphs.add(self.count)
        return {**said, "graph": self.count, "browser": self.start().version}

    def run(self, graph: int) -> dict[str, object]:
        """Run a graph on the arrays in the working folder."""
        return self._ask(self._tab_of(graph), "run", graph)

    def time(self, graph: int, milliseconds: float) -> dict[str, object]:
        """Time calls of a graph on the arrays in the working folder."""
        return self._ask(self._tab_of(graph), "time", graph, milliseconds)

    def close(self, graphs: list[int]) -> None:
        """Leave graphs that nobody calls any more."""
        for graph in graphs:
            self.server.files.pop(f"model/{graph}", None)
            with suppress(KeyError, Crash, ValueError):
                tab = self._tab_of(graph)
                tab.graphs.discard(graph)
                self._ask(tab, "close", graph)

    def _tab(self, build: str) -> Tab:
        """Return the page of a build: a new one where it has ended, or has loaded enough."""
        browser = self.start()
        tab = self.tabs.get(build)
        if tab is not None and (tab.is_over or (tab.loaded >= GRAPHS and not tab.graphs)):
            with suppress(Exception):
                tab.page.close()
            tab = None
        if tab is None:
            page = browser.new_page()
            tab = self.tabs[build] = Tab(page)
            page.on("crash", lambda _: setattr(tab, "is_over", True))
            page.goto(self.server.url)
            page.wait_for_function("globalThis.posenc !== undefined")
        return tab

    def _tab_of(self, graph: int) -> Tab:
        """Return the page that holds a graph; raise KeyError where it has ended."""
        if self.browser is None or not self.browser.is_connected():
            raise KeyError(graph)
        tab = next((tab for tab in self.tabs.values() if graph in tab.graphs and not tab.is_over), None)
        if tab is None:
            raise KeyError(graph)
        return tab

    def _ask(self, tab: Tab, name: str, *values: object) -> dict[str, object]:
        """Call a function of a page; raise ValueError with its error, Crash where the page ends."""
        try:
            said: dict[str, object] = tab.page.evaluate(f"(values) => posenc.{name}(...values)", list(values))
        except Exception as error:
            tab.is_over = True
            raise Crash(f"the page in the browser ended: {first_line(error)}") from error
        if said.get("isLost"):
            tab.is_over = True
            raise Crash(str(said["error"]))
        if "error" in said:
            raise ValueError(said["error"])
        return said


def answered(host: Host, request: Request) -> str:
    """Return the line that answers a request."""
    work: Mapping[str, Callable[..., dict[str, object]]] = {"open": host.open, "run": host.run, "time": host.time}
    try:
        host.close(request["left"])
        made = work[request["do"]](*request["with"])
        return f"ok {json.dumps(made)}"
    except KeyError:
        return GONE
    except ValueError as error:
        return f"error: {first_line(error)}"
    except Crash as crash:
        return f"error: {STOPPED}" if host.stopped == request["call"] else f"crashed: {crash}"
    except Exception as error:
        return f"error: {first_line(error)}"


def listen(host: Host, requests: queue.Queue[Request | None]) -> None:
    """Put requests into a queue, and None behind the last; end the browser where a call is to be stopped."""
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "stop":
            host.stopped = request["call"]
            host.kill()
        else:
            requests.put(request)
    requests.put(None)
    host.kill()  # a call may not answer any more
    timer = threading.Timer(GOING, os._exit, [1])
    timer.daemon = True
    timer.start()


def main(library: Path) -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries print to stdout: from here on that is stderr
    bound_data_instead()
    folder = Path.cwd()
    try:
        from playwright.sync_api import sync_playwright

        chromium = find_chromium()
        with sync_playwright() as playwright, serving(library, folder) as server:
            host = Host(playwright, chromium, server)
            host.start()
            print("ready", file=answers, flush=True)
            requests: queue.Queue[Request | None] = queue.Queue()
            threading.Thread(target=listen, args=(host, requests), daemon=True).start()
            while (request := requests.get()) is not None:
                print(answered(host, request), file=answers, flush=True)
    except Missing as missing:
        sys.exit(f"error: {missing}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # whoever started this process may have been killed


if __name__ == "__main__":
    main(Path(sys.argv[1]))
