"""Rows by distance, weighted by the probabilities of keys: what attention adds to its product with the values.

Each query has a column for each distance: the probability of the one key that is so far from it, and before and after
those the sums of all beyond. A product of the columns and the rows is what is added.

One look-up of a key fills each column, and masks sum up the keys before and after. Neither sum is a difference from
the whole, so that a sum without keys is exactly 0. Measured with ONNX Runtime on one core, for 4 heads of 512 queries
and keys and 9 rows, as parts of the time of the product of probabilities and values: columns and rows 0.1, with both
sums 0.7. Rejected: sums by Where 1.5, a shift of all rows 1.5, masks as matrices 2.1, CumSum 2.5. A ScatterElements
that adds needs opset 18, and promises no order.
"""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from posenc.call import Formula
from posenc.encoding import CaseLike, Encoding, Probes, Tolerance, eps, no_tables
from posenc.lookup import following
from posenc.maker import Claims, Join, encoding
from posenc.ports import BATCH, SEQ, Axis, Port, Values, fixed
from posenc.sources.bias import encode as bias
from posenc.spec import Spec
from posenc.where import KEYS, queries_and_keys
from posenc.where.places import CountedPlaces, StoredPlaces

HALF_UNSAFE = "sums of probabilities and products with rows are sums, each part of which is rounded"
TOTAL = 1.01
"""What the probabilities of a query sum to at most: 1, and what rounding each to bfloat16 adds."""


class WeightedRows(nn.Module):
    """A row for each distance, weighted: what the ways to give positions share.

    beyond: whether the first and the last row are those of all keys beyond; nothing is added of those otherwise.
    """

    rows: Tensor  # (distances, head_dim); with those beyond, two more
    distances: Final[int]
    before: Final[int]
    beyond: Final[bool]

    def __init__(self, rows: Tensor, before: int, beyond: bool, spec: Spec) -> None:
        """Take the rows of keys from `before` places before their query on: (distances, head_dim)."""
        super().__init__()
        self.distances = len(rows)
        self.before = before
        self.beyond = beyond
        self.dtype = getattr(torch, spec.torch_dtype)
        self.places = StoredPlaces(spec.max_len) if spec.mode == "baked" else CountedPlaces()
        edges = torch.cat([rows[:1], rows, rows[-1:]]) if beyond else rows
        self.register_buffer("rows", edges.to(getattr(torch, spec.angle_dtype)), persistent=False)

    def between(self, p: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Return what is added at positions: p, (1, seq, 1) or (seq, 1), (seq_k,) -> (batch, heads, seq, head_dim)."""
        p = p.to(self.rows.dtype)
        columns = self.near(p, query)
        if self.beyond:
            distance = key - query
            before = self.total(p, distance < -self.before)
            after = self.total(p, distance >= self.distances - self.before)
            columns = torch.cat([before, columns, after], 3)
        return torch.matmul(columns, self.rows).to(self.dtype)

    def near(self, p: Tensor, query: Tensor) -> Tensor:
        """Return the probability of the key at each distance, 0 where none is: p, (seq, 1) -> (..., seq, distances)."""
        seq_k = p.shape[3]
        at = query + (torch.arange(self.distances, device=p.device) - self.before)
        index = at.clamp(0, seq_k - 1).expand(p.shape[0], p.shape[1], p.shape[2], self.distances)
        return p.gather(3, index) * ((at >= 0) & (at < seq_k)).to(p.dtype)

    def total(self, p: Tensor, of: Tensor) -> Tensor:
        """Return the sum of the probabilities of some keys: p, (seq, seq_k) of bool -> (batch, heads, seq, 1)."""
        # Measured with ONNX Runtime, of 512 x 512: a Where takes twice as long, a CumSum more than three times.
        return (p * of.to(p.dtype)).sum(3, keepdim=True)


class Implicit(WeightedRows):
    """Queries are the last of the keys."""

    def forward(self, p: Tensor) -> Tensor:
        """Return what is added: (batch, heads, seq, seq_k) -> (batch, heads, seq, head_dim)."""
        seq, seq_k = p.shape[2], p.shape[3]
        query = torch.arange(seq, device=p.device) + (seq_k - seq)
        keys = self.places.keys(seq_k, p.device)
        # Read, stored positions refuse more keys than there are of them.
        return self.between(p, (query + keys.sum(0, keepdim=True).clamp(0, 0)).unsqueeze(1), keys)


class Offset(WeightedRows):
    """Queries are at start..start+seq-1, each among the keys, at 0..seq_k-1: a cache of a fixed size."""

    def forward(self, p: Tensor, start: Tensor) -> Tensor:
        """Return what is added: (batch, heads, seq, seq_k), start (1,) -> (batch, heads, seq, head_dim)."""
        keys = self.places.keys(p.shape[3], p.device)
        return self.between(p, following(keys, start, p.shape[2]), keys)


WAYS: dict[str, type[WeightedRows]] = {"implicit": Implicit, "offset": Offset}


@dataclass(frozen=True)
class Bound:
    """What sums of probabilities and their products with rows are off by, in any order.

    largest: of the numbers of the rows.
    """

    distances: int
    largest: float

    def at(self, case: CaseLike, dtype: str, sides: int = 1) -> Tolerance:
        """Return the bound in a dtype: a sum of n numbers, all above 0, is off by n half eps of itself at most."""
        terms = case.sizes[KEYS.name] + self.distances + 3
        return Tolerance(sides * eps(dtype) / 2 * terms * TOTAL * self.largest)


def encode(rows: Tensor, spec: Spec, *, before: int, beyond: bool, formula: Formula) -> Encoding:
    """Return the encoding of rows by distance: (distances, head_dim), from `before` places before a query on.

    A baked one refuses positions from max_len on; a dynamic one has no end. formula: a call -> the output in float64.
    """
    end = spec.max_len if spec.mode == "baked" else None
    where = queries_and_keys(spec, end)
    p, output = _ports(spec, rows.shape[1], where.places[0])
    bound = Bound(len(rows), float(rows.abs().max()))
    claims = Claims(
        error=lambda case: bound.at(case, spec.angle_dtype).plus(bound.at(case, "float64")),
        graph_error=lambda case: bound.at(case, spec.angle_dtype, 2),
        tables=no_tables("its rows go by distances, not by positions"),
        probes=Probes(lengths=(before, before + 1, before + 2), pairs=bias.pairs(spec)),
        half_safe=HALF_UNSAFE,
    )
    module = WAYS[str(spec.positions)](rows, before, beyond, spec)
    return encoding(spec, where, claims, Join("values", module, (p,), (output,)), formula)


def _ports(spec: Spec, head_dim: int, keys: Axis) -> tuple[Port, Port]:
    """Return probabilities, and what comes out."""
    heads = Axis("heads", "heads")
    probabilities = Values(0.0, 1.0, probabilities=True)
    p = Port("probabilities", (BATCH, heads, SEQ, keys), spec.torch_dtype, probabilities)
    return p, Port("added", (BATCH, heads, SEQ, fixed(head_dim)), spec.torch_dtype)
