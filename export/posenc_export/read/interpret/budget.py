"""How much an interpretation may cost, and how it ends before its last node."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """How much an interpretation may cost.

    Args:
        nodes: how many nodes are visited, those in turns of loops counted each time.
        value_bytes: how large a value is that is still computed; of a larger one, the shape alone is carried.
        run_bytes: how large all values are together; beyond it, only sizes and the like are computed.
        seconds: how long it takes.
    """

    nodes: int = 100_000
    value_bytes: int = 1 << 26
    run_bytes: int = 1 << 29
    seconds: float = 60.0


class Stopped(Exception):
    """A node cannot run at these sizes, or the budget is spent.

    Args:
        reason: why, in words.
        node: the node's name.
    """

    def __init__(self, reason: str, node: str) -> None:
        super().__init__(f"{node}: {reason}")
        self.reason, self.node = reason, node
