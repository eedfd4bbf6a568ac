"""Biases of attention are named by the distances that they depend on; masks and other numbers are not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from posenc.formulas.alibi import slopes_of
from posenc.formulas.families import TRAINED_FORMS
from posenc.formulas.fitting import Form, Observation, find_scheme, spacing_of_dtype
from posenc.formulas.parts.windows import differences
from posenc.formulas.t5_bias import buckets
from posenc_export.read.recognise.masks import is_mask, unblocked
from posenc_export.read.recognise.scores.relative import stored_by_distance


def of_bias(bias: np.ndarray) -> Form | None:
    """Return what a stored bias is: (batch, heads, queries, keys), or with heads beside the batch."""
    numbers = unblocked(bias).reshape(-1, *bias.shape[-3:])[0]
    seen = Observation("bias", numbers, spacing_of_dtype(bias.dtype), stored=(np.asarray(bias),))
    return find_scheme(seen) or stored_by_distance(seen)


def of_indices(index: np.ndarray, rows: int) -> Form | None:
    """Return what indices (queries, keys) of the rows of a table are."""
    return find_scheme(Observation("lookup", index, 0.0, rows=rows))


def among_zeros(rows: np.ndarray, table: np.ndarray) -> Form | None:
    """Return what rows of distances are, with a stored table of some of them."""
    return find_scheme(Observation("distances", rows, 2.0**-23, stored=(table,)))


def linear(heads: int, form: str, count: int = 17, past: int = 0) -> np.ndarray:
    """Return ALiBi's bias in float32: (1, heads, count, past + count)."""
    key, query = np.arange(past + count), np.arange(past, past + count)[:, None]
    steps = {"distance": -np.abs(key - query), "key": key + 0 * query, "last_key": key - key[-1] + 0 * query}[form]
    return np.asarray((slopes_of(heads, 8.0)[:, None, None] * steps)[None], np.float32)


def causal(queries: int, keys: int, blocked: float = -np.inf) -> np.ndarray:
    """Return a causal mask of floats: (queries, keys)."""
    return np.triu(np.full((queries, keys), blocked, np.float32), 1 + keys - queries)


@pytest.mark.parametrize("heads", [2, 3, 4, 6, 7, 8, 12, 16, 20])
@pytest.mark.parametrize("form", ["distance", "key", "last_key"])
@pytest.mark.parametrize("masked", [False, True])
def test_alibi_gives_its_heads_and_form(heads: int, form: str, masked: bool) -> None:
    bias = linear(heads, form, past=5) + (causal(17, 22) if masked else 0)
    named = of_bias(bias)
    assert named is not None
    # keys before the query, which a causal mask leaves, have the same bias in both readings
    assert dict(named.parameters) == {"heads": heads, "form": form, "bias_max": 8.0}
    assert named.exact is not None
    steps = np.arange(22) - 21 if form == "last_key" else np.arange(22)
    assert np.array_equal(
        named.exact(steps), np.outer(steps * (-1 if form == "distance" else 1), slopes_of(heads, 8.0))
    )


def test_alibi_of_transformers_is_named() -> None:
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    for heads in (4, 12):
        bloom = of_bias(build_alibi_tensor(torch.ones(2, 11, dtype=torch.long), heads, torch.float32).numpy())
        assert bloom is not None
        assert dict(bloom.parameters) == {"heads": heads, "form": "key", "bias_max": 8.0}
        mpt = of_bias(build_mpt_alibi_tensor(heads, 32).numpy())
        assert mpt is not None
        assert dict(mpt.parameters) == {"heads": heads, "form": "last_key", "bias_max": 8.0}


