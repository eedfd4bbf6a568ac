"""What a plan of calls is made for: an encoding, the sizes it is traced with, how far it is tried, the budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from posenc.encoding import Encoding
from posenc.ports import Axis, Mask, Port, Positions, Start, axes_of, carrying, counted_from
from posenc_export.bundle.carries import keys_axis
from posenc_export.bundle.rules import rules_of
from posenc_export.write.targets.sizes import most_terms

Proof = Literal["one", "quick", "full"]
"""Whether one call is tried, few, or all."""
BUDGET = 2**28
"""Elements of the largest array of a call."""


@dataclass(frozen=True)
class Scope:
    """What a plan is made for.

    Args:
        encoding: What is tried.
        trace: The sizes that it is traced with.
        max_len: The length up to which it is tried.
        budget: The elements of the largest array of a call.
        also: Sizes that must be among those that are tried.
    """

    encoding: Encoding
    trace: Mapping[str, int]
    max_len: int
    budget: int = BUDGET
    also: tuple[Mapping[str, int], ...] = ()

    @property
    def axes(self) -> list[Axis]:
        """The dynamic axes of the inputs."""
        return axes_of(self.encoding.inputs)

    @property
    def lengths(self) -> list[Axis]:
        """The axes along which positions run."""
        return [axis for axis in self.axes if axis.is_length]

    @property
    def offset(self) -> int | None:
        """Where positions that are counted from a mask begin; None without such a mask."""
        return counted_from(self.encoding.inputs)

    @property
    def max_length(self) -> int:
        """The length up to which calls are tried: positions from a mask begin at its offset.

        A user's module may join axes: their sum is then at most max_len. An encoding says where each axis ends.
        """
        end = self.encoding.end
        length = self.max_len if end is None else min(self.max_len, end - (self.offset or 0))
        return max(1, length // (1 if rules_of(self.encoding.family).known_end else most_terms(self.ports)))

    @property
    def ports(self) -> tuple[Port, ...]:
        """Everything that goes in and out."""
        return (*self.encoding.inputs, *self.encoding.outputs)

    @property
    def position_ports(self) -> list[Port]:
        """The ports that positions are given by."""
        return carrying(self.encoding.inputs, Positions, Start)

    @property
    def fixed_tokens(self) -> int:
        """How many tokens a call has where no axis of lengths is dynamic.

        Explicit positions have them in their last axis. With a start it is the largest axis of another input that may
        hold tokens.
        """
        if self.lengths or not self.position_ports:
            return 1
        explicit = carrying(self.encoding.inputs, Positions)
        beside = [axis for port in self.encoding.inputs if port not in self.position_ports for axis in port.axes[:-1]]
        axes = [port.axes[-1] for port in explicit] or [axis for axis in beside if axis.kind != "batch"]
        return max((axis.size for axis in axes if axis.size is not None), default=1)

    @property
    def keys(self) -> str | None:
        """The axis of keys that the tokens behind a start must lie among, or None."""
        return keys_axis(self.encoding.inputs)

    @property
    def masks(self) -> list[Port]:
        """The ports that carry masks."""
        return carrying(self.encoding.inputs, Mask)
