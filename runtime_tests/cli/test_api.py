"""The Python API: whatever can be exported, by keyword arguments; what makes no sense is one line."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, nn

import posenc_export
from helpers.broken import Good
from helpers.shared import DATA
from posenc.ports import BATCH, SEQ, Port, fixed
from posenc.spec import Spec
from posenc_export.common.errors import BadInput, Unavailable
from posenc_export.proof.exporter import ExportOptions, ExportResult
from posenc_export.proof.judging.verdict import ValidateOptions
from posenc_export.proof.runtimes import RUNTIMES, Missing
from posenc_models import ModelConfig

X = Port("x", (BATCH, SEQ, fixed(8)), "float32")
LLAMA = DATA / "configs" / "llama-3.1-8b.json"
ON_CPU: dict[str, Any] = {"formats": ["onnx"], "runtimes": ["ort-cpu"]}
BARE: dict[str, Any] = {"formats": ["onnx"], "validate": False}


class Shifts(nn.Module):
    """Has parameters with names of fields of a spec and of options."""

    def __init__(self, mode: str = "up", seed: float = 1.0) -> None:
        super().__init__()
        self.by = seed if mode == "up" else -seed

    def forward(self, x: Tensor) -> Tensor:
        return x + self.by


def make(scale: float = 1.0) -> nn.Module:
    return Good(scale)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> ExportResult:
    folder = tmp_path_factory.mktemp("api") / "bundle"
    return posenc_export.export("sinusoidal", d_model=8, mode="dynamic", max_len=40, to=folder, **ON_CPU)


def test_a_scheme_by_keyword_arguments(result: ExportResult) -> None:
    assert result.passed
    assert not result.failed
    assert result.unmet == ()
    assert {path.name for path in result.folder.iterdir()} >= {"model.onnx", "manifest.json", "golden.npz"}
    manifest = result.manifest
    assert (manifest.scheme, manifest.mode, manifest.max_len) == ("sinusoidal", "dynamic", 40)
    assert manifest.params["d_model"] == 8
    assert [artifact.format for artifact in manifest.artifacts] == ["onnx"]
    assert [v.subject for v in result.verdicts if v.comparisons] == ["ort-cpu"]


def test_a_bundle_validates_by_its_path_or_its_name(result: ExportResult) -> None:
    validated = posenc_export.validate(result.folder)
    assert validated.passed
    assert validated.manifest == result.manifest
    assert posenc_export.validate(str(result.folder), runtimes="ort-cpu", require=["ort-cpu"]).passed
    said: list[str] = []
    options = ValidateOptions(("ort-cpu",), atol=0.0, progress=said.append)
    strict = posenc_export.validate(result.folder, options=options)
    assert (strict.passed, strict.failed) == (False, True)
    assert said


def test_fields_by_name_are_those_of_a_spec_and_options(result: ExportResult, tmp_path: Path) -> None:
    validation = ValidateOptions(runtimes=("ort-cpu",))
    options = ExportOptions(formats=("onnx",), validation=validation)
    spec = Spec(mode="dynamic", max_len=99)
    whole = posenc_export.export(spec=spec, options=options, max_len=40, d_model=8, to=str(tmp_path / "whole"))
    assert whole.passed
    for name in ("model.onnx", "golden.npz", "manifest.json"):
        assert (whole.folder / name).read_bytes() == (result.folder / name).read_bytes()


@pytest.mark.parametrize(
    "source", [Good(), Good, make, "helpers.broken:Good"], ids=["module", "class", "function", "text"]
)
def test_a_module_of_ones_own(source: Any, tmp_path: Path) -> None:
    parameters: dict[str, Any] = {} if isinstance(source, nn.Module) else {"scale": 0.5}
    made = posenc_export.export(source, inputs=[X], max_len=50, to=tmp_path / "own", **ON_CPU, **parameters)
    assert made.passed
    assert made.manifest.params == parameters
    assert made.manifest.family == "module"
    assert made.manifest.reference == "the module run in float64"
    assert made.manifest.inputs == (X,)


def test_bundles_have_names_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for source in (Good(), Good, make, "helpers.broken:Good"):
        posenc_export.export(source, inputs=[X], max_len=50, **BARE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Good-dynamic", "make-dynamic"]


def test_parameters_reach_a_module_whatever_their_names(tmp_path: Path) -> None:
    parameters = {"mode": "down", "seed": 3.0}
    made = posenc_export.export(
        Shifts, inputs=[X], parameters=parameters, seed=7, max_len=50, to=tmp_path / "a", **BARE
    )
    assert made.manifest.params == parameters
    target = posenc_export.target(Shifts, inputs=[X], parameters=parameters)
    assert isinstance(target.encoding.module, Shifts)
    assert target.encoding.module.by == -3.0


@pytest.mark.exhaustive
def test_a_model_s_config(tmp_path: Path) -> None:
    config = ModelConfig.load(LLAMA)
    made = posenc_export.export(config, max_len=64, to=tmp_path / "a", **ON_CPU)
    assert made.passed
    assert (made.manifest.scheme, made.manifest.max_len) == ("rope", 64)
    assert made.manifest.params["rope_type"] == "llama3"
    assert made.manifest.origin["factor"] == "rope_scaling.factor"
    small = posenc_export.target(config, spec=Spec(max_len=64), parameters={"head_dim": 8})
    assert (small.params["head_dim"], small.origin["head_dim"]) == (8, "given")


def test_a_module_in_training_stays_in_training(tmp_path: Path) -> None:
    module = Good().train()
    posenc_export.export(module, inputs=[X], max_len=50, to=tmp_path / "a", **BARE)
    assert module.training
    assert module.linear.training


def test_without_validation_nothing_passed(tmp_path: Path) -> None:
    made = posenc_export.export(d_model=8, max_len=40, to=tmp_path / "a", **BARE)
    assert (made.passed, made.failed, made.verdicts) == (False, False, ())
    assert (made.folder / "model.onnx").is_file()


def test_a_mismatch_goes_beside_its_place(tmp_path: Path) -> None:
    made = posenc_export.export(d_model=8, max_len=40, atol=0.0, to=tmp_path / "a", **ON_CPU)
    assert made.failed
    assert made.folder == tmp_path / "a-failed"
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("source", "settings", "text"),
    [
        ("sinusoidal", {"mode": "magic"}, "mode must be baked or dynamic, got 'magic'"),
        ("sinusoidal", {"dtype": "int8"}, "dtype must be fp32 or fp16 or bf16 or fp64, got 'int8'"),
        ("sinusoidal", {"max_len": 0}, "max_len must be at least 1, got 0"),
        ("sinusoidal", {"d_modle": 8}, "sinusoidal has no parameter 'd_modle': did you mean 'd_model'?"),
        ("sinusoidal", {"d_model": "wide"}, "d_model must be int or auto, got 'wide'"),
        ("sinusoidal", {"parameters": {"mode": "dynamic"}}, "sinusoidal has no parameter 'mode'"),
        ("sinusodial", {}, "unknown scheme 'sinusodial': did you mean 'sinusoidal'?"),
        ("sinusoidal", {"runtimes": ["ort"]}, "unknown runtime 'ort'"),
        ("sinusoidal", {"require": "ort-gpu"}, "unknown runtime 'ort-gpu'"),
        ("sinusoidal", {"formats": ["tflite"]}, "unknown format 'tflite'"),
        ("sinusoidal", {"formats": []}, "formats are empty"),
        ("sinusoidal", {"opset": 99}, "opset must be in 18..24, got 99"),
        ("sinusoidal", {"opset": 5}, "opset must be in 18..24, got 5"),
        ("sinusoidal", {"opset": "20"}, "opset must be int or none, got '20'"),
        ("sinusoidal", {"max_len": "40"}, "max_len must be int, got '40'"),
        (
            "rope",
            {"rotary_op": "magic"},
            "rotary_op must be decomposed or onnx or microsoft or microsoft-mrope, got 'magic'",
        ),
        ("sinusoidal", {"runtimes": 5}, "runtimes must be a list of str, got 5"),
        ("sinusoidal", {"seed": -1}, "seed must be from 0 to 9223372036854775807, got -1"),
        ("sinusoidal", {"atol": -1.0}, "atol must be a finite number of at least 0, got -1.0"),
        (Good, {"inputs": [X, X]}, "two inputs are named 'x'"),
        ("sinusoidal", {"inputs": [X]}, "a scheme has its own"),
        ("learned", {"mode": "dynamic"}, "learned has no dynamic form"),
        ("helpers.broken:Good", {}, "helpers.broken:Good: say what goes in"),
        ("helpers.broken:Good", {"inputs": [X], "scale": "much"}, "scale must be float, got 'much'"),
        (Good, {"inputs": [X], "scael": 2.0}, "helpers.broken:Good has no parameter 'scael': did you mean 'scale'?"),
        (Good(), {"inputs": [X], "scale": 2.0}, "helpers.broken:Good has no parameter 'scale'"),
    ],
)
def test_wrong_settings_are_one_line(source: Any, settings: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as error:
        posenc_export.export(source, to=tmp_path / "a", **settings)
    assert text in error.value.message
    assert "\n" not in error.value.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"formats": ["onnx"]},
            "no option 'formats': expected atol, progress, prove, require, rtol, runtimes, timeout",
        ),
        ({"runtimes": ["ort"]}, "unknown runtime 'ort'"),
        ({"require": ["ort"]}, "unknown runtime 'ort'"),
        ({"require": ["torchscript-cpu"]}, "torchscript-cpu needs torchscript: here is only onnx"),
        ({"runtimes": ["torchscript-cpu"]}, "torchscript-cpu needs torchscript: here is only onnx"),
    ],
)
def test_wrong_options_to_validate_are_one_line(result: ExportResult, settings: dict[str, Any], text: str) -> None:
    with pytest.raises(BadInput) as error:
        posenc_export.validate(result.folder, **settings)
    assert text in error.value.message
    assert "\n" not in error.value.message


def test_a_folder_that_is_no_bundle_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not a bundle"):
        posenc_export.validate(tmp_path)


def test_a_required_runtime_that_is_missing_is_unavailable(
    result: ExportResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise Missing("no GPU")

    without = replace(RUNTIMES["ort-cuda"], check=fail)
    monkeypatch.setattr("posenc_export.proof.runtimes.requests.RUNTIMES", {"ort-cuda": without})
    text = "ort-cuda is required and not available here: no GPU"
    with pytest.raises(Unavailable, match=text):
        posenc_export.export(to=tmp_path / "a", require=["ort-cuda"])
    with pytest.raises(Unavailable, match=text):
        posenc_export.validate(result.folder, require=["ort-cuda"])


@pytest.mark.parametrize("module", ["posenc", "posenc_export", "posenc_export.cli"])
def test_nothing_heavy_is_imported_at_first(module: str) -> None:
    heavy = ("torch", "onnx", "onnxruntime", "rich", "jinja2", "playwright", "http.server", "ssl", "filelock")
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
