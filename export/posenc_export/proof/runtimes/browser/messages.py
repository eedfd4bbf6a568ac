"""What a program and the process that drives its browser say to each other: a line of JSON each way."""

from __future__ import annotations

from typing import TypedDict

GONE, STOPPED = "gone", "the call was stopped"
"""What the process answers where the page of a graph has ended, and of a call that was stopped."""

Request = TypedDict("Request", {"do": str, "call": int, "left": list[int], "with": list[object]})
"""What is asked for, with what; which call it is; which graphs nobody calls any more."""


class Said(TypedDict, total=False):
    """What is answered: of a graph that was loaded all but `times`, of one that was timed `times` alone."""

    graph: int
    browser: str
    version: str
    adapter: str
    hasHalf: bool
    nodes: list[tuple[str, str, str]]
    times: list[float]
