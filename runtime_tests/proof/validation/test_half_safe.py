"""The check half-safe: each scheme passes or says why it cannot, and what holds positions in floats is caught."""

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from torch import Tensor

from helpers.combinations import family_of
from helpers.samples import MAX_LEN, Parameters, every_sample
from helpers.shared import Cli, Once, need, one_of_each, written_once
from posenc.lookup import inside, take
from posenc.scheme import build
from posenc.sincos import AngleAddition, inverse_frequencies
from posenc.spec import Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.checks import Context
from posenc_export.proof.exporter import ExportOptions, write_bundle
from posenc_export.proof.judging.verdict import Verdict
from posenc_export.proof.running.run import run_checks
from posenc_export.proof.runtimes import TAKES_LONGER, Missing
from posenc_export.proof.runtimes.onnx_reference import check_operators, evaluator
from posenc_export.proof.runtimes.openvino import compiled_model
from posenc_export.write.formats.onnx.dtypes import to_float16
from posenc_export.write.formats.onnx.ordering import is_ordered
from posenc_export.write.targets import Target
from posenc_export.write.targets.scheme import scheme_target


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
    return half_safe(folder, prove, end)


def half_safe(folder: Path, prove: bool = False, end: int = 2**24) -> list[Verdict]:
    """Run the check on the ONNX file of a bundle."""
    manifest = Bundle.open(folder).manifest
    manifest = replace(manifest, cases=tuple(case for case in manifest.cases if case.max_position < end))
    context = Context(manifest, manifest.artifacts[0], folder / "model.onnx", prove=prove)
    return [verdict for verdict in run_checks("onnx", "artifact", context) if verdict.check == "half-safe"]


@pytest.mark.parametrize(
    ("scheme", "spec", "params"), one_of_each(every_sample(), lambda one: family_of(*one) == "additive")
)
def test_every_sample_passes_or_says_why_not(once: Once, scheme: str, spec: Spec, params: Parameters) -> None:
    (verdict,) = half_safe(written_once(once, scheme, spec, params))
    assert verdict.status == "pass", verdict
    assert "float16" in verdict.detail
    assert "bfloat16" in verdict.detail
    reason = build(scheme, spec, **params).half_safe
    assert verdict.detail.startswith("measured only") == bool(reason)
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
    assert "converted to float16 (does not run in " in verdict.detail


def test_casts_behind_their_readers_are_put_in_order() -> None:
    """ONNX Runtime's converter appends them; the onnx package wants them before what they are read by."""
    value = partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT)
    ends = [value("low", shape=[]), value("high", shape=[])]
    nodes = [
        helper.make_node("Range", ["low", "high", "step"], ["numbers"]),
        helper.make_node("Max", ["numbers", "least"], ["y"]),
    ]
    stored = [numpy_helper.from_array(np.array(number, np.float32), name) for name, number in LEAST.items()]
    graph = helper.make_graph(nodes, "behind", ends, [value("y", shape=["n"])], stored)
    model = to_float16(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
    assert is_ordered(model.graph)
    low, high = np.array(1, np.float16), np.array(4, np.float16)
    (y,) = ReferenceEvaluator(model).run(None, {"low": low, "high": high})
    np.testing.assert_array_equal(y, [2.5, 2.5, 3])


LEAST = {"step": 1.0, "least": 2.5}


def test_an_encoding_that_says_why_is_reported_and_does_not_fail(tmp_path: Path) -> None:
    (verdict,) = checked(digits_in_floats("digits are taken of floats"), tmp_path)
    assert verdict.status == "pass"
    assert verdict.note.startswith("converted to half precision it is off by float16 ")
    assert verdict.note.endswith(": digits are taken of floats")
    assert verdict.detail.startswith("measured only, as two roundings are not promised here: float16 ")


def test_a_module_of_your_own_has_a_note_in_the_report_and_passes(cli: Cli) -> None:
    small = ["-f", "onnx", "--runtime", "ort-cpu", "--max-len", "600", "-o", "out"]
    result = cli("export", "helpers.broken:PlainSines", "-i", "x: float32[batch, seq, 8]", *small)
    assert result.exit_code == 0, result.output
    line = "onnx half-safe: converted to half precision it is off by float16 "
    assert line in result.output
    assert line in Path("out/report.md").read_text(encoding="utf-8")
    rows = {v["check"]: v for v in json.loads(Path("out/report.json").read_text())["verdicts"]}
    assert (rows["half-safe"]["status"], rows["half-safe"]["note"].startswith("converted to half")) == ("pass", True)
    assert rows["half-safe"]["detail"].startswith("measured only, as two roundings are not promised here: ")
    words = " ".join(cli("explain", "half-safe").output.split())
    assert "is it two roundings at most where that is promised?" in words
    assert "A scheme breaks its promise, which is all that fails here" in words


def test_files_that_are_not_float32_have_no_such_row(tmp_path: Path) -> None:
    target = scheme_target("sinusoidal", Spec("baked", max_len=40, dtype="fp16"), {"d_model": 8}, 0)
    assert checked(target, tmp_path) == []


def test_operators_that_cannot_be_evaluated_are_named(tmp_path: Path) -> None:
    target = scheme_target("rope", Spec("baked", max_len=40), {"head_dim": 16}, 0)
    (verdict,) = checked(target, tmp_path, rotary_op="microsoft")
    assert (verdict.status, verdict.detail) == ("skip", "the onnx package has no operators of com.microsoft")


def test_a_domain_that_no_node_is_of_keeps_nothing_from_being_evaluated() -> None:
    """ONNX Runtime's optimizers import all domains that they know."""
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    imports = [helper.make_opsetid(domain, 1) for domain in ("com.microsoft", "ai.onnx.training")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), *imports], ir_version=8)
    check_operators(model)
    x = np.array([1, 2], np.float32)
    assert np.array_equal(evaluator(model)({"x": x})["y"], x)


def test_what_takes_longer_waits_until_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posenc_export.proof.checks.half_safe.BYTES", (1000, 2**31))
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
