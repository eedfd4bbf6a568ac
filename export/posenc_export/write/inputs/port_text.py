"""The text of a port, read from left to right; an error has a caret under the place."""

from __future__ import annotations

import re
from collections.abc import Collection

from posenc_export.bundle.port_names import NAME
from posenc_export.write.inputs.axis_names import number

EXAMPLE = "as in 'x: float32[batch, seq, 512]' or 'ids: int64[batch, seq] < 256'"
NUMBER = re.compile(r"[0-9]+")
DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")
SIGN = re.compile(r">=|!=|%")
REST, SPACE = re.compile(r"\S"), re.compile(r"\s*")


class PortError(ValueError):
    """A text that describes no port, or contradicts another, with a caret under the place."""

    has_lines = True

    def __init__(self, text: str, at: int, problem: str) -> None:
        """Lay out the message: the problem, the text, the caret."""
        # one column for each character, so that the caret stands under its place
        line = "".join(character if character.isprintable() else " " for character in text)
        super().__init__(f"-i: {problem}\n  {line}\n  {' ' * at}^")


class PortText:
    """A position in a text that moves on with each token; `start` is where the last token began."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = self.start = 0

    def take(self, token: re.Pattern[str] | str) -> str | None:
        """Return the next token, behind spaces, if it is this one or matches this pattern; else None."""
        self.start = self.at = SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        pattern = re.compile(re.escape(token)) if isinstance(token, str) else token
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return match.group() if match else None

    def need(self, token: re.Pattern[str] | str, expected: str) -> str:
        """Return the next token; raise PortError where it is another one."""
        if text := self.take(token):
            return text
        raise self.expected(expected)

    def expected(self, words: str, at: int | None = None) -> PortError:
        """Return an error that says what was expected in the place of the last token."""
        return PortError(self.text, self.start if at is None else at, f"expected {words}, {EXAMPLE}")

    def one_of(self, words: Collection[str], expected: str) -> str:
        """Return the next word, which must be one of these."""
        if (word := self.need(NAME, expected)) in words:
            return word
        raise self.expected(expected)

    def count(self, expected: str, missing: str = "") -> int:
        """Return the next number, which must be above 0."""
        digits = self.need(NUMBER, missing or expected).lstrip("0")
        if not 1 <= len(digits) <= 18:
            raise self.expected("a number of at most 18 digits" if digits else expected)
        return int(digits)

    def decimal(self, dtype: str) -> float:
        """Return the next number, which the dtype must hold."""
        value, expected = number(self.need(DECIMAL, "a number"), dtype)
        if expected:
            raise self.expected(expected)
        return value
