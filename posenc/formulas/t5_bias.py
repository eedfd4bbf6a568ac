"""The relative position bias of T5 (arXiv:1910.10683): a learned number for each head and each bucket of distances."""

import numpy as np

from posenc.call import Call
from posenc.ports import Array, Floats


def reference(call: Call, *, weight: Floats, far: int, bidirectional: bool) -> tuple[Array]:
    """Return the bias from T5's formula, its logarithm in float64.

    On an edge the logarithm may come out a last digit below an integer: 1e-9 of a bucket is added.
    """
    # (batch, 1, seq_k) - (batch, seq, 1)
    relative = call.key[:, None, :] - call.query[:, :, None]
    # half of the buckets are for keys ahead, where they count
    direction = len(weight) // 2 if bidirectional else len(weight)
    single = direction // 2
    distance = np.abs(relative) if bidirectional else np.maximum(-relative, 0)
    # distances up to `single` have a bucket each; the others share buckets that grow by a factor
    growth = np.log(np.maximum(distance, single) / single) / np.log(far / single)
    large = np.minimum(single + np.floor(growth * (direction - single) + 1e-9), direction - 1)
    bucket = np.where(distance < single, distance, large).astype(np.int64)
    bucket += direction * (relative > 0) if bidirectional else 0
    # (batch, seq, seq_k, heads) -> (batch, heads, seq, seq_k)
    return (np.moveaxis(weight[bucket], -1, 1),)
