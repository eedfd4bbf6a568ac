"""Relative position representations (Shaw et al., arXiv:1803.02155): a learned row for each distance up to some.

    bias[b, h, i, j] = scale * q[b, h, i] . row(clip(j - i, -left, right))
    values[b, h, i] = scale * sum_j p[b, h, i, j] row(clip(j - i, -left, right))

wav2vec2-BERT has 64 rows before and 8 after a query, SpeechT5 159 and 160; Shaw et al. and VITS as many of either, and
a second table, of values. Beyond its window VITS adds nothing, the others take the last row.
"""

from functools import partial
from typing import Annotated, Literal

import torch
from torch import nn

from posenc import reasons
from posenc.encoding import Encoding
from posenc.formulas.clipped_relative import ClippedTable, added_values, reference
from posenc.ranges import NOT_ZERO, above, minimum
from posenc.scheme import Unsupported, scheme
from posenc.sources.bias import encode as bias
from posenc.sources.bias.by_query import ByQuery
from posenc.sources.bias.values import ONE_KEY, WeightedRows
from posenc.spec import Spec, UnsupportedSpec
from posenc.weights import Weights

Output = Literal["bias", "scores", "values"]
Distance = Literal["key_minus_query", "query_minus_key"]


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
    unsupported=Unsupported(methods=reasons.BIAS),
)
def clipped_relative(
    spec: Spec,
    *,
    head_dim: Annotated[int | None, minimum(1)] = None,
    left: Annotated[int, minimum(0)] = 64,
    right: Annotated[int, minimum(0)] = 8,
    beyond: Literal["clip", "zero"] = "clip",
    distance: Distance = "key_minus_query",
    scale: Annotated[float | None, NOT_ZERO] = None,
    output: Output = "bias",
    weights: str | None = None,
    key: str | None = None,
    std: Annotated[float, above(0)] = 1.0,
) -> Encoding:
    """A learned row for each distance from -left to right, for scores or for values (Shaw; wav2vec2-BERT, VITS).

    Args:
        head_dim: features of a head [default: those of the weights, or 64].
        left: rows for keys before their query (left_max_position_embeddings, window_size).
        right: rows for keys after it (right_max_position_embeddings, window_size).
        beyond: "clip", the first and the last row hold beyond, or "zero", nothing is added there (VITS).
        distance: what rows are in the order of: "key_minus_query", or "query_minus_key", the last of keys first
            (SpeechT5).
        scale: of what is added [default: 1 / sqrt(head_dim), of values 1].
        output: "bias", "scores" with it, or "values", probabilities times rows (a table of its own: Shaw's a^V,
            emb_rel_v).
        weights: a file of weights or a model's folder with a trained table (left + 1 + right, head_dim).
        key: its name, as encoder.layers.0.self_attn.distance_embedding.weight, or VITS's emb_rel_k.
        std: standard deviation of a random table, where no weights are given.
    """
    count = left + 1 + right
    table = Weights(weights, key, std).table({"left + 1 + right": count, "head_dim": head_dim}, (count, 64))
    usual = 1.0 if output == "values" else table.shape[1] ** -0.5
    factor = usual if scale is None else scale
    trained = ClippedTable(table.double().numpy(), left, right, beyond, distance, scale)
    rows = table.flip(0) if distance == "query_minus_key" else table
    rows = (rows.double() * factor).to(getattr(torch, spec.angle_dtype))
    result = bias.BiasPorts(output, head_dim=rows.shape[1])
    if output == "values":
        if spec.positions in ("explicit", "mask"):
            raise UnsupportedSpec(f"output=values has no {spec.positions} form: {ONE_KEY}")
        source = WeightedRows(rows, left, beyond == "clip")
        return bias.encode(source, spec, result, formula=partial(added_values, rows=trained))
    edge = int(beyond == "zero")  # a row of zeros on either side holds for all keys beyond
    products = ByQuery(nn.functional.pad(rows, [0, 0, edge, edge]), left + edge)
    return bias.encode(products, spec, result, formula=partial(reference, rows=trained))
