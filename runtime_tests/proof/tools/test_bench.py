"""Benchmarks: a row for everything, beside usual modules that compute the same; no test asserts a time."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.shared import Cli


@pytest.mark.exhaustive
def test_bench_has_a_row_for_everything(cli: Cli) -> None:
    args = ["--dynamic", "--length", "32", "--rounds", "1", "-p", "d_model=16", "--json"]
    result = cli("bench", *args)
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)["lengths"]
    names = {"ort-cpu", "torchscript-cpu", "baseline Sin/Cos, ort-cpu", "copy of the same bytes"}
    assert names <= set(row["milliseconds"])
    assert all(ms > 0 for ms in row["milliseconds"].values())
    assert "ort-cpu" in row["faster_than_baseline"]


@pytest.mark.parametrize(
    ("others", "has_baseline"),
    [
        ({}, True),
        ({"spacing": "half"}, True),
        ({"scale_x": 2.0}, False),
        ({"padding_row": 1}, False),
        ({"x": []}, False),
    ],
)
def test_bench_is_beside_the_baseline_where_that_does_as_much(
    small_bundle: Path, others: dict[str, Any], has_baseline: bool
) -> None:
    from posenc_export.bundle.folder import Bundle
    from posenc_export.proof.benchmarks.baselines import additive_baseline

    manifest = Bundle.open(small_bundle).manifest
    without_start = replace(manifest, inputs=manifest.inputs[:1], params={**manifest.params, **others})
    assert (additive_baseline(without_start) is not None) == has_baseline


def test_bench_of_a_bundle(cli: Cli, small_bundle: Path) -> None:
    result = cli("bench", str(small_bundle), "--length", "32", "--rounds", "1", "--runtime", "ort-cpu")
    assert result.exit_code == 0, result.output
    assert "copy of the same bytes" in result.output


def test_bench_beyond_a_table_is_one_line(cli: Cli) -> None:
    bundle = ["export", "-p", "d_model=8", "--max-len", "40", "-q", "-o", "baked"]
    assert cli(*bundle).exit_code == 0
    result = cli("bench", "baked", "--length", "41", "--rounds", "1")
    assert (result.exit_code, "length 41 is beyond the 40 rows" in result.output) == (2, True), result.output


@pytest.mark.exhaustive
@pytest.mark.parametrize("op", ["onnx", "microsoft"])
def test_bench_of_rope_is_beside_the_baseline_and_one_operator(cli: Cli, op: str) -> None:
    args = ["rope", "--dynamic", "--rotary-op", op, "--length", "32", "--heads", "2", "--rounds", "1", "--json"]
    result = cli("bench", *args, "--runtime", "ort-cpu", "-p", "head_dim=16")
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)["lengths"]
    assert row["faster_than_baseline"].keys() == row["faster_than_one_op"].keys() == {"ort-cpu"}


@pytest.mark.exhaustive
def test_what_bench_sets_rope_against_computes_the_same(tmp_path: Path) -> None:
    from posenc.ports import Array
    from posenc.scheme import build
    from posenc.spec import Spec
    from posenc_export.bundle.folder import Bundle
    from posenc_export.common.arrays import call_on_arrays
    from posenc_export.proof.benchmarks.baselines import BaselineRotary, baseline_of, write_one_op
    from posenc_export.proof.exporter import ExportOptions, write_bundle
    from posenc_export.proof.runtimes import RUNTIMES
    from posenc_export.write.formats import RotaryOp
    from posenc_export.write.targets.scheme import scheme_target

    spec = Spec("dynamic", max_len=40)
    ops: tuple[tuple[RotaryOp, int], ...] = (("onnx", 23), ("microsoft", 20))
    for op, opset in ops:
        folder = tmp_path / op
        folder.mkdir()
        options = ExportOptions(("onnx",), opset, op, validate=False)
        write_bundle(scheme_target("rope", spec, {"head_dim": 16}, 0), options, folder)
        manifest = Bundle.open(folder).manifest
        baseline = baseline_of(manifest)
        assert baseline is not None
        assert (baseline.module, baseline.parameters) == (BaselineRotary, {"head_dim": 16, "rope_theta": 10000.0})
        write_one_op(manifest, 40, folder / "one.onnx")
        rng = np.random.default_rng(0)
        q, k = (rng.standard_normal((2, heads, 9, 16)).astype(np.float32) for heads in (4, 2))
        feeds: dict[str, Array] = {"q": q, "k": k, "positions": np.arange(9)[None].repeat(2, 0)}
        one_op = RUNTIMES["ort-cpu"].open(folder / "one.onnx", manifest).run(feeds)
        baseline_outputs = call_on_arrays(BaselineRotary(16, 10000.0), list(feeds.values()))
        ours = call_on_arrays(build("rope", spec, head_dim=16).module, list(feeds.values()))
        for (_, by_one_op), theirs, expected in zip(one_op.items(), baseline_outputs, ours, strict=True):
            np.testing.assert_allclose(by_one_op, expected, rtol=0, atol=4e-6)
            np.testing.assert_allclose(theirs, expected, rtol=0, atol=3e-5)  # 4 eps at position 8, times the features
