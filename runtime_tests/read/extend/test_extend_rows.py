"""Numbers of tables: rounded once, in every order of columns that files have, and laid out as before."""

import ml_dtypes
import numpy as np
import pytest

from helpers.longer import sinusoids
from posenc.formulas.fitting import Form
from posenc.formulas.parts.cos_sin_rows import rows_of
from posenc_export.read.extend.held import half_steps, held
from posenc_export.read.extend.layouts import layout_of
from posenc_export.read.recognise.lookups import form_of_rows
from posenc_export.read.values import Array

HALF = np.dtype(ml_dtypes.bfloat16)
INV_FREQ = 10000 ** (-np.arange(0, 8, 2) / 8)
ROTARY = Form("rotary", "default", {"rope_theta": 10000.0, "attention_factor": 1.0}, rows_of(INV_FREQ, 1.0))
ANGLES = np.arange(300)[:, None] * INV_FREQ
COS, SIN = np.cos(ANGLES), np.sin(ANGLES)
ARRANGED = {
    "cosines": COS,
    "sines": SIN,
    "sines of backward angles": -SIN,
    "cosines twice": np.concatenate([COS, COS], 1),
    "cosines, each twice": np.repeat(COS, 2, 1),
    "sines, then cosines": np.concatenate([SIN, COS], 1),
    "pairs of both": np.stack([COS, SIN], -1).reshape(300, -1),
    "rotate_half's sines": np.concatenate([-SIN, SIN], 1),
}


def test_numbers_are_rounded_once() -> None:
    # by float32 it would be the middle of two numbers, and go to the even one below
    number = np.array([1 + 2.0**-8 + 2.0**-30, -1 - 2.0**-8 - 2.0**-30, 0.0, 1 + 2.0**-8, 3 * 2.0**-8 + 1])
    assert number.astype(HALF).astype(np.float64)[0] == 1.0
    assert held(number, HALF).astype(np.float64).tolist() == [1 + 2.0**-7, -1 - 2.0**-7, 0.0, 1.0, 1 + 2.0**-6]


def test_rounded_numbers_are_within_half_a_step() -> None:
    numbers = np.random.default_rng(0).standard_normal(100_000)
    for dtype in (np.dtype(np.float16), HALF, np.dtype(np.float32)):
        rounded = held(numbers, dtype).astype(np.float64)
        assert (np.abs(rounded - numbers) <= half_steps(rounded, dtype)).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_half_a_step_is_that_of_numpy(dtype: type) -> None:
    numbers: Array = np.abs(np.random.default_rng(0).standard_normal(1000)).astype(dtype)
    expected = np.spacing(numbers).astype(np.float64) / 2
    assert np.array_equal(half_steps(numbers.astype(np.float64), np.dtype(dtype)), expected)


@pytest.mark.parametrize("name", ARRANGED)
@pytest.mark.parametrize("scale", [1.0, 1.25])
def test_columns_are_found_in_each_order(name: str, scale: float) -> None:
    table = scale * ARRANGED[name]
    parameters = {"rope_theta": 10000.0, "attention_factor": scale}
    form = Form("rotary", "yarn", parameters, rows_of(INV_FREQ, scale))
    layout = layout_of(table[:40].astype(np.float32), form)
    assert layout is not None
    assert form.exact is not None
    assert np.abs(layout.rows(form.exact, 0, 300) - table).max() < 1e-12


def test_a_factor_that_is_applied_later_is_not_in_the_table() -> None:
    form = Form("rotary", "yarn", {"attention_factor": 1.25}, rows_of(INV_FREQ, 1.25))
    layout = layout_of(COS[:40], form)
    assert layout is not None
    assert layout.scale == pytest.approx(0.8)


def test_other_columns_are_not_found() -> None:
    draw = np.random.default_rng(0)
    for table in (COS[:40, ::-1], draw.standard_normal((40, 4)), COS[:40, :3]):
        assert layout_of(np.ascontiguousarray(table), ROTARY) is None


@pytest.mark.parametrize("offset", [0, 2])
@pytest.mark.parametrize("padding", [None, 1])
def test_rows_of_sinusoids_keep_their_start_and_their_zeros(offset: int, padding: int | None) -> None:
    whole = sinusoids(200, 16)[offset:].copy()
    if padding is not None:
        whole[padding] = 0.0
    form = form_of_rows(whole[:60].astype(np.float32))
    assert form is not None
    assert form.exact is not None
    layout = layout_of(whole[:60].astype(np.float32), form)
    assert layout is not None
    assert np.abs(layout.rows(form.exact, 0, 150) - whole[:150]).max() < 1e-12
