"""Operators that move elements move the places of elements alike: what interpretation does with data."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import kernel_cases as cases
from helpers.kernel_cases import Case, case, drawn
from helpers.nodes import by_runtime, node_of, proto_of
from posenc_export.read.kernels import compute
from posenc_export.read.values import Array

GATHERS = ("Gather", "GatherND", "GatherElements", "Compress")
MOVES = [item for item in cases.MOVING if item.operator != "Pad" or "mode" in item.attributes]
MOVES += [item for item in cases.GATHERING if item.operator in GATHERS]
SIZES = st.integers(-12, 12) | st.sampled_from([2**31 - 1, 2**63 - 1, -(2**63)])


def outputs(item: Case, data: list[Array]) -> list[Array]:
    arrays = [*data, *item.arrays[len(data) :]]
    proto = proto_of(item.operator, arrays, item.outputs, **item.attributes)
    return compute(node_of(proto), {"": item.opset}, arrays)


@pytest.mark.parametrize("item", MOVES, ids=str)
def test_places_move_as_elements_do(item: Case) -> None:
    count = len(item.arrays) if item.operator == "Concat" else 1
    data = [array for array in item.arrays[:count] if array is not None]
    places, start = [], 0
    for array in data:
        places.append(np.arange(start, start + array.size).reshape(array.shape))
        start += array.size
    flat = np.concatenate([array.reshape(-1) for array in data])
    for element, place in zip(outputs(item, data), outputs(item, [*places]), strict=True):
        assert place.dtype == np.int64
        np.testing.assert_array_equal(flat[place.astype(np.int64)], element)


@given(start=SIZES, end=SIZES, step=st.integers(-12, 12).filter(bool))
def test_any_slice_is_that_of_the_runtime(start: int, end: int, step: int) -> None:
    item = case("Slice", 13, drawn(2, 9), *(np.array([number]) for number in (start, end, 1, step)))
    proto = proto_of(item.operator, item.arrays)
    result = compute(node_of(proto), {"": item.opset}, item.arrays)[0]
    np.testing.assert_array_equal(result, by_runtime(proto, item.arrays, item.opset)[0])
