"""Features of numbers: a cosine and a sine of each angle that a number makes.

In a row, sines come before cosines, in blocks of all pairs, of one pair, or of pairs that belong together:

    all   s0 s1 s2 s3 c0 c1 c2 c3        one   s0 c0 s1 c1 s2 c2 s3 c3        two   s0 s1 c0 c1 s2 s3 c2 c3
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import torch
from torch import Tensor, nn

from posenc.call import Formula
from posenc.encoding import Bounded, Encoding, Probes
from posenc.maker import Join, claims_of, encoding
from posenc.ports import Port, fixed
from posenc.spec import Spec
from posenc.where import Where


class FeatureWaves(Bounded, Protocol):
    """A source of cosines and sines of numbers; its tolerances take the largest angle."""

    def cos_sin(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of all angles: twice (..., pairs)."""


@dataclass(frozen=True)
class ColumnLayout:
    """The columns of a row.

    Args:
        pairs: Cosines and sines of a row.
        block: How many pairs lie together.
        cos_first: Cosines come before sines.
        include: How many numbers of x come first, as they are.
        zero: A column of zeros comes last.
    """

    pairs: int
    block: int
    cos_first: bool = False
    include: int = 0
    zero: bool = False

    @property
    def width(self) -> int:
        """Columns of a row."""
        return self.include + 2 * self.pairs + int(self.zero)


class Features(nn.Module):
    """Cosines and sines of numbers, laid out in a row."""

    block: Final[int]
    blocks: Final[int]
    cos_first: Final[bool]
    include: Final[bool]
    zero: Final[bool]

    def __init__(self, waves: FeatureWaves, layout: ColumnLayout, dtype: torch.dtype) -> None:
        super().__init__()
        self.waves = waves
        self.dtype = dtype
        self.block, self.blocks = layout.block, layout.pairs // layout.block
        self.cos_first, self.include, self.zero = layout.cos_first, layout.include > 0, layout.zero

    def forward(self, x: Tensor) -> Tensor:
        """Return the features: (batch,) or (batch, seq, numbers) -> (batch, width) or (batch, seq, width)."""
        cos, sin = self.waves.cos_sin(x)
        rows = self.lay(cos, sin) if self.cos_first else self.lay(sin, cos)
        if self.include:
            rows = torch.cat([x.to(rows.dtype), rows], -1)
        if self.zero:
            rows = torch.cat([rows, torch.zeros_like(rows[..., :1])], -1)
        return rows.to(self.dtype)

    def lay(self, first: Tensor, second: Tensor) -> Tensor:
        """Put the first half of each block before its second half: twice (..., pairs) -> (..., 2 pairs)."""
        if self.blocks == 1:
            return torch.cat([first, second], -1)
        # (..., pairs) -> (..., blocks, block)
        first = first.unflatten(-1, [self.blocks, self.block])
        second = second.unflatten(-1, [self.blocks, self.block])
        return torch.cat([first, second], -1).flatten(-2)


def encode(
    waves: FeatureWaves,
    spec: Spec,
    x: Port,
    layout: ColumnLayout,
    *,
    formula: Formula,
    largest: Callable[[int], int],
    end: int | None = None,
    probes: Probes | None = None,
) -> Encoding:
    """Return the encoding that cosines and sines of numbers make.

    Args:
        x: The port of the numbers; where it has several axes, they lie along the last.
        formula: A call -> the output in float64.
        largest: A call's largest position -> its largest angle.
        end: Whole numbers from here on are refused.
        probes: What must be tried.
    """
    y = Port("y", (*(x.axes[:-1] or x.axes), fixed(layout.width)), spec.torch_dtype)
    module = Features(waves, layout, getattr(torch, spec.torch_dtype))
    claims = claims_of(
        waves,
        tables="what goes in are numbers, between which no table has rows",
        probes=probes,
        at=lambda case: largest(case.max_position),
    )
    where = Where(spec.positions, ports=(x,), end=end)
    return encoding(spec, where, claims, Join("features", module, (), (y,)), formula)
