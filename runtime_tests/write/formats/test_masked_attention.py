"""Attention under a mask, written as ONNX: a query without a key is 0, as PyTorch gives it; names of folded weights."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from helpers.shared import one_of_each
from posenc_export.write.formats import quiet
from posenc_export.write.formats.onnx import attention
from posenc_export.write.formats.onnx.folded import name_folded


class Attention(nn.Module):
    """Attention of x under a mask."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)


def seen(kind: str) -> Tensor:
    """Return which keys each of three queries sees: none, one and all."""
    keys = torch.tensor([[0, 0, 0], [0, 1, 0], [1, 1, 1]], dtype=torch.bool)
    return keys if kind == "bool" else torch.where(keys, 0.0, -torch.inf)


@pytest.mark.parametrize(
    ("kind", "rank"), one_of_each([("bool", 4), ("bool", 3), ("bool", 5), ("float", 4), ("float", 3)], lambda _: "")
)
def test_a_query_without_a_key_is_0(kind: str, rank: int, tmp_path: Path) -> None:
    x = torch.randn(*[2] * (rank - 2), 3, 4, generator=torch.Generator().manual_seed(0))
    module, args = Attention().eval(), (x, seen(kind))
    expected = module(*args).numpy()
    assert not expected[..., 0, :].any()
    with quiet(), torch.no_grad():
        program = torch.export.export(module, args, strict=False)
        assert attention.count_of(program)
        translations = attention.translations()
        written = torch.onnx.export(program, args, dynamo=True, custom_translation_table=translations, verbose=False)
        assert written is not None
        written.save(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    (actual,) = session.run(None, {"x": x.numpy(), "mask": args[1].numpy()})
    assert not actual[..., 0, :].any()
    assert np.abs(actual - expected).max() <= 1e-6


class Normed(nn.Module):
    """Convolutions, one of them under a batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.norm = nn.Conv1d(4, 4, 1), nn.Conv1d(4, 4, 1), nn.BatchNorm1d(4)
        self.norm.running_var = torch.full((4,), 3.0)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.second(self.first(x)))
        return y


def test_weights_with_a_batch_norm_in_them_are_not_called_the_module_s() -> None:
    args = (torch.ones(1, 4, 5),)
    with quiet(), torch.no_grad():
        program = torch.export.export(Normed().eval(), args, strict=False)
        written = torch.onnx.export(program, args, dynamo=True, verbose=False)
    assert written is not None
    name_folded(written.model, program)
    names = {value.name for value in written.model.graph.initializers.values()}
    assert {"first.weight", "first.bias", "second.weight_with_batch_norm"} <= names
    assert "second.weight" not in names
