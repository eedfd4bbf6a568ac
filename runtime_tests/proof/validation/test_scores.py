"""Rotated heads, and their scores, against a model's: each sees what the other does not."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import posenc
from posenc.encoding import Tolerance, eps
from posenc.ports import Floats, Port
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.bundle.manifest import AskedModel
from posenc_export.proof.judging.compare import judge, measure
from posenc_export.proof.judging.scores import SCORES, TOKENS, compare_scores
from posenc_export.proof.judging.verdict import Comparison
from posenc_export.proof.running.model import against_model

DIM, LAST = 16, 500
ROPE = posenc.build("rope", posenc.Spec(max_len=512, mode="dynamic"), head_dim=DIM)
ANGLE = 4 * eps("float32") * LAST
CASE = Case("far", {}, max_position=LAST, tolerance=Tolerance(vector=4e-7))
ALLOWED = replace(CASE, model_tolerance=CASE.tolerance.plus(CASE.tolerance).plus(Tolerance(vector=2 * ANGLE)))
Change = Callable[[Floats], Floats]


def drawn(heads: int, tokens: int = 7, seed: int = 0) -> Floats:
    """Return heads at random: (batch, heads, tokens, DIM)."""
    return np.random.default_rng(seed + heads).standard_normal((2, heads, tokens, DIM))


def compared(q: Floats, k: Floats, of_q: Floats, of_k: Floats, outputs: tuple[Port, ...] = ROPE.outputs) -> list[str]:
    """Return which outputs fail where a graph gives q and k, and the model others."""
    arrays = {outputs[0].name: of_q, outputs[1].name: of_k}
    golden = GoldenCase(ALLOWED, {}, arrays, model=arrays)
    produced = {outputs[0].name: q.astype(np.float32), outputs[1].name: k.astype(np.float32)}
    assert ALLOWED.model_tolerance is not None
    wrong = [
        name
        for name, value in produced.items()
        if not judge(measure(value, arrays[name]), ALLOWED.model_tolerance).passed
    ]
    scores = list(compare_scores(golden, outputs, produced))
    assert len(scores) == 1
    return wrong + [c.output for c in scores if not c.passed]


def turned(x: Floats, angle: float) -> Floats:
    """Return heads whose pairs are turned by one angle more."""
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], -1)


REVERSED, SHUFFLED = np.arange(DIM)[::-1], np.roll(np.arange(DIM), 3)
CHANGES: dict[str, tuple[Change, Change, list[str]]] = {
    "none": (lambda q: q, lambda k: k, []),
    "turned by what float32 angles are off": (lambda q: turned(q, ANGLE / 2), lambda k: turned(k, -ANGLE / 2), []),
    "keys in another order": (lambda q: q, lambda k: k[..., REVERSED], ["k_rotated", SCORES]),
    "two other orders": (
        lambda q: q[..., SHUFFLED],
        lambda k: k[..., REVERSED],
        ["q_rotated", "k_rotated", SCORES],
    ),
    "one other order": (lambda q: q[..., SHUFFLED], lambda k: k[..., SHUFFLED], ["q_rotated", "k_rotated"]),
    "the sign of keys": (lambda q: q, lambda k: -k, ["k_rotated", SCORES]),
    "both signs": (lambda q: -q, lambda k: -k, ["q_rotated", "k_rotated"]),
    "scales that cancel": (lambda q: q * 2, lambda k: k / 2, ["q_rotated", "k_rotated"]),
    "scales that do not": (lambda q: q * 2, lambda k: k * 2, ["q_rotated", "k_rotated", SCORES]),
    "turned alike, too far": (lambda q: turned(q, 1), lambda k: turned(k, 1), ["q_rotated", "k_rotated"]),
    "turned apart": (lambda q: turned(q, 1), lambda k: turned(k, -1), ["q_rotated", "k_rotated", SCORES]),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("heads", [(2, 2), (4, 2), (2, 1)])
def test_heads_and_scores_see_what_they_should(change: str, heads: tuple[int, int]) -> None:
    q, k = (drawn(n) for n in heads)
    of_q, of_k, wrong = CHANGES[change]
    assert compared(q, k, of_q(q), of_k(k)) == wrong


def test_scores_fail_where_each_feature_is_within_its_tolerance() -> None:
    """A share that all features have too much, as of a wrong attention factor, adds up where heads are alike."""
    flat = np.sign(drawn(2))
    assert compared(flat * (1 + 1.9 * ANGLE), flat * (1 + 1.9 * ANGLE), flat, flat) == [SCORES]


def test_one_head_of_keys_serves_its_own_group() -> None:
    """Four heads of queries read two of keys, two each: one that is wrong is seen through either."""
    q, k = drawn(4), drawn(2)
    for head in (0, 1):
        other = k.copy()
        other[:, head, 3] *= -1
        assert compared(q, k, q, other) == ["k_rotated", SCORES]


def test_a_token_of_zeros_and_what_is_no_number() -> None:
    q, k = drawn(2), drawn(2, seed=5)
    q[0, 0, 0] = 0
    assert compared(q, k, q, k) == []
    assert compared(np.where(q == q[0, 0, 1], np.nan, q), k, q, k) == ["q_rotated", SCORES]
    assert compared(np.where(q == 0, 1e-3, q), k, q, k) == ["q_rotated", SCORES]


def test_tokens_before_heads_are_the_same_scores() -> None:
    other = posenc.build("rope", posenc.Spec(max_len=512, mode="dynamic"), head_dim=DIM, tensor_layout="bshd")
    q, k = drawn(4), drawn(2)
    q, k = (np.swapaxes(x, 1, 2) for x in (q, k))
    assert compared(q, k, q, -k, other.outputs) == ["k_rotated", SCORES]


def test_long_calls_are_seen_to_their_last_token() -> None:
    q, k = drawn(1, 3 * TOKENS), drawn(1, 3 * TOKENS, seed=9)
    assert compared(q, k, q, k) == []
    other = k.copy()
    other[:, :, -1] *= -1
    assert compared(q, k, q, other) == ["k_rotated", SCORES]


def test_the_row_says_that_attention_does_not_see_it() -> None:
    asked = AskedModel("LlamaRotaryEmbedding", "transformers 5.23.0")
    off = Comparison("seq5", "k_rotated", "model", 1.0, 0.0, 0, False, "off by 1")
    scores = Comparison("seq5", SCORES, "model", 0.0, 0.0, None, True)
    (row,) = against_model("ort-cpu", asked, [off, scores])
    assert row.status == "fail"
    assert "; scores q k^T agree: features have another order" in row.detail
    (row,) = against_model("ort-cpu", asked, [off, replace(scores, passed=False)])
    assert "agree" not in row.detail
    (row,) = against_model("ort-cpu", asked, [replace(off, passed=True), replace(scores, passed=False, reason="far")])
    assert row.status == "fail"
    assert row.detail.endswith("scores in seq5: far")
