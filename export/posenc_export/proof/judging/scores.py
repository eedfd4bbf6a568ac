"""Scores of rotated queries and keys against those of a model, for which the order of features does not matter.

Heads are compared feature by feature, in an order that was found from queries alone. Attention reads scores. A model
that permutes the features of queries and keys alike, or negates a feature in both, has our scores; a model whose keys
have another order than its queries does not, even where heads look right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from posenc.encoding import Tolerance
from posenc.ports import Array, Floats, Port
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.proof.judging.compare import Difference, Judgement, allowance, measure
from posenc_export.proof.judging.verdict import Comparison

SCORES = "scores"
"""The name of the output in a comparison of scores."""
TOKENS = 512
"""Tokens of a call, at most, whose scores are computed: of more tokens some, in even steps."""


@dataclass(frozen=True)
class RotatedHeads:
    """Rotated heads of ours and of the model.

    Args:
        ours: (batch, heads, tokens, head_dim).
        model: (batch, heads, tokens, head_dim).
        allowed: How long the difference of two heads may be, (batch, heads, tokens).
    """

    ours: Floats
    model: Floats
    allowed: Floats

    @property
    def lengths(self) -> Floats:
        """The length of each head of the model; 1 where it is 0."""
        lengths: Floats = np.linalg.norm(self.model, axis=-1)
        return np.where(lengths > 0, lengths, 1.0)


def compare_scores(golden: GoldenCase, outputs: Sequence[Port], produced: Mapping[str, Array]) -> Iterator[Comparison]:
    """Yield how the scores of rotated queries and keys differ from the model's, as a share of both heads' lengths.

    Args:
        golden: The case, with the model's outputs.
        outputs: The ports of queries and keys.
        produced: The outputs of a graph, at the rows that are kept.
    """
    names = [port.name for port in outputs]
    shapes = [(produced[name].shape, golden.model[name].shape) for name in names if name in golden.model]
    if len(shapes) != 2 or any(ours != model for ours, model in shapes) or not all(0 not in ours for ours, _ in shapes):
        return
    q, k = (_heads(port, golden, produced[port.name]) for port in outputs)
    difference, judgement = _judged(q, k)
    yield Comparison(
        golden.case.name,
        SCORES,
        "model",
        difference.max_abs,
        0.0,
        None,
        judgement.passed,
        judgement.reason,
        difference.peak,
    )


def _judged(q: RotatedHeads, k: RotatedHeads) -> tuple[Difference, Judgement]:
    """Judge scores: |dq . k| + |q . dk| + |dq . dk| are at most the products of lengths (Cauchy and Schwarz)."""
    ours, model = (_products(a, b) for a, b in ((q.ours, k.ours), (q.model, k.model)))
    lengths = _products(q.lengths[..., None], k.lengths[..., None])
    off_q, off_k = ((heads.allowed / heads.lengths)[..., None] for heads in (q, k))
    allowed = _products(1 + off_q, 1 + off_k) - 1
    difference = measure(ours / lengths, model / lengths)
    assert difference.error is not None
    if np.all(difference.error <= allowed):
        return difference, Judgement(True)
    at, bound = list(difference.worst), allowed[difference.worst]
    words = f"q k^T is off by {difference.max_abs:.3g} of |q| |k| at {at}, expected at most {bound:.2g}"
    return difference, Judgement(False, words)


def _products(q: Floats, k: Floats) -> Floats:
    """Return q k^T, where a head of keys serves a group of queries: (batch, heads, tokens of q, tokens of k)."""
    groups = max(1, q.shape[1] // k.shape[1])
    # each head of keys once for every query head of its group: (batch, heads of q, tokens of k, head_dim)
    spread = np.repeat(k, groups, axis=1)[:, : q.shape[1]]
    # (batch, heads, tokens of q, head_dim) @ (batch, heads, head_dim, tokens of k)
    product: Floats = q[:, : spread.shape[1]] @ np.swapaxes(spread, -1, -2)
    return product


def _heads(port: Port, golden: GoldenCase, produced: Array) -> RotatedHeads:
    ours, model = (_laid_out(port, array) for array in (produced, golden.model[port.name]))
    angle, others = _shares(golden.case)
    # Roundings are those of the dtype that was produced.
    roundings = allowance(measure(_laid_out(port, produced, produced.dtype), model), others)
    by_angle: Floats = angle * np.linalg.norm(model, axis=-1)
    return RotatedHeads(ours, model, by_angle + np.linalg.norm(np.broadcast_to(roundings, model.shape), axis=-1))


def _shares(case: Case) -> tuple[float, Tolerance]:
    """Return the angle in radians by which a model's pairs may be off, and how far each feature may be off beside it.

    Heads are allowed twice that angle times the largest feature: a pair rotated by it moves by that part of its length.
    """
    assert case.model_tolerance is not None
    two_sides = case.tolerance.plus(case.tolerance)
    angle = max(0.0, case.model_tolerance.vector - two_sides.vector) / 2
    return angle, replace(case.model_tolerance, vector=case.model_tolerance.vector - 2 * angle)


def _laid_out(port: Port, array: Array, dtype: np.dtype[np.generic] | type[np.generic] = np.float64) -> Array:
    """Return heads as (batch, heads, tokens, head_dim), at most TOKENS of the tokens."""
    kinds = [axis.kind for axis in port.axes]
    order = [kinds.index("batch"), kinds.index("heads"), *port.lengths, len(kinds) - 1]
    moved = np.transpose(array, order)  # (batch, heads, *tokens, head_dim)
    flat = moved.reshape(*moved.shape[:2], -1, moved.shape[-1])  # (batch, heads, tokens, head_dim)
    steps = np.unique(np.linspace(0, flat.shape[2] - 1, min(flat.shape[2], TOKENS)).astype(np.int64))
    return flat[:, :, steps].astype(dtype)
