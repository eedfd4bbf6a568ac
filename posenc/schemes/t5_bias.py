"""The relative position bias of T5 (arXiv:1910.10683): a learned number for each head and each bucket of distances.

The first half of the buckets hold one distance each, the others grow geometrically up to max_distance; encoders have as
many buckets again for keys after a query. transformers (`T5Attention._relative_position_bucket`) takes a float32
logarithm, which misplaces a distance that lies on an edge exactly: with 48 causal buckets up to 81, it puts
54 = 24 * 1.5^2 into 39, not 40. T5's own 32 buckets up to 128 have no such distance. Here integers decide, once.
"""

from functools import partial
from typing import Annotated, Literal

import numpy as np
import torch

from posenc import reasons
from posenc.encoding import Encoding
from posenc.formulas.t5_bias import reference
from posenc.memory import check_room
from posenc.ports import Integers
from posenc.ranges import above, minimum
from posenc.scheme import Unsupported, scheme
from posenc.sources.bias import encode as bias
from posenc.sources.bias.by_distance import ByDistance
from posenc.spec import Spec
from posenc.weights import Weights


@scheme(
    "t5_bias",
    paper="arXiv:1910.10683",
    formula="bias[h, i, j] = table[bucket(j - i), h]; the first half of buckets hold one distance each, then they grow",
    models=("T5", "mT5", "UMT5", "LongT5", "Switch Transformers", "Pix2Struct", "UDOP"),
    samples=({"heads": 4, "max_distance": 64}, {"heads": 2, "bidirectional": False}),
    unsupported=Unsupported(methods=reasons.BIAS),
)
def t5_bias(
    spec: Spec,
    *,
    heads: Annotated[int | None, minimum(1)] = None,
    num_buckets: int = 32,
    max_distance: int = 128,
    bidirectional: bool = True,
    output: Literal["bias", "scores"] = "bias",
    weights: str | None = None,
    key: str | None = None,
    std: Annotated[float, above(0)] = 1.0,
) -> Encoding:
    """A learned bias of attention scores for each head and each bucket of distances, as in T5, mT5 and UMT5.

    Args:
        heads: columns of the table [default: those of the weights, or 8].
        num_buckets: rows of the table; an even number where keys after a query have half of them.
        max_distance: the last bucket begins before it, and has all distances beyond; above half of num_buckets.
        bidirectional: keys after a query have buckets of their own, as in encoders; else they share the first, as in
            decoders.
        output: "bias" itself, or "scores" with it.
        weights: a file of weights or a model's folder with a trained table (num_buckets, heads).
        key: its name, as encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight.
        std: standard deviation of a random table, where no weights are given.
    """
    single, growing = _shares(num_buckets, max_distance, bidirectional)
    sizes = {"num_buckets": num_buckets, "heads": heads}
    table = Weights(weights, key, std).table(sizes, (num_buckets, 8)).to(getattr(torch, spec.angle_dtype))
    last = edges(single, growing, max_distance)[-1]
    check_room("a table", (2 * last + 1, table.shape[1]), spec.angle_dtype)
    past = buckets(np.arange(last + 1), single, growing, max_distance)
    future = past[1:] + single + growing if bidirectional else past[:0]
    rows = table[torch.from_numpy(np.concatenate([past[::-1], future]))].contiguous()
    formula = partial(reference, weight=table.double().numpy(), far=max_distance, bidirectional=bidirectional)
    return bias.encode(ByDistance(rows, last), spec, bias.BiasPorts(output, table.shape[1]), formula=formula)


def _shares(num_buckets: int, max_distance: int, bidirectional: bool) -> tuple[int, int]:
    """Return how many buckets of a direction hold one distance, and how many grow."""
    if num_buckets < 2 or (bidirectional and (num_buckets % 2 or num_buckets < 4)):
        expected = "an even number of at least 4, a half for each direction" if bidirectional else "at least 2"
        raise ValueError(f"num_buckets must be {expected}, got {num_buckets}")
    direction = num_buckets // 2 if bidirectional else num_buckets
    single, half = direction // 2, num_buckets // 2
    if max_distance <= half:  # the logarithm takes any above `single`, but then buckets outnumber distances
        raise ValueError(f"max_distance must be above {half}, half of num_buckets, got {max_distance}")
    return single, direction - single


def edges(single: int, growing: int, far: int) -> list[int]:
    """Return the first distance of each bucket that grows: single * (far / single)^(i / growing), rounded up.

    To the power of `growing` all of that are integers, which decide.
    """
    firsts = []
    for i in range(growing):
        first = max(single, int(single * (far / single) ** (i / growing)) - 2)
        while first**growing * single**i < far**i * single**growing:
            first += 1
        firsts.append(first)
    return firsts


def buckets(distance: Integers, single: int, growing: int, far: int) -> Integers:
    """Return the bucket of each distance: those below `single` have one each, as edges say of the others."""
    grown = single - 1 + np.searchsorted(edges(single, growing, far), distance, side="right")
    return np.where(distance < single, distance, grown)
