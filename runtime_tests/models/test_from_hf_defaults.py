"""Model types at their default configurations: read, exported to ONNX, and equal to the model's own module there.

That module alone is made; of the whole model, without memory, only the names of its weights are looked at.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel

from helpers.models.defaults import DEFAULTS, Default, Ours
from helpers.models.relative_defaults import RELATIVE
from helpers.shared import EPS
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.proof.exporter.settings import spec_for, split
from posenc_export.write.targets.hf_config import config_target
from posenc_models import ModelConfig


def saved(default: Default, folder: Path) -> nn.Module:
    """Write the configuration, and the module's weights by the names that they have in the model."""
    AutoConfig.for_model(default.model_type).save_pretrained(folder)
    module = default.make(AutoConfig.for_model(default.model_type))
    if default.path:
        with torch.device("meta"):
            whole = AutoModel.from_config(AutoConfig.for_model(default.model_type))
        of_module = {
            f"{default.path}.{name}": weight for name, weight in module.named_parameters() if not weight.is_meta
        }
        assert of_module.keys() <= {name for name, _ in whole.named_parameters()}
        save_file({name: weight.data for name, weight in of_module.items()}, folder / "model.safetensors")
    return module


def in_onnx(path: Path) -> Ours:
    """The graph in ONNX Runtime."""
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]

    def ours(*inputs: Tensor) -> Tensor:
        (output,) = session.run(None, {name: np.asarray(x) for name, x in zip(names, inputs, strict=True)})
        return torch.from_numpy(output)

    return ours


@pytest.mark.exhaustive
@pytest.mark.parametrize("default", [*DEFAULTS, *RELATIVE], ids=lambda default: default.name)
def test_the_graph_of_a_default_configuration_gives_what_the_model_s_own_module_gives(
    default: Default, tmp_path: Path
) -> None:
    module = saved(default, tmp_path)
    config = ModelConfig.load(tmp_path, part=default.part)
    assert config.row is not None
    parameters = {"weights": str(tmp_path)} if config.row.tables and default.path else {}
    settings = split({"mode": default.mode}, None, ExportOptions(formats=("onnx",), validate=False), config)
    target = config_target(config, spec_for(settings, config, parameters), parameters, 0)
    export_target(lambda: target, settings.options, tmp_path / "bundle")
    with torch.no_grad():
        expected, values = default.own(module), default.call(in_onnx(tmp_path / "bundle" / "model.onnx"))
    peak = expected.abs().max().item()
    assert peak > 0.01
    torch.testing.assert_close(values, expected, atol=default.roundings * EPS * peak, rtol=0)
