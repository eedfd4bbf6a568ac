"""Who may have an answer of a server on this machine: only its own pages, and whoever knows its token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from email.message import Message
from hmac import compare_digest

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
"""The names by which a browser on this machine may ask; with any other, a page elsewhere has pointed its own here."""
OWN_PAGES = ("same-origin", "none")
"""What browsers say of a request (Sec-Fetch-Site) that a page of this server makes, or a person."""


@dataclass(frozen=True)
class Refused(Exception):
    """A request is refused: with a status, and why, in words that tell strangers nothing."""

    status: int
    reason: str


@dataclass(frozen=True)
class Door:
    """What a request must know.

    Args:
        port: The port of the server.
        token: The first part of every path.
        methods: What may be asked for.
    """

    port: int
    token: str
    methods: tuple[str, ...]

    @property
    def root(self) -> str:
        """The path of the page."""
        return f"/{self.token}/"

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.port}{self.root}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """What the header Host may be; browsers leave port 80 out."""
        bare = NAMES if self.port == 80 else ()
        return (*(f"{name}:{self.port}" for name in NAMES), *bare)

    def path(self, method: str, target: str, headers: Message) -> str:
        """Return what is asked for, below the page; raise Refused where a stranger asks.

        Args:
            method: The method.
            target: The target, as it was sent.
            headers: The headers.
        """
        # a list: two headers are as wrong as another one, since programs differ in which of two they believe
        if sent(headers, "Host") not in [[host] for host in self.hosts]:
            raise Refused(421, "this server answers to its own address alone")
        # browsers leave it out where a page of the same origin reads, and a person who opens the page sends none
        if sent(headers, "Origin") not in [[], *([f"http://{host}"] for host in self.hosts)]:
            raise Refused(403, "this server answers its own pages alone")
        if sent(headers, "Sec-Fetch-Site") not in [[], *([site] for site in OWN_PAGES)]:
            raise Refused(403, "this server answers its own pages alone")
        begin, name = target[: len(self.root)], target[len(self.root) :]
        # in constant time, and encoded first, as it compares strings in ASCII alone
        if not compare_digest(begin.encode("utf-8", "surrogateescape"), self.root.encode()):
            raise Refused(404, "there is no such page")
        if method not in self.methods:
            raise Refused(405, f"expected {' or '.join(self.methods)}")
        return name


def sent(headers: Message, name: str) -> Sequence[str]:
    """Return the values of a header, each as it was sent."""
    return [str(value).strip() for value in headers.get_all(name, [])]
