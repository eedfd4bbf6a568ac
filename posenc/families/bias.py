"""Biases on attention scores: a number for each head, query and key, returned or added to scores.

A source of biases is a module with two methods:

    last(keys, seq)       keys (seq_k,), at 0..seq_k-1    queries are the last of them    (1, heads, seq, seq_k)
    between(query, key)   (batch, seq), (batch, seq_k)    any positions                   (batch, heads, seq, seq_k)

What a bias costs is what its queries take: one query takes a row, and none of the square that it is the last row of.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, Protocol

import torch
from torch import Tensor, nn

from posenc.call import queries_and_keys
from posenc.encoding import CaseLike, Encoding, NoTables, Probes, Tables, Tolerance, rounding
from posenc.families.places import CountedPlaces, StoredPlaces
from posenc.families.position_ports import start_port
from posenc.lookup import check_same, counted, inside
from posenc.ports import (
    BATCH,
    SEQ,
    Array,
    Axis,
    Feeds,
    Floats,
    Integers,
    Mask,
    Port,
    Positions,
    Values,
    carrying,
    fixed,
)
from posenc.spec import Spec

Kind = Literal["bias", "scores"]
KEYS = Axis("seq_k", "length")
LAST_QUERIES = Probes(pairs=("1,1", "1,n", "n,n", "n,past+n"))
"""There are as many keys as queries, or more: a query is itself among the keys."""
Formula = Callable[[tuple[Array, ...], Integers, Integers], Floats]
"""Values that go in, positions of queries (1 or batch, seq) and of keys -> the bias in float64."""


class BiasSource(Protocol):
    """Biases of queries and keys, by their positions."""

    @property
    def probes(self) -> Probes:
        """What must be tried of it, beside how lengths meet."""

    @property
    def half_safe(self) -> str:
        """Why it is not, or nothing; see Encoding."""

    def last(self, keys: Tensor, seq: int) -> Tensor:
        """Return the bias of the last keys, as queries: (seq_k,) -> (1, heads, seq, seq_k)."""

    def between(self, query: Tensor, key: Tensor) -> Tensor:
        """Return the bias of positions: (batch, seq), (batch, seq_k) -> (batch, heads, seq, seq_k)."""

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far a bias may be from the float64 reference, at positions up to one."""

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph's bias may be from that of the eager module."""


# ---- ways to give positions ------------------------------------------------------------------------------------------


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
        """Return the bias of queries from a position on, of keys from 0 on."""
        query = self.places(start + torch.arange(seq, device=start.device))
        bias: Tensor = self.source.between(query.unsqueeze(0), self.places.keys(seq_k, start.device).unsqueeze(0))
        return bias

    def explicit(self, positions_q: Tensor, positions_k: Tensor) -> Tensor:
        """Return the bias of queries and keys at these positions."""
        bias: Tensor = self.source.between(self.places(positions_q), self.places(positions_k))
        return bias

    def from_mask(self, mask: Tensor, seq: int) -> Tensor:
        """Return the bias of keys that a mask counts, of which the queries are the last."""
        key = self.places(counted(mask, self.offset))
        at = torch.arange(seq, device=mask.device) + (mask.shape[1] - seq)  # no slice: that is kept to its range
        bias: Tensor = self.source.between(key.index_select(1, inside(at, mask.shape[1])), key)
        return bias

    def added(self, scores: Tensor, bias: Tensor) -> Tensor:
        """Add a bias to scores, in what the bias is in, and round to the dtype of scores last."""
        return (scores.to(bias.dtype) + bias).to(scores.dtype)


