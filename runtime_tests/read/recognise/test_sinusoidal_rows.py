"""Rows of sinusoids are named with their parameters, whichever code made them, and nothing else is."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from posenc.formulas.fitting import Form, Observation, find_scheme, spacing_of_dtype
from posenc_export.read.recognise.added.taken_in import form_of_steps
from posenc_export.read.recognise.lookups import form_of_rows


def taken(rows: np.ndarray) -> Form | None:
    """Return what rows are that a weight takes in."""
    return find_scheme(Observation("taken", rows, spacing_of_dtype(rows.dtype)))


def waves(positions: NDArray[np.generic], width: int, base: float = 1e4, divisor: float | None = None) -> np.ndarray:
    """Return interleaved sines and cosines of positions, computed in float32 as models do."""
    exponent = np.arange((width + 1) // 2) / (divisor or width / 2)
    angle = positions.astype(np.float32)[:, None] * np.power(base, -exponent).astype(np.float32)
    rows = np.zeros((len(positions), width), np.float32)
    rows[:, 0::2], rows[:, 1::2] = np.sin(angle), np.cos(angle[:, : width // 2])
    return rows


def named(form: Form | None) -> dict[str, object]:
    assert form is not None
    return dict(form.parameters)


@pytest.mark.parametrize("seed", range(12))
def test_interleaved_rows_give_their_parameters(seed: int) -> None:
    rng = np.random.default_rng(seed)
    width, base = int(rng.integers(4, 130)), float(rng.choice([100.0, 1e3, 1e4, 2e4, 5e5]))
    offset, count = int(rng.integers(0, 40)), int(rng.integers(5, 400))
    rows = waves(np.arange(offset, offset + count), width, base)
    parameters = named(form_of_rows(rows))
    assert (parameters["d_model"], parameters["base"], parameters.get("offset", 0)) == (width, base, offset)
    assert (parameters["layout"], parameters["spacing"]) == ("interleaved", "paper")


def test_a_base_that_is_not_round_is_fitted() -> None:
    assert named(form_of_rows(waves(np.arange(200), 64, 12345.6)))["base"] == pytest.approx(12345.6, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("base", [1e4, 5e5])
def test_half_precision_gives_the_same_base(dtype: np.dtype[np.generic], base: float) -> None:
    assert named(form_of_rows(waves(np.arange(300), 64, base).astype(dtype)))["base"] == base


def test_an_amplitude_is_a_parameter() -> None:
    assert named(form_of_rows(np.float32(0.3) * waves(np.arange(50), 32)))["scale"] == pytest.approx(0.3, rel=1e-5)


def test_tables_of_transformers_are_named() -> None:
    from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
    from transformers.models.whisper.modeling_whisper import sinusoids

    whisper = named(form_of_rows(sinusoids(1500, 384).numpy()))
    assert whisper == {"d_model": 384, "base": 1e4, "layout": "halves", "spacing": "half"}
    for width in (32, 33):
        table = M2M100SinusoidalPositionalEmbedding(64, width, padding_idx=1).weights.numpy()
        assert named(form_of_rows(table)) == whisper | {"d_model": width, "padding_row": 1}
        assert named(form_of_rows(table[2:])) == whisper | {"d_model": width, "offset": 2}
    marian = MarianSinusoidalPositionalEmbedding(64, 32).create_weight().numpy()
    assert named(form_of_rows(marian)) == whisper | {"d_model": 32, "spacing": "paper"}


def test_the_form_in_float64_is_the_table() -> None:
    table = waves(np.arange(7, 90), 48)
    form = form_of_rows(table)
    assert form is not None
    assert form.exact is not None
    assert np.abs(form.exact(np.arange(7, 90)) - table).max() < 2e-5


@pytest.mark.parametrize(("first", "last", "name"), [(19, -19, "conformer"), (19, 0, "transformer_xl"), (9, -4, None)])
def test_distances_that_go_down_are_relative(first: int, last: int, name: str | None) -> None:
    form = taken(waves(np.arange(first, last - 1, -1), 32))
    assert form is not None
    assert (form.family, form.name) == ("relative", name or "transformer_xl")
    assert (form.parameters["first_distance"], form.parameters["last_distance"]) == (first, last)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
@pytest.mark.parametrize(("flip", "shift"), [(False, 1.0), (True, 0.0)])
@pytest.mark.parametrize("width", [320, 9])
def test_steps_of_diffusion_are_named(scale: float, flip: bool, shift: float, width: int) -> None:
    steps = np.array([0.73, 0.11]) if scale > 1 else np.array([37.0, 3.5])
    half = width // 2
    angle = np.float32(scale) * steps.astype(np.float32)[:, None] * np.power(1e4, -np.arange(half) / (half - shift))
    halves = [np.cos(angle), np.sin(angle)] if flip else [np.sin(angle), np.cos(angle)]
    rows = np.pad(np.concatenate(halves, 1), ((0, 0), (0, width % 2))).astype(np.float32)
    expected = {"dim": width, "max_period": 1e4, "flip_sin_to_cos": flip, "downscale_freq_shift": shift, "scale": scale}
    assert named(form_of_steps(rows, steps)) == expected


def negatives() -> dict[str, np.ndarray]:
    """Return arrays (rows, columns) without a positional encoding."""
    rng = np.random.default_rng(1)
    time = np.arange(400.0)[:, None] / 16000
    return {
        "learned": rng.normal(size=(64, 32)).astype(np.float32),
        "zeros": np.zeros((16, 8)),
        "ones": np.ones((16, 8)),
        "a normal layer's scale": np.tile(rng.normal(size=32), (7, 1)),
        "a vocoder's harmonics": np.sin(2 * np.pi * 220 * time * np.arange(1, 9)),
        "coordinates": np.linspace(-1, 1, 64).reshape(8, 8),
        "characters": rng.integers(0, 255, (64, 16)),
        "no position": np.tile([1.0, 0.0], (16, 8)),
        "a causal mask": np.triu(np.full((16, 16), -np.inf), 1),
        "not a number": np.full((8, 8), np.nan),
    }


@pytest.mark.parametrize("kind", negatives())
def test_other_numbers_are_not_named(kind: str) -> None:
    rows = negatives()[kind]
    assert form_of_rows(rows) is None
    assert taken(rows) is None
    assert form_of_steps(rows[:1], np.array([0.5])) is None


def test_what_was_measured_is_that_of_its_own_numbers() -> None:
    """A grid is made of the rows of an observation: nothing that was measured of the rows is true of it."""
    seen = Observation("rows", waves(np.arange(20), 16), spacing_of_dtype(np.dtype(np.float32)))
    grid = replace(seen, numbers=seen.numbers.reshape(4, 5, 16))
    assert (seen.measured(_places), grid.measured(_places)) == ((20,), (4, 5))


def _places(seen: Observation) -> tuple[int, ...]:
    return seen.places
