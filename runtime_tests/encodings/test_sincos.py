"""The three sincos methods: how far from float64, at which positions, and that a position has one set of bits."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

import posenc
from posenc.sincos import AngleAddition, DirectSinCos, SinCosTable, inverse_frequencies
from posenc.sincos.angle_addition import END


def engine(d_model: int, base: float, dtype: torch.dtype = torch.float32) -> AngleAddition:
    return AngleAddition(inverse_frequencies(d_model, base), d_model, interleaved=True, dtype=dtype)


def reference(positions: NDArray[np.int64], d_model: int, base: float) -> NDArray[np.float64]:
    """Sines and cosines in float64, from the formula."""
    angle = positions[:, None] / np.power(base, 2.0 * (np.arange(d_model) // 2) / d_model)
    return np.where(np.arange(d_model) % 2 == 0, np.sin(angle), np.cos(angle))


def error(rows: Tensor, positions: NDArray[np.int64], d_model: int, base: float) -> float:
    return float(np.abs(rows.numpy().astype(np.float64) - reference(positions, d_model, base)).max())


BASES = st.floats(min_value=10.0, max_value=1e7)


@settings(max_examples=150, deadline=None)
@given(d_model=st.integers(1, 300), base=BASES, data=st.data())
def test_any_position_below_2_to_the_24_is_right_to_3e_7(d_model: int, base: float, data: Any) -> None:
    positions = np.array(data.draw(st.lists(st.integers(0, END - 1), min_size=1, max_size=40)))
    rows = engine(d_model, base)(torch.from_numpy(positions), d_model)
    assert error(rows, positions, d_model, base) <= 3e-7


@settings(max_examples=40, deadline=None)
@given(d_model=st.integers(1, 64), base=BASES, length=st.integers(1, 2000))
def test_any_range_is_right_to_3e_7(d_model: int, base: float, length: int) -> None:
    rows = engine(d_model, base).arange(length, d_model)[0]
    assert error(rows, np.arange(length), d_model, base) <= 3e-7


@pytest.mark.parametrize("d_model", [8, 512, 4096])
@pytest.mark.parametrize("base", [1e4, 5e5])
def test_wide_encodings_at_many_positions(d_model: int, base: float) -> None:
    rng = np.random.default_rng(d_model)
    count = 4_000_000 // d_model
    positions = rng.integers(0, END, count)
    edges = np.concatenate([np.arange(e - 2, e + 3) for e in (64, 32768, 65536, 2**20, 2**23, END - 3)])
    positions = np.concatenate([positions, edges])
    assert error(engine(d_model, base)(torch.from_numpy(positions), d_model), positions, d_model, base) <= 3e-7


def test_a_long_range_is_right_to_its_last_row() -> None:
    length, d_model = 2_000_003, 4
    rows = engine(d_model, 1e4).arange(length, d_model)[0]
    assert rows.shape == (length, d_model)
    assert error(rows, np.arange(length), d_model, 1e4) <= 3e-7


@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 127, 128, 129, 4096, 32767, 32769, 70001])
def test_a_position_has_the_same_bits_in_a_range_and_by_itself(length: int) -> None:
    exact = engine(10, 1e4)
    assert torch.equal(exact.arange(length, 10)[0], exact(torch.arange(length), 10))


def test_float64_is_right_to_its_own_grain() -> None:
    positions = np.array([0, 1, 65535, 2**23, END - 1])
    rows = engine(16, 1e4, torch.float64)(torch.from_numpy(positions), 16)
    bound = engine(16, 1e4, torch.float64).tolerance(END).atol
    assert error(rows, positions, 16, 1e4) <= bound < 2e-8


def test_the_table_is_right_to_half_an_ulp() -> None:
    table = SinCosTable(inverse_frequencies(64, 1e4), 64, interleaved=True, max_len=9000, dtype=torch.float32)
    expected = reference(np.arange(9000), 64, 1e4)
    half = np.spacing(np.abs(expected).astype(np.float32)).astype(np.float64) / 2
    assert np.all(np.abs(table.rows.numpy() - expected) <= half * (1 + 1e-6) + 1e-11)


def test_trig_grows_as_its_tolerance_says_and_angle_addition_does_not() -> None:
    positions = np.array([1_000_003])
    trig = DirectSinCos(inverse_frequencies(512, 1e4), 512, interleaved=True, dtype=torch.float32)
    off = error(trig(torch.from_numpy(positions), 512), positions, 512, 1e4)
    bound = trig.tolerance(1_000_003).atol
    assert 1e-3 < off <= bound
    assert error(engine(512, 1e4)(torch.from_numpy(positions), 512), positions, 512, 1e4) <= 3e-7


@pytest.mark.parametrize("position", [-1, -64, -(2**40), END, END + 1, 2**40])
def test_positions_out_of_range_are_refused(position: int) -> None:
    with pytest.raises(IndexError, match=r"positions must be in 0\.\.16777215"):
        engine(8, 1e4)(torch.tensor([[3, position]]), 8)


def test_a_range_beyond_the_end_is_refused() -> None:
    with pytest.raises(ValueError, match="16777217 is beyond the 16777216 positions"):
        engine(2, 1e4).arange(END + 1, 2)


@pytest.mark.parametrize("example", [2, 11, 64, 128, 300])
def test_a_module_of_ours_traces_right_at_any_example_length(example: int) -> None:
    module = posenc.build("sinusoidal", posenc.Spec(mode="dynamic"), d_model=8).module
    free = torch.export.Dim.DYNAMIC
    program = torch.export.export(
        module, (torch.zeros(3, example, 8),), dynamic_shapes=({0: free, 1: free},), strict=False
    )
    assert max(int(r.upper) for r in program.range_constraints.values() if str(r.upper).isdigit()) == END
    assert min(int(r.lower) for r in program.range_constraints.values()) <= 2
