"""A call that is tried, and what was recorded of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from posenc.encoding import Tolerance
from posenc.ports import Array, Port, is_length

EXACT = Tolerance()


@dataclass(frozen=True)
class Case:
    """A planned call: sizes of the dynamic axes, the first position, and whether the graph must refuse it.

    eager_tolerance, tolerance: what outputs may be off by from the eager module's, and from the float64 reference.
    positions: every one, where they do not follow one another; golden data keep them, the manifest does not.
    """

    name: str
    sizes: Mapping[str, int]
    first: int = 0
    refused: bool = False
    eager_tolerance: Tolerance = EXACT
    tolerance: Tolerance = EXACT
    positions: tuple[int, ...] = ()

    def shape(self, port: Port) -> tuple[int, ...]:
        """Return the shape of a port in this case."""
        return tuple(self.sizes[a] if isinstance(a, str) else a for a in port.axes)

    @property
    def max_position(self) -> int:
        """The largest position in this case."""
        if self.positions:
            return max(self.positions)
        return max(0, self.first) + max([n for axis, n in self.sizes.items() if is_length(axis)], default=1) - 1

    def eager_tolerance_on(self, device: str) -> Tolerance:
        """Return what a graph on a device may differ by from the eager module on the CPU.

        Bits are promised on the CPU; elsewhere both sides may be off from the reference, each by as much as is allowed.
        """
        if device == "cpu" or not self.eager_tolerance.bits:
            return self.eager_tolerance
        once = self.tolerance
        return once.plus(once)

    def to_json(self) -> dict[str, object]:
        """Return what the manifest keeps."""
        return {key: value for key, value in asdict(self).items() if key != "positions"}


@dataclass(frozen=True)
class GoldenCase:
    """A case with what was recorded of it: inputs, eager outputs, float64 reference, and at which rows."""

    case: Case
    feeds: Mapping[str, Array]
    eager: Mapping[str, Array] = field(default_factory=dict)
    reference: Mapping[str, Array] = field(default_factory=dict)
    rows: Mapping[str, Array] = field(default_factory=dict)
