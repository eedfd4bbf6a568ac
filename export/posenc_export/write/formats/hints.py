"""Schemes that do without a branch what some modules do with one, which keeps them from being captured."""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass


@dataclass(frozen=True)
class Hint:
    """A scheme that needs no branch: `code` is found in the lines of the module that led to the error."""

    code: re.Pattern[str]
    scheme: str


LENGTH = r"(seq|length|position|longest|max)\w*"
HINTS = (
    Hint(re.compile(r"longrope|long_(mscale|factor)"), "rope -p rope_type=longrope"),
    Hint(re.compile(rf"dynamic_(rope|frequency)|int\({LENGTH}\.max|torch\.max\({LENGTH}"), "rope -p rope_type=dynamic"),
    Hint(re.compile(r"(?i)xpos.*// ?2|// ?2.*xpos|(scale|power|decay)\w* = .*// ?2"), "xpos -p center=length"),
)
"""Rotary types whose frequencies follow from the longest position, and xPos centred by the length."""


def hint(error: BaseException) -> str:
    """Return which scheme may do the same as a module without its branch; "" where the code does not show it."""
    code = "\n".join(_lines(error))
    scheme = next((hint.scheme for hint in HINTS if hint.code.search(code)), None)
    return f"; if that is what it computes, `posenc export {scheme}` does it without a branch" if scheme else ""


def _lines(error: BaseException) -> list[str]:
    """Return the functions and lines of code that led to an error, without those of torch."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/torch/" not in frame.filename]
    return [f"{frame.name} {frame.line}" for frame in frames]