def test_slopes_that_are_scaled_or_rounded_keep_their_rule() -> None:
    scaled = of_bias(linear(8, "key") / np.float32(np.sqrt(64)))
    assert scaled is not None
    assert scaled.parameters["scale"] == pytest.approx(0.125)
    half = of_bias(linear(6, "distance").astype(np.float16))
    assert half is not None
    assert (half.parameters["heads"], half.parameters["bias_max"]) == (6, 8.0)
    learned = of_bias(linear(4, "key") * np.array([1.0, 3.0, 0.2, 0.7], np.float32)[:, None, None])
    assert learned is not None
    assert learned.name == "slopes of no rule"


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("rows", "far"), [(32, 128), (32, 20), (16, 256), (8, 20)])
def test_buckets_give_t5s_parameters(rows: int, far: int, bidirectional: bool) -> None:
    distance = np.arange(300) - np.arange(300)[:, None]
    form = of_indices(buckets(distance, rows, far, bidirectional, 1e-9), rows)
    assert form is not None
    assert (form.family, form.parameters["num_buckets"], form.parameters["max_distance"]) == ("t5", rows, far)
    assert form.parameters["bidirectional"] == bidirectional


def test_buckets_of_transformers_are_named_at_short_lengths_too() -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    for bidirectional, count in ((True, 13), (False, 40)):
        distance = torch.arange(count)[None] - torch.arange(count)[:, None]
        form = of_indices(T5Attention._relative_position_bucket(distance, bidirectional).numpy(), 32)
        assert form is not None
        assert (form.family, form.parameters["max_distance"]) == ("t5", 128)
        assert form.parameters["bidirectional"] == bidirectional
        assert form.also  # other distances fit at so few tokens


@pytest.mark.parametrize(("left", "right"), [(64, 8), (4, 4), (2, 7)])
@pytest.mark.parametrize("order", ["key_minus_query", "query_minus_key"])
def test_clipped_distances_give_both_sides(left: int, right: int, order: str) -> None:
    distance = np.clip(np.arange(90) - np.arange(90)[:, None], -left, right)
    index = distance + left if order == "key_minus_query" else right - distance
    form = of_indices(index, left + 1 + right)
    assert form is not None
    assert (form.family, form.name) == ("relative", "clipped")
    assert form.name in TRAINED_FORMS, "whatever is stored is right, and no bound is missed"
    assert (form.parameters["left"], form.parameters["right"], form.parameters["distance"]) == (left, right, order)


@pytest.mark.parametrize("distances", [11, 21, 41])
def test_stored_rows_among_zeros_are_named(distances: int) -> None:
    table = np.random.default_rng(0).normal(size=(9, 16))
    beyond = (distances - 9) // 2
    form = among_zeros(np.pad(table, ((beyond, beyond), (0, 0))), table)
    assert form is not None
    assert (form.name, form.parameters["left"], form.parameters["beyond"]) == ("clipped", 4, "zero")
    assert among_zeros(np.pad(table, ((beyond, beyond), (0, 0)), constant_values=0.1), table) is None


def folded(values: np.ndarray, count: int) -> np.ndarray:
    """Return a bias (1, heads, count, count) from numbers by distance: (heads, 2 count - 1)."""
    return values[:, np.arange(count) - np.arange(count)[:, None] + count - 1][None]


def test_folded_biases_are_named_by_their_runs() -> None:
    rng = np.random.default_rng(0)
    table = of_bias(folded(rng.normal(size=(4, 39)), 20))
    assert table is not None
    assert (table.family, table.name) == ("relative", "table")
    for bidirectional in (True, False):
        bucket = buckets(np.arange(-63, 64), 32, 128, bidirectional, 1e-9)
        t5 = of_bias(folded(rng.normal(size=(4, 32))[:, bucket], 64))
        assert t5 is not None
        assert (t5.family, t5.parameters["max_distance"], t5.parameters["bidirectional"]) == ("t5", 128, bidirectional)
    clipped = of_bias(folded(rng.normal(size=(4, 9))[:, np.clip(np.arange(-19, 20), -4, 4) + 4], 20))
    assert clipped is not None
    assert clipped.name == "clipped"
    odd_runs = of_bias(folded(np.repeat(rng.normal(size=(4, 13)), 3, -1), 20))
    assert odd_runs is not None
    assert odd_runs.name == "bucketed"


