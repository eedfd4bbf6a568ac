"""Files by other people's exporters and optimizers are held against their models: right ones pass, wrong ones fail."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from helpers.foreign.files import foreign_files, unpack
from helpers.foreign.proved import OF_KIND, held_against_file, held_against_model
from posenc_export.proof.judging.verdict import AGREES
from posenc_export.proof.report.result import ValidateResult

pytestmark = pytest.mark.exhaustive
SHORT = 13
"""The longest call, beyond the traced length of 11; the script `proved.py` goes to each model's end."""
RIGHT = (
    ("gptj", "plain old"),
    ("modernbert", "plain new"),
    ("bert", "transformers.exporters"),
    ("gemma3", "transformers.exporters ort_fusions"),
    ("roberta", "optimum"),
    ("llama", "onnxruntime-genai"),
    ("qwen2", "mobius"),
)


def held(model: str, exporter: str, max_len: int) -> ValidateResult:
    # the first file is the exporter's own, those with a fault come after it
    return next(held_against_model(path, truth, max_len) for path, truth in foreign_files([model], [exporter], [""]))


def failing(result: ValidateResult) -> set[str]:
    return {verdict.check for verdict in result.verdicts if verdict.status == "fail"}


@pytest.mark.parametrize(("model", "exporter"), RIGHT)
def test_a_right_file_passes(model: str, exporter: str) -> None:
    result = held(model, exporter, SHORT)
    assert result.passed, str(result)
    assert len(result.manifest.cases) > 10


@pytest.mark.parametrize(
    ("model", "exporter"),
    [
        # the builder leaves YaRN out, and writes default frequencies
        ("llama-yarn", "onnxruntime-genai"),
        # sqrt(32) is 5.65685, and 5.65625 in bfloat16, which mobius multiplies embeddings by
        ("gemma3", "mobius"),
    ],
)
def test_a_wrong_file_disagrees(model: str, exporter: str) -> None:
    assert failing(held(model, exporter, SHORT)) == {AGREES}


def test_the_root_in_bfloat16_is_all_that_is_wrong_with_gemma_by_mobius() -> None:
    for path, truth in foreign_files(["gemma3"], ["mobius"], [""]):
        model = onnx.load(path)
        roots = [tensor for tensor in model.graph.initializer if (numpy_helper.to_array(tensor) == 5.65625).all()]
        assert len(roots) == 1
        right = np.full_like(numpy_helper.to_array(roots[0]), 32**0.5)
        roots[0].CopyFrom(numpy_helper.from_array(right, roots[0].name))
        onnx.save(model, path)
        assert held_against_model(path, truth, SHORT).passed


def test_a_mask_that_hides_all_of_an_image_is_all_that_is_wrong_with_detr(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {**OF_KIND["masked_pixels"], "pixel_mask": "int64[batch, height % 16, width % 16] in 1..1"}
    assert failing(held("detr", "plain new", 0)) == {AGREES}
    monkeypatch.setitem(OF_KIND, "masked_pixels", seen)
    assert held("detr", "plain new", 0).passed


def test_a_trace_of_one_side_of_a_switch_disagrees_beyond_it() -> None:
    result = held("conformer", "plain old", 0)
    assert failing(result) == {AGREES}
    row = next(verdict for verdict in result.verdicts if verdict.check == AGREES)
    sizes = {case.name: case.sizes["samples"] for case in result.manifest.cases}
    # the model makes rows for longer calls, the file has those of 48 frames
    assert {sizes[c.case] for c in row.comparisons if not c.passed} == {max(sizes.values())}


OPTIMIZED = (
    ("bert", "plain new", "onnxsim"),
    ("gptj", "plain old", "ORT extended"),
    ("opt", "plain new", "common float16"),
    ("roformer", "plain old", "quantize_dynamic"),
    # within rounding of the file before with the same weights of 4 bits, by which logits of a Llama move by a third
    ("llama", "plain old", "MatMulNBits"),
    ("whisper", "plain new", "rows int8"),
)


@pytest.mark.parametrize(("model", "exporter", "optimizer"), OPTIMIZED)
def test_an_optimized_file_is_held_against_the_one_before(
    model: str, exporter: str, optimizer: str, tmp_path: Path
) -> None:
    for path, truth in foreign_files([model], [exporter], [optimizer]):
        before = f"{model}.{exporter.replace(' ', '-')}.onnx"
        assert [name for name, _ in unpack(model, tmp_path, {before})] == [before]
        result = held_against_file(path, tmp_path / before, truth, SHORT)
        assert result.passed, str(result)
