"""A Llama with its cache, as three exporters write it, is held against its own module; wrong files of it fail."""

from pathlib import Path

import pytest

import posenc_export
from helpers.cached_llama import EXPORTERS, PLAIN, Step, at_one_length, by_old_exporter
from posenc_export.proof.judging.verdict import AGREES, Comparison
from posenc_export.proof.report.result import ValidateResult

pytestmark = pytest.mark.exhaustive
END = 33
"""Beyond the context of 32 that YaRN stretches."""


def held(path: Path, inputs: tuple[str, ...], **settings: float) -> ValidateResult:
    return posenc_export.prove(path, Step, inputs=inputs, parameters=settings, max_len=END, runtimes="ort-cpu")


def wrong(result: ValidateResult) -> list[Comparison]:
    row = next(verdict for verdict in result.verdicts if verdict.check == AGREES)
    assert row.status == "fail"
    return [comparison for comparison in row.comparisons if not comparison.passed]


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_file_of_another_exporter_is_right_at_every_batch_length_and_past(exporter: str, tmp_path: Path) -> None:
    write, inputs = EXPORTERS[exporter]
    write(tmp_path / "model.onnx")
    result = held(tmp_path / "model.onnx", inputs)
    assert result.passed, str(result)
    sizes = [case.sizes for case in result.manifest.cases]
    assert {"batch", "past", "seq"} == set(sizes[0])
    assert all(len({of_case[axis] for of_case in sizes}) > 1 for axis in sizes[0])
    assert len(sizes) > 30


def test_a_missing_attention_factor_is_seen_in_every_output(tmp_path: Path) -> None:
    by_old_exporter(tmp_path / "model.onnx")
    differs = wrong(held(tmp_path / "model.onnx", PLAIN, attention_factor=1.0))
    # the values of the first layer know nothing of positions
    assert {comparison.output for comparison in differs} == {"y0", "y1", "y3", "y4"}


def test_a_file_of_one_length_fails_at_all_others(tmp_path: Path) -> None:
    at_one_length(tmp_path / "model.onnx")
    result = held(tmp_path / "model.onnx", PLAIN)
    asked = {case.name for case in result.manifest.cases if not case.refused}
    assert {comparison.case for comparison in wrong(result)} == asked
    words = next(verdict.detail for verdict in result.verdicts if verdict.check == "static-axis")
    assert "axis 'past' of past_0_k is 5 in the graph" in words
