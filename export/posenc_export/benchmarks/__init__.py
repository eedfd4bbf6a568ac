"""How long graphs take, in rounds of one run: what to time, and the result.

Importing this imports nothing heavy; `posenc_export.benchmarks.run` does the work.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


USUAL_LENGTHS = (512, 2048, 8192)
"""What is timed where nobody says a length, as far as a graph goes."""


@dataclass(frozen=True)
class BenchOptions:
    """What to time: lengths, sequences in a call, heads of queries and keys, rounds, and runtimes, if not all.

    lengths: none for the usual ones, as far as a graph goes.
    Raises ValueError, in one line, for a number below 1.
    """

    lengths: tuple[int, ...] = ()
    batch: int = 1
    heads: int = 32
    rounds: int = 7
    runtimes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        numbers = {
            "lengths": min(self.lengths, default=1),
            "batch": self.batch,
            "heads": self.heads,
            "rounds": self.rounds,
        }
        for name, number in numbers.items():
            if number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}")


@dataclass(frozen=True)
class LengthResult:
    """Times at one length, by the names of what is timed.

    milliseconds: the median over the rounds. times_a_copy: how many times as long as a copy of the same bytes it takes.
    faster_than_baseline, faster_than_one_op: how many times as fast as the usual module, and as one operator, it is
        on the same runtime.
    """

    length: int
    milliseconds: Mapping[str, float]
    times_a_copy: Mapping[str, float]
    faster_than_baseline: Mapping[str, float]
    faster_than_one_op: Mapping[str, float]


@dataclass(frozen=True, repr=False)
class BenchResult:
    """What was timed, and the times at each length; `print` shows the table.

    not_run: lines that say what was not timed, and why.
    """

    scheme: str
    mode: str
    method: str | None
    batch: int
    lengths: tuple[LengthResult, ...]
    not_run: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the result as JSON values."""
        return {**asdict(self), "lengths": [asdict(one) for one in self.lengths]}

    def __repr__(self) -> str:
        lengths = ", ".join(str(one.length) for one in self.lengths)
        return f"<{type(self).__name__}: {self.scheme!r}, {self.mode}, at {lengths}>"

    def __str__(self) -> str:
        from posenc_export.benchmarks.report import as_text

        return as_text(self)
