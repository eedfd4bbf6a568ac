"""A running server of a bundle's page, for tests, and what a client may send to it."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from posenc_export.show.serving.library import Library, find_library
from posenc_export.show.serving.offer import offer_of
from posenc_export.show.serving.server import Server

SECONDS = 20.0
"""How long a test waits for an answer."""


def made_library(folder: Path) -> Library:
    """Make a package that has the names of onnxruntime-web's files, and find it."""
    from posenc_export.show.serving.library import BUILDS

    (folder / "dist").mkdir(parents=True)
    for name in (name for names in BUILDS.values() for name in names):
        (folder / "dist" / name).write_text(f"// {name}\n")
    said = {"name": "onnxruntime-web", "version": "1.2.3", "license": "MIT"}
    (folder / "package.json").write_text(json.dumps(said))
    return find_library(folder)


@contextmanager
def serving(bundle: Path, library: Library) -> Iterator[Server]:
    """Yield a server that runs in a thread."""
    offer = offer_of(bundle, library)
    with Server(0, offer.resources, offer.policy) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@dataclass(frozen=True)
class Answer:
    """What a server said: its status (0 where it hung up), its headers by their names, and what came behind them."""

    status: int
    headers: dict[str, str]
    body: bytes


def connected(server: Server) -> socket.socket:
    """Return a connection to a server."""
    return socket.create_connection(("127.0.0.1", server.server_port), SECONDS)


def sent(server: Server, request: bytes) -> Answer:
    """Send bytes as they are, and return the answer."""
    with connected(server) as client:
        client.sendall(request)
        return received(client)


def received(client: socket.socket) -> Answer:
    """Return all that a server says."""
    data = b""
    try:
        while part := client.recv(2**16):
            data += part
    except ConnectionError:
        pass
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    status = re.match(r"HTTP/1\.\d (\d+)", first)
    pairs = (line.partition(": ") for line in lines)
    return Answer(int(status[1]) if status else 0, {name: value for name, _, value in pairs}, body)


def asked(server: Server, path: str = "", method: str = "GET", host: str = "", **headers: str) -> Answer:
    """Ask for a path below the page, as a browser on this machine does; `host` and `headers` may be a stranger's."""
    lines = {"Host": host or f"127.0.0.1:{server.server_port}", **{k.replace("_", "-"): v for k, v in headers.items()}}
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return sent(server, f"{method} {server.door.root}{path} HTTP/1.1\r\n{text}\r\n".encode("latin-1"))
