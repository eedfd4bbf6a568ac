"""What a config and its weights are read as, against the model's own modules."""

from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from helpers.models.images import IMAGES
from helpers.models.scores import SCORES
from helpers.models.segmentation import SEGMENTATION
from helpers.models.speech import SPEECH
from helpers.models.text import TEXTS, Model
from helpers.shared import EPS, one_of_each
from posenc.scheme import SCHEMES
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.proof.exporter.settings import spec_for, split
from posenc_export.proof.judging.verdict import ValidateOptions
from posenc_export.write.targets import Target
from posenc_export.write.targets.hf_config import config_target
from posenc_models import ModelConfig, read_config

ALL = (*TEXTS, *IMAGES, *SEGMENTATION, *SCORES, *SPEECH)
MODELS = [pytest.param(model, id=model.name) for model in ALL]
OF_EACH_KIND = list({model.kind: model for model in ALL}.values())


def saved(model: Model, folder: Path) -> nn.Module:
    """Write a model and its weights as transformers does."""
    module = model.model()
    if isinstance(module, PreTrainedModel):
        module.save_pretrained(folder)
    else:
        model.config().save_pretrained(folder)
    return module


def target_of(model: Model, folder: Path) -> Target:
    """What is read from its folder."""
    config = ModelConfig.load(folder, part=model.part)
    reads = config.row is not None and config.row.tables and (folder / "model.safetensors").is_file()
    parameters = {"weights": str(folder), **({"key": model.key} if model.key else {})} if reads else {}
    need(config, parameters)
    settings = split({"mode": model.mode}, None, ExportOptions(), config)
    return config_target(config, spec_for(settings, config, parameters), parameters, 0)


def need(config: ModelConfig, parameters: dict[str, str]) -> None:
    """Skip what is read as a scheme, or with parameters of it, that there are not."""
    if config.scheme not in SCHEMES:
        pytest.skip(f"there is no scheme {config.scheme}")
    missing = set(read_config(config, overrides=parameters).parameters) - set(SCHEMES[config.scheme].parameters)
    if missing:
        pytest.skip(f"{config.scheme} has no {', '.join(sorted(missing))}")


@pytest.mark.parametrize("model", one_of_each(MODELS, lambda model: model.values[0].kind))
def test_values_are_those_of_the_model_s_own_module(model: Model, tmp_path: Path) -> None:
    own = saved(model, tmp_path)
    target = target_of(model, tmp_path)
    with torch.no_grad():
        expected, values = model.own(own), model.call(target.encoding.module.eval())
    assert values.shape == expected.shape
    peak = expected.abs().max().item()
    assert peak > 0.1
    torch.testing.assert_close(values, expected, atol=model.roundings * EPS * peak, rtol=0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("model", OF_EACH_KIND, ids=lambda model: model.name)
def test_exported_they_pass(model: Model, tmp_path: Path) -> None:
    saved(model, tmp_path / "model")
    target = target_of(model, tmp_path / "model")
    options = ExportOptions(formats=("onnx",), validation=ValidateOptions(runtimes=("ort-cpu",)))
    result = export_target(lambda: target, options, tmp_path / "bundle")
    assert result.passed, [verdict for verdict in result.verdicts if verdict.status == "fail"]
