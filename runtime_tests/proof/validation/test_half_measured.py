"""Measuring what a half dtype costs: roundings of a case's own scale, in files that are true halves."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import posenc
from posenc.ports import Array
from posenc.spec import Spec
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.proof.judging.half import Half, measured
from posenc_export.proof.runtimes.onnx_reference import evaluator
from posenc_export.write.formats.onnx.dtypes import to_bfloat16


def golden(feeds: dict[str, Array]) -> GoldenCase:
    return GoldenCase(Case("case", {}), feeds)


@pytest.mark.parametrize(
    ("single", "half", "roundings"),
    [
        ([1.0, 4.0], [1.0, 4.0], 0.0),
        ([1.0, 4.0], [1.0, 4.0 + 2**-8], 1.0),
        ([0.1, 0.5], [0.1, 0.5 + 2**-10], 2.0),
        ([1e-4, 0.5e-4], [1e-4, 0.5e-4 + 1e-4 * 2**-10], 1.0),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([0.0, 0.0], [0.0, 1e-7], np.inf),
        ([1.0, -3.4e38], [1.0, -1e4], 0.0),
        ([1.0, -np.inf], [1.0 + 2**-10, -np.inf], 1.0),
        ([1.0, -3.4e38], [1.0, 1e4], np.inf),
        ([1.0, 2.0], [1.0, np.nan], np.inf),
        ([1.0, 2.0], [1.0], np.inf),
    ],
)
def test_roundings_are_counted_of_what_is_no_mask(single: list[float], half: list[float], roundings: float) -> None:
    narrow = Half("float16", "float16", lambda feeds: {"y": np.array(half)})
    off = measured(narrow, lambda feeds: {"y": np.array(single, np.float32)}, golden({}))
    assert off.roundings == pytest.approx(roundings, rel=1e-4, abs=1e-4) or off.roundings > 1e30 > 1 / roundings


@pytest.mark.parametrize(("added", "roundings"), [(False, 2048.0), (True, 0.2048)])
def test_small_numbers_count_by_themselves_but_where_x_is_added(added: bool, roundings: float) -> None:
    """A table of standard deviation 1e-4 that is wrong in the first place."""
    narrow = Half("float16", "float16", lambda feeds: {"y": np.array([3e-4, 1e-4])})
    single = np.array([1e-4, 1e-4], np.float32)
    off = measured(narrow, lambda feeds: {"y": single}, golden({}), added=added)
    assert off.roundings == pytest.approx(roundings, rel=1e-3)


@pytest.mark.parametrize(("scheme", "output"), [("learned", "rows"), ("sinusoidal", "add"), ("swin_bias", "scores")])
def test_an_encoding_says_whether_it_is_added_and_whether_float16_holds_its_numbers(scheme: str, output: str) -> None:
    usual = posenc.build(scheme, Spec(max_len=40), output=output)
    assert (usual.added, usual.half_safe) == (output != "rows", "")
    small = {"scale" if scheme == "sinusoidal" else "std": 1e-7}
    assert posenc.build(scheme, Spec(max_len=40), output=output, **small).half_safe.startswith(
        "float16 has fewer digits"
    )


def test_integers_must_be_equal() -> None:
    narrow = Half("float16", "float16", lambda feeds: {"y": feeds["x"] + 1})
    assert measured(narrow, lambda feeds: {"y": feeds["x"]}, golden({"x": np.arange(3)})).roundings == np.inf


def test_inputs_are_rounded_before_they_are_compared() -> None:
    narrow = Half("float16", "float16", lambda feeds: {"y": feeds["x"] + np.float16(feeds["x"].dtype != np.float16)})
    off = measured(narrow, lambda feeds: {"y": feeds["x"]}, golden({"x": np.array([0.1], np.float32)}))
    assert off.roundings == 0


def test_bfloat16_reaches_into_branches_and_constants() -> None:
    """An If whose branches hold a float each, one as a plain attribute, and a Cast to float32."""
    branches = []
    for name, node in (
        ("then", helper.make_node("Constant", [], ["one"], value_float=1.0)),
        ("else", helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(np.array(2.0, np.float32)))),
    ):
        out = helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, [])
        branches.append(helper.make_graph([node], name, [], [out]))
    nodes = [
        helper.make_node("If", ["flag"], ["number"], then_branch=branches[0], else_branch=branches[1]),
        helper.make_node("Cast", ["n"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["wide", "number"], ["y"]),
    ]
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    n = helper.make_tensor_value_info("n", TensorProto.INT64, [])
    graph = helper.make_graph(nodes, "g", [flag, n], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])])
    model = to_bfloat16(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
    onnx.checker.check_model(model, full_check=True)
    call = evaluator(model)
    for flag_value, expected in ((True, 4.0), (False, 5.0)):
        y = call({"flag": np.array(flag_value), "n": np.array(3)})["y"]
        assert (y.dtype.name, float(y)) == ("bfloat16", expected)
