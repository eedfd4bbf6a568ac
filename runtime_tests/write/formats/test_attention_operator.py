"""`--attention-op onnx`: Attention and RotaryEmbedding of ai.onnx give what a module's own code gives."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from helpers.shared_heads import drawn_call, repeated
from posenc.ports import Array
from posenc_export import export
from posenc_export.common.errors import BadInput
from posenc_export.proof.exporter.options import ExportOptions, check_options

KEY_HEADS, GROUPS, WIDTH = 2, 3, 8
PORTS = [
    "x: float32[batch, seq, 48]",
    "angles: float32[batch, seq, 4]",
    "mask: bool[batch, 1, seq, past+seq]",
    "past.key: float32[batch, 2, past, 8]",
    "past.value: float32[batch, 2, past, 8]",
]


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the halves of heads as Llama does: (batch, heads, seq, width)."""
    first, second = x[..., : WIDTH // 2], x[..., WIDTH // 2 :]
    return x * cos.unsqueeze(1) + torch.cat((-second, first), -1) * sin.unsqueeze(1)


class Layer(nn.Module):
    """Attention of Llama with its cache, behind two linear layers.

    Args:
        cached: whether keys and values of earlier tokens come out, with the new ones.
    """

    def __init__(self, *, cached: bool = True) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.cached = cached
        self.key = nn.Parameter(torch.randn(KEY_HEADS * WIDTH, 48, generator=generator) / 7)
        self.value = nn.Parameter(torch.randn(KEY_HEADS * WIDTH, 48, generator=generator) / 7)

    def forward(self, x: Tensor, angles: Tensor, mask: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        batch, seq, _ = x.shape
        cos, sin = (torch.cat([part, part], -1) for part in (angles.cos(), angles.sin()))
        query = rotated(x.view(batch, seq, -1, WIDTH).transpose(1, 2), cos, sin)
        new = functional.linear(x, self.key).view(batch, seq, -1, WIDTH).transpose(1, 2)
        key = torch.cat([key, rotated(new, cos, sin)], 2)
        value = torch.cat([value, functional.linear(x, self.value).view(batch, seq, -1, WIDTH).transpose(1, 2)], 2)
        y = functional.scaled_dot_product_attention(
            query, repeated(key, GROUPS), repeated(value, GROUPS), attn_mask=mask, scale=0.3
        )
        outputs = (key, value) if self.cached else (key.sum(2), value.sum(2))
        return (y.transpose(1, 2).reshape(batch, seq, -1), *outputs)


def call(seq: int, past: int) -> list[Array]:
    """Return the inputs of a layer."""
    drawn = drawn_call(seq, past, 2)
    angles = np.random.default_rng(seq).standard_normal((2, seq, 4), np.float32)
    return [drawn["x"], angles, drawn["mask"], drawn["keys"], drawn["values"]]


@pytest.mark.parametrize(("opset", "cached"), [(23, True), (24, True), (23, False)])
def test_operators_give_what_the_module_gives(opset: int, cached: bool, tmp_path: Path) -> None:
    module = Layer(cached=cached).eval()
    options = ExportOptions(("onnx",), opset=opset, validate=False, attention_op="onnx")
    result = export(module, inputs=PORTS, to=tmp_path / "bundle", options=options, max_len=16)
    assert result.manifest.attention_op == "onnx"
    graph = onnx.load(tmp_path / "bundle" / "model.onnx").graph
    counted = Counter(node.op_type for node in graph.node)
    assert (counted["Attention"], counted["RotaryEmbedding"], counted["Softmax"]) == (1, 2, 0)
    (attention,) = [node for node in graph.node if node.op_type == "Attention"]
    # the cache goes through the operator where it comes out; two heads of keys serve six of queries
    assert len(attention.input) == (6 if cached else 4)
    assert len(attention.output) == (3 if cached else 1)
    session = onnxruntime.InferenceSession(tmp_path / "bundle" / "model.onnx", providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_inputs()]
    for seq, past in ((1, 7), (5, 0), (3, 4), (1, 0)):
        feeds = call(seq, past)
        with torch.no_grad():
            expected = module(*map(torch.from_numpy, feeds))
        for actual, tensor in zip(session.run(None, dict(zip(names, feeds, strict=True))), expected, strict=True):
            np.testing.assert_allclose(np.asarray(actual), tensor.numpy(), rtol=0, atol=2e-6)


def turned_by_place(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """As ModernBERT does: cosines of a batch of one, which are repeated for the others."""
    angles = torch.arange(q.shape[2], device=q.device)[None, :, None] * torch.tensor([1.0, 0.1, 0.01, 0.001])
    cos, sin = (torch.cat([part, part], -1) for part in (angles.cos(), angles.sin()))
    return functional.scaled_dot_product_attention(rotated(q, cos, sin), rotated(k, cos, sin), v)


def causal(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def grouped(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)


def unlike_heads(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    three = v[:, :3, None].expand(-1, 3, 2, -1, WIDTH).reshape(v.shape)
    return functional.scaled_dot_product_attention(q, repeated(k[:, :2], GROUPS), three)


def masked_alike(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """A mask that leaves out queries, the same for all keys."""
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[..., :1])


Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class Heads(nn.Module):
    """Calls attention with six heads of queries, keys and values."""

    def __init__(self, attend: Attend) -> None:
        super().__init__()
        self.attend = attend

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        heads = x.view(x.shape[0], x.shape[1], -1, WIDTH).transpose(1, 2)
        return self.attend(heads, heads.flip(-1), heads * 0.5, mask)


@pytest.mark.parametrize("attend", [turned_by_place, causal, grouped, unlike_heads, masked_alike])
def test_other_attentions_are_the_operator_too(attend: Attend, tmp_path: Path) -> None:
    module = Heads(attend).eval()
    options = ExportOptions(("onnx",), validate=False, attention_op="onnx")
    ports = ["x: float32[batch, seq, 48]", "mask: bool[batch, 1, seq, seq]"]
    export(module, inputs=ports, to=tmp_path / "bundle", options=options, max_len=16)
    graph = onnx.load(tmp_path / "bundle" / "model.onnx").graph
    assert sum(node.op_type == "Attention" for node in graph.node) == 1
    session = onnxruntime.InferenceSession(tmp_path / "bundle" / "model.onnx", providers=["CPUExecutionProvider"])
    names = {item.name for item in session.get_inputs()}
    for batch, seq in ((1, 1), (3, 5), (2, 9)):
        generator = np.random.default_rng(seq)
        feeds = {
            "x": generator.standard_normal((batch, seq, 48), np.float32),
            "mask": np.tril(np.ones((seq, seq), bool))[None, None].repeat(batch, 0),
        }
        with torch.no_grad():
            expected = module(*map(torch.from_numpy, feeds.values()))
        (actual,) = session.run(None, {name: feeds[name] for name in names})
        np.testing.assert_allclose(np.asarray(actual), expected.numpy(), rtol=0, atol=2e-6)


class OneCache(nn.Module):
    """Keys that are the values, too: a cache of both."""

    def forward(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        both = torch.cat([past, x], 2)
        return functional.scaled_dot_product_attention(x, both, both), both


def test_keys_that_are_the_values_stay_apart_from_the_operator(tmp_path: Path) -> None:
    ports = ["x: float32[batch, 2, seq, 8]", "past: float32[batch, 2, past, 8]"]
    options = ExportOptions(("onnx",), validate=False, attention_op="onnx")
    export(OneCache(), inputs=ports, to=tmp_path / "bundle", options=options, max_len=16)
    session = onnxruntime.InferenceSession(tmp_path / "bundle" / "model.onnx", providers=["CPUExecutionProvider"])
    x, past = (torch.linspace(-1, 1, 2 * n * 8).reshape(1, 2, n, 8) for n in (3, 4))
    for actual, expected in zip(
        session.run(None, {"x": x.numpy(), "past": past.numpy()}), OneCache()(x, past), strict=True
    ):
        np.testing.assert_allclose(np.asarray(actual), expected.numpy(), rtol=0, atol=2e-6)


class Capped(nn.Module):
    """Attention with a ceiling on scores, as Gemma 2's."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.matmul((5 * torch.tanh(torch.matmul(x, x.mT) / 5)).softmax(-1), x)


def test_a_module_without_attention_of_torch_is_refused_in_a_line(tmp_path: Path) -> None:
    options = ExportOptions(("onnx",), validate=False, attention_op="onnx")
    with pytest.raises(BadInput, match='attention_op="onnx" stands for torch\'s scaled_dot_product_attention'):
        export(Capped(), inputs=["x: float32[batch, seq, 8]"], to=tmp_path / "bundle", options=options)
    with pytest.raises(BadInput, match='attention_op="onnx" is for modules and whole models: rope has no attention'):
        export("rope", head_dim=8, mode="dynamic", to=tmp_path / "bundle", options=options)
    assert list(tmp_path.iterdir()) == []


def test_options_that_contradict_it_are_refused() -> None:
    with pytest.raises(BadInput, match="--attention-op onnx needs opset 23, got --opset 20"):
        check_options(ExportOptions(("onnx",), opset=20, attention_op="onnx"))
    with pytest.raises(BadInput, match="--attention-op onnx is an operator of ONNX: give -f onnx with it"):
        check_options(ExportOptions(("torchscript",), attention_op="onnx"))
    options = ExportOptions(("onnx",), attention_op="onnx")
    assert (options.onnx_opset, options.opset_reason) == (23, "--attention-op onnx needs it")
