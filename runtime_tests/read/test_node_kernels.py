"""Each kernel gives what ONNX Runtime gives, or the onnx package's reference where ONNX Runtime has none."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from helpers import kernel_cases as cases
from helpers.kernel_cases import Case
from helpers.nodes import by_reference, by_runtime, node_of, proto_of
from posenc_export.read.kernels import compute
from posenc_export.read.values import Array

ULPS = 8


def eps(dtype: np.dtype[np.generic]) -> float:
    return float(ml_dtypes.finfo(dtype).eps) if dtype.kind in "fV" else 0  # type: ignore[no-untyped-call]


def check(item: Case) -> None:
    proto = proto_of(item.operator, item.arrays, item.outputs, item.domain, **item.attributes)
    results = compute(node_of(proto), {item.domain: item.opset}, item.arrays)
    opset = 17 if item.domain else item.opset
    small = any(result.dtype.kind == "V" for result in results)  # which ONNX Runtime gives as bytes, or not at all
    try:
        expected = by_reference(proto, item.arrays, opset) if small else by_runtime(proto, item.arrays, opset)
    except Exception:  # neither its errors nor its holes are documented
        expected = by_reference(proto, item.arrays, opset)
    for result, value in zip(results, expected, strict=True):
        assert (result.dtype, result.shape) == (value.dtype, value.shape)
        wide = np.complex128 if value.dtype.kind == "c" else np.float64 if value.dtype.kind != "i" else value.dtype
        tolerance = ULPS * eps(value.dtype)
        np.testing.assert_allclose(result.astype(wide), value.astype(wide), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("item", [*cases.UNARY, *cases.BINARY, *cases.HALF], ids=str)
def test_elementwise_kernels(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("item", [*cases.CASTS, *cases.MAKING], ids=str)
def test_casts_and_what_sizes_make(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("item", [*cases.MOVING, *cases.GATHERING], ids=str)
def test_moves(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("item", [*cases.REDUCING, *cases.ELSEWHERE, *cases.CONTRIBUTED], ids=str)
def test_reductions_products_and_the_operators_without_a_kernel(item: Case) -> None:
    check(item)


@pytest.mark.parametrize(
    ("opset", "axis", "sizes"), [(6, 1, (3, 1)), (6, 0, (2, 1, 1)), (1, -1, (4,)), (6, None, (4,))]
)
def test_operators_before_opset_7_broadcast_from_an_axis(opset: int, axis: int | None, sizes: tuple[int, ...]) -> None:
    left = cases.floats(2, 3, 4)
    right = cases.floats(*(size for size in sizes if size != 1))
    values: dict[str, Any] = {"broadcast": 1} if axis is None else {"broadcast": 1, "axis": axis}
    for operator, function in (("Add", np.add), ("Mul", np.multiply), ("Greater", np.greater)):
        result = compute(node_of(proto_of(operator, [left, right], **values)), {"": opset}, [left, right])[0]
        np.testing.assert_array_equal(result, function(left, right.reshape(sizes)))


def test_outputs_that_nobody_asked_for_keep_their_places() -> None:
    numbers: list[Array] = [cases.floats(12)]
    proto = proto_of("Unique", numbers, 4)
    expected = compute(node_of(proto), {"": 11}, numbers)
    proto.output[1] = ""
    results = compute(node_of(proto), {"": 11}, numbers)
    for place in (0, 2, 3):
        np.testing.assert_array_equal(results[place], expected[place])
