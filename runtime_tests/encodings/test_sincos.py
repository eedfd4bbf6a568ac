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
from posenc.sincos.angle_addition import END, LOW
from posenc.spec import TABLE_ROWS


def engine(
    d_model: int, base: float, dtype: torch.dtype = torch.float32, table_rows: int = TABLE_ROWS, **form: Any
) -> AngleAddition:
    form = {"interleaved": True, **form}
    return AngleAddition(inverse_frequencies(d_model, base), d_model, dtype=dtype, table_rows=table_rows, **form)


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
@given(d_model=st.integers(1, 64), base=BASES, length=st.integers(1, 5000))
def test_any_range_is_right_to_3e_7(d_model: int, base: float, length: int) -> None:
    rows = engine(d_model, base).arange(length, d_model)[0]
    assert error(rows, np.arange(length), d_model, base) <= 3e-7


@pytest.mark.parametrize("d_model", [8, 512, 4096])
@pytest.mark.parametrize("base", [1e4, 5e5])
def test_wide_encodings_at_many_positions(d_model: int, base: float) -> None:
    rng = np.random.default_rng(d_model)
    count = 4_000_000 // d_model
    positions = rng.integers(0, END, count)
    edges = np.concatenate([np.arange(e - 2, e + 3) for e in (64, 2048, 32768, 65536, 2**20, 2**23, END - 3)])
    positions = np.concatenate([positions, edges])
    assert error(engine(d_model, base)(torch.from_numpy(positions), d_model), positions, d_model, base) <= 3e-7


def test_a_long_range_is_right_to_its_last_row() -> None:
    length, d_model = 2_000_003, 4
    rows = engine(d_model, 1e4).arange(length, d_model)[0]
    assert rows.shape == (length, d_model)
    assert error(rows, np.arange(length), d_model, 1e4) <= 3e-7


LENGTHS = [1, 2, 63, 64, 65, 127, 128, 129, 2047, 2048, 2049, 2111, 2112, 2113, 4096, 32767, 32769, 70001]


@pytest.mark.parametrize("table_rows", [64, 128, TABLE_ROWS, 65536])
@pytest.mark.parametrize("length", LENGTHS)
def test_a_position_has_the_same_bits_in_a_range_and_by_itself(length: int, table_rows: int) -> None:
    for form in ({"interleaved": True}, {"interleaved": False}, {"scale": -2.5, "phase": np.arange(5.0)}):
        exact = engine(10, 1e4, table_rows=table_rows, **form)
        assert torch.equal(bits(exact.arange(length, 10)[0]), bits(exact(torch.arange(length), 10)))


def bits(rows: Tensor) -> Tensor:
    """A sign of zero counts."""
    return rows.view(torch.int32)


@pytest.mark.parametrize("table_rows", [64, TABLE_ROWS])
def test_rows_of_the_table_are_right_to_half_an_ulp(table_rows: int) -> None:
    for d_model in (9, 64):
        positions = np.arange(table_rows)
        rows = engine(d_model, 1e4, table_rows=table_rows)(torch.from_numpy(positions), d_model).numpy()
        # `reference` makes angles in another way, which float64 rounds otherwise in its last digits
        baked = SinCosTable(
            inverse_frequencies(d_model, 1e4), d_model, interleaved=True, max_len=table_rows, dtype=torch.float32
        )
        assert np.array_equal(rows, baked.rows.numpy())
        expected = reference(positions, d_model, 1e4)
        half = np.spacing(np.abs(expected).astype(np.float32)).astype(np.float64) / 2
        assert np.all(np.abs(rows - expected) <= half * (1 + 1e-6) + 1e-11)


def test_positions_behind_the_table_have_the_same_bits_whatever_its_size() -> None:
    positions = torch.cat([torch.arange(4096, 9000), torch.tensor([65536, 2**20 + 7, END - 1])])
    rows = [engine(16, 1e4, table_rows=n)(positions, 16) for n in (LOW, TABLE_ROWS, 4096)]
    assert all(torch.equal(rows[0], others) for others in rows[1:])


def test_a_script_gives_the_same_bits_at_lengths_around_the_table() -> None:
    module = posenc.build("sinusoidal", posenc.Spec(mode="dynamic"), d_model=8).module
    scripted = torch.jit.script(module)
    for length in LENGTHS:
        x = torch.zeros(2, length, 8)
        assert torch.equal(scripted(x), module(x))


@pytest.mark.parametrize("table_rows", [64, TABLE_ROWS, 2**20])
def test_the_last_position_is_taken_and_the_end_refused_whatever_is_stored(table_rows: int) -> None:
    exact = engine(2, 1e4, table_rows=table_rows)
    assert error(exact(torch.tensor([END - 1]), 2), np.array([END - 1]), 2, 1e4) <= 3e-7
    for position in (END, -1, -table_rows, 2**62):
        with pytest.raises(IndexError, match="positions must be in"):
            exact(torch.tensor([position]), 2)


@pytest.mark.parametrize("rows", [0, 1, 63, 65, 100, -64, 2**20 + 64])
def test_a_spec_refuses_a_number_of_rows_that_is_no_multiple_of_a_block(rows: int) -> None:
    with pytest.raises(ValueError, match=f"table_rows must be a multiple of 64, from 64 to 1048576, got {rows}"):
        posenc.Spec("dynamic", table_rows=rows)


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


@pytest.mark.parametrize("example", [2, 11, 64, 128, 300, 2048, 2049, 2200])
def test_a_module_of_ours_traces_right_at_any_example_length(example: int) -> None:
    module = posenc.build("sinusoidal", posenc.Spec(mode="dynamic"), d_model=8).module
    free = torch.export.Dim.DYNAMIC
    program = torch.export.export(
        module, (torch.zeros(3, example, 8),), dynamic_shapes=({0: free, 1: free},), strict=False
    )
    assert max(int(r.upper) for r in program.range_constraints.values() if str(r.upper).isdigit()) == END
    assert min(int(r.lower) for r in program.range_constraints.values()) <= 2
    for length in (2, 2047, 2048, 2049, 2112, 2113, 4200):
        x = torch.zeros(1, length, 8)
        assert torch.equal(program.module()(torch.cat([x, x])), module(torch.cat([x, x])))
