"""The head of a request, read in bounded time and into bounded memory, whatever a client sends, and how slowly."""

from __future__ import annotations

import time
from socket import socket

MOST_BYTES = 2**15
"""Bytes of a request's head: a browser sends a few hundred, and cookies of other servers on this machine."""
SECONDS = 10.0
"""How long a client may take to send it."""
PART = 4096
ENDS = (b"\r\n\r\n", b"\n\n")


class NoHead(Exception):
    """A client sent no head of a request: the status of the answer, or 0 where it has gone."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def read_head(client: socket, seconds: float = SECONDS) -> bytes:
    """Return what a client sends up to the first empty line, and a little behind it; raise NoHead where there is none.

    Args:
        client: The connection.
        seconds: How long that may take in all.
    """
    end, data = time.monotonic() + seconds, b""
    while not any(mark in data for mark in ENDS):
        if len(data) > MOST_BYTES:
            raise NoHead(431, f"expected a head of at most {MOST_BYTES:,} bytes")
        # the time is that of the whole head: a byte now and then does not prolong it
        left = end - time.monotonic()
        part = _received(client, left) if left > 0 else None
        if part is None:
            raise NoHead(408, f"expected a request within {seconds:g} seconds")
        if not part:
            raise NoHead(0, "the client has gone")
        data += part
    return data


def _received(client: socket, seconds: float) -> bytes | None:
    """Return what comes next, nothing where the client has gone, and None where nothing comes in time."""
    client.settimeout(seconds)
    try:
        return client.recv(PART)
    except TimeoutError:
        return None
    except OSError:
        return b""
