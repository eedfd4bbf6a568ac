"""What kernels refuse: outputs above the budget before they are made, random operators, arrays that do not fit."""

import tracemalloc
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from helpers import kernel_cases as cases
from helpers.kernel_cases import Case, case, drawn, floats, ints
from helpers.nodes import node_of, proto_of
from posenc_export.read.kernels import NoKernel, TooLarge, compute
from posenc_export.read.values import Array

HUGE = 2**60
ROW: NDArray[np.float32] = np.zeros(20000, np.float32)
SQUARE = np.broadcast_to(ROW, (20000, 20000))
EMPTY: NDArray[np.int64] = np.zeros((0, 5), np.int64)


def real(*numbers: float) -> NDArray[np.float32]:
    return np.array(numbers, np.float32)


def spread(array: Any, *sizes: int) -> Array:
    """Return an array that takes no memory of its own."""
    return np.broadcast_to(array, sizes)


LARGE = [
    case("Range", 13, np.array(0), np.array(HUGE), np.array(1)), case("Range", 13, *real(0, 1e30, 1)),
    case("ConstantOfShape", 9, ints(HUGE)), case("ConstantOfShape", 9, ints(2**31, 2**31, 2**31)),
    case("Expand", 13, floats(1), ints(HUGE)), case("Expand", 13, floats(1, 1), ints(2**40, 2**40)),
    case("Tile", 13, floats(2), ints(HUGE)), case("Pad", 13, floats(2), ints(0, HUGE)),
    case("OneHot", 11, drawn(4), np.array(HUGE), floats(2)), case("EyeLike", 9, SQUARE),
    case("Add", 14, ROW.reshape(-1, 1), ROW), case("Less", 13, spread(ROW, 9, 1, 20000), ROW.reshape(-1, 1)),
    case("Where", 16, ROW > 0, ROW.reshape(-1, 1), ROW), case("MatMul", 13, ROW.reshape(-1, 1), ROW.reshape(1, -1)),
    case("Gemm", 13, ROW.reshape(-1, 1), ROW.reshape(1, -1)), case("Einsum", 12, ROW, ROW, equation="i,j->ij"),
    case("Einsum", 12, ROW, ROW, equation="...,i->...i"),
    case("Gather", 13, np.zeros((1, 20000)), np.zeros(20000, int)),
    case("GatherND", 13, np.zeros((1, 20000)), np.zeros((20000, 1), int)),
    case("CastLike", 15, spread(ROW, 999, 20000), floats(1)),
    case("GatherElements", 13, np.zeros((20000, 1)), spread(np.int64(0), 20000, 20000), axis=1),
    case("Concat", 13, *[spread(ROW, 500, 20000)] * 2, axis=0), case("Trilu", 14, SQUARE),
    case("Resize", 13, floats(1, 1, 2, 2), None, real(1, 1, 1e6, 1e6)),
    case("NonZero", 13, spread(np.True_, 4096, 4096)),
    case("Cast", 13, spread(np.int8(1), 2**13, 2**13), to=TensorProto.DOUBLE),
    case("DequantizeLinear", 13, spread(np.int8(1), 2**13, 2**13), np.float32(1)),
    case("Range", 13, *ints(0, 2**40, 1)),
]  # fmt: skip


def result(item: Case, budget: int = 2**26) -> list[Array]:
    proto = proto_of(item.operator, item.arrays, item.outputs, **item.attributes)
    return compute(node_of(proto), {"": item.opset}, item.arrays, budget)


@pytest.mark.parametrize("item", LARGE, ids=str)
def test_outputs_above_the_budget_are_refused_before_they_are_made(item: Case) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match=item.operator):
            result(item)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_products_that_take_too_long_are_refused() -> None:
    square = spread(np.float32(1), 10000, 10000)
    with pytest.raises(TooLarge, match="multiplications"):
        result(case("MatMul", 13, square[:2000], square[:, :2000]), budget=2**24)
    with pytest.raises(TooLarge, match="multiplications"):
        result(case("Einsum", 12, square, square, equation="ij,jk->i"))


def test_the_budget_is_a_parameter() -> None:
    item = case("Range", 13, np.array(0), np.array(10), np.array(1))
    assert result(item, 80)[0].tolist() == list(range(10))
    with pytest.raises(TooLarge, match=r"would give \[10\], 80 bytes, above the 79 allowed"):
        result(item, 79)


@pytest.mark.parametrize(
    ("operator", "domain", "values"),
    [
        ("RandomNormal", "", {"shape": [2]}), ("RandomUniform", "", {"shape": [2]}), ("Nothing", "", {}),
        ("FusedNothing", "com.microsoft", {}), ("Range", "example", {}), ("SequenceEmpty", "", {}),
    ],
)  # fmt: skip
def test_what_nothing_computes_is_named(operator: str, domain: str, values: dict[str, Any]) -> None:
    node = node_of(proto_of(operator, [], 1, domain, **values))
    with pytest.raises(NoKernel, match=operator):
        compute(node, {"": 18, domain: 18}, [])


