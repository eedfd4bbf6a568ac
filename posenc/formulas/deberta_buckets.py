"""The relative positions of DeBERTa-v2 and v3 (arXiv:2006.03654): indices of a model's table."""

import numpy as np

from posenc.call import Call
from posenc.ports import Array, Floats, Integers


def reference(call: Call, *, num_buckets: int, far: int) -> tuple[Array]:
    """Return the buckets from DeBERTa's formula, with their signs."""
    relative = call.query[:, :, None] - call.key[:, None, :]
    return (np.sign(relative) * by_logarithm(np.abs(relative), num_buckets=num_buckets, far=far),)


def by_logarithm(distance: Integers, *, num_buckets: int, far: int) -> Floats:
    """Return the bucket of each distance from DeBERTa's formula, its logarithm in float64.

    On an edge the logarithm may come out a last digit above an integer: 1e-9 of a bucket is taken off.
    """
    mid = num_buckets // 2
    growth = np.log(np.maximum(distance, mid) / mid) / np.log((far - 1) / mid)
    grown = mid + np.ceil(growth * (mid - 1) - 1e-9)
    return np.where(distance <= mid, distance, grown).astype(np.float64)
