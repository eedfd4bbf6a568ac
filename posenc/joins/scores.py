"""Modules that return a bias of scores, or add it to them: a thin forward for each way to give positions.

A source of biases is a module with two methods, and what a `Source` says of itself:

    last(keys, values)            keys (seq_k,), at 0..seq_k-1     queries are the last of the keys
    between(query, key, values)   (batch or 1, seq, 1), and        any positions
                                  (batch, 1, seq_k) or (seq_k,)

`values` is a tensor that comes in and has a row for each query: queries, scores or probabilities, (batch, heads, seq,
any). A source multiplies with them, or reads only how many rows they have. It returns (batch or 1, heads, seq, seq_k),
or for rows that are weighted by probabilities (batch, heads, seq, head_dim).

The cost of a bias grows with its queries: one query takes one row, and not the square that it is the last row of.

The forwards are written out, as TorchScript takes no `*args` and their arguments have the names of the ports.
"""

from typing import Final, Protocol

import torch
from torch import Tensor, nn

from posenc.arithmetic import added
from posenc.encoding import Source
from posenc.lookup import check_same, counted, following, inside
from posenc.where import Where
from posenc.where.places import CountedPlaces, StoredPlaces


class BiasSource(Source, Protocol):
    """Biases of queries and keys, by their positions, and by the queries or probabilities that come in."""

    def last(self, keys: Tensor, values: Tensor) -> Tensor:
        """Return the bias where queries are the last of the keys: (seq_k,), (batch, heads, seq, any)."""

    def between(self, query: Tensor, key: Tensor, values: Tensor | None) -> Tensor:
        """Return the bias of positions, as `last`: (batch or 1, seq, 1), (batch, 1, seq_k) or (seq_k,).

        Args:
            query: Positions of the queries.
            key: Positions of the keys.
            values: A row for each query; None where only positions come in.
        """


class Bias(nn.Module):
    """The ways to give positions, each a method that asks the source."""

    offset: Final[int]  # the first position that a mask counts
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(
        self, source: BiasSource, places: CountedPlaces | StoredPlaces, dtype: torch.dtype, offset: int
    ) -> None:
        super().__init__()
        self.source = source
        self.places = places
        self.dtype = dtype
        self.offset = offset

    def last(self, values: Tensor, seq_k: int) -> Tensor:
        """Return the bias of queries that are the last of the keys."""
        bias: Tensor = self.source.last(self.places.keys(seq_k, values.device), values)
        return bias

    def from_start(self, values: Tensor, seq_k: int, start: Tensor) -> Tensor:
        """Return the bias of queries that begin at a position, among keys from 0 on."""
        keys = self.places.keys(seq_k, start.device)
        bias: Tensor = self.source.between(following(keys, start, values.shape[2], self.count_dtype), keys, values)
        return bias

    def at(self, positions_q: Tensor, positions_k: Tensor, values: Tensor | None) -> Tensor:
        """Return the bias of queries and keys at these positions: (batch, seq), (batch, seq_k)."""
        # (batch, seq, 1) and (batch, 1, seq_k): their difference is a square
        query, key = self.places(positions_q).unsqueeze(2), self.places(positions_k).unsqueeze(1)
        bias: Tensor = self.source.between(query, key, values)
        return bias

    def from_mask(self, mask: Tensor, values: Tensor) -> Tensor:
        """Return the bias of keys that a mask counts, (batch, seq_k), where queries are the last of them."""
        key = self.places(counted(mask, self.offset, self.count_dtype))
        # Indices instead of a slice: an exported slice would be kept to the range of its traced sizes.
        at = torch.arange(values.shape[2], dtype=self.count_dtype, device=mask.device) + (
            mask.shape[1] - values.shape[2]
        )
        query = key.index_select(1, inside(at, mask.shape[1]))
        # (batch, seq, 1) and (batch, 1, seq_k)
        bias: Tensor = self.source.between(query.unsqueeze(2), key.unsqueeze(1), values)
        return bias


