"""Modules that people use: classes of packages, well-known ones rewritten small, and wrong ones; a row for each.

`ROWS` of each file say what is certified, and then right at sizes that nothing was traced at, or refused, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Known:
    """One module: where it is made, what goes in, why it is here; the words of its refusal, if it is refused.

    factory: module:name in this folder. sizes: axes that a proof must not choose freely, by name. note: a line that the
    report must have.
    """

    factory: str
    inputs: tuple[str, ...]
    why: str
    refused: str = ""
    note: str = ""
    max_len: int = 70
    params: Mapping[str, object] = field(default_factory=dict)
    quick: bool = False

    @property
    def name(self) -> str:
        """What a test of it is called."""
        return self.factory.replace(":", "-")
