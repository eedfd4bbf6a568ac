"""Encodings of biases, by positions, by queries, and of values: what comes in and out, and the call of the maker."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch

from posenc.call import Call, Formula
from posenc.encoding import CaseLike, Encoding, Pair, Probes, Source
from posenc.joins.scores import BiasSource, forward_of
from posenc.maker import Claims, Join, claims_of, encoding, largest_position
from posenc.ports import BATCH, SEQ, Array, Axis, Port, Values, fixed
from posenc.ranges import minimum
from posenc.spec import Spec
from posenc.where import KEYS, queries_and_keys
from posenc.where.places import CountedPlaces, StoredPlaces

Kind = Literal["bias", "scores"]
BIASED = "biased"
LAST_QUERIES: tuple[Pair, ...] = ("1,1", "1,n", "n,n", "n,past+n")
"""There are as many keys as queries, or more: a query is itself among the keys."""
TABLES = "what is stored goes by distances, not by positions"


@dataclass(frozen=True)
class BiasPorts:
    """What comes in and out of an encoding of biases.

    Args:
        kind: "bias", itself; "scores", biased; "values", rows weighted by probabilities.
        heads: Heads of queries; None for any number.
        head_dim: Features of a query, or of a row of values; None where no number of a query counts.
    """

    kind: Literal["bias", "scores", "values"]
    heads: int | None = None
    head_dim: int | None = None

    def __post_init__(self) -> None:
        minimum(1).check(heads=self.heads)

    @property
    def form(self) -> str:
        """The tensors that come in beside positions, and what comes out, in one word; see `forward_of`."""
        return self.kind if self.head_dim is None or self.kind == "values" else f"query_{self.kind}"

    @property
    def heads_axis(self) -> Axis:
        """The axis of heads."""
        return Axis("heads", "heads") if self.heads is None else fixed(self.heads, "heads")


def encode(source: BiasSource, spec: Spec, output: BiasPorts, *, formula: Formula) -> Encoding:
    """Return the encoding that a source of biases makes with the positions and the output of a spec.

    A baked encoding refuses positions from max_len on; a dynamic one has no end. The formula gives the bias itself.
    """
    end = spec.max_len if spec.mode == "baked" else None
    where, scores = queries_and_keys(spec, end), output.kind == "scores"
    module = forward_of(output.form, where)(
        source, StoredPlaces(end) if end else CountedPlaces(), getattr(torch, spec.torch_dtype), spec.position_offset
    )

    def biased(call: Call) -> Sequence[Array]:
        (bias,) = formula(call)
        return (call.values[-1].astype(np.float64) + bias,)  # scores are the last of the values

    family = "values" if output.kind == "values" else "bias"
    values, result = tensors(spec, output, where.places[0]), result_of(spec, output, where.places[0])
    # Sums of probabilities have as many terms as there are keys; other biases depend on positions.
    own = claims(source, spec, number_of_keys if output.kind == "values" else largest_position)
    join = Join(family, module, values, (result,), added=scores)
    return encoding(spec, where, own, join, biased if scores else formula)


def number_of_keys(case: CaseLike) -> int:
    """Return how many keys a call has."""
    return case.sizes[KEYS.name]


def claims(source: Source, spec: Spec, at: Callable[[CaseLike], int] = largest_position) -> Claims:
    """Return what a source of biases says of itself; no more queries than keys, where queries are among the keys."""
    pairs = Probes().pairs if spec.positions == "explicit" else LAST_QUERIES
    return claims_of(source, tables=TABLES, probes=replace(source.probes, pairs=pairs), at=at)


def tensors(spec: Spec, output: BiasPorts, keys: Axis) -> tuple[Port, ...]:
    """Return the ports of the tensors that come in; of a tensor that no source multiplies with, the shape counts."""
    dim = fixed(output.head_dim) if output.head_dim else Axis("head_dim", "features")
    q = Port("q", (BATCH, output.heads_axis, SEQ, dim), spec.torch_dtype)
    k = Port("k", (BATCH, Axis("kv_heads", "heads"), keys, dim), spec.torch_dtype)
    square = Port("scores", (BATCH, output.heads_axis, SEQ, keys), spec.torch_dtype)
    if output.kind == "values":
        return (replace(square, name="probabilities", carries=Values(0.0, 1.0, probabilities=True)),)
    if output.kind == "scores":
        return (q, square) if output.head_dim else (square,)
    if spec.positions == "explicit":
        return (q,) if output.head_dim else ()
    return (q,) if spec.positions == "mask" else (q, k)


def result_of(spec: Spec, output: BiasPorts, keys: Axis) -> Port:
    """Return the port of the output: a bias by positions that are counted is the same for a batch."""
    if output.kind == "values":
        return Port("added", (BATCH, output.heads_axis, SEQ, fixed(output.head_dim or 1)), spec.torch_dtype)
    alike = output.form == "bias" and spec.positions in ("implicit", "offset")
    axes = (fixed(1, "batch") if alike else BATCH, output.heads_axis, SEQ, keys if output.head_dim else KEYS)
    return Port(BIASED if output.kind == "scores" else "bias", axes, spec.torch_dtype)
