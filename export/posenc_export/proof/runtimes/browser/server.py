"""A server on a loopback port for the pages of one host: our modules, onnxruntime-web, and the arrays of a call."""

from __future__ import annotations

import re
import secrets
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from posenc_export.common.loopback import HOST, Door, Refused

WEB = Path(__file__).parents[2] / "web"
"""Our own modules, which are served as they are."""
MODULES = ("npy.mjs", "session.mjs", "page.mjs")
TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".wasm": "application/wasm",
}
ANY = "application/octet-stream"
ISOLATED: Mapping[str, str] = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    # the glue of WebAssembly makes functions from texts of its own
    "Content-Security-Policy": "default-src 'none'; connect-src 'self'; script-src 'self' 'unsafe-eval'",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every answer: a page that is cross-origin isolated has precise clocks, and loads from here alone."""
ARRAY = re.compile(r"arrays/(\w+(?:\.\w+)*)\.npy", re.ASCII)
LARGEST = 2**32
"""Bytes of an output: WebAssembly addresses no more."""


class PageServer(ThreadingHTTPServer):
    """Serves files by names below a random path; whoever does not know it gets nothing.

    Attributes:
        files: The files, by name.
        arrays: The folder of the arrays of a call.
        url: Where the page is.
    """

    daemon_threads = True

    def __init__(self, library: Path, arrays: Path) -> None:
        """Listen on a free loopback port.

        Args:
            library: The folder with the builds of onnxruntime-web.
            arrays: The folder of the arrays of a call.
        """
        super().__init__((HOST, 0), _Handler)
        self.door = Door(self.server_port, secrets.token_urlsafe(24), ("GET", "PUT"))
        self.url = f"{self.door.url}host.html"
        self.arrays = arrays
        builds = {f"ort/{file.name}": file for file in library.iterdir() if file.suffix in (".mjs", ".wasm")}
        self.files = {"host.html": WEB / "host.html", **{f"web/{name}": WEB / name for name in MODULES}, **builds}

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a browser that hung up."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # a body that follows its headers waits for their acknowledgement otherwise: 40 ms for each array of each call
    disable_nagle_algorithm = True
    server: PageServer

    def do_GET(self) -> None:
        """Send a file."""
        name = self._named()
        array = ARRAY.fullmatch(name)
        file = self.server.arrays / f"{array[1]}.npy" if array else self.server.files.get(name)
        if file is None or not file.is_file():
            self._answer(HTTPStatus.NOT_FOUND)
            return
        self._answer(HTTPStatus.OK, TYPES.get(file.suffix, ANY), file.stat().st_size)
        with file.open("rb") as source:
            shutil.copyfileobj(source, self.wfile)

    def do_PUT(self) -> None:
        """Take an array."""
        array = ARRAY.fullmatch(self._named())
        size = int(self.headers["Content-Length"] or -1)
        if not array or not 0 <= size <= LARGEST:
            self.close_connection = True
            self._answer(HTTPStatus.NOT_FOUND)
            return
        with (self.server.arrays / f"{array[1]}.npy").open("wb") as file:
            while size > 0 and (part := self.rfile.read(min(size, 2**20))):
                file.write(part)
                size -= len(part)
        self._answer(HTTPStatus.NO_CONTENT)

    def _named(self) -> str:
        """Return what a request names; "" where a stranger asks."""
        try:
            return self.server.door.path(self.command, self.path, self.headers)
        except Refused:
            return ""

    def _answer(self, status: HTTPStatus, kind: str = ANY, size: int = 0) -> None:
        self.send_response(status)
        for name, value in {**ISOLATED, "Content-Type": kind}.items():
            self.send_header(name, value)
        if status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(size))
        self.end_headers()

    def log_message(self, format: str, *values: object) -> None:
        """Print nothing."""


@contextmanager
def serving(library: Path, arrays: Path) -> Iterator[PageServer]:
    """Yield a server that answers until the block ends."""
    server = PageServer(library, arrays)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        with suppress(OSError):
            server.shutdown()
            server.server_close()
