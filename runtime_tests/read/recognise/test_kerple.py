"""KERPLE's two kernels are named with their numbers, and what bends otherwise is not named so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from helpers.misread import biased, read
from posenc.call import Call
from posenc.formulas.fitting import Form, Observation, call_of_scores, find_scheme, spacing_of_dtype
from posenc.formulas.kerple import reference
from posenc_export.read.ends import MAX_LENGTH

R1, R2 = np.array([0.3, 1.2, 1.7, 0.05]), np.array([0.9, 0.02, 0.4, 1.5])
POWERS = np.array([0.25, 1.5, 0.7, 1.9])
SHAPES = {"log": R2, "power": POWERS}
DTYPES = (np.float64, np.float32, np.float16)


def of(bias: np.ndarray) -> Form | None:
    """Return what a bias (heads, queries, keys) is."""
    return find_scheme(Observation("bias", bias, spacing_of_dtype(bias.dtype)))


def bias(kernel: str, queries: int = 13, keys: int = 13) -> np.ndarray:
    """Return the reference's bias in float64."""
    call: Call = call_of_scores(Observation("bias", np.zeros((4, queries, keys)), 0.0))
    return np.asarray(reference(call, kernel=kernel, r1=tuple(R1), r2=tuple(SHAPES[kernel]))[0][0])


@pytest.mark.parametrize("kernel", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("queries", "keys"), [(13, 13), (7, 20), (40, 40), (300, 300)])
@pytest.mark.parametrize("later", ["as earlier", "zero", "masked"])
def test_a_kernel_gives_its_numbers(kernel: str, dtype: type, queries: int, keys: int, later: str) -> None:
    numbers: np.ndarray = bias(kernel, queries, keys).astype(dtype)
    ahead = np.arange(keys) > np.arange(queries)[:, None] + keys - queries
    if later != "as earlier":
        numbers[:, ahead] = 0 if later == "zero" else np.nan
    found = of(numbers)
    assert found is not None
    assert (found.family, found.name, found.scheme) == ("relative", f"kerple {kernel}", "kerple")
    assert found.parameters["heads"] == 4
    within = 0.2 if dtype is np.float16 else 2e-3
    assert np.allclose(found.parameters["r1"], R1, rtol=within)
    assert np.allclose(found.parameters["r2"], SHAPES[kernel], rtol=within)


NEAR: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    "an offset of 2": lambda r1, r2, d: r1 * np.log(2 + r2 * d),
    "root": lambda r1, r2, d: r1 * (np.sqrt(1 + r2 * d) - 1),
    "squared logarithm": lambda r1, r2, d: r1 * np.log1p(r2 * d) ** 2,
    "logarithm of squares": lambda r1, r2, d: r1 * np.log1p(r2 * d * d),
    "exponential": lambda r1, r2, d: r1 * (1 - np.exp(-r2 * d)),
    "fraction": lambda r1, r2, d: r1 * r2 * d / (1 + r2 * d),
    "tangent": lambda r1, r2, d: r1 * np.tanh(0.1 * r2 * d),
    "steep power": lambda r1, _, d: r1 * d**2.5,
    "gain": lambda r1, r2, d: -r1 * np.log1p(r2 * d),
    "line and power": lambda r1, r2, d: r1 * d + r2 * d**0.5,
    "power of one more": lambda r1, r2, d: r1 * ((1 + d) ** r2 - 1),
    "line": lambda r1, r2, d: r1 * r2 * d,
    "whole logarithm": lambda r1, r2, d: r1 * np.floor(4 * np.log1p(r2 * d)) / 4,
}
"""What a score loses with the distance, of a head with two numbers."""


@pytest.mark.parametrize("near", NEAR)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [13, 40])
def test_what_bends_otherwise_is_not_kerple(near: str, dtype: type, count: int) -> None:
    d = np.abs(np.arange(count) - np.arange(count)[:, None]).astype(np.float64)
    found = of((-NEAR[near](R1[:, None, None], R2[:, None, None], d)).astype(dtype))
    assert found is None or not found.name.startswith("kerple")


def test_one_head_that_bends_otherwise_is_enough() -> None:
    numbers = bias("log")
    numbers[2] *= 1 + 1e-4 * np.arange(13) / 13
    assert of(numbers.astype(np.float32)) is None


def test_a_number_that_is_off_is_enough() -> None:
    numbers = bias("power").astype(np.float32)
    numbers[1, 5, 3] *= np.float32(1.001)
    assert of(numbers) is None


def test_a_short_call_tells_too_little() -> None:
    assert of(bias("log", 5, 5).astype(np.float32)) is None


KERNELS = {
    "log": "f = Abs (d)  g = Mul (f, r2)  h = Add (g, unit)  l = Log (h)  bias = Mul (l, r1)",
    "power": "f = Abs (d)  l = Pow (f, r2)  bias = Mul (l, r1)",
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_graph_that_computes_a_kernel_is_named(tmp_path: Path, kernel: str) -> None:
    tables = {"r1": -R1, "r2": SHAPES[kernel]}
    arrays = {name: each.astype(np.float32).reshape(4, 1, 1) for name, each in tables.items()}
    arrays |= {"unit": np.array(1, np.float32)} if kernel == "log" else {}
    made = read(tmp_path, biased(KERNELS[kernel]), arrays)
    (entry,) = made.encodings
    # what float32 has of powers far out is nothing wrong
    assert made.findings == ()
    assert entry.errors is not None
    assert (entry.errors.last_position, entry.errors.power) == (
        MAX_LENGTH - 1,
        1.0 if kernel == "log" else pytest.approx(POWERS.max(), rel=0.02),
    )
    assert (entry.family, entry.name) == ("relative", f"kerple {kernel}")
    assert np.allclose(entry.parameters["r1"], R1, rtol=1e-3)
    assert np.allclose(entry.parameters["r2"], SHAPES[kernel], rtol=1e-3)
