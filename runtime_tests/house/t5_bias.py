"""The relative position bias of T5 (arXiv:1910.10683): a learned number for each head and each bucket of distances.

Half of the buckets hold one distance each, the others grow geometrically up to max_distance; encoders have buckets of
their own for what comes after. transformers (`T5Attention._relative_position_bucket`) takes a float32 logarithm, which
misplaces a distance that lies on an edge exactly: of 48 buckets up to 81, causal, it puts 54 = 24 * 1.5^2 into 39,
not 40. Of T5's own 32 up to 128 it misplaces none. Here integers decide, once, when the table is made.
"""

from functools import partial
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from posenc.call import Call, call_of
from posenc.encoding import SAME_BITS, Encoding, NoTables, Probes, Tables, rounding
from posenc.lookup import exactly, leading, take
from posenc.ports import BATCH, SEQ, Array, Axis, Feeds, Floats, Integers, Port, fixed
from posenc.scheme import Unsupported, scheme
from posenc.spec import Spec

HEAD_DIM = 16
"""Features of a head: none of them is looked at."""
EDGE = 14
"""Here a bucket begins, of 32 for both directions, up to 64: 8 * 8^(2 / 8) is 13.45."""


class T5Bias(nn.Module):
    """The bias of queries that are the last of the keys, from tables of buckets by distance.

    cut: the tables have a row for each key, and more keys are refused; else the last row holds for all beyond.
    """

    past: Tensor  # (distances, 1): the bucket of a key so far before its query
    future: Tensor  # (distances, 1): after it
    cut: Final[bool]

    def __init__(self, past: Integers, future: Integers, weight: Tensor, *, cut: bool) -> None:
        super().__init__()
        self.cut = cut
        self.weight = nn.Parameter(weight)
        self.register_buffer("past", torch.from_numpy(past)[:, None], persistent=False)
        self.register_buffer("future", torch.from_numpy(future)[:, None], persistent=False)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the bias: (batch, heads, seq, dim), (batch, heads, seq_k, dim) -> (1, heads, seq, seq_k)."""
        seq, seq_k = q.shape[2], k.shape[2]
        query = (seq_k - seq) + torch.arange(seq, device=q.device)
        relative = torch.arange(seq_k, device=q.device) - query.unsqueeze(1)
        distance = relative.abs()
        past, future = self.past, self.future
        if self.cut:
            past, future = exactly(leading(past, seq_k), seq_k)[0], exactly(leading(future, seq_k), seq_k)[0]
        else:
            distance = distance.clamp(max=past.shape[0] - 1)
        before, after = take(past, distance, seq_k), take(future, distance, seq_k)
        bucket = torch.where(relative > 0, after.squeeze(-1), before.squeeze(-1))
        rows = take(self.weight, bucket, self.weight.shape[0])  # (seq, seq_k, heads)
        return rows.permute(2, 0, 1).unsqueeze(0).to(q.dtype)


def with_an_edge_moved(module: T5Bias) -> T5Bias:
    """Return the wrong twin of a module, in its place: EDGE is in the bucket of the distance before it."""
    assert module.past[EDGE] == module.past[EDGE - 1] + 1
    module.past[EDGE] = module.past[EDGE - 1]
    return module


@scheme(
    "t5_bias",
    paper="arXiv:1910.10683",
    samples=({"heads": 4, "max_distance": 64}, {"heads": 2, "bidirectional": False}),
    unsupported=Unsupported(
        methods={"trig": "a bias has no sines; leave --method trig out"},
        positions={
            "offset": "queries are the last of the keys; use --positions implicit",
            "explicit": "a bias is of the distance of places in a row; use --positions implicit",
            "mask": "padding moves queries and keys alike; use --positions implicit",
        },
    ),
)
def t5_bias(
    spec: Spec, *, heads: int = 8, num_buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
) -> Encoding:
    """A learned bias of attention scores for each head and each bucket of distances, drawn at random.

    heads: columns of the table.
    num_buckets: rows of the table, a multiple of four.
    max_distance: distances from here on share the last bucket.
    bidirectional: keys after a query have buckets of their own, as in encoders; else they share the first.
    """
    single = num_buckets // 4 if bidirectional else num_buckets // 2
    if heads < 1 or num_buckets < 4 or num_buckets % 4 or max_distance <= single:
        values = f"{heads} heads, {num_buckets} buckets up to {max_distance}"
        raise ValueError(f"expected heads, a multiple of four buckets, and distances beyond {single}, got {values}")
    baked = spec.mode == "baked"
    past = by_integers(spec.max_len if baked else max_distance + 1, single, max_distance)
    future = past + 2 * single if bidirectional else np.zeros_like(past)
    weight = torch.randn(num_buckets, heads).to(getattr(torch, spec.angle_dtype))
    module = T5Bias(past, future, weight, cut=baked)
    formula = partial(reference, weight=weight.double().numpy(), far=max_distance, bidirectional=bidirectional)
    return _encoding(spec, module, heads, formula, max_distance)


def _encoding(spec: Spec, module: T5Bias, heads: int, formula: "partial[Floats]", far: int) -> Encoding:
    end = spec.max_len if module.cut else None
    head, dim, seq_k = fixed(heads, "heads"), fixed(HEAD_DIM), Axis("seq_k", "length", most=end)
    q = Port("q", (BATCH, head, SEQ, dim), spec.torch_dtype)
    k = Port("k", (BATCH, head, seq_k, dim), spec.torch_dtype)
    bias = Port("bias", (fixed(1, "batch"), head, SEQ, seq_k), spec.torch_dtype)

    def of_feeds(feeds: Feeds, at: Integers | None = None) -> dict[str, Array]:
        return {bias.name: formula(call_of(spec, (q, k), feeds, None))}  # every row: exporters sample them

    return Encoding(
        family="bias",
        module=module,
        inputs=(q, k),
        outputs=(bias,),
        reference=of_feeds,
        tolerance=lambda case: rounding(spec, add=False),
        eager_tolerance=lambda case: SAME_BITS,
        tables=no_tables,
        positions=spec.positions,
        end=end,
        probes=Probes(lengths=(far, far + 1, far + 2), pairs=("1,1", "1,n", "n,n", "n,past+n")),
    )


def by_integers(distances: int, single: int, far: int) -> Integers:
    """Return the bucket of each distance: those below `single` have one each, and as many others reach up to `far`.

    Of these, number i begins at single * (far / single)^(i / single); to the power of `single`, all are integers.
    """
    buckets = np.arange(distances)
    for distance in range(single, distances):
        i = int(buckets[distance - 1]) - single + 1 if distance > single else 0
        while i < single and distance**single * single**i >= far**i * single**single:
            i += 1
        buckets[distance] = single + i - 1
    return buckets


def reference(call: Call, *, weight: Floats, far: int, bidirectional: bool) -> Floats:
    """Return the bias from T5's formula, its logarithm in float64.

    On an edge the logarithm may come out a last digit below an integer: 1e-9 of a bucket is added.
    """
    q, k = call.values
    seq, seq_k = q.shape[2], k.shape[2]
    relative = np.arange(seq_k) - np.arange(seq_k - seq, seq_k)[:, None]
    buckets = len(weight) // 2 if bidirectional else len(weight)
    single = buckets // 2
    distance = np.abs(relative) if bidirectional else np.maximum(-relative, 0)
    growth = np.log(np.maximum(distance, single) / single) / np.log(far / single)
    large = np.minimum(single + np.floor(growth * (buckets - single) + 1e-9), buckets - 1)
    bucket = np.where(distance < single, distance, large).astype(np.int64)
    bucket += buckets * (relative > 0) if bidirectional else 0
    return np.moveaxis(weight[bucket], -1, 0)[None]


def no_tables() -> Tables:
    """Raise NoTables: what is stored goes by distances, not by positions."""
    raise NoTables("its tables are of distances, not of positions")
