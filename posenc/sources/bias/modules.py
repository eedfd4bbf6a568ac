"""Modules that return a bias, or add it to scores: one for each way to give positions.

A source of biases is a module with two methods:

    last(keys, seq)       keys (seq_k,), at 0..seq_k-1    queries are the last of them    (1, heads, seq, seq_k)
    between(query, key)   (batch, seq, 1), and            any positions                   (batch, heads, seq, seq_k)
                          (batch, 1, seq_k) or (seq_k,)

What a bias costs is what its queries take: one query takes a row, and none of the square that it is the last row of.
Those of a bias that depends on the queries themselves are in `query_bias`.
"""

from typing import Final, Protocol

import torch
from torch import Tensor, nn

from posenc.arithmetic import added
from posenc.encoding import Source
from posenc.lookup import check_same, counted, following, inside
from posenc.where.places import CountedPlaces, StoredPlaces


class BiasSource(Source, Protocol):
    """Biases of queries and keys, by their positions."""

    def last(self, keys: Tensor, seq: int) -> Tensor:
        """Return the bias of the last keys, as queries: (seq_k,) -> (1, heads, seq, seq_k)."""

    def between(self, query: Tensor, key: Tensor) -> Tensor:
        """Return the bias of positions: (batch, seq, 1), (batch, 1, seq_k) or (seq_k,) -> as `last`."""


class Bias(nn.Module):
    """A bias, returned or added to scores: what the ways to give positions share."""

    offset: Final[int]  # where positions begin that a mask counts

    def __init__(
        self, source: BiasSource, places: CountedPlaces | StoredPlaces, dtype: torch.dtype, offset: int
    ) -> None:
        super().__init__()
        self.source = source
        self.places = places
        self.dtype = dtype
        self.offset = offset

    def last(self, seq: int, seq_k: int, device: torch.device) -> Tensor:
        """Return the bias of queries that are the last of the keys."""
        bias: Tensor = self.source.last(self.places.keys(seq_k, device), seq)
        return bias

    def from_start(self, seq: int, seq_k: int, start: Tensor) -> Tensor:
        """Return the bias of queries from a position on, among keys from 0 on."""
        keys = self.places.keys(seq_k, start.device)
        bias: Tensor = self.source.between(following(keys, start, seq), keys)
        return bias

    def explicit(self, positions_q: Tensor, positions_k: Tensor) -> Tensor:
        """Return the bias of queries and keys at these positions."""
        bias: Tensor = self.source.between(self.places(positions_q).unsqueeze(2), self.places(positions_k).unsqueeze(1))
        return bias

    def from_mask(self, mask: Tensor, seq: int) -> Tensor:
        """Return the bias of keys that a mask counts, of which the queries are the last."""
        key = self.places(counted(mask, self.offset))
        at = torch.arange(seq, device=mask.device) + (mask.shape[1] - seq)  # no slice: that is kept to its range
        query = key.index_select(1, inside(at, mask.shape[1]))
        bias: Tensor = self.source.between(query.unsqueeze(2), key.unsqueeze(1))
        return bias


class Implicit(Bias):
    """Queries are the last of the keys."""

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the bias: (batch, heads, seq, dim), (batch, kv_heads, seq_k, dim) -> (1, heads, seq, seq_k)."""
        return self.last(q.shape[2], k.shape[2], q.device).to(self.dtype)


class ImplicitScores(Bias):
    """Queries are the last of the keys."""

    def forward(self, scores: Tensor) -> Tensor:
        """Return biased scores: (batch, heads, seq, seq_k) -> the same."""
        return added(scores, self.last(scores.shape[2], scores.shape[3], scores.device))


class Offset(Bias):
    """Queries are at start..start+seq-1, each among the keys, at 0..seq_k-1: a cache of a fixed size."""

    def forward(self, q: Tensor, k: Tensor, start: Tensor) -> Tensor:
        """Return the bias: (batch, heads, seq, dim), (batch, kv_heads, seq_k, dim), (1,) -> (1, heads, seq, seq_k)."""
        return self.from_start(q.shape[2], k.shape[2], start).to(self.dtype)


class OffsetScores(Bias):
    """Queries are at start..start+seq-1, each among the keys, at 0..seq_k-1: a cache of a fixed size."""

    def forward(self, scores: Tensor, start: Tensor) -> Tensor:
        """Return biased scores: (batch, heads, seq, seq_k), start (1,) -> as scores."""
        return added(scores, self.from_start(scores.shape[2], scores.shape[3], start))


class Explicit(Bias):
    """Positions of each query and each key of each sequence."""

    def forward(self, positions_q: Tensor, positions_k: Tensor) -> Tensor:
        """Return the bias: (batch, seq), (batch, seq_k) -> (batch, heads, seq, seq_k)."""
        return self.explicit(positions_q, positions_k).to(self.dtype)


class ExplicitScores(Bias):
    """Positions of each query and each key of each sequence."""

    def forward(self, scores: Tensor, positions_q: Tensor, positions_k: Tensor) -> Tensor:
        """Return biased scores: (batch, heads, seq, seq_k), (batch, seq), (batch, seq_k) -> as scores."""
        check_same(scores.shape[2], positions_q.shape[1])
        check_same(scores.shape[3], positions_k.shape[1])
        return added(scores, self.explicit(positions_q, positions_k))


class FromMask(Bias):
    """Positions of keys counted from an attention mask, of which queries are the last."""

    def forward(self, q: Tensor, mask: Tensor) -> Tensor:
        """Return the bias: (batch, heads, seq, dim), mask (batch, seq_k) of 1 and 0 -> (batch, heads, seq, seq_k)."""
        return self.from_mask(mask, q.shape[2]).to(self.dtype)


class FromMaskScores(Bias):
    """Positions of keys counted from an attention mask, of which queries are the last."""

    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Return biased scores: (batch, heads, seq, seq_k), mask (batch, seq_k) of 1 and 0 -> as scores."""
        check_same(scores.shape[3], mask.shape[1])
        return added(scores, self.from_mask(mask, scores.shape[2]))


WAYS: dict[str, tuple[type[Bias], type[Bias]]] = {
    "implicit": (Implicit, ImplicitScores),
    "offset": (Offset, OffsetScores),
    "explicit": (Explicit, ExplicitScores),
    "mask": (FromMask, FromMaskScores),
}
"""The module that returns a bias, and the one that adds it to scores."""
