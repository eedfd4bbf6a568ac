"""The float64 reference against printed numbers and against what the mathematics says of it."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import posenc


def table(positions: int, d_model: int, **params: Any) -> NDArray[np.float64]:
    encoding = posenc.build("sinusoidal", posenc.Spec(max_len=positions), d_model=d_model, output="table", **params)
    return encoding.reference({}, None)["y"]


def test_printed_table_of_six(seed_tables: Any) -> None:
    source = seed_tables["table_10x6"]
    np.testing.assert_array_equal(np.round(table(10, 6), source["decimals"]), source["values"])


def test_printed_table_of_eight(seed_tables: Any) -> None:
    source = seed_tables["table_4x8"]
    # Half a unit of the last printed digit, and a hair: sin(0.03) = 0.0299955002 is printed 0.029995.
    values = np.array(source["values"])
    unit = 10.0 ** (np.floor(np.log10(np.maximum(np.abs(values), 1e-9))) + 1 - source["significant_digits"])
    assert np.all(np.abs(table(4, 8) - values) <= 0.501 * unit)
    np.testing.assert_allclose(np.linalg.norm(table(4, 8), axis=1), source["row_norm"])


def test_first_row_of_512_as_printed(seed_tables: Any) -> None:
    source = seed_tables["row_1_of_512"]
    truncation = np.trunc(table(2, 512)[1] * 1e4) / 1e4
    np.testing.assert_array_equal(truncation[:4], source["first"])
    np.testing.assert_array_equal(truncation[-2:], source["last"])


def test_denominators_and_sines_as_printed(seed_tables: Any) -> None:
    from posenc.sincos import inverse_frequencies

    digits = 5
    denominators = [float(f"{v:.{digits}g}") for v in 1 / inverse_frequencies(64, 10000.0)]
    assert denominators == seed_tables["denominators_64"]["values"]
    sines = [float(f"{v:.{digits}g}") for v in table(2, 64)[1, ::2]]
    assert sines == seed_tables["sines_row_1_of_64"]["values"]


def test_the_reference_equals_the_loop_of_the_formula() -> None:
    d, positions = 7, 12
    loop = np.zeros((positions, d))
    for p in range(positions):
        for k in range(d):
            angle = p / 10000.0 ** ((k - k % 2) / d)
            loop[p, k] = np.cos(angle) if k % 2 else np.sin(angle)
    np.testing.assert_allclose(table(positions, d), loop, atol=1e-14)


@pytest.mark.parametrize("d_model", [2, 8, 128])
def test_every_row_of_an_even_table_has_one_norm(d_model: int) -> None:
    np.testing.assert_allclose(np.linalg.norm(table(300, d_model), axis=1), np.sqrt(d_model / 2))


def test_position_zero() -> None:
    np.testing.assert_array_equal(table(1, 6)[0], [0, 1, 0, 1, 0, 1])
    np.testing.assert_array_equal(table(1, 6, layout="halves")[0], [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(table(1, 5, layout="halves")[0], [0, 0, 0, 1, 1])


@pytest.mark.parametrize("k", [1, 5, 64])
def test_a_shift_is_a_rotation_that_depends_on_the_shift_alone(k: int) -> None:
    rows, d = table(400, 16), 16
    frequency = 10000.0 ** (-np.arange(0, d, 2) / d)
    cos, sin = np.cos(k * frequency), np.sin(k * frequency)
    later = np.empty((400, d))
    later[:, ::2] = rows[:, ::2] * cos + rows[:, 1::2] * sin
    later[:, 1::2] = rows[:, 1::2] * cos - rows[:, ::2] * sin
    np.testing.assert_allclose(later[:-k], rows[k:], atol=1e-12)