@pytest.mark.parametrize("sides", [(7, 7), (4, 4), (2, 3), (3, 8)])
def test_windows_give_their_sides(sides: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    index = differences(sides)
    bias = rng.normal(size=(3, int(index.max()) + 1))[:, index]
    form = of_bias(bias[None])
    assert form is not None
    assert dict(form.parameters) == {"heads": 3, "window": sides}
    by_index = of_indices(index, int(index.max()) + 1)
    assert by_index is not None
    assert by_index.parameters["window"] == sides
    # BEiT has a token before: its row and column hold numbers of their own
    with_class = np.pad(bias, ((0, 0), (1, 0), (1, 0)), constant_values=7.0)
    token = of_bias(with_class[None])
    assert token is not None
    assert token.parameters["class_token"] is True


def test_coordinates_of_swin_version_2_are_named() -> None:
    from transformers import Swinv2Config
    from transformers.models.swinv2.modeling_swinv2 import Swinv2SelfAttention

    attention = Swinv2SelfAttention(Swinv2Config(), 32, 2, [7, 7], pretrained_window_size=[6, 6])
    form = find_scheme(Observation("coordinates", attention.relative_coords_table.numpy()[0], 2.0**-23))
    assert form is not None
    assert dict(form.parameters) == {"window": (7, 7), "pretrained_window": (6, 6)}


def negatives() -> dict[str, np.ndarray]:
    """Return arrays (1, heads, queries, keys) without a positional encoding."""
    rng = np.random.default_rng(2)
    return {
        "noise": rng.normal(size=(1, 4, 16, 16)),
        "a causal mask": np.broadcast_to(causal(16, 16), (1, 4, 16, 16)),
        "a causal mask of a least number": np.broadcast_to(
            causal(16, 16, float(np.finfo(np.float32).min)), (1, 4, 16, 16)
        ),
        "a sliding window": np.where(np.abs(np.arange(16) - np.arange(16)[:, None]) > 3, -np.inf, 0.0)[None, None],
        "a shifted window": np.broadcast_to(np.kron(np.eye(4), np.ones((4, 4))) * 100 - 100, (1, 2, 16, 16)),
        "an identity": np.broadcast_to(np.eye(16), (1, 4, 16, 16)),
        "zeros": np.zeros((1, 4, 16, 16)),
        "a scale of each head": np.broadcast_to(rng.normal(size=(1, 4, 1, 1)), (1, 4, 16, 16)),
        "a bias of keys": np.broadcast_to(rng.normal(size=(1, 4, 1, 16)), (1, 4, 16, 16)),
        "coordinates": np.broadcast_to(np.linspace(-1, 1, 16), (1, 1, 16, 16)),
        "sines of columns": np.broadcast_to(
            np.sin(np.arange(16) * np.arange(1, 5)[:, None])[None, :, None], (1, 4, 16, 16)
        ),
    }


@pytest.mark.parametrize("kind", negatives())
def test_other_numbers_are_not_named(kind: str) -> None:
    assert of_bias(negatives()[kind]) is None


def test_masks_are_told_from_encodings() -> None:
    assert all(is_mask(bias) for kind, bias in negatives().items() if "mask" in kind or "window" in kind)
    assert is_mask(np.ones((1, 7), np.int64))
    assert is_mask(np.array([[True, False]]))
    assert not is_mask(linear(4, "key"))
    assert not is_mask(np.random.default_rng(0).normal(size=(4, 4)))


@pytest.mark.parametrize("rows", [5, 32, 300])
def test_indices_of_other_kinds_are_not_named(rows: int) -> None:
    rng = np.random.default_rng(rows)
    indices = (rng.integers(0, rows, (9, 9)), np.zeros((9, 9), np.int64), np.tile(np.arange(5), (5, 1)))
    assert all(of_indices(index, rows) is None for index in indices)
    assert all(of_indices(index, rows) is None for index in indices)
