"""The server of a bundle's page: Python's own http.server, on this machine's loopback address alone."""

from __future__ import annotations

import errno
import io
import os
import secrets
import socketserver
import sys
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from posenc_export.common.errors import BadInput, check_machine, first_line
from posenc_export.common.loopback import HOST, Door, Refused
from posenc_export.show.serving.connections import Connections
from posenc_export.show.serving.heads import NoHead, read_head
from posenc_export.show.serving.resources import Changed, Resource

TOKEN_BYTES = 32
METHODS = ("GET", "HEAD")
STALL = 30.0
"""Seconds in which a client must take the next part of an answer."""
PART = 2**16
ALWAYS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Connection": "close",
}
"""Headers of every answer."""
NOTHING = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
TEXT = "text/plain; charset=utf-8"


class Handler(BaseHTTPRequestHandler):
    """Answers one request of a connection, and closes it."""

    server: Server
    server_version, sys_version = "posenc-export", ""
    timeout = STALL

    def handle(self) -> None:
        """Read a request in bounded time, and answer it."""
        try:
            # Python's parser would wait for each line as long as a client likes
            self.rfile = io.BytesIO(read_head(self.connection))
            self.connection.settimeout(STALL)
            self.handle_one_request()
        except NoHead as none:
            self.command, self.request_version, self.requestline = "", "HTTP/1.0", ""
            if none.status:
                self.answer(none.status, none.reason)

    def handle_one_request(self) -> None:
        """Answer a request whose head is read."""
        self.raw_requestline = self.rfile.readline()
        if not self.parse_request():  # then it has its answer: it was malformed
            return
        try:
            # parse_request has changed the path: the target is taken as it was sent
            name = self.server.door.path(self.command, self.requestline.split()[1], self.headers)
            if name not in self.server.resources:
                raise Refused(404, "there is no such page")
        except Refused as refused:
            self.answer(refused.status, refused.reason)
            return
        # whoever knows the token keeps the connection until the answer is whole
        self.server.connections.welcome(self.connection)
        self.send_resource(self.server.resources[name])

    def send_resource(self, resource: Resource) -> None:
        """Send a resource, a part at a time; a file that was changed is an error in words."""
        try:
            file = io.BytesIO(resource.text) if resource.folder is None else resource.open()
        except Changed as changed:
            self.answer(409, f"{changed}: it is not as it was when `posenc serve` began; begin again")
            return
        with file:
            self.send_head(200, resource.type, resource.size)
            # a part at a time: a file of any size takes as much memory, and one that grows is cut where it was
            left = 0 if self.command == "HEAD" else resource.size
            while left and (part := file.read(min(PART, left))):
                self.wfile.write(part)
                left -= len(part)

    # http.server calls it, and would quote the request in HTML
    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what Python's parser refuses, in words that quote nothing of it."""
        self.answer(code, "expected a request of HTTP")

    def answer(self, status: int, reason: str) -> None:
        """Answer with a line of text."""
        data = f"{reason}\n".encode()
        self.send_head(status, TEXT, len(data))
        if self.command != "HEAD":
            self.wfile.write(data)

    def send_head(self, status: int, type_: str, size: int) -> None:
        """Send the head of an answer."""
        self.send_response(status)
        allowed = {"Allow": ", ".join(METHODS)} if status == 405 else {}
        policy = f"{self.server.policy}; frame-ancestors 'none'" if status == 200 else NOTHING
        headers = {**ALWAYS, **allowed, "Content-Type": type_, "Content-Length": str(size)}
        for name, value in {**headers, "Content-Security-Policy": policy}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: addresses hold the token."""


class Server(ThreadingHTTPServer):
    """A server on the loopback address, with a token of its own.

    Attributes:
        door: What a request must know.
        resources: What there is, by its path below the page.
        policy: The Content-Security-Policy of all of it.
        connections: The open connections.
    """

    daemon_threads = True
    # connections that wait for the loop: with Python's five, a crowd of clients delays a browser by seconds
    request_queue_size = 128
    # on Windows it would let another program take the port over
    allow_reuse_address = os.name != "nt"

    def __init__(self, port: int, resources: Mapping[str, Resource], policy: str) -> None:
        self.resources, self.policy, self.connections = resources, policy, Connections()
        try:
            super().__init__((HOST, port), Handler)
        except OSError as error:
            check_machine(error)
            taken = "another program has it" if error.errno == errno.EADDRINUSE else error.strerror
            raise BadInput(f"cannot serve on port {port}: {taken}; give another with --port, or 0 for any") from error
        self.door = Door(self.server_address[1], secrets.token_urlsafe(TOKEN_BYTES), METHODS)

    def server_bind(self) -> None:
        """Bind without asking a name server for this machine's name, as http.server would."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection a thread, where there is room for it."""
        if self.connections.admit(request):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self.connections.leave(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say in one line what went wrong; that a client has gone, or takes nothing, is no error."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, OSError):
            print(f"posenc serve: {type(error).__name__}: {first_line(error)}", file=sys.stderr)


def serve_until_stopped(server: Server, say: Callable[[str], None]) -> None:
    """Say the address, and serve until Ctrl-C."""
    with server:
        say(server.door.url)
        server.serve_forever(poll_interval=0.1)
