"""Sines and cosines of the distance from a query to a key: a row for each, from keys far behind to keys far ahead.

Attention makes a column of scores from each row, and shifts the columns of every query to the keys that they belong to.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from posenc.call import Formula
from posenc.encoding import SAME_BITS, CaseLike, Encoding, Pair, Probes, RowSource, Tolerance, no_tables
from posenc.lookup import exactly, take
from posenc.maker import Claims, Join, claims_of, encoding
from posenc.ports import Port
from posenc.spec import Spec
from posenc.stored import StoredRows, laid_out
from posenc.where import Where

NO_TABLES = "its rows are of distances, not of positions"
LAST_QUERIES: tuple[Pair, ...] = ("1,1", "1,n", "n,n", "n,past+n")
"""There are as many keys as queries, or more: a query is itself among the keys."""


class RelativeRows(nn.Module):
    """Rows of a source by distance: a sine changes its sign where a key is after its query, a cosine does not."""

    signs: Tensor  # (2, width): of a key at its query or before, then of a key after its query
    width: Final[int]
    clamp: Final[int | None]
    __constants__ = ("count_dtype", "integer_dtype")
    count_dtype = None
    integer_dtype = torch.int64

    def __init__(
        self, source: RowSource, spec: Spec, width: int, *, interleaved: bool, clamp: int | None = None
    ) -> None:
        """Take a source of sines and cosines.

        Args:
            source: It gives the rows of distances that are not negative.
            spec: The dtype of the rows.
            width: Features of a row.
            interleaved: Whether sines and cosines take turns in a row; else all sines come first.
            clamp: Larger distances count as this one; None for no limit.
        """
        super().__init__()
        self.source = source
        self.width = width
        self.clamp = clamp
        self.interleaved = interleaved
        self.dtype = getattr(torch, spec.torch_dtype)
        signs = torch.ones(2, width, dtype=getattr(torch, spec.angle_dtype))
        signs[1, :: 2 if interleaved else 1][: width // 2] = -1
        self.register_buffer("signs", signs, persistent=False)

    def down_from(self, first: int, count: int, held: int) -> Tensor:
        """Return the rows of the distances first, first - 1, ..., all below `held`: (1, count, width)."""
        distance = first - torch.arange(count, dtype=self.count_dtype, device=self.signs.device)
        clamp = self.clamp
        signs = take(self.signs, (distance < 0).to(self.integer_dtype), 2)
        if clamp is not None:
            # Exporters would store the rows 0..clamp as a constant, whose number no call changes, read or not.
            rows: Tensor = self.source(distance.abs().clamp(max=clamp), self.width)
            return (rows * signs).to(self.dtype).unsqueeze(0)
        # A Split by the number of rows refuses distances beyond the source; CUDA would not refuse an index.
        rows = exactly(self.source.arange(held, self.width), held)[0]
        return (take(rows, distance.abs(), held) * signs).to(self.dtype).unsqueeze(0)

    def stored_rows(self) -> Iterator[StoredRows]:
        """Yield the signs: a sine is odd, a cosine even."""
        odd, even = -np.ones((1, self.width // 2)), np.ones((1, self.width // 2))
        yield StoredRows("signs", np.ones((1, self.width)))
        yield StoredRows("signs", laid_out(odd, even, self.interleaved, self.width), first=1)


@dataclass(frozen=True)
class DistanceRows:
    """What an encoding of distances is made of.

    Args:
        module: It returns the rows.
        inputs: Tensors whose lengths give the distances.
        output: The rows.
        formula: A call -> its rows in float64.
        max_distance: A case -> its largest distance.
        end: The longest call that the source holds rows for; None for no limit.
        more: Rows of the source beyond one for each token.
    """

    module: RelativeRows
    inputs: tuple[Port, ...]
    output: Port
    formula: Formula
    max_distance: Callable[[CaseLike], int]
    end: int | None
    more: int = 0


def encode(rows: DistanceRows, spec: Spec) -> Encoding:
    """Return the encoding of rows of distances."""
    source = rows.module.source
    lengths = tuple(length - rows.more for length in source.probes.lengths)
    claims = claims_of(
        source,
        tables=NO_TABLES,
        probes=replace(source.probes, lengths=lengths, pairs=LAST_QUERIES),
        at=rows.max_distance,
    )
    join = Join("relative", rows.module, rows.inputs, (rows.output,))
    return encoding(spec, Where(spec.positions, end=rows.end), claims, join, rows.formula)


def shift(module: nn.Module, spec: Spec, scores: Port, by_key: Port, formula: Formula) -> Encoding:
    """Return the encoding that sends scores by distance to scores by key: it copies numbers, and computes none."""
    claims = Claims(
        error=lambda case: Tolerance(),
        graph_error=lambda case: SAME_BITS,
        tables=no_tables(NO_TABLES),
        probes=Probes(pairs=LAST_QUERIES),
    )
    join = Join("shift", module, (scores,), (by_key,), rounding=Tolerance())
    return encoding(spec, Where(spec.positions), claims, join, formula)


def relative_shift(scores: Tensor, first: int, width: int) -> Tensor:
    """Return scores by distance as scores by key: (batch, heads, seq, n) -> (batch, heads, seq, width).

    The first row begins at column `first`, and each row one column before the row above (Transformer-XL, appendix B):

        0 1 2 3      1 2 3
        4 5 6 7  ->  4 5 6        first = 1, width = 3

    Args:
        scores: A column for each distance.
        first: The column at which the first row begins.
        width: Always n - 1, which a reshape cannot infer where there are no queries.
    """
    batch, heads, seq, columns = scores.shape
    # Rows of n - 1 in the memory of rows of n: (batch, heads, seq * n) -> (batch, heads, seq * (n - 1))
    flat = scores.flatten(2)[:, :, first : first + seq * (columns - 1)]
    return flat.reshape(batch, heads, seq, width)


def with_zeros(scores: Tensor) -> Tensor:
    """Return scores with a column of zeros behind: (batch, heads, seq, n) -> (batch, heads, seq, n + 1).

    A relative_shift of these keeps all n columns; behind its own last column a row holds numbers of the next row.
    """
    batch, heads, seq, _ = scores.shape
    # AOTInductor compiles no slice of `pad`. In ONNX these zeros are an Expand of a constant, which converters to half
    # precision know; a ConstantOfShape would stay float32.
    zeros = torch.full([batch, heads, seq, 1], 0.0, dtype=scores.dtype, device=scores.device)
    return torch.cat([scores, zeros], 3)
