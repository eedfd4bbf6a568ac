"""Whether a process ends."""

from __future__ import annotations

import time
from pathlib import Path


def is_gone(number: int) -> bool:
    """Return whether a process ends within ten seconds; one that nobody has waited for yet has ended, too."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False
