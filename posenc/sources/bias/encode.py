"""Biases on attention scores: a number for each head, query and key, returned or added to scores."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch

from posenc.call import Call, Formula
from posenc.encoding import Encoding, Probes, Source
from posenc.maker import Claims, Join, claims_of, encoding
from posenc.ports import BATCH, SEQ, Array, Axis, Port, fixed
from posenc.sources.bias.modules import WAYS, BiasSource
from posenc.spec import Spec
from posenc.where import KEYS, queries_and_keys
from posenc.where.places import CountedPlaces, StoredPlaces

Kind = Literal["bias", "scores"]
BIASED = "biased"
LAST_QUERIES = Probes(pairs=("1,1", "1,n", "n,n", "n,past+n"))
"""There are as many keys as queries, or more: a query is itself among the keys."""
TABLES = "what is stored goes by distances, not by positions"


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
    formula: a call -> the bias in float64.
    """
    end = spec.max_len if spec.mode == "baked" else None
    scores = output.kind == "scores"
    module = WAYS[str(spec.positions)][scores](
        source, StoredPlaces(end) if end else CountedPlaces(), getattr(torch, spec.torch_dtype), spec.position_offset
    )

    def biased(call: Call) -> Sequence[Array]:
        (bias,) = formula(call)
        return (call.values[0].astype(np.float64) + bias,)

    where = queries_and_keys(spec, end)
    join = Join("bias", module, values(spec, output, where.places[0]), (result(spec, output),), added=scores)
    return encoding(spec, where, claims(source, spec), join, biased if scores else formula)


def claims(source: Source, spec: Spec) -> Claims:
    """Return what a source of biases says of itself, of queries and keys that meet as positions are given."""
    return claims_of(source, tables=TABLES, probes=replace(source.probes, pairs=pairs(spec)))


def values(spec: Spec, output: Output, keys: Axis) -> tuple[Port, ...]:
    """Return the values that go in: scores; or q and k, of which the shapes count alone."""
    heads, dim = fixed(output.heads, "heads"), Axis("head_dim", "features")
    if output.kind == "scores":
        return (Port("scores", (BATCH, heads, SEQ, keys), spec.torch_dtype),)
    q = Port("q", (BATCH, heads, SEQ, dim), spec.torch_dtype)
    k = Port("k", (BATCH, Axis("kv_heads", "heads"), keys, dim), spec.torch_dtype)
    shapes: dict[str | None, tuple[Port, ...]] = {"mask": (q,), "explicit": ()}
    return shapes.get(spec.positions, (q, k))


def result(spec: Spec, output: Output) -> Port:
    """Return what comes out: biased scores, or the bias, the same for a batch unless each sequence has positions."""
    alike = output.kind == "bias" and spec.positions in ("implicit", "offset")
    axes = (fixed(1, "batch") if alike else BATCH, fixed(output.heads, "heads"), SEQ, KEYS)
    return Port(BIASED if output.kind == "scores" else "bias", axes, spec.torch_dtype)


def pairs(spec: Spec) -> tuple[Literal["1,1", "1,n", "n,1", "n,n", "n,m", "n,past+n"], ...]:
    """Return how queries and keys meet: where queries are among the keys, there are no more of them."""
    return Probes().pairs if spec.positions == "explicit" else LAST_QUERIES.pairs
