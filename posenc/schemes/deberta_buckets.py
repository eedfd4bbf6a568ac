"""The relative positions of DeBERTa-v2 and v3 (arXiv:2006.03654): indices of a model's table.

Each direction has num_buckets. Distances up to half of that are themselves; those beyond grow by their logarithm,
rounded up, so that max_distance - 1 is in the last bucket; farther ones go on growing, and models clamp them.
transformers (`make_log_bucket_position`) takes a float32 logarithm, which puts thirty distances of a million beside
their bucket, of 256 up to 512: 65317 is the first, long after models clamp. Here integers decide, when the table is
made.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from posenc.encoding import SAME_BITS, Encoding, Probes, Tolerance
from posenc.formulas.deberta_buckets import by_logarithm, reference
from posenc.joins.scores import forward_of
from posenc.lookup import exactly, leading, take
from posenc.maker import Join, encoding
from posenc.ports import SEQ, Floats, Integers, Port, fixed
from posenc.scheme import Unsupported, scheme
from posenc.sources.bias import encode as bias
from posenc.spec import Spec
from posenc.stored import StoredRows
from posenc.where import KEYS, queries_and_keys
from posenc.where.places import CountedPlaces

CHUNK = 2**16
"""Distances that are held against the formula at a time."""
END = 2**20
"""Distances that a dynamic graph knows: there are always more buckets, and no formula of integers for all."""


class LogBuckets(nn.Module):
    """A source of indices: the bucket of each distance, with the sign of query - key."""

    rows: Tensor  # (distances, 1)
    end: Final[int]
    integer_dtype = torch.int64
    __constants__ = ("count_dtype", "integer_dtype")
    count_dtype = None
    half_safe = ""

    def __init__(self, rows: Integers, probes: Probes, formula: Callable[[Integers], Floats]) -> None:
        """Take the bucket of each distance; what is stored is held against the formula."""
        super().__init__()
        self.end = len(rows)
        self.formula = formula
        self.probes = probes
        self.register_buffer(
            "rows", torch.from_numpy(rows.astype(np.min_scalar_type(-int(rows.max()))))[:, None], persistent=False
        )

    def last(self, keys: Tensor, values: Tensor) -> Tensor:
        """Return the buckets where the last keys are the queries: (seq_k,), (batch, heads, seq, any)."""
        seq, length = values.shape[2], keys.shape[0]
        query = torch.arange(seq, dtype=self.count_dtype, device=keys.device) + (length - seq)
        # CUDA refuses no index: what is beyond the table is refused by the number of its rows there.
        rows = exactly(leading(self.rows, length), length)[0]
        known = query.masked_fill(query < 0, 2 * self.end)  # so far from any key that no row is theirs
        # (seq,) -> (1, seq, 1), beside keys (seq_k,)
        return self.signed(rows, known.unsqueeze(0).unsqueeze(2), keys)

    def between(self, query: Tensor, key: Tensor, values: Tensor | None) -> Tensor:
        """Return the buckets of positions: (1, seq, 1), (seq_k,) -> (1, seq, seq_k)."""
        return self.signed(self.rows, query, key)

    def signed(self, rows: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Return buckets, below 0 for keys after their query; distances beyond the rows are refused."""
        distance = query - key
        bucket = take(rows, distance.abs(), self.end).squeeze(-1).to(self.integer_dtype)
        return torch.where(distance < 0, -bucket, bucket)

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far an index may be from the reference: it is an integer."""
        return Tolerance()

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return that a graph's index has the same bits as this one."""
        return SAME_BITS

    def stored_rows(self) -> Iterator[StoredRows]:
        """Yield the buckets of all distances, a few at a time."""
        for first in range(0, self.end, CHUNK):
            distance = np.arange(first, min(first + CHUNK, self.end))
            yield StoredRows("rows", self.formula(distance)[:, None], first=first)


PLACES = "the model counts places, padding too; use --positions implicit or offset"


@scheme(
    "deberta_buckets",
    paper="arXiv:2006.03654",
    formula="index[i, j] = r where |r| <= m, else sign(r) (m + ceil((m - 1) log(|r| / m) / "
    "log((max_distance - 1) / m))), m = num_buckets // 2",
    models=("DeBERTa-v2", "DeBERTa-v3", "SEW-D"),
    samples=({"num_buckets": 16, "max_distance": 40}, {"num_buckets": 9, "max_distance": 30}),
    unsupported=Unsupported(
        methods={"trig": "an index has no sines; leave --method trig out"},
        positions={"explicit": PLACES, "mask": PLACES},
    ),
)
def deberta_buckets(spec: Spec, *, num_buckets: int = 256, max_distance: int = 512) -> Encoding:
    """The bucket of the distance from query to key, with its sign: indices (1, seq, seq_k), as DeBERTa-v2 takes them.

    Queries are the last of the keys; DeBERTa's own count both from 0 (positions offset, at 0), which is the same where
    there are as many.

    Args:
        num_buckets: buckets of each direction, 0 among them; one fewer where it is odd (position_buckets).
        max_distance: one more than the distance in the last of them (max_relative_positions, or max_position_embeddings
            where that is below 1).
    """
    mid = num_buckets // 2
    if mid < 2:
        raise ValueError(f"num_buckets must be at least 4, of each direction, got {num_buckets}")
    if max_distance - 1 <= mid:
        raise ValueError(f"max_distance must be above {mid + 1}, half of num_buckets and one, got {max_distance}")
    end = spec.max_len if spec.mode == "baked" else END
    rows = buckets(np.arange(end), mid, max_distance)
    probes = Probes(lengths=(mid, mid + 1, mid + 2, max_distance, max_distance + 1))
    source = LogBuckets(rows, probes, partial(by_logarithm, num_buckets=num_buckets, far=max_distance))
    formula = partial(reference, num_buckets=num_buckets, far=max_distance)
    where = queries_and_keys(spec, end)
    module = forward_of("bias", where)(source, CountedPlaces(), getattr(torch, spec.index_dtype), 0)
    values = bias.tensors(spec, bias.BiasPorts("bias"), where.places[0])
    join = Join("bias", module, values, (Port("buckets", (fixed(1, "batch"), SEQ, KEYS), spec.index_dtype),))
    return encoding(spec, where, bias.claims(source, spec), join, formula)


def buckets(distance: Integers, mid: int, far: int) -> Integers:
    """Return the bucket of each distance: itself up to mid, beyond by the first distances of the buckets."""
    firsts = edges(mid, far, int(distance.max(initial=0)))
    return np.where(distance <= mid, distance, mid + np.searchsorted(firsts, distance, side="right"))


def edges(mid: int, far: int, farthest: int) -> Integers:
    """Return the first distance of each bucket beyond mid, up to a distance.

    A distance is in bucket mid + c where mid ((far - 1) / mid)^(c / (mid - 1)) is the first that is not below it. To
    the power of mid - 1 all of that are integers, which decide.
    """
    firsts = [mid + 1]
    while firsts[-1] <= farthest:
        c, power = len(firsts), mid - 1
        last = max(mid, int(mid * ((far - 1) / mid) ** (c / power)) - 2)  # the last distance of bucket mid + c
        while (last + 1) ** power * mid**c <= (far - 1) ** c * mid**power:
            last += 1
        firsts.append(last + 1)
    return np.asarray(firsts)