class ImplicitBias(Bias):
    """Queries are the last of the keys."""

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the bias: (batch, heads, seq, dim), (batch, kv_heads, seq_k, dim) -> (.., heads, seq, seq_k)."""
        return self.last(q, k.shape[2]).to(self.dtype)


class ImplicitScores(Bias):
    """Queries are the last of the keys."""

    def forward(self, scores: Tensor) -> Tensor:
        """Return biased scores: (batch, heads, seq, seq_k) -> the same."""
        return added(scores, self.last(scores, scores.shape[3]))


class ImplicitQueryScores(Bias):
    """Queries are the last of the keys, and their features count."""

    def forward(self, q: Tensor, scores: Tensor) -> Tensor:
        """Return biased scores: (batch, heads, seq, dim), (batch, heads, seq, seq_k) -> as scores."""
        check_same(q.shape[2], scores.shape[2])
        return added(scores, self.last(q, scores.shape[3]))


class ImplicitValues(Bias):
    """Queries are the last of the keys, whose probabilities count."""

    def forward(self, p: Tensor) -> Tensor:
        """Return the weighted rows: (batch, heads, seq, seq_k) -> (batch, heads, seq, head_dim)."""
        return self.last(p, p.shape[3]).to(self.dtype)


class OffsetBias(Bias):
    """Queries are at start..start+seq-1, each among the keys, at 0..seq_k-1: a cache of a fixed size."""

    def forward(self, q: Tensor, k: Tensor, start: Tensor) -> Tensor:
        """Return the bias: (batch, heads, seq, dim), (batch, kv_heads, seq_k, dim), (1,) -> (.., heads, seq, seq_k)."""
        return self.from_start(q, k.shape[2], start).to(self.dtype)


class OffsetScores(Bias):
    """Queries are at start..start+seq-1, each among the keys, at 0..seq_k-1: a cache of a fixed size."""

    def forward(self, scores: Tensor, start: Tensor) -> Tensor:
        """Return biased scores: (batch, heads, seq, seq_k), start (1,) -> as scores."""
        return added(scores, self.from_start(scores, scores.shape[3], start))


class OffsetQueryScores(Bias):
    """Queries are at start..start+seq-1, each among the keys, at 0..seq_k-1, and their features count."""

    def forward(self, q: Tensor, scores: Tensor, start: Tensor) -> Tensor:
        """Return biased scores: (batch, heads, seq, dim), (batch, heads, seq, seq_k), start (1,) -> as scores."""
        check_same(q.shape[2], scores.shape[2])
        return added(scores, self.from_start(q, scores.shape[3], start))


class OffsetValues(Bias):
    """Queries are at start..start+seq-1, each among the keys, at 0..seq_k-1, whose probabilities count."""

    def forward(self, p: Tensor, start: Tensor) -> Tensor:
        """Return the weighted rows: (batch, heads, seq, seq_k), start (1,) -> (batch, heads, seq, head_dim)."""
        return self.from_start(p, p.shape[3], start).to(self.dtype)


class ExplicitBias(Bias):
    """Positions of each query and each key of each sequence."""

    def forward(self, positions_q: Tensor, positions_k: Tensor) -> Tensor:
        """Return the bias: (batch, seq), (batch, seq_k) -> (batch, heads, seq, seq_k)."""
        return self.at(positions_q, positions_k, None).to(self.dtype)


class ExplicitScores(Bias):
    """Positions of each query and each key of each sequence."""

    def forward(self, scores: Tensor, positions_q: Tensor, positions_k: Tensor) -> Tensor:
        """Return biased scores: (batch, heads, seq, seq_k), (batch, seq), (batch, seq_k) -> as scores."""
        check_same(scores.shape[2], positions_q.shape[1])
        check_same(scores.shape[3], positions_k.shape[1])
        return added(scores, self.at(positions_q, positions_k, scores))


class ExplicitQuery(Bias):
    """Positions of each query and each key of each sequence; the features of queries count."""

    def forward(self, q: Tensor, positions_q: Tensor, positions_k: Tensor) -> Tensor:
        """Return the bias: (batch, heads, seq, dim), (batch, seq), (batch, seq_k) -> (batch, heads, seq, seq_k)."""
        check_same(q.shape[2], positions_q.shape[1])
        return self.at(positions_q, positions_k, q).to(self.dtype)


class ExplicitQueryScores(Bias):
    """Positions of each query and each key of each sequence; the features of queries count."""

    def forward(self, q: Tensor, scores: Tensor, positions_q: Tensor, positions_k: Tensor) -> Tensor:
        """Return biased scores: q, (batch, heads, seq, seq_k), (batch, seq), (batch, seq_k) -> as scores."""
        check_same(q.shape[2], scores.shape[2])
        check_same(scores.shape[2], positions_q.shape[1])
        check_same(scores.shape[3], positions_k.shape[1])
        return added(scores, self.at(positions_q, positions_k, q))


class MaskBias(Bias):
    """Positions of keys counted from an attention mask, of which queries are the last."""

    def forward(self, q: Tensor, mask: Tensor) -> Tensor:
        """Return the bias: (batch, heads, seq, dim), mask (batch, seq_k) of 1 and 0 -> (batch, heads, seq, seq_k)."""
        return self.from_mask(mask, q).to(self.dtype)


class FromMaskScores(Bias):
    """Positions of keys counted from an attention mask, of which queries are the last."""

    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Return biased scores: (batch, heads, seq, seq_k), mask (batch, seq_k) of 1 and 0 -> as scores."""
        check_same(scores.shape[3], mask.shape[1])
        return added(scores, self.from_mask(mask, scores))


class FromMaskQueryScores(Bias):
    """Positions of keys counted from an attention mask, of which queries are the last; their features count."""

    def forward(self, q: Tensor, scores: Tensor, mask: Tensor) -> Tensor:
        """Return biased scores: q, (batch, heads, seq, seq_k), mask (batch, seq_k) of 1 and 0 -> as scores."""
        check_same(q.shape[2], scores.shape[2])
        check_same(scores.shape[3], mask.shape[1])
        return added(scores, self.from_mask(mask, q))


def forward_of(form: str, where: Where) -> type[Bias]:
    """Return the module whose forward takes the tensors of a form, and what positions are given by.

    Args:
        form: "bias", "scores" or "values"; with "query_" before where the features of queries count.
        where: How a call gives positions.
    """
    if form == "values":
        return where.pick(implicit=ImplicitValues, offset=OffsetValues)
    if form == "query_scores":
        return where.pick(
            implicit=ImplicitQueryScores,
            offset=OffsetQueryScores,
            explicit=ExplicitQueryScores,
            mask=FromMaskQueryScores,
        )
    if form == "scores":
        return where.pick(implicit=ImplicitScores, offset=OffsetScores, explicit=ExplicitScores, mask=FromMaskScores)
    explicit = ExplicitQuery if form == "query_bias" else ExplicitBias
    return where.pick(implicit=ImplicitBias, offset=OffsetBias, explicit=explicit, mask=MaskBias)
