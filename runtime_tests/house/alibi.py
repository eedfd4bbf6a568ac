"""Attention with linear biases (ALiBi, arXiv:2108.12409): a score loses with the distance from its query to its key.

    biased[b, h, i, j] = scores[b, h, i, j] - 2^(-8 (h + 1) / heads) * |seq_k - seq + i - j|

Queries are the last `seq` of `seq_k` keys: a cache holds those before them.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from posenc.call import Call, call_of
from posenc.encoding import SAME_BITS, Encoding, NoTables, Probes, Tables, Tolerance, eps, rounding
from posenc.lookup import exactly, leading, take
from posenc.ports import BATCH, SEQ, Array, Axis, Feeds, Floats, Integers, Port, fixed
from posenc.scheme import Unsupported, scheme
from posenc.sincos.rows import float64_error
from posenc.spec import Spec

LAST_QUERIES = Probes(pairs=("1,1", "1,n", "n,n", "n,past+n"))
"""There are as many keys as queries, or more: a query is itself among the keys."""


class StoredBias(nn.Module):
    """The bias of every distance below max_len and every head, computed in float64 and rounded once."""

    rows: Tensor  # (max_len, heads)
    roundings = 1

    def __init__(self, slopes: Floats, max_len: int, dtype: torch.dtype) -> None:
        super().__init__()
        rows = torch.from_numpy(-slopes * np.arange(max_len)[:, None]).to(dtype)
        self.register_buffer("rows", rows, persistent=False)

    def forward(self, distance: Tensor, seq_k: int) -> Tensor:
        """Return the biases at distances: (seq, seq_k) -> (heads, seq, seq_k)."""
        # CUDA refuses no index: what is beyond the table is refused by the number of its rows there, by Split.
        rows = exactly(leading(self.rows, seq_k), seq_k)[0]
        return take(rows, distance, self.rows.shape[0]).permute(2, 0, 1)


class ComputedBias(nn.Module):
    """The bias as a product of slope and distance, for as many keys as there are."""

    slopes: Tensor  # (heads, 1, 1)
    roundings = 3  # of the slope, of a distance from 2^24 on, of the product

    def __init__(self, slopes: Floats, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.from_numpy(slopes[:, None, None]).to(dtype), persistent=False)

    def forward(self, distance: Tensor, seq_k: int) -> Tensor:
        """Return the biases at distances: (seq, seq_k) -> (heads, seq, seq_k)."""
        return -(self.slopes * distance.to(self.slopes.dtype))


class Alibi(nn.Module):
    """Scores with the bias of their distance."""

    def __init__(self, source: StoredBias | ComputedBias) -> None:
        super().__init__()
        self.source = source

    def forward(self, scores: Tensor) -> Tensor:
        """Return biased scores: (batch, heads, seq, seq_k) -> the same."""
        seq, seq_k = scores.shape[2], scores.shape[3]
        query = self.first(seq, seq_k) + torch.arange(seq, device=scores.device)
        distance = (query.unsqueeze(1) - torch.arange(seq_k, device=scores.device)).abs()
        bias: Tensor = self.source(distance, seq_k)
        return (scores.to(bias.dtype) + bias).to(scores.dtype)

    def first(self, seq: int, seq_k: int) -> int:
        """Return the position of the first query."""
        return seq_k - seq


class CountedFromZero(Alibi):
    """The wrong twin: queries are the first of the keys. It is right where there are as many."""

    def first(self, seq: int, seq_k: int) -> int:
        """Return the position of the first query, wrong where there is a past."""
        return 0


def counted_from_zero(module: Alibi) -> Alibi:
    """Return the wrong twin of a module."""
    return CountedFromZero(module.source)


@scheme(
    "alibi",
    paper="arXiv:2108.12409",
    samples=({"heads": 4}, {"heads": 8}),
    unsupported=Unsupported(
        methods={"trig": "a bias has no sines; leave --method trig out"},
        positions={
            "offset": "queries are the last of the keys; use --positions implicit",
            "explicit": "a bias is of the distance of places in a row; use --positions implicit",
            "mask": "padding moves queries and keys alike; use --positions implicit",
        },
    ),
)
def alibi(spec: Spec, *, heads: int = 8) -> Encoding:
    """Attention scores minus a slope for each head, times the distance from query to key.

    heads: a power of two; the slopes are the powers of 2^(-8 / heads).
    """
    if heads < 1 or heads & (heads - 1):
        raise ValueError(f"heads must be a power of two, got {heads}")
    slopes, dtype = np.exp2(-8.0 / heads * np.arange(1, heads + 1)), getattr(torch, spec.angle_dtype)
    baked = spec.mode == "baked"
    source = StoredBias(slopes, spec.max_len, dtype) if baked else ComputedBias(slopes, dtype)
    end = spec.max_len if baked else None
    seq_k = Axis("seq_k", "length", most=end)
    scores = Port("scores", (BATCH, fixed(heads, "heads"), SEQ, seq_k), spec.torch_dtype)
    biased = replace(scores, name="biased")

    def reference(feeds: Feeds, at: Integers | None = None) -> dict[str, Array]:
        return {biased.name: formula(call_of(spec, (scores,), feeds, None), heads)}  # every row: exporters sample them

    return Encoding(
        family="bias",
        module=Alibi(source),
        inputs=(scores,),
        outputs=(biased,),
        reference=reference,
        tolerance=lambda case: allowed(spec, source.roundings, float(slopes[0]), case.max_position),
        eager_tolerance=lambda case: SAME_BITS,
        tables=partial(no_tables, baked),
        positions=spec.positions,
        end=end,
        probes=LAST_QUERIES,
    )


def formula(call: Call, heads: int) -> Floats:
    """Return biased scores in float64: the bias of every head, added to its scores."""
    (scores,) = call.values
    seq, seq_k = scores.shape[2:]
    query, key = np.arange(seq_k - seq, seq_k)[:, None], np.arange(seq_k)
    biased: Floats = scores.astype(np.float64)
    for head in range(heads):
        biased[:, head] -= 2.0 ** (-8.0 * (head + 1) / heads) * np.abs(query - key)
    return biased


def allowed(spec: Spec, roundings: int, steepest: float, farthest: int) -> Tolerance:
    """Return how far scores may be from the reference: each rounding costs half an eps of the largest bias."""
    largest = steepest * farthest
    off = Tolerance(atol=roundings * eps(spec.angle_dtype) / 2 * largest + float64_error(1) * largest)
    return off.plus(rounding(spec, add=True))


def no_tables(baked: bool) -> Tables:
    """Raise NoTables: what is stored goes by distances, not by positions."""
    raise NoTables("its table is of distances, not of positions" if baked else "nothing is stored but slopes")
