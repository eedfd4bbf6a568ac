"""What a config and its weights are read as, against the model's own modules."""

from pathlib import Path

import pytest
import torch
from torch import nn

from hf_models import MODELS, Model
from posenc.hf import ModelConfig
from posenc.scheme import SCHEMES
from posenc.spec import Spec
from posenc_export.exporter.settings import split
from posenc_export.exporter.options import ExportOptions
from posenc_export.targets import Target
from posenc_export.targets.hf_config import config_target


def saved(model: Model, folder: Path) -> nn.Module:
    """Write a model and its weights as transformers does."""
    module = model.model()
    if hasattr(module, "save_pretrained"):
        module.save_pretrained(folder)
    else:
        model.config().save_pretrained(folder)
    return module


def target_of(model: Model, folder: Path) -> Target:
    """What is read from its folder."""
    config = ModelConfig.load(folder, part=model.part)
    row = config.row
    if config.scheme not in SCHEMES:
        pytest.skip(f"there is no scheme {config.scheme} yet")
    weights = (
        {"weights": str(folder)} if row is not None and row.tables and (folder / "model.safetensors").is_file() else {}
    )
    spec = split({"mode": model.mode}, None, ExportOptions(), config).spec
    return config_target(config, spec, weights, 0)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_values_are_those_of_the_model_s_own_module(model: Model, tmp_path: Path) -> None:
    own = saved(model, tmp_path)
    target = target_of(model, tmp_path)
    with torch.no_grad():
        expected, values = model.own(own), model.call(target.encoding.module.eval())
    torch.testing.assert_close(values, expected, atol=model.allowed, rtol=0)
    assert float(expected.abs().max()) > 0.1
