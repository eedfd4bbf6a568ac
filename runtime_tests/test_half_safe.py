"""The check half-safe: each scheme passes or says why it cannot, and what holds positions in floats is caught."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

import posenc
from conftest import Cli, need, one_of_each
from posenc.lookup import inside, take
from posenc.parameters import Value
from posenc.ports import Array
from posenc.scheme import SCHEMES, Scheme
from posenc.sincos import AngleAddition, inverse_frequencies
from posenc.spec import Method, Mode, Spec, UnsupportedSpec
from posenc_export.bundle.case import Case, GoldenCase
from posenc_export.bundle.folder import Bundle
from posenc_export.exporter import ExportOptions, write_bundle
from posenc_export.formats.onnx.dtypes import to_bfloat16
from posenc_export.runtimes import TAKES_LONGER, Missing
from posenc_export.runtimes.onnx_reference import evaluator
from posenc_export.runtimes.openvino import compiled_model
from posenc_export.targets import Target
from posenc_export.targets.scheme import scheme_target
from posenc_export.validation.checks import Context
from posenc_export.validation.half import Half, measured
from posenc_export.validation.run import run_checks
from posenc_export.validation.verdict import Verdict
from test_parity import family_of

MAX_LEN = 70
Parameters = dict[str, Value]


class FloatDigits(AngleAddition):
    """Takes digits of positions with Div and Floor of float32, as torch.div with a rounding mode is exported."""

    def cos_sin(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        positions = inside(positions, self.end)
        block = torch.floor(positions.to(torch.float32) / self.block)
        digit = (positions.to(torch.float32) - block * self.block).to(torch.int64)
        a_sin, a_cos = self.block_starts(block.to(torch.int64))
        b_sin, b_cos = take(self.low_sin, digit, self.end), take(self.low_cos, digit, self.end)
        return a_cos * b_cos - a_sin * b_sin, a_sin * b_cos + a_cos * b_sin


def digits_in_floats(half_safe: str = "") -> Target:
    """Return a scheme whose graph holds positions in floats, and says that, or nothing."""
    target = scheme_target("sinusoidal", Spec("dynamic", "exact", "explicit", 4200), {"d_model": 16}, 0)
    target.encoding.module.source = FloatDigits(
        inverse_frequencies(16, 10000.0), 16, interleaved=True, dtype=torch.float32
    )
    return replace(target, encoding=replace(target.encoding, half_safe=half_safe))


def checked(target: Target, folder: Path, prove: bool = False, end: int = 2**24, **options: Any) -> list[Verdict]:
    """Export a target to ONNX, and run the check on it, in cases whose positions are all below an end."""
    folder.mkdir(exist_ok=True)
    write_bundle(target, ExportOptions(("onnx",), validate=False, **options), folder)
    manifest = Bundle.open(folder).manifest
    manifest = replace(manifest, cases=tuple(case for case in manifest.cases if case.max_position < end))
    context = Context(manifest, manifest.artifacts[0], folder / "model.onnx", prove=prove)
    return [verdict for verdict in run_checks("onnx", "artifact", context) if verdict.check == "half-safe"]


def every_sample() -> Iterator[tuple[str, Spec, Parameters]]:
    """The smallest sample of every scheme by each method: parity has the others, and asks the same of them."""
    forms: list[tuple[Mode, Method]] = [("baked", "exact"), ("dynamic", "exact"), ("dynamic", "trig")]
    for scheme, (mode, method) in product(SCHEMES.values(), forms):
        if method not in scheme.unsupported.methods and mode not in scheme.unsupported.modes:
            spec = spec_of(scheme, Spec(mode, method, scheme.positions, MAX_LEN), scheme.samples[0])
            if spec is not None:
                yield scheme.name, spec, dict(scheme.samples[0])


def spec_of(scheme: Scheme, spec: Spec, params: Mapping[str, Value]) -> Spec | None:
    """Return a spec with positions as by default, or explicit where a sample takes no others; None without a form."""
    for positions in (spec.positions, "explicit"):
        try:
            posenc.build(scheme.name, replace(spec, positions=positions), **params)
        except UnsupportedSpec:
            continue
        return replace(spec, positions=positions)
    return None


@pytest.mark.parametrize(("scheme", "spec", "params"), one_of_each(every_sample(), lambda one: family_of(*one)))
def test_every_sample_passes_or_says_why_not(tmp_path: Path, scheme: str, spec: Spec, params: Parameters) -> None:
    target = scheme_target(scheme, spec, params, 0)
    (verdict,) = checked(target, tmp_path)
    assert verdict.status == "pass", verdict
    assert "float16" in verdict.detail
    assert "bfloat16" in verdict.detail
    reason = target.encoding.half_safe
    no_angles = params.get("style") == "chunk" or params.get("output") == "shift"  # a few stored rows, or none
    assert bool(reason) == ((spec.method == "trig" and not no_angles) or bool(verdict.note))
    assert verdict.note.endswith(reason)


def test_positions_in_floats_are_found(tmp_path: Path) -> None:
    (verdict,) = checked(digits_in_floats(), tmp_path, end=4200)
    assert verdict.status == "fail"
    dtypes = re.findall(r"converted to (b?float16) ([0-9.]+), [0-9.e+]+ roundings in batch", verdict.detail)
    assert {dtype for dtype, _ in dtypes} == {"float16", "bfloat16"}
    assert min(float(error) for _, error in dtypes) > 1  # of cosines and sines that are at most 1


def test_positions_that_become_infinite_are_found(tmp_path: Path) -> None:
    (verdict,) = checked(digits_in_floats(), tmp_path)
    assert verdict.status == "fail"
    assert "converted to float16 nothing at all in " in verdict.detail


def test_an_encoding_that_says_why_is_reported_and_does_not_fail(tmp_path: Path) -> None:
    (verdict,) = checked(digits_in_floats("digits are taken of floats"), tmp_path)
    assert verdict.status == "pass"
    assert verdict.note.startswith("converted to half precision it is off by float16 ")
    assert verdict.note.endswith(": digits are taken of floats")


def test_a_module_of_your_own_has_a_note_in_the_report_and_passes(cli: Cli) -> None:
    small = ["-f", "onnx", "--runtime", "ort-cpu", "--max-len", "600", "-o", "out"]
    result = cli("export", "broken:PlainSines", "-i", "x: float32[batch, seq, 8]", *small)
    assert result.exit_code == 0, result.output
    line = "onnx half-safe: converted to half precision it is off by float16 "
    assert line in result.output
    assert line in Path("out/report.md").read_text(encoding="utf-8")
    rows = {v["check"]: v for v in json.loads(Path("out/report.json").read_text())["verdicts"]}
    assert (rows["half-safe"]["status"], rows["half-safe"]["note"].startswith("converted to half")) == ("pass", True)


def test_files_that_are_not_float32_have_no_such_row(tmp_path: Path) -> None:
    target = scheme_target("sinusoidal", Spec("baked", max_len=40, dtype="fp16"), {"d_model": 8}, 0)
    assert checked(target, tmp_path) == []


def test_operators_that_cannot_be_evaluated_are_named(tmp_path: Path) -> None:
    target = scheme_target("rope", Spec("baked", max_len=40), {"head_dim": 16}, 0)
    (verdict,) = checked(target, tmp_path, rotary_op="microsoft")
    assert (verdict.status, verdict.detail) == ("skip", "the onnx package has no operators of com.microsoft")


def test_what_takes_longer_waits_until_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posenc_export.validation.checks.half_safe.BYTES", (1000, 2**31))
    target = scheme_target("sinusoidal", Spec("baked", max_len=40), {"d_model": 16}, 0)
    (verdict,) = checked(target, tmp_path / "a")
    assert (verdict.status, verdict.detail) == ("skip", TAKES_LONGER)
    (verdict,) = checked(target, tmp_path / "b", prove=True)
    assert verdict.status == "pass"


def test_openvino_counts_in_the_precision_that_it_says_it_has(tmp_path: Path) -> None:
    need("openvino")
    target = scheme_target("sinusoidal", Spec("dynamic", max_len=MAX_LEN), {"d_model": 16}, 0)
    (verdict,) = checked(target, tmp_path, prove=True)
    assert verdict.status == "pass"
    for dtype, precision in (("float16", "f16"), ("bfloat16", "bf16")):
        came = "0, 0 roundings"
        try:
            compiled_model(tmp_path / "model.onnx", precision)
        except Missing as missing:
            came = f"not run: {missing}"
        assert f"; {dtype} on OpenVINO {came}" in verdict.detail


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
