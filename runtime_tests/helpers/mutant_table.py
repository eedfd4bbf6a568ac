"""The table of what became of mutants, for docs/validation.md."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mutations import KINDS

if TYPE_CHECKING:
    from mutants import Result

BEGIN, END = "<!-- mutants -->\n", "<!-- end of mutants -->\n"


def summary(results: Sequence[Result], seconds: float, processes: int) -> str:
    """Return the table as the page has it."""
    return "\n".join(f"{r.combination} {len(r.trials)}" for r in results) + str(seconds) + str(processes) + str(KINDS)


def write(page: Path, text: str) -> None:
    """Put a text into a page, between the markers."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    page.write_text(f"{before}{BEGIN}{text}{END}{rest.partition(END)[2]}", encoding="utf-8")
    assert datetime
