"""Encodings of biases: their ports, and the maker's call, for biases by positions, by queries, and of values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch

from posenc.call import Call, Formula
from posenc.encoding import CaseLike, Encoding, Pair, Probes, Source, rounding
from posenc.maker import Claims, Join, claims_of, encoding, largest_position
from posenc.ports import BATCH, SEQ, Array, Axis, Mask, Port, Positions, Values, fixed
from posenc.sources.bias.modules import FORWARDS, BiasSource
from posenc.spec import Spec
from posenc.where.places import CountedPlaces, StoredPlaces
from posenc.where.ports import start_port

Kind = Literal["bias", "scores"]
KEYS = Axis("seq_k", "length")
BIASED = "biased"
LAST_QUERIES = Probes(pairs=("1,1", "1,n", "n,n", "n,past+n"))
"""There are as many keys as queries, or more: a query is itself among the keys."""
TABLES = "what is stored goes by distances, not by positions"


@dataclass(frozen=True)
class Output:
    """What comes in and out of an encoding of biases.

    Args:
        kind: "bias", itself; "scores", biased; "values", rows weighted by probabilities.
        heads: of queries; None for any number.
        head_dim: features of a query, or of a row of values; None where no number of a query counts.
    """

    kind: Literal["bias", "scores", "values"]
    heads: int | None = None
    head_dim: int | None = None

    def __post_init__(self) -> None:
        if self.heads is not None and self.heads < 1:
            raise ValueError(f"heads must be at least 1, got {self.heads}")

    @property
    def form(self) -> str:
        """The key in FORWARDS: which tensors come in beside positions, and what comes out."""
        return self.kind if self.head_dim is None or self.kind == "values" else f"query_{self.kind}"


def encode(source: BiasSource, spec: Spec, output: Output, *, formula: Formula) -> Encoding:
    """Return the encoding that a source of biases makes with the positions and the output of a spec.

    A baked encoding refuses positions from max_len on; a dynamic one has no end.

    Args:
        formula: a call -> the bias in float64, before it is added to scores.
    """
    end = spec.max_len if spec.mode == "baked" else None
    scores, values = output.kind == "scores", output.kind == "values"
    module = FORWARDS[output.form][str(spec.positions)](
        source, StoredPlaces(end) if end else CountedPlaces(), getattr(torch, spec.torch_dtype), spec.position_offset
    )

    def biased(call: Call) -> Sequence[Array]:
        (bias,) = formula(call)
        return (call.values[-1].astype(np.float64) + bias,)  # queries, if any, come before the scores

    family = "values" if values else "bias"
    join = Join(family, module, ports(spec, output, end), (result(spec, output, end),), rounding(spec, scores), scores)
    # Sums of probabilities have as many terms as there are keys; other biases depend on positions.
    own = claims(source, spec, end, number_of_keys if values else largest_position)
    return encoding(spec, join, own, biased if scores else formula)


def number_of_keys(case: CaseLike) -> int:
    """Return how many keys a call has."""
    return case.sizes[KEYS.name]


def claims(source: Source, spec: Spec, end: int | None, at: Callable[[CaseLike], int] = largest_position) -> Claims:
    """Return what a source of biases says of itself, of queries and keys that meet as positions are given."""
    return claims_of(source, tables=TABLES, probes=replace(source.probes, pairs=pairs(spec)), end=end, at=at)


def ports(spec: Spec, output: Output, end: int | None) -> tuple[Port, ...]:
    """Return the ports of the tensors that come in, then of positions; the shape alone of some tensors counts."""
    return (*_tensors(spec, output, end), *_positions(spec, end))


def _tensors(spec: Spec, output: Output, end: int | None) -> tuple[Port, ...]:
    heads, keys = _heads(output), _keys(spec, end)
    dim = fixed(output.head_dim) if output.head_dim else Axis("head_dim", "features")
    q = Port("q", (BATCH, heads, SEQ, dim), spec.torch_dtype)
    k = Port("k", (BATCH, Axis("kv_heads", "heads"), keys, dim), spec.torch_dtype)
    if output.kind == "values":
        carries = Values(0.0, 1.0, probabilities=True)
        return (Port("probabilities", (BATCH, heads, SEQ, keys), spec.torch_dtype, carries),)
    if output.kind == "scores":
        scores = Port("scores", (BATCH, heads, SEQ, keys), spec.torch_dtype)
        return (q, scores) if output.head_dim else (scores,)
    if spec.positions == "explicit":
        return (q,) if output.head_dim else ()
    return (q,) if spec.positions == "mask" else (q, k)


def _positions(spec: Spec, end: int | None) -> tuple[Port, ...]:
    by_way: dict[str | None, tuple[Port, ...]] = {
        "implicit": (),
        "offset": (start_port(end, KEYS.name),),
        "explicit": (
            Port("positions_q", (BATCH, SEQ), "int64", Positions(end)),
            Port("positions_k", (BATCH, KEYS), "int64", Positions(end)),
        ),
        "mask": (Port("attention_mask", (BATCH, KEYS), "int64", Mask(offset=spec.position_offset, end=end)),),
    }
    return by_way[spec.positions]


def _heads(output: Output) -> Axis:
    return Axis("heads", "heads") if output.heads is None else fixed(output.heads, "heads")


def _keys(spec: Spec, end: int | None) -> Axis:
    """Return the axis of keys, which ends where their positions are counted from 0."""
    return replace(KEYS, most=end) if spec.positions in ("implicit", "offset") else KEYS


def result(spec: Spec, output: Output, end: int | None) -> Port:
    """Return the port of the output: a bias is the same for a batch, unless sequences differ in positions or queries."""
    heads = _heads(output)
    if output.kind == "values":
        return Port("added", (BATCH, heads, SEQ, fixed(output.head_dim or 1)), spec.torch_dtype)
    alike = output.form == "bias" and spec.positions in ("implicit", "offset")
    axes = (fixed(1, "batch") if alike else BATCH, heads, SEQ, _keys(spec, end) if output.head_dim else KEYS)
    return Port(BIASED if output.kind == "scores" else "bias", axes, spec.torch_dtype)


def pairs(spec: Spec) -> tuple[Pair, ...]:
    """Return how queries and keys meet: where queries are among the keys, there are no more of them."""
    return Probes().pairs if spec.positions == "explicit" else LAST_QUERIES.pairs
