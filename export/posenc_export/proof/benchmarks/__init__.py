"""Times of graphs, in rounds of one run: options and results.

Importing this imports nothing heavy; `posenc_export.proof.benchmarks.run` does the work.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


USUAL_LENGTHS = (512, 2048, 8192)
"""Lengths that are timed by default, up to the longest that a graph takes."""


@dataclass(frozen=True)
class BenchOptions:
    """What to time: lengths, sequences in a call, heads of queries and keys, rounds, and runtimes.

    Empty lengths stand for the usual ones, empty runtimes for all. Raises ValueError for a number below 1.
    """

    lengths: tuple[int, ...] = ()
    batch: int = 1
    heads: int = 32
    rounds: int = 7
    runtimes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("lengths", "batch", "heads", "rounds"):
            number = min(self.lengths, default=1) if name == "lengths" else getattr(self, name)
            if number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}")


@dataclass(frozen=True)
class LengthResult:
    """Times at one length, by the names of what is timed.

    Args:
        milliseconds: the median over the rounds.
        times_a_copy: the time divided by that of a copy of the same bytes.
        faster_than_baseline: the time of the usual module on the same runtime, divided by this time.
        faster_than_one_op: the time of one operator, likewise.
    """

    length: int
    milliseconds: Mapping[str, float]
    times_a_copy: Mapping[str, float]
    faster_than_baseline: Mapping[str, float]
    faster_than_one_op: Mapping[str, float]


@dataclass(frozen=True, repr=False)
class BenchResult:
    """The encoding that was timed, and the times at each length; `print` shows the table.

    Args:
        not_run: lines on runtimes that were not timed, with the reason.
    """

    scheme: str
    mode: str
    method: str | None
    batch: int
    lengths: tuple[LengthResult, ...]
    not_run: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the result as JSON values."""
        return {**asdict(self), "lengths": [asdict(result) for result in self.lengths]}

    def __repr__(self) -> str:
        lengths = ", ".join(str(result.length) for result in self.lengths)
        return f"<{type(self).__name__}: {self.scheme!r}, {self.mode}, at {lengths}>"

    def __str__(self) -> str:
        from posenc_export.proof.benchmarks.report import as_text

        return as_text(self)