class Implicit(Bias):
    """Queries are the last of the keys."""

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the bias: (batch, heads, seq, dim), (batch, kv_heads, seq_k, dim) -> (1, heads, seq, seq_k)."""
        return self.last(q.shape[2], k.shape[2], q.device).to(self.dtype)


class ImplicitScores(Bias):
    """Queries are the last of the keys."""

    def forward(self, scores: Tensor) -> Tensor:
        """Return biased scores: (batch, heads, seq, seq_k) -> the same."""
        return self.added(scores, self.last(scores.shape[2], scores.shape[3], scores.device))


class Offset(Bias):
    """Queries are at start..start+seq-1, keys at 0..seq_k-1: a cache of a fixed size."""

    def forward(self, q: Tensor, k: Tensor, start: Tensor) -> Tensor:
        """Return the bias: (batch, heads, seq, dim), (batch, kv_heads, seq_k, dim), (1,) -> (1, heads, seq, seq_k)."""
        return self.from_start(q.shape[2], k.shape[2], start).to(self.dtype)


class OffsetScores(Bias):
    """Queries are at start..start+seq-1, keys at 0..seq_k-1: a cache of a fixed size."""

    def forward(self, scores: Tensor, start: Tensor) -> Tensor:
        """Return biased scores: (batch, heads, seq, seq_k), start (1,) -> as scores."""
        return self.added(scores, self.from_start(scores.shape[2], scores.shape[3], start))


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
        return self.added(scores, self.explicit(positions_q, positions_k))


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
        return self.added(scores, self.from_mask(mask, scores.shape[2]))


WAYS: dict[str, tuple[type[Bias], type[Bias]]] = {
    "implicit": (Implicit, ImplicitScores),
    "offset": (Offset, OffsetScores),
    "explicit": (Explicit, ExplicitScores),
    "mask": (FromMask, FromMaskScores),
}
"""The module that returns a bias, and the one that adds it to scores."""


# ---- the encoding ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Output:
    """What a bias is for: kind "bias", itself, or "scores", biased; heads of queries."""

    kind: Kind
    heads: int

    def __post_init__(self) -> None:
        if self.heads < 1:
            raise ValueError(f"heads must be at least 1, got {self.heads}")


def encode(source: BiasSource, spec: Spec, output: Output, *, formula: Formula) -> Encoding:
    """Return the encoding that a source of biases makes with the positions and the output asked for.

    A baked one refuses positions from max_len on; a dynamic one has no end.
    formula: the bias in float64.
    """
    end = spec.max_len if spec.mode == "baked" else None
    scores = output.kind == "scores"
    inputs = ports(spec, output, end)
    kind = WAYS[str(spec.positions)][scores]
    places = CountedPlaces() if end is None else StoredPlaces(end)
    module = kind(source, places, getattr(torch, spec.torch_dtype), spec.position_offset)
    result = _result(spec, output)

    def reference(feeds: Feeds, at: Integers | None = None) -> dict[str, Array]:
        values = tuple(feeds[port.name] for port in carrying(inputs, Values))
        bias = formula(values, *queries_and_keys(inputs, feeds))  # every row: exporters sample them
        return {result.name: values[0] + bias if scores else bias}

    return Encoding(
        family="bias",
        module=module,
        inputs=inputs,
        outputs=(result,),
        reference=reference,
        tolerance=partial(_tolerance, source, rounding(spec, scores)),
        eager_tolerance=lambda case: source.eager_tolerance(case.max_position),
        tables=no_tables,
        positions=spec.positions,
        end=end,
        probes=replace(source.probes, pairs=_pairs(spec)),
        half_safe=source.half_safe,
    )


def ports(spec: Spec, output: Output, end: int | None) -> tuple[Port, ...]:
    """Return what goes in: q and k, of which the shapes count alone, or scores; and what positions are given by."""
    counts = spec.positions in ("implicit", "offset")
    keys = replace(KEYS, most=end) if counts else KEYS
    heads, dim = fixed(output.heads, "heads"), Axis("head_dim", "features")
    q = Port("q", (BATCH, heads, SEQ, dim), spec.torch_dtype)
    k = Port("k", (BATCH, Axis("kv_heads", "heads"), keys, dim), spec.torch_dtype)
    shapes: dict[str | None, tuple[Port, ...]] = {"implicit": (q, k), "offset": (q, k), "mask": (q,), "explicit": ()}
    values = shapes[spec.positions]
    if output.kind == "scores":
        values = (Port("scores", (BATCH, heads, SEQ, keys), spec.torch_dtype),)
    ways: dict[str | None, tuple[Port, ...]] = {
        "implicit": (),
        "offset": (start_port(end),),
        "explicit": (
            Port("positions_q", (BATCH, SEQ), "int64", Positions(end)),
            Port("positions_k", (BATCH, KEYS), "int64", Positions(end)),
        ),
        "mask": (Port("attention_mask", (BATCH, KEYS), "int64", Mask(offset=spec.position_offset, end=end)),),
    }
    return (*values, *ways[spec.positions])


def _result(spec: Spec, output: Output) -> Port:
    alike = output.kind == "bias" and spec.positions in ("implicit", "offset")
    axes = (fixed(1, "batch") if alike else BATCH, fixed(output.heads, "heads"), SEQ, KEYS)
    return Port("biased" if output.kind == "scores" else "bias", axes, spec.torch_dtype)


def _tolerance(source: BiasSource, rounded: Tolerance, case: CaseLike) -> Tolerance:
    return source.tolerance(case.max_position).plus(rounded)


def _pairs(spec: Spec) -> tuple[Literal["1,1", "1,n", "n,1", "n,n", "n,m", "n,past+n"], ...]:
    """Return how queries and keys meet: where queries are the last of the keys, there are no more of them."""
    return LAST_QUERIES.pairs if spec.positions in ("implicit", "mask") else Probes().pairs


def no_tables() -> Tables:
    """Raise NoTables: what is stored goes by distances, not by positions."""
    raise NoTables("what is stored goes by distances, not by positions")
