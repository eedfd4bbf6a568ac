"""What an extension came to, as data: what `extend` returns, and what `--json` prints."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A stored table that was rewritten.

    Args:
        name: the tensor.
        form: the closed form, in words.
        dtype: its element type.
        rows: how many it had.
        new_rows: how many it has.
        old_error: the largest absolute error of its old rows against their closed form in float64.
        old_error_at: the row of that error.
        moved: how far its old rows were moved; 0 where they stayed as they were.
        error: the largest absolute error of the new table against float64, every row of it read back from the file.
        steps: the same error in steps of the dtype from a number to the next: rounding alone makes at most a half.
    """

    name: str
    form: str
    dtype: str
    rows: int
    new_rows: int
    old_error: float
    old_error_at: int
    moved: float
    error: float
    steps: float


@dataclass(frozen=True)
class Swap:
    """Sines and cosines that are made by angle addition now.

    Args:
        form: the closed form, in words.
        nodes: the nodes that were replaced.
        old_error: the largest absolute error of a cosine or sine before, at positions far out.
        old_error_at: the position of that error.
        error: the largest absolute error now, at the same positions.
        error_at: the position of that error.
        tried: how many positions were tried: all from 0 on.
        amplitude: the factor of cosines and sines, of which the graph multiplies by a part.
        old_error_near: the same error before, at the first positions, which calls of both files have.
        in_graph: the largest absolute error of what the new graph makes where it meets data, at positions far out.
    """

    form: str
    nodes: tuple[str, ...]
    old_error: float
    old_error_at: int
    error: float
    error_at: int
    tried: int
    amplitude: float = 1.0
    old_error_near: float = 0.0
    in_graph: float = 0.0


@dataclass(frozen=True)
class Grown:
    """A buffer that ended where a table did, such as stored position ids.

    Args:
        name: the tensor.
        size: how many places it had.
        new_size: how many it has.
    """

    name: str
    size: int
    new_size: int


@dataclass(frozen=True)
class Wall:
    """Where positions end now.

    Args:
        last: the last right length.
        node: the node in which longer calls end.
        beyond: what the file does there.
        reason: why, in words.
    """

    last: int
    node: str
    beyond: str
    reason: str


@dataclass(frozen=True)
class CommonRun:
    """The files before and after, called with the same inputs.

    Args:
        sizes: of the call, in words.
        difference: the largest absolute difference of an output.
        allowed: by how much outputs may differ.
        how: what is allowed, in words.
    """

    sizes: str
    difference: float
    allowed: float
    how: str

    @property
    def passed(self) -> bool:
        """Whether outputs are equal within what is allowed."""
        return self.difference <= self.allowed


@dataclass(frozen=True)
class Extended:
    """What an extension came to.

    Args:
        file: the file that was read.
        out: the file that was written.
        max_len: the length that was asked for; 0 where none was.
        tables: what was rewritten.
        swaps: chains of Sin and Cos that are angle addition now.
        grown: buffers that were made longer.
        walls: where positions end now, below the length that was asked for; nothing where that is reached.
        reached: the longest length that was seen to be right, on shapes alone.
        runs: calls of both files.
        notes: what else is worth a line.
        not_compared: why no output was compared with one of before; empty where they were, or are meant to differ.
    """

    file: str
    out: str
    max_len: int
    tables: tuple[Table, ...]
    swaps: tuple[Swap, ...]
    grown: tuple[Grown, ...]
    walls: tuple[Wall, ...]
    reached: int | None
    runs: tuple[CommonRun, ...] = ()
    notes: tuple[str, ...] = ()
    not_compared: str = ""

    @property
    def passed(self) -> bool:
        """Whether the length is reached, and outputs at common lengths were seen to be those of before."""
        return not self.walls and not self.not_compared and all(run.passed for run in self.runs)
