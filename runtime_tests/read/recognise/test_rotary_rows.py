"""Circles, frequencies and layouts of columns: what is rotary, what looks like it, and what is not known."""

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.made_rotary import DTYPES, Made
from posenc.formulas.parts.circles import circle_of, frequencies_at, narrowest_float, offset_of
from posenc_export.read.recognise.rotary.layouts import columns_of, pairs_of
from posenc_export.read.recognise.rotary.rows import CosSinRows, rotary_form, row_errors

LLAMA = Made("default", 128, 5e5, {})
COUNT = np.arange(64)[:, None]


def form_name(cosine: NDArray[np.generic], sine: NDArray[np.generic]) -> str | None:
    form = rotary_form(CosSinRows(cosine, sine), np.arange(len(cosine)))
    return None if form is None else form.name


def turned(angles: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def false_friends() -> dict[str, tuple[NDArray[np.generic], NDArray[np.generic]]]:
    rng = np.random.default_rng(0)
    frequencies = 1e4 ** (-np.arange(16) / 16)
    cosine, sine = turned(COUNT * frequencies)
    random = rng.normal(size=(64, 16)).astype(np.float32)
    window = np.hanning(64)[:, None].astype(np.float32)
    # xPos: each pair fades by a factor of its own, from 0.286 to nearly 1, over 512 positions
    fading = (((np.arange(16) / 16 + 0.4) / 1.4) ** ((COUNT - 6) / 512)).astype(np.float32)
    fourier = turned(2 * np.pi * COUNT * np.arange(16) / 64)
    return {
        "random": (random, random[::-1]),
        "normalised random": tuple(random / np.hypot(random, random[::-1]) for _ in range(2)),  # type: ignore[dict-item]
        "random angles": turned(rng.uniform(-3, 3, (64, 16))),
        "scale and bias of a norm": (1 + random / 10, random / 10),
        "sines added to data": (cosine + random, sine + random),
        "cosines alone": (cosine, cosine),
        "Fourier transform": fourier,
        "Fourier transform without its constant": (fourier[0][:, 1:], fourier[1][:, 1:]),
        "cosine transform": turned(np.pi * (COUNT + 0.5) * np.arange(16) / 64),
        "windowed transform": (fourier[0] * window, fourier[1] * window),
        "logarithms of positions": turned(np.log1p(COUNT) * frequencies),
        "reciprocal positions": turned(frequencies / (1 + COUNT)),
        "squares of positions": turned(COUNT**2 * frequencies),
        "phases of a vocoder": turned(COUNT * frequencies + rng.uniform(-3, 3, 16)),
        "whole numbers": (np.ones((64, 16), np.int64), np.zeros((64, 16), np.int64)),
        "xPos in a short call": tuple((part * fading)[:13] for part in (cosine, sine)),  # type: ignore[dict-item]
        "an amplitude a row": (cosine * (1 + COUNT / 640), sine * (1 + COUNT / 640)),
    }


@pytest.mark.parametrize("name", false_friends())
def test_what_looks_like_a_rotation_is_not_named(name: str) -> None:
    assert form_name(*false_friends()[name]) is None


def test_frequencies_without_a_closed_form_are_given_as_numbers() -> None:
    inv_freq = np.sort(np.random.default_rng(1).uniform(0.001, 1, 24))[::-1]
    cosine, sine = turned(np.arange(500)[:, None] * inv_freq)
    form = rotary_form(CosSinRows(cosine, sine), np.arange(500))
    assert form is not None
    assert (form.name, form.exact) == ("unknown frequencies", None)
    np.testing.assert_allclose(np.asarray(form.parameters["inv_freq"]), inv_freq, rtol=2e-7)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("seed", range(3))
def test_frequencies_of_no_kind_get_no_closed_form(seed: int, dtype: str) -> None:
    rng, pairs = np.random.default_rng(seed), 16
    series = 1e4 ** (-np.arange(pairs) / pairs)
    uneven = (np.sort(rng.uniform(0.001, 1, pairs))[::-1], series * rng.uniform(0.8, 1.25, pairs))
    for inv_freq in (*uneven, series / np.sort(rng.uniform(1, 8, pairs))):
        cosine, sine = (half.astype(DTYPES[dtype]) for half in turned(np.arange(64)[:, None] * inv_freq))
        assert form_name(cosine, sine) == "unknown frequencies"


def test_frequencies_of_zero_are_no_position() -> None:
    cosine, sine = turned(np.arange(100)[:, None] * np.zeros(32))
    form = rotary_form(CosSinRows(cosine, sine), np.arange(100))
    assert form is not None
    assert form.name == "no position"
    assert row_errors(CosSinRows(cosine, sine), form, np.arange(100)).max() == 0


def test_columns_that_stand_still_are_a_partial_width() -> None:
    inv_freq = np.concatenate([5e5 ** (-np.arange(12) / 12), np.zeros(20)])
    cosine, sine = turned(np.arange(100)[:, None] * inv_freq)
    form = rotary_form(CosSinRows(cosine, sine), np.arange(100))
    assert form is not None
    assert (form.name, form.parameters["rotary_dim"], form.parameters["rope_theta"]) == ("default", 24, 5e5)


def test_sines_below_0_turn_backward() -> None:
    rows = LLAMA.rows(100, "float32")
    form = rotary_form(CosSinRows(rows.cosine, -rows.sine.astype(np.float32)), np.arange(100))
    assert form is not None
    assert (form.name, form.parameters["direction"]) == ("default", "backward")
    assert row_errors(CosSinRows(rows.cosine, -rows.sine.astype(np.float32)), form, np.arange(100)).max() < 1e-5


@pytest.mark.parametrize("start", [0, 1, 2, 17, 4096])
def test_positions_in_a_row_say_where_they_begin(start: int) -> None:
    angles = (np.arange(start, start + 37)[:, None] * LLAMA.frequencies.inv_freq).astype(np.float64)
    circle = circle_of(*turned(angles))
    assert circle is not None
    assert offset_of(circle, 37) == start


def test_positions_in_any_order_give_the_same_frequencies() -> None:
    rows, order = LLAMA.rows(200, "float32"), np.random.default_rng(2).permutation(200)
    circle = circle_of(rows.cosine[order], rows.sine[order])
    assert circle is not None
    fit = frequencies_at(circle, order)
    assert fit is not None
    np.testing.assert_allclose(fit.inv_freq, LLAMA.frequencies.inv_freq, rtol=2e-7)


def test_rows_that_a_quantizer_rounded_are_named() -> None:
    rows = LLAMA.rows(500, "float32")
    quantised = [
        (np.round(half.astype(np.float32) * 127) / 127).astype(np.float32) for half in (rows.cosine, rows.sine)
    ]
    form = rotary_form(CosSinRows(quantised[0], quantised[1]), np.arange(500))
    assert form is not None
    assert (form.name, form.parameters["rope_theta"]) == ("default", 5e5)


@pytest.mark.parametrize("layout", ["halves", "interleaved"])
def test_columns_that_hold_each_pair_twice_are_seen(layout: str) -> None:
    rows = LLAMA.rows(50, "float32")
    wide = [
        np.concatenate([half, half], axis=1) if layout == "halves" else np.repeat(half, 2, axis=1)
        for half in (rows.cosine, rows.sine)
    ]
    assert columns_of(wide[0], wide[1]) == layout
    assert columns_of(rows.cosine, rows.sine) == "half"
    np.testing.assert_array_equal(pairs_of(wide[0], columns_of(wide[0], wide[1])), rows.cosine)


def test_the_type_that_numbers_were_rounded_to_is_seen_in_any_other() -> None:
    rows = LLAMA.rows(50, "float32")
    points = rows.cosine.astype(np.complex128) + 1j * rows.sine.astype(np.float64)
    halves = {dtype: rows.cosine.astype(dtype).astype(np.float32) for dtype in (np.float16, ml_dtypes.bfloat16)}
    assert narrowest_float(points) == "float32"
    assert [narrowest_float(half.astype(np.complex128)) for half in halves.values()] == ["float16", "bfloat16"]
