"""Relative position representations (Shaw et al., arXiv:1803.02155): a learned row for each distance up to some.

    bias[b, h, i, j] = scale * q[b, h, i] . row(clip(j - i, -left, right))
    values[b, h, i] = scale * sum_j p[b, h, i, j] row(clip(j - i, -left, right))

wav2vec2-BERT has 64 rows before and 8 after a query, SpeechT5 159 and 160; Shaw et al. and VITS as many of either, and
a second table, of values. Beyond its window VITS adds nothing, the others take the last row. Each query is multiplied
with every row once, and each key picks a product; of values, see `relative_values`.
"""

from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import numpy as np
import torch
from torch import Tensor, nn

from posenc.call import Call
from posenc.encoding import Encoding, Probes, Tolerance
from posenc.ports import Array, Floats, Integers
from posenc.scheme import Unsupported, scheme
from posenc.sources.bias import by_query as query_bias
from posenc.sources.bias import values as relative_values
from posenc.sources.bias.by_distance import edge_repeated
from posenc.spec import Spec
from posenc.weights import Weights
from posenc.where.sizes import larger

Output = Literal["bias", "scores", "values"]
Distance = Literal["key_minus_query", "query_minus_key"]


class ClippedRows(nn.Module):
    """A source of biases: products of queries with a row for each distance, the first and the last for all beyond.

    Keys in the first row for every query are not looked up: see ByDistance.
    """

    rows: Tensor  # (head_dim, before + 1 + after)
    before: Final[int]

    def __init__(self, rows: Tensor, before: int) -> None:
        super().__init__()
        self.before = before
        self.probes = Probes(lengths=(before, before + 1, before + 2))
        self.half_safe = query_bias.PRODUCTS
        self.register_buffer("rows", rows.t().contiguous(), persistent=False)
        largest = query_bias.LARGEST * float(rows.abs().sum(1).max())
        self.error = torch.finfo(rows.dtype).eps / 2 * (len(rows[0]) + 1) * largest

    def last(self, q: Tensor, keys: Tensor) -> Tensor:
        """Return the bias of the last keys, as queries: q (batch, heads, seq, head_dim), (seq_k,)."""
        seq = q.shape[2]
        far = larger(keys.shape[0] - seq - max(self.before, 1), 0)
        query = torch.arange(seq, device=q.device) + (keys.shape[0] - seq)
        return edge_repeated(self.between(q, query.unsqueeze(1), keys[far:]), far)

    def between(self, q: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """Return the bias of positions: q, (1, seq, 1) or (seq, 1), (seq_k,) -> (batch, heads, seq, seq_k)."""
        products = torch.matmul(q.to(self.rows.dtype), self.rows)
        at = (key - (query - self.before)).clamp(0, self.rows.shape[1] - 1)
        return products.gather(3, at.expand(q.shape[0], q.shape[1], q.shape[2], key.shape[0]))

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far a bias may be from the reference: as many roundings as features, each of the largest sum."""
        return Tolerance(atol=self.error)

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph's bias may be from this: both may sum in any order."""
        return Tolerance(atol=2 * self.error)


@scheme(
    "clipped_relative",
    paper="arXiv:1803.02155",
    formula="bias[h, i, j] = scale q[h, i] . r(j - i), values[h, i] = scale sum_j p[h, i, j] r(j - i), "
    "r(d) = row[min(max(d, -left), right)]",
    models=("Shaw et al.", "Wav2Vec2-BERT", "SeamlessM4T v2", "SpeechT5", "VITS"),
    sums=("baked", "dynamic"),
    samples=(
        {"head_dim": 8, "left": 20, "right": 3},
        {"head_dim": 6, "left": 4, "right": 4, "beyond": "zero"},
        {"head_dim": 6, "left": 4, "right": 4, "beyond": "zero", "output": "values"},
    ),
    unsupported=Unsupported(
        methods={"trig": "a bias has no sines; leave --method trig out"},
        positions={"explicit": query_bias.PLACES, "mask": query_bias.PLACES},
    ),
)
def clipped_relative(
    spec: Spec,
    *,
    head_dim: int | None = None,
    left: int = 64,
    right: int = 8,
    beyond: Literal["clip", "zero"] = "clip",
    distance: Distance = "key_minus_query",
    scale: float | None = None,
    output: Output = "bias",
    weights: str | None = None,
    key: str | None = None,
    std: float = 1.0,
) -> Encoding:
    """A learned row for each distance from -left to right, for scores or for values (Shaw; wav2vec2-BERT, VITS).

    head_dim: features of a head [default: those of the weights, or 64].
    left: rows for keys before their query (left_max_position_embeddings, window_size).
    right: rows for keys after it (right_max_position_embeddings, window_size).
    beyond: "clip", the first and the last row hold beyond, or "zero", nothing is added there (VITS).
    distance: what rows are in the order of: "key_minus_query", or "query_minus_key", the last of keys first (SpeechT5).
    scale: of what is added [default: 1 / sqrt(head_dim), of values 1].
    output: "bias", "scores" with it, or "values", probabilities times rows (a table of its own: Shaw's a^V, emb_rel_v).
    weights: a file of weights or a model's folder with a trained table (left + 1 + right, head_dim).
    key: its name, as encoder.layers.0.self_attn.distance_embedding.weight, or VITS's emb_rel_k.
    std: standard deviation of a random table, where no weights are given.
    """
    if left < 0 or right < 0:
        raise ValueError(f"left and right must be at least 0, got {left} and {right}")
    count = left + 1 + right
    sizes = {"left + 1 + right": count, "head_dim": head_dim}
    table = Weights(weights, key, std).table(sizes, (count, 64))
    factor = _factor(scale, 1.0 if output == "values" else table.shape[1] ** -0.5)
    of = Rows(table.double().numpy(), left, right, beyond, distance, scale)
    rows = table.flip(0) if distance == "query_minus_key" else table
    rows = (rows.double() * factor).to(getattr(torch, spec.angle_dtype))
    if output == "values":
        formula = partial(added_values, rows=of)
        return relative_values.encode(rows, spec, before=left, beyond=beyond == "clip", formula=formula)
    edge = int(beyond == "zero")
    source = ClippedRows(nn.functional.pad(rows, [0, 0, edge, edge]), left + edge)
    return query_bias.encode(
        source, spec, output, table.shape[1], formula=partial(reference, rows=of, add=output == "scores")
    )


def _factor(scale: float | None, usual: float) -> float:
    if scale is None:
        return usual
    if not np.isfinite(scale) or scale == 0:
        raise ValueError(f"scale must be a finite number other than 0, got {scale}")
    return scale


@dataclass(frozen=True)
class Rows:
    """The rows of a table in float64, as they stand there, and the parameters: all that the references know."""

    table: Floats
    left: int
    right: int
    beyond: str
    distance: str
    scale: float | None

    def of_pairs(self, query: Integers, key: Integers) -> tuple[Integers, Integers]:
        """Return the index of the row of each query and key, and 1, or 0 where nothing is added: (seq, seq_k) each."""
        relative = key - query[:, None]
        clipped = np.clip(relative, -self.left, self.right)
        index = self.right - clipped if self.distance == "query_minus_key" else self.left + clipped
        return index, (relative == clipped) | (self.beyond == "clip")


def reference(call: Call, *, rows: Rows, add: bool) -> tuple[Array]:
    """Return the bias in float64: each query times the row of each distance, added to scores where they go in."""
    index, counts = rows.of_pairs(call.query[0], call.key[0])
    scale = 1 / np.sqrt(rows.table.shape[1]) if rows.scale is None else rows.scale
    products = scale * (call.values[0].astype(np.float64) @ rows.table.T)
    bias = np.stack([products[:, :, i, row] for i, row in enumerate(index)], 2) * counts
    return (call.values[1] + bias if add else bias,)


def added_values(call: Call, *, rows: Rows) -> tuple[Array]:
    """Return in float64 what is added to values: the sum over keys of probabilities times the row of each distance."""
    index, counts = rows.of_pairs(call.query[0], call.key[0])
    p = call.values[0].astype(np.float64) * counts * (1.0 if rows.scale is None else rows.scale)
    return (np.stack([p[:, :, i] @ rows.table[row] for i, row in enumerate(index)], 2),)
