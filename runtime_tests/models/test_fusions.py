"""Fusions of transformers' own exporter: which are alive after our modules are in a model, and what they compute."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM
from transformers.exporters.configs import OnnxConfig
from transformers.exporters.exporter_onnx import OnnxExporter

import posenc
from posenc import Spec
from posenc.parameters import Value
from posenc_models import replace_rotary

pytestmark = pytest.mark.filterwarnings("ignore")

VOCAB, ROWS, HEAD_DIM = 50, 300, 16
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
SWAPS: dict[str, dict[str, Any] | None] = {"its own": None, "ours": {}, "ours, fusible": {"fusible": True}}


def llama(**rope: Any) -> Any:
    """Return a tiny Llama with large weights, so that logits depend on positions."""
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=64,
            intermediate_size=48,
            num_hidden_layers=1,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=HEAD_DIM,
            vocab_size=VOCAB,
            initializer_range=0.3,
            max_position_embeddings=ROWS,
            rope_parameters={"rope_type": "default", "rope_theta": 1e4, **rope},
        )
    ).eval()


def step(model: Any, past: int) -> tuple[dict[str, Any], Tensor]:
    """Return the inputs of a token behind a cache, and the logits that a model gives for them."""
    ids = torch.randint(0, VOCAB, (1, past + 1), generator=torch.Generator().manual_seed(past))
    with torch.no_grad():
        cache = DynamicCache(config=model.config)
        model(input_ids=ids[:, :past], past_key_values=cache)
        logits = model(input_ids=ids).logits[:, -1:]
    last = {"input_ids": ids[:, past:], "position_ids": torch.tensor([[past]])}
    return {**last, "attention_mask": torch.ones_like(ids), "past_key_values": cache}, logits


def fused(model: Any, folder: Path, *, with_cache: bool) -> Path:
    """Export a model with the fusions of its exporter for the CPU."""
    inputs = step(model, 8)[0]
    if not with_cache:
        inputs = {"input_ids": torch.arange(9)[None], "attention_mask": torch.ones(1, 9, dtype=torch.int64)}
    with torch.no_grad():
        made: Any = OnnxExporter().export(model, inputs, config=OnnxConfig(dynamic=with_cache, ort_fusions="cpu"))
    program = made[0] if isinstance(made, tuple) else getattr(made, "program", made)
    path = folder / "model.onnx"
    ir.save(program, path)
    return path


def attentions(path: Path) -> list[int]:
    """Return, for each GroupQueryAttention of a file, whether it rotates by itself."""
    nodes = ir.load(path).graph
    return [n.attributes.get_int("do_rotary", 0) for n in nodes if n.op_type == "GroupQueryAttention"]


@pytest.mark.parametrize(
    ("with_cache", "swap", "rotating"),
    [
        pytest.param(True, "its own", [1], marks=pytest.mark.exhaustive),
        # angles that no runtime computes: the rotation stands beside the attention, which is fused
        pytest.param(True, "ours", [0], marks=pytest.mark.exhaustive),
        (True, "ours, fusible", [1]),
        *(pytest.param(False, name, [1], marks=pytest.mark.exhaustive) for name in SWAPS),
    ],
)
def test_attention_is_fused_before_and_after_the_swap(
    tmp_path: Path, with_cache: bool, swap: str, rotating: list[int]
) -> None:
    model, options = llama(), SWAPS[swap]
    steps = [step(model, past) for past in (1, 8, 33, ROWS - 1)]
    if options is not None:
        replace_rotary(model, **options)
    path = fused(model, tmp_path, with_cache=with_cache)
    assert attentions(path) == rotating
    if not with_cache:
        return
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [port.name for port in session.get_inputs()]
    # the cache of each step is of another length than the traced one
    for inputs, logits in steps:
        layer = inputs.pop("past_key_values").layers[0]
        tensors = [*inputs.values(), layer.keys, layer.values]
        order = [*inputs, *(name for name in names if name not in inputs)]
        out, *_ = session.run(None, {name: t.numpy() for name, t in zip(order, tensors, strict=True)})
        np.testing.assert_allclose(out, logits.numpy(), rtol=0, atol=2e-5 * float(logits.abs().max()))


@pytest.mark.parametrize("rope", [{}, {"rope_type": "llama3", **LLAMA3}], ids=["default", "llama3"])
def test_stored_angles_are_within_3e_7_of_float64(rope: dict[str, Value]) -> None:
    model, rows = llama(**rope), 20000
    replace_rotary(model, Spec("dynamic", max_len=rows), fusible=True)
    positions = np.arange(rows)[None]
    cos, sin = model.model.rotary_emb(torch.zeros(1), torch.from_numpy(positions))
    full: dict[str, Value] = {"head_dim": HEAD_DIM, "output": "cos_sin", "width": "full", "rope_theta": 1e4}
    encoding = posenc.build("rope", Spec("dynamic", max_len=rows), **full, **rope)
    expected = encoding.reference({"positions": positions}, None)
    for name, array in (("cos", cos), ("sin", sin)):
        assert array.dtype == torch.float32
        np.testing.assert_allclose(array.numpy(), expected[name], rtol=0, atol=3e-7)


def test_angles_keep_their_dtype_and_end_where_rows_do() -> None:
    model = llama()
    before = model.model.rotary_emb
    replace_rotary(model, fusible=True)
    model.half()
    cos, _ = model.model.rotary_emb(torch.zeros(1, dtype=torch.float16), torch.tensor([[ROWS - 1]]))
    expected, _ = before(torch.zeros(1), torch.tensor([[ROWS - 1]]))
    assert cos.dtype == torch.float16
    torch.testing.assert_close(cos.float(), expected, rtol=0, atol=1e-3)
    for outside in (-1, ROWS):
        with pytest.raises(IndexError, match=rf"positions must be in 0\.\.{ROWS - 1}"):
            model.model.rotary_emb(torch.zeros(1), torch.tensor([[outside]]))


@pytest.mark.parametrize(
    ("rope", "why"),
    [
        ({"rope_type": "dynamic", "factor": 4.0}, "frequencies that no call changes"),
        ({"rope_type": "yarn", "factor": 4.0}, "without a factor of attention"),
    ],
    ids=["dynamic", "yarn"],
)
def test_what_no_row_of_angles_says_is_refused_in_a_line(rope: dict[str, Any], why: str) -> None:
    model = llama(**rope)
    before: nn.Module = model.model.rotary_emb
    with pytest.raises(ValueError, match=why) as refused:
        replace_rotary(model, fusible=True)
    assert "\n" not in str(refused.value)
    assert model.model.rotary_emb is before
