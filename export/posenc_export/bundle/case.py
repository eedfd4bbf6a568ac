"""A call that is tried, and the record of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from posenc.encoding import Tolerance
from posenc.ports import Array, Bools, Floats, Port

EXACT = Tolerance()
OPTIONAL = ("unlike", "model_tolerance", "masked_atol", "room", "hard")
"""Fields that the manifest has only where they say something."""
PROBED = ("probe_positions", "probe_values", "probe_masks", "draw", "hard_ids")
"""Fields of a case that golden data keep, and the manifest does not."""
Padding = Literal["left", "right", "none", "holes"]
"""Where a batch has padding: on a side, nowhere, or amid tokens."""


@dataclass(frozen=True)
class Case:
    """A planned call.

    Args:
        name: Its name, which golden data and reports use.
        sizes: The sizes of the dynamic axes.
        first: The first position, or the number that must be refused.
        max_position: The largest position.
        refused: Whether it must be refused.
        padding: On which side sequences of a batch are padded, if positions or masks say so; the first sequence has
            no padding, unless the padding is holes.
        eager_tolerance: How far outputs may be from those of the eager module.
        tolerance: How far they may be from the float64 reference.
        model_tolerance: How far they may be from a model's own code; None if no model was asked.
        masked_atol: How much farther elements of masked tokens may be, in each comparison.
        room: The part of both tolerances that is for products that round what goes in (accuracy level 4).
        probe_positions: All positions, if they do not follow one another.
        probe_values: All numbers, if stored rows are read by numbers.
        probe_masks: How many places of each column of an image are valid.
        draw: The number of the call in a series: in some, an input of a single number is an end of its range.
        unlike: Sizes of axes that differ in one port alone, by port: such a call must be refused.
        hard: Which hard rows go in (`write/targets/hard_rows.py`); nothing for usual numbers.
        hard_ids: Ids whose rows of a table are zeros.

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
    masked_atol: float = 0.0
    room: float = 0.0
    probe_positions: tuple[int, ...] = ()
    probe_values: tuple[float, ...] = ()
    probe_masks: tuple[int, ...] = ()
    draw: int = 0
    unlike: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    hard: str = ""
    hard_ids: tuple[int, ...] = ()

    def sizes_of(self, port: Port) -> Mapping[str, int]:
        """Return the sizes that the axes of a port have."""
        return {**self.sizes, **self.unlike.get(port.name, {})}

    def eager_tolerance_where(self, same_bits: bool) -> Tolerance:
        """Return how far a graph may be from the eager module, where the same bits are promised or not."""
        if same_bits or not self.eager_tolerance.bits:
            return self.eager_tolerance
        return self.tolerance.plus(self.tolerance)  # both may be off from the reference, in opposite directions

    @property
    def in_floats(self) -> Case:
        """The call with the tolerances of a file whose products round nothing that goes in."""
        eager, reference = (replace(one, atol=one.atol - self.room) for one in (self.eager_tolerance, self.tolerance))
        return replace(self, room=0.0, eager_tolerance=eager, tolerance=reference)

    def to_json(self) -> dict[str, object]:
        """Return the fields that the manifest keeps."""
        absent = {name for name in OPTIONAL if not getattr(self, name)}
        return {name: value for name, value in asdict(self).items() if name not in {*PROBED, *absent}}


@dataclass(frozen=True)
class GoldenCase:
    """A recorded case.

    Args:
        case: The call.
        feeds: Its inputs.
        eager: The outputs of the eager module.
        reference: The outputs of the float64 reference.
        rows: The indices of the rows that are kept of large arrays.
        model: The outputs of a model's own code, if it was asked.
        masked: Which elements of the outputs belong to masked tokens, where the case allows these to be farther off.
        allowed: Of hard rows, how far each element of an output may be from eager's; infinity where it is not held.

    """

    case: Case
    feeds: Mapping[str, Array]
    eager: Mapping[str, Array] = field(default_factory=dict)
    reference: Mapping[str, Array] = field(default_factory=dict)
    rows: Mapping[str, Array] = field(default_factory=dict)
    model: Mapping[str, Array] = field(default_factory=dict)
    masked: Mapping[str, Bools] = field(default_factory=dict)
    allowed: Mapping[str, Floats] = field(default_factory=dict)
