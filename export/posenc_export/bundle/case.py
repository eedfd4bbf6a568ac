"""A call that is tried, and what was recorded of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from posenc.encoding import Tolerance
from posenc.ports import Array, Port

EXACT = Tolerance()
PROBED = ("probe_positions", "probe_values", "probe_masks", "draw")
"""What golden data keep of a case, and the manifest does not."""
Padding = Literal["left", "right", "none", "holes"]
"""Where a batch has padding: on a side, nowhere, or amid tokens."""


@dataclass(frozen=True)
class Case:
    """A planned call: sizes of the dynamic axes, the first position, the largest, and whether it must be refused.

    padding: on which side sequences of a batch are padded, where positions or masks say so; the first never is, but by
        holes.
    eager_tolerance, tolerance: what outputs may be off by from the eager module's, and from the float64 reference.
    model_tolerance: from a model's own code, where it was asked; None where it was not.
    probe_positions, probe_values, probe_masks: every position, where they do not follow one another, every number, and
        how many places of each column of an image count; golden data keep them, the manifest does not.
    draw: which of a row of calls it is: where an input is one number, some take an end of its range; kept as those are.
    unlike: sizes of axes that a port alone has otherwise, by port: such a call must be refused.
    """

    name: str
    sizes: Mapping[str, int]
    first: int = 0
    max_position: int = 0
    refused: bool = False
    padding: Padding = "left"
    eager_tolerance: Tolerance = EXACT
    tolerance: Tolerance = EXACT
    model_tolerance: Tolerance | None = None
    probe_positions: tuple[int, ...] = ()
    probe_values: tuple[float, ...] = ()
    probe_masks: tuple[int, ...] = ()
    draw: int = 0
    unlike: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def sizes_of(self, port: Port) -> Mapping[str, int]:
        """Return the sizes that the axes of a port have."""
        return {**self.sizes, **self.unlike.get(port.name, {})}

    def eager_tolerance_where(self, same_bits: bool) -> Tolerance:
        """Return what a graph may differ by from the eager module on the CPU, where its bits are promised or are not.

        Where they are not, both sides may be off from the reference, each by as much as is allowed.
        """
        if same_bits or not self.eager_tolerance.bits:
            return self.eager_tolerance
        once = self.tolerance
        return once.plus(once)

    def to_json(self) -> dict[str, object]:
        """Return what the manifest keeps."""
        fields = asdict(self)
        absent = [*PROBED, *([] if self.unlike else ["unlike"])]
        absent += [] if self.model_tolerance else ["model_tolerance"]
        return {name: value for name, value in fields.items() if name not in absent}


@dataclass(frozen=True)
class GoldenCase:
    """A case with what was recorded of it: inputs, eager outputs, float64 reference, and at which rows.

    model: the outputs of a model's own code, where it was asked.
    """

    case: Case
    feeds: Mapping[str, Array]
    eager: Mapping[str, Array] = field(default_factory=dict)
    reference: Mapping[str, Array] = field(default_factory=dict)
    rows: Mapping[str, Array] = field(default_factory=dict)
    model: Mapping[str, Array] = field(default_factory=dict)
