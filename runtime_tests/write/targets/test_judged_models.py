"""Models of transformers whose file is right, and whose rounding or padding is no reason to refuse them."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from transformers.models.t5.modeling_t5 import T5Attention

import posenc_export
from posenc_export.proof.exporter import ExportResult
from posenc_export.proof.judging.verdict import worst
from posenc_export.write.inputs.ports import parse_ports

pytestmark = pytest.mark.filterwarnings("ignore")
transformers.logging.set_verbosity(50)

TOKENS = ("ids: int64[batch, seq] < 99", "mask: int64[batch, seq] mask")
SMALL: dict[str, Any] = {"vocab_size": 99, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 37}
T5: dict[str, Any] = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 1, "num_heads": 4}
EAGER: dict[str, Any] = {"attn_implementation": "eager"}
BUCKETS: dict[str, Any] = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 32}


def gpt2() -> nn.Module:
    config = transformers.GPT2Config(vocab_size=99, n_embd=32, n_layer=1, n_head=4, **EAGER)
    return transformers.GPT2Model(config)


def t5() -> nn.Module:
    return transformers.T5EncoderModel(transformers.T5Config(**T5, **BUCKETS, **EAGER))


def bloom() -> nn.Module:
    return transformers.BloomModel(transformers.BloomConfig(vocab_size=99, hidden_size=32, n_layer=1, n_head=4))


def mpt() -> nn.Module:
    return transformers.MptModel(transformers.MptConfig(vocab_size=99, d_model=32, n_layers=1, n_heads=4))


def gemma3() -> nn.Module:
    layers: dict[str, Any] = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}
    config = transformers.Gemma3TextConfig(
        **SMALL, **layers, num_hidden_layers=2, num_key_value_heads=2, head_dim=8, pad_token_id=0
    )
    return transformers.Gemma3TextModel(config)


def deberta() -> nn.Module:
    relative: dict[str, Any] = {"relative_attention": True, "position_buckets": 8, "pos_att_type": ["p2c", "c2p"]}
    return transformers.DebertaV2Model(transformers.DebertaV2Config(**SMALL, **relative, num_hidden_layers=1))


def swin() -> nn.Module:
    sizes: dict[str, Any] = {"image_size": 32, "patch_size": 2, "embed_dim": 16, "window_size": 4}
    return transformers.SwinModel(transformers.SwinConfig(**sizes, depths=[2], num_heads=[2]))


class Text(nn.Module):
    """Ids and a mask in, hidden states out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        states: Tensor = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        return states


class Image(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: Tensor) -> Tensor:
        states: Tensor = self.model(pixel_values=image).last_hidden_state
        return states


class Attention(nn.Module):
    """T5's own attention, with the buckets of its first layer."""

    def __init__(self) -> None:
        super().__init__()
        config = transformers.T5Config(**T5, **BUCKETS, **EAGER)
        self.attention = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.attention(x)[0]
        return output


def exported(module: nn.Module, inputs: tuple[str, ...], folder: Path) -> ExportResult:
    torch.manual_seed(0)
    return posenc_export.export(
        module.eval(),
        to=folder / "bundle",
        inputs=parse_ports(inputs),
        formats=["onnx"],
        runtimes=["ort-cpu"],
        max_len=16,
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("make", [gpt2, t5, bloom, mpt, gemma3, deberta])
def test_a_model_of_text_is_certified(make: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    result = exported(Text(make()), TOKENS, tmp_path)
    assert certified(result) < 1e-5
    assert "y by mask" in notes(result)["padding"]
    assert ("choices" in notes(result)) == (make is t5)


@pytest.mark.exhaustive
def test_windows_that_are_shifted_are_certified(tmp_path: Path) -> None:
    torch.manual_seed(0)
    result = exported(Image(swin()), ("image: float32[batch, 3, 32, 32]",), tmp_path)
    assert certified(result) < 1e-5
    assert "choices" not in notes(result), "differences of whole numbers are exact"


@pytest.mark.exhaustive
def test_an_attention_with_buckets_is_certified_and_its_edge_is_named(tmp_path: Path) -> None:
    torch.manual_seed(0)
    result = exported(Attention(), ("x: float32[batch, seq, 32]",), tmp_path)
    assert certified(result) < 1e-5
    assert "the last digit of a float chooses at modeling_t5.py:" in notes(result)["choices"]


def certified(result: ExportResult) -> float:
    """How far a file is off from eager at worst; it is certified, against float64 too."""
    assert result.passed, [verdict.detail for verdict in result.verdicts if verdict.status == "fail"]
    comparisons = [comparison for verdict in result.verdicts for comparison in verdict.comparisons]
    assert worst(comparisons, "reference") is not None
    eager = worst(comparisons, "eager")
    assert eager is not None
    return eager.max_abs


def notes(result: ExportResult) -> dict[str, str]:
    return {verdict.check: verdict.note for verdict in result.verdicts if verdict.note}
