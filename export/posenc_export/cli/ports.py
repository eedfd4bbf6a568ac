"""The -i grammar: 'x: float32[batch, seq, 512]', integers with a bound: 'ids: int64[batch, seq] < 256'."""

from __future__ import annotations

import re

from posenc.ports import Port
from posenc_export.arrays import DTYPES

EXAMPLE = "as in 'x: float32[batch, seq, 512]' or 'ids: int64[batch, seq] < 256'"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NUMBER = re.compile(r"[0-9]+")
SPACE = re.compile(r"\s*")


class PortError(ValueError):
    """A text that is not a port, with a caret under the place where it stops being one."""

    def __init__(self, text: str, at: int, expected: str) -> None:
        """Lay out the message: what was expected, the text, the caret."""
        super().__init__(f"-i: expected {expected}, {EXAMPLE}\n  {text}\n  {' ' * at}^")


class _Reader:
    """A position in a text, moved on by what is read there."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def take(self, pattern: re.Pattern[str] | str) -> str | None:
        self.at = SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        match = re.compile(re.escape(pattern) if isinstance(pattern, str) else pattern.pattern).match(
            self.text, self.at
        )
        if match is None:
            return None
        self.at = match.end()
        return match.group()

    def need(self, pattern: re.Pattern[str] | str, expected: str) -> str:
        text = self.take(pattern)
        if text is None:
            raise PortError(self.text, self.at, expected)
        return text


def parse_port(text: str) -> Port:
    """Read one port; raise PortError with a caret under the first thing that does not fit."""
    reader = _Reader(text)
    name = reader.need(NAME, "a name")
    reader.need(":", "':' after the name")
    dtype = reader.need(NAME, "a dtype")
    if dtype not in DTYPES:
        raise PortError(text, reader.at - len(dtype), f"a dtype, one of {', '.join(DTYPES)}")
    reader.need("[", "'[' and the axes")
    axes = _axes(reader)
    end = _end(reader, dtype)
    if reader.take(re.compile(r"\S")) is not None:
        raise PortError(text, reader.at - 1, "nothing more")
    return Port(name, axes, dtype, end)


def _axes(reader: _Reader) -> tuple[str | int, ...]:
    axes: list[str | int] = []
    if reader.take("]") is not None:
        return ()
    while True:
        number = reader.take(NUMBER)
        axis = number or reader.need(NAME, "an axis: a name for a dynamic one, a number for a fixed one")
        if number is not None and int(number) < 1:
            raise PortError(reader.text, reader.at - len(number), "a size of at least 1")
        axes.append(axis if number is None else int(number))
        if reader.take("]") is not None:
            return tuple(axes)
        reader.need(",", "',' or ']'")


def _end(reader: _Reader, dtype: str) -> int | None:
    if reader.take("<") is None:
        return None
    at = reader.at
    if not dtype.startswith("int"):
        raise PortError(reader.text, at - 1, "no bound: only integers have one")
    end = int(reader.need(NUMBER, "a number above every value"))
    if end < 1:
        raise PortError(reader.text, at + 1, "a number above 0")
    return end


def parse_ports(texts: tuple[str, ...]) -> tuple[Port, ...]:
    """Read every port; raise ValueError where a name is used twice."""
    ports = tuple(parse_port(text) for text in texts)
    names = [port.name for port in ports]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"-i: two inputs are named {twice!r}")
    return ports