def test_graphs_inside_nodes_are_not_run() -> None:
    endless = helper.make_graph([], "body", [], [])
    with pytest.raises(NoKernel, match="Loop"):
        compute(node_of(proto_of("Loop", [ints(2**62)], 1, body=endless)), {"": 18}, [ints(2**62)])


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (case("Gather", 13, floats(3, 4), ints(3)), "Gather reads place 3 of 3"),
        (case("Gather", 13, floats(3, 4), ints(0, -5), axis=1), "Gather reads place -5 of 4"),
        (case("Gather", 13, floats(3, 4), ints(0), axis=2), "Gather takes axis 2 of 2"),
        (case("GatherElements", 13, floats(3, 4), ints(0)), r"cannot index \[3, 4\] by \[1\]"),
        (case("GatherND", 13, floats(3, 4), ints(3)), "GatherND reads place 3 of 3"),
        (case("ScatterND", 18, floats(3), ints(0).reshape(1, 1), floats(2)), r"puts \[2\] at places of shape \[1\]"),
        (case("Add", 14, floats(3), floats(4)), r"Add cannot broadcast \[3\] and \[4\]"),
        (case("Div", 14, ints(3), ints(0)), "Div divides integers by zero"),
        (case("Mod", 14, ints(3), ints(0)), "Mod divides integers by zero"),
        (case("Reshape", 14, floats(2, 3), ints(4, -1)), r"Reshape cannot give \[2, 3\] the shape \[4, -1\]"),
        (case("Reshape", 14, floats(2, 3), ints(HUGE, HUGE)), "Reshape cannot give"),
        (case("Expand", 13, floats(2, 3), ints(2, 4)), r"Expand cannot give \[2, 3\] the shape \[2, 4\]"),
        (case("Concat", 13, floats(2, 3), floats(3, 2), axis=0), r"Concat cannot join \[2, 3\], \[3, 2\] along axis 0"),
        (case("Split", 13, floats(5), outputs=2), "Split cannot cut 5 elements into 2 equal parts"),
        (case("Split", 13, floats(5), ints(2, 2), outputs=2), r"Split cuts 5 elements into \[2, 2\]"),
        (case("Squeeze", 13, floats(2, 3), ints(0)), r"Squeeze removes axes \[0\] of shape \[2, 3\]"),
        (case("Unsqueeze", 13, floats(2), ints(0, 0)), r"Unsqueeze lists an axis twice: \[0, 0\]"),
        (case("Transpose", 13, floats(2, 3), perm=[0, 0]), r"Transpose orders axes as \[0, 0\]"),
        (case("Slice", 13, floats(2), ints(0), ints(1), ints(0), ints(0)), "Slice has starts"),
        (case("Range", 13, *ints(0, 4, 0)), "Range has a step of zero"),
        (case("Range", 13, *real(0, np.inf, 1)), "Range goes from 0.0 to inf"),
        (case("ConstantOfShape", 9, ints(-1)), r"would give a negative size: \[-1\]"),
        (case("MatMul", 13, floats(2, 3), floats(2, 3)), r"MatMul cannot multiply \[2, 3\] by \[2, 3\]"),
        (case("TopK", 11, floats(3), ints(4), outputs=2), "TopK takes 4 of 3 elements"),
        (case("Pad", 13, floats(3), ints(1)), "Pad has 1 numbers for 1 axes"),
        (case("Pad", 13, floats(0), ints(1, 1), mode="edge"), "Pad cannot repeat elements"),
        (case("Add", 14, floats(3), None), "Add"),
        (case("Softmax", 13, floats(3), axis=5), "Softmax"),
        (case("Cast", 13, floats(3), to=999), "element type 999"),
    ],
    ids=str,
)
def test_arrays_that_do_not_fit_are_named(item: Case, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        result(item)


ALL = [
    *cases.UNARY, *cases.BINARY, *cases.HALF, *cases.CASTS, *cases.MAKING, *cases.MOVING, *cases.GATHERING,
    *cases.REDUCING, *cases.ELSEWHERE,
]  # fmt: skip
WRONG: list[Array | None] = [
    None, np.zeros(0, np.float32), EMPTY, np.array(-1), np.array("text", object), ints(-(2**63), 2**63 - 1),
    np.full((2, 2), np.nan, np.float32), np.ones((1, 1, 1, 1, 1), bool), np.ones(3, ml_dtypes.bfloat16),
    np.ones(3, ml_dtypes.int4), np.ones(3, complex),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the onnx package's reference
@pytest.mark.parametrize("count", [1500, pytest.param(40000, marks=pytest.mark.exhaustive)])
def test_other_arrays_and_attributes_give_results_or_value_errors(count: int) -> None:
    random = np.random.default_rng(25)
    results = 0
    for item in random.choice(np.array(ALL, object), count):
        arrays, values = list(item.arrays), dict(item.attributes)
        if arrays and random.random() < 0.8:
            arrays[random.integers(len(arrays))] = WRONG[random.integers(len(WRONG))]
        for name in [name for name, value in values.items() if isinstance(value, int) and random.random() < 0.5]:
            values[name] = int(random.choice([-(2**63), -1, 0, 1, 7, 2**63 - 1]))
        try:
            result(replace(item, arrays=arrays, attributes=values))
            results += 1
        except ValueError as error:
            assert "\n" not in str(error), item  # noqa: PT017
    assert 0 < results < count
