"""Biases on attention scores that depend on the queries: a module for each way to give positions.

A source of them is a module with two methods, and what a `Source` says of itself:

    last(q, keys)            queries are the last of keys, (seq_k,), which are at 0..seq_k-1
    between(q, query, key)   positions of queries, (1, seq, 1) or (seq, 1), and of keys, (seq_k,)

Both take q (batch, heads, seq, head_dim) and return (batch, heads, seq, seq_k).
"""

from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor, nn

from posenc.arithmetic import added
from posenc.call import Formula
from posenc.encoding import Encoding, Source
from posenc.lookup import check_same, following
from posenc.maker import Join, encoding
from posenc.ports import BATCH, SEQ, Axis, Port, fixed
from posenc.sources.bias import encode as bias
from posenc.spec import Spec
from posenc.where import queries_and_keys
from posenc.where.places import CountedPlaces, StoredPlaces

PLACES = "models count places, padding too; use --positions implicit or offset"
"""Why positions are given in no other way."""
LARGEST = 8.0
"""What numbers of q are at most, for the bound of what their products are off by: normal ones never are."""
PRODUCTS = "a product of a query and a row is a sum, each part of which is rounded"
"""Why a graph of such products is not half_safe."""


class QueryBiasSource(Source, Protocol):
    """Biases of queries and keys, by the queries and their positions."""

    def last(self, q: Tensor, keys: Tensor) -> Tensor:
        """Return the bias of the last keys, as queries: q, (seq_k,) -> (batch, heads, seq, seq_k)."""

    def between(self, q: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Return the bias of positions: q, (1, seq, 1) or (seq, 1), (seq_k,) -> (batch, heads, seq, seq_k)."""


class QueryBias(nn.Module):
    """A bias that depends on queries, returned or added to scores: what the ways to give positions share."""

    def __init__(self, source: QueryBiasSource, places: CountedPlaces | StoredPlaces, dtype: torch.dtype) -> None:
        super().__init__()
        self.source = source
        self.places = places
        self.dtype = dtype

    def last(self, q: Tensor, seq_k: int) -> Tensor:
        """Return the bias of queries that are the last of the keys."""
        bias: Tensor = self.source.last(q, self.places.keys(seq_k, q.device))
        return bias

    def from_start(self, q: Tensor, seq_k: int, start: Tensor) -> Tensor:
        """Return the bias of queries from a position on, among keys from 0 on."""
        keys = self.places.keys(seq_k, q.device)
        bias: Tensor = self.source.between(q, following(keys, start, q.shape[2]), keys)
        return bias


class Implicit(QueryBias):
    """Queries are the last of the keys."""

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the bias: (batch, heads, seq, dim), (batch, kv_heads, seq_k, dim) -> (batch, heads, seq, seq_k)."""
        return self.last(q, k.shape[2]).to(self.dtype)


class ImplicitScores(QueryBias):
    """Queries are the last of the keys."""

    def forward(self, q: Tensor, scores: Tensor) -> Tensor:
        """Return biased scores: (batch, heads, seq, dim), (batch, heads, seq, seq_k) -> as scores."""
        check_same(q.shape[2], scores.shape[2])
        return added(scores, self.last(q, scores.shape[3]))


class Offset(QueryBias):
    """Queries are at start..start+seq-1, each among the keys, at 0..seq_k-1: a cache of a fixed size."""

    def forward(self, q: Tensor, k: Tensor, start: Tensor) -> Tensor:
        """Return the bias: q, k (batch, kv_heads, seq_k, dim), start (1,) -> (batch, heads, seq, seq_k)."""
        return self.from_start(q, k.shape[2], start).to(self.dtype)


class OffsetScores(QueryBias):
    """Queries are at start..start+seq-1, each among the keys, at 0..seq_k-1: a cache of a fixed size."""

    def forward(self, q: Tensor, scores: Tensor, start: Tensor) -> Tensor:
        """Return biased scores: q, scores (batch, heads, seq, seq_k), start (1,) -> as scores."""
        check_same(q.shape[2], scores.shape[2])
        return added(scores, self.from_start(q, scores.shape[3], start))


WAYS: dict[str, tuple[type[QueryBias], type[QueryBias]]] = {
    "implicit": (Implicit, ImplicitScores),
    "offset": (Offset, OffsetScores),
}
"""The module that returns a bias, and the one that adds it to scores."""


def encode(source: QueryBiasSource, spec: Spec, kind: bias.Kind, head_dim: int, *, formula: Formula) -> Encoding:
    """Return the encoding that a source of biases by queries makes with the positions and the output asked for.

    kind: "bias", itself, or "scores", biased. head_dim: features of a query. A baked one refuses positions from max_len
    on; a dynamic one has no end. formula: a call -> the output in float64.
    """
    end = spec.max_len if spec.mode == "baked" else None
    scores, places = kind == "scores", CountedPlaces() if end is None else StoredPlaces(end)
    module = WAYS[str(spec.positions)][scores](source, places, getattr(torch, spec.torch_dtype))
    where = queries_and_keys(spec, end)
    values, output = _ports(spec, scores, head_dim, where.places[0])
    return encoding(spec, where, bias.claims(source, spec), Join("bias", module, values, (output,), scores), formula)


def _ports(spec: Spec, scores: bool, head_dim: int, keys: Axis) -> tuple[tuple[Port, ...], Port]:
    """Return what goes in, q with k or scores; and what comes out."""
    heads = Axis("heads", "heads")
    q = Port("q", (BATCH, heads, SEQ, fixed(head_dim)), spec.torch_dtype)
    k = Port("k", (BATCH, Axis("kv_heads", "heads"), keys, fixed(head_dim)), spec.torch_dtype)
    square = Port("scores", (BATCH, heads, SEQ, keys), spec.torch_dtype)
    output = replace(square, name=bias.BIASED if scores else "bias")
    return (q, square if scores else k), output
