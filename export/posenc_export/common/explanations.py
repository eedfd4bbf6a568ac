"""A check or a finding in words, for reports, `posenc explain` and the documents."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """A check or a finding in words: its code, what it asks, what a failure means, what to do then, and an example."""

    code: str
    asks: str
    failure: str
    remedy: str
    example: str


@dataclass(frozen=True)
class Explanation(Words):
    """The words of a check or a finding, and its name."""

    name: str
