"""Measuring and judging: every damage to an output must be caught, under every tolerance we derive."""

from collections.abc import Callable

import numpy as np
import pytest

import posenc
from posenc.encoding import Tolerance
from posenc.ports import Array
from posenc_export.common.arrays import numpy_dtype
from posenc_export.proof.judging.compare import compare_names, judge, measure, ulp

GOOD = posenc.build("sinusoidal", posenc.Spec(max_len=32), d_model=8, output="table").reference({}, None)["y"]
GOOD32 = GOOD.astype(np.float32)[None]


def with_nan(y: Array) -> Array:
    y = y.copy()
    y[0, 7, 3] = np.nan
    return y


DAMAGES: dict[str, Callable[[Array], Array]] = {
    "zeros": np.zeros_like,
    "x1000": lambda y: y * np.float32(1000),
    "x0.5": lambda y: y * np.float32(0.5),
    "swapped axes": lambda y: y.swapaxes(1, 2),
    "reversed sequence": lambda y: y[:, ::-1],
    "exchanged halves": lambda y: np.roll(y, y.shape[-1] // 2, axis=-1),
    "one NaN": with_nan,
    "a lost row": lambda y: y[:, :-1],
    "wrong dtype": lambda y: y.astype(np.float16),
    "one position late": lambda y: np.roll(y, 1, axis=1),
    "broadcast": lambda y: y[:, :1],
}
TOLERANCES = {
    "bits": Tolerance(bits=True),
    "exact": Tolerance(atol=3e-7),
    "trig": Tolerance(atol=4 * 2.0**-23 * 32),
    "half": Tolerance(atol=3e-7, rtol=2.0**-24, ulps=0.5),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("tolerance", TOLERANCES)
def test_every_damage_is_caught(damage: str, tolerance: str) -> None:
    actual = DAMAGES[damage](GOOD32)
    assert not judge(measure(actual, GOOD32), TOLERANCES[tolerance]).passed


@pytest.mark.parametrize("tolerance", TOLERANCES)
def test_what_is_right_passes(tolerance: str) -> None:
    assert judge(measure(GOOD32, GOOD32.copy()), TOLERANCES[tolerance]).passed


def test_bits_distinguish_minus_zero_and_the_last_ulp() -> None:
    bits = Tolerance(bits=True)
    zero = np.zeros((2, 2), np.float32)
    assert not judge(measure(-zero, zero), bits).passed
    one = np.ones((2, 2), np.float32)
    assert not judge(measure(np.nextafter(one, 2, dtype=np.float32), one), bits).passed


def test_nan_fails_even_where_nan_was_expected() -> None:
    nan = with_nan(GOOD32)
    assert not judge(measure(nan, nan), Tolerance(atol=1e9)).passed
    assert not judge(measure(GOOD32, GOOD32), Tolerance(atol=float("nan"))).passed


def test_a_float64_reference_fits_a_narrower_output_but_no_other_dtype_does() -> None:
    assert judge(measure(GOOD.astype(np.float16), GOOD), Tolerance(ulps=0.5)).passed
    assert not judge(measure(GOOD.astype(np.float16), GOOD32[0]), Tolerance(atol=1.0)).passed
    assert not judge(measure(np.ones(3, np.int32), np.ones(3, np.int64)), Tolerance()).passed


def test_integers_must_be_equal() -> None:
    values = np.arange(5)
    assert judge(measure(values, values.copy()), Tolerance()).passed
    assert not judge(measure(values + 1, values), Tolerance()).passed


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_ulp_is_the_gap_to_the_next_number(name: str) -> None:
    dtype = numpy_dtype(name)
    values = np.array([1.0, 1.5, 2.0, 100.0, 1e-3], np.float64).astype(dtype)
    view = {2: np.uint16, 4: np.uint32, 8: np.uint64}[dtype.itemsize]
    following = (values.view(view) + view(1)).view(dtype).astype(np.float64)
    np.testing.assert_array_equal(ulp(values.astype(np.float64), name), following - values.astype(np.float64))


def test_the_worst_position_is_named() -> None:
    off = GOOD32.copy()
    off[0, 5, 2] += 1
    difference = measure(off, GOOD32)
    assert difference.worst == (0, 5, 2)
    assert difference.max_abs == pytest.approx(1)
    assert measure(with_nan(GOOD32), GOOD32).worst == (0, 7, 3)


def test_the_element_that_is_named_is_beyond_what_is_allowed_there() -> None:
    """Of large numbers more is allowed: the largest error may be right, and a smaller one wrong."""
    expected = np.array([[1000.0, 1.0]], np.float32)
    judgement = judge(measure(expected + np.array([[0.5, 0.01]], np.float32), expected), Tolerance(rtol=1e-3))
    assert judgement.reason == "off by 0.01 at [0, 1], expected at most 0.001"


def test_missing_and_extra_outputs_are_named() -> None:
    assert compare_names({"y"}, {"y"}).passed
    assert compare_names(set(), {"y"}).reason == "missing output y"
    assert compare_names({"y", "z"}, {"y"}).reason == "extra output z"


def test_a_vector_s_tolerance_is_relative_to_its_largest_feature() -> None:
    expected = np.array([[1000.0, 0.001], [1.0, 0.001]], np.float32)
    actual = expected + np.array([[0.0, 0.0005], [0.0, 0.0]], np.float32)
    assert judge(measure(actual, expected), Tolerance(vector=1e-6)).passed
    assert not judge(measure(actual, expected), Tolerance(rtol=1e-6)).passed
    small_feature_off = expected + np.array([[0.0, 0.0], [0.0, 0.0005]], np.float32)
    assert not judge(measure(small_feature_off, expected), Tolerance(vector=1e-6)).passed
    assert not judge(measure(np.full_like(expected, np.nan), expected), Tolerance(vector=1.0)).passed


def test_tolerances_of_two_causes_add_up() -> None:
    of_rotary_op = Tolerance(vector=2e-7, ulps=1.0)
    assert Tolerance(bits=True).plus(of_rotary_op) == of_rotary_op
    assert Tolerance(bits=True).plus(None).bits
    assert Tolerance(atol=1.0, vector=1e-7).plus(of_rotary_op) == Tolerance(atol=1.0, vector=3e-7, ulps=1.0)
