"""How many clients are served at once: a client that only waits gives way to one that comes."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from socket import SHUT_RDWR, socket

MOST = 64
"""Connections at once: a browser opens six."""


@dataclass
class Connections:
    """The open connections of a server: those that have not shown the token yet, oldest first, and the others."""

    limit: int = MOST
    strangers: dict[socket, None] = field(default_factory=dict)
    visitors: set[socket] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, client: socket) -> bool:
        """Take a connection in; where there is no room, the oldest stranger goes. Return False where none can go."""
        with self.lock:
            if len(self.strangers) + len(self.visitors) >= self.limit:
                oldest = next(iter(self.strangers), None)
                if oldest is None:  # all have the token: they are the user's own
                    return False
                del self.strangers[oldest]
                with suppress(OSError):
                    oldest.shutdown(SHUT_RDWR)  # its thread wakes up, and closes it
            # a dictionary keeps the order in which they came
            self.strangers[client] = None
            return True

    def welcome(self, client: socket) -> None:
        """Note that a client has shown the token; it stays until its answer is whole."""
        with self.lock:
            if client in self.strangers:
                del self.strangers[client]
                self.visitors.add(client)

    def leave(self, client: socket) -> None:
        """Forget a connection."""
        with self.lock:
            self.strangers.pop(client, None)
            self.visitors.discard(client)
