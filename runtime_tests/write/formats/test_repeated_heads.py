"""Keys and values that queries share: graphs multiply with them as they are, and give what the module gives."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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

BATCH, QUERIES, WIDTH, KEY_HEADS, GROUPS = 2, 3, 8, 2, 3
PORTS = (
    "x: float32[batch, seq, 48]",
    "mask: bool[batch, 1, seq, past+seq]",
    "keys: float32[batch, 2, past, 8]",
    "values: float32[batch, 2, past, 8]",
)
Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(
        query, repeated(key, GROUPS), repeated(value, GROUPS), attn_mask=mask, scale=0.3
    )


def unmasked(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    # the mask goes in so that all modules have the same inputs
    seen = mask.any(-1, keepdim=True).to(query.dtype)
    return functional.scaled_dot_product_attention(query, repeated(key, GROUPS), repeated(value, GROUPS)) * seen


def grouped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """PyTorch repeats."""
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=0.3, enable_gqa=True)


def capped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """What Gemma 2 does: scores have a ceiling."""
    scores = torch.matmul(query, repeated(key, GROUPS).transpose(2, 3)) * 0.3
    scores = 5 * torch.tanh(scores / 5) + torch.where(mask, 0.0, torch.finfo(query.dtype).min)
    return torch.matmul(scores.softmax(-1, dtype=torch.float32), repeated(value, GROUPS))


def sunk(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """What GPT-OSS does: each head has a key of its own that no value belongs to."""
    scores = torch.matmul(query, repeated(key, GROUPS).transpose(2, 3)) + torch.where(
        mask, 0.0, torch.finfo(query.dtype).min
    )
    sinks = torch.linspace(-1, 1, KEY_HEADS * GROUPS).reshape(1, -1, 1, 1)
    joined = torch.cat([scores, sinks.expand(query.shape[0], -1, query.shape[2], -1)], -1)
    return torch.matmul(joined.softmax(-1)[..., :-1], repeated(value, GROUPS))


def biased(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """A bias of each head on the scores."""
    slopes = torch.linspace(0.1, 1, KEY_HEADS * GROUPS).reshape(1, -1, 1, 1)
    bias = torch.where(mask, slopes * torch.arange(mask.shape[-1]), -torch.inf)
    return functional.scaled_dot_product_attention(
        query, repeated(key, GROUPS), repeated(value, GROUPS), attn_mask=bias
    )


class Shared(nn.Module):
    """Attention of six heads of queries, and two of keys and values."""

    def __init__(self, attend: Attend) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.attend = attend
        self.weight = nn.Parameter(torch.randn(WIDTH * KEY_HEADS, 48, generator=generator) / 7)

    def forward(self, x: Tensor, mask: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        batch, seq, _ = x.shape
        query = x.view(batch, seq, KEY_HEADS * GROUPS, WIDTH).transpose(1, 2)
        new = functional.linear(x, self.weight).view(batch, seq, KEY_HEADS, WIDTH).transpose(1, 2)
        keys, values = torch.cat([keys, new], 2), torch.cat([values, new], 2)
        y = self.attend(query, keys, values, mask)
        return y.transpose(1, 2).reshape(batch, seq, -1), keys, values


def written(module: nn.Module, ports: Sequence[str], to: Path) -> Path:
    """Return the ONNX file of a module, which is proved by nothing but this file's tests."""
    export(module, inputs=list(ports), to=to, formats=["onnx"], validate=False, max_len=16)
    return to / "model.onnx"


def operators(path: Path) -> Counter[str]:
    return Counter(node.op_type for node in onnx.load(path).graph.node)


def ran(path: Path, feeds: Mapping[str, Array]) -> list[Array]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return [np.asarray(output) for output in session.run(None, dict(feeds))]


@pytest.mark.parametrize("attend", [fused, unmasked, grouped, capped, sunk, biased])
def test_keys_are_not_repeated_and_numbers_are_the_modules(attend: Attend, tmp_path: Path) -> None:
    module = Shared(attend).eval()
    path = written(module, PORTS, tmp_path / "bundle")
    values = onnx.shape_inference.infer_shapes(onnx.load(path)).graph.value_info
    assert max(len(value.type.tensor_type.shape.dim) for value in values) == 4, "an axis of groups: keys are repeated"
    graph = onnx.load(path).graph
    read = {name for one in graph.node for name in one.input}
    assert {tensor.name for tensor in graph.initializer} <= read, "ONNX Runtime warns of what no node reads"
    for seq, past in ((1, 7), (5, 0), (3, 4), (1, 0)):
        feeds = drawn_call(seq, past, BATCH)
        with torch.no_grad():
            expected = module(*(torch.from_numpy(feeds[name]) for name in ("x", "mask", "keys", "values")))
        for actual, tensor in zip(ran(path, feeds), expected, strict=True):
            np.testing.assert_allclose(actual, tensor.numpy(), rtol=0, atol=2e-6)


class OfKeys(nn.Module):
    """Attention whose keys and values come in."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(q, repeated(k, GROUPS), repeated(v, GROUPS))


@pytest.mark.parametrize(("batch", "queries", "keys"), [(2, 3, 0), (0, 3, 4), (2, 0, 4)])
def test_sizes_of_zero_are_taken(batch: int, queries: int, keys: int, tmp_path: Path) -> None:
    ports = ["q: float32[batch, 6, seq, 8]", *(f"{name}: float32[batch, 2, past, 8]" for name in "kv")]
    path = written(OfKeys(), ports, tmp_path / "bundle")
    feeds = {"q": np.ones((batch, 6, queries, 8), np.float32)}
    feeds |= {name: np.ones((batch, 2, keys, 8), np.float32) for name in "kv"}
    (actual,) = ran(path, feeds)
    np.testing.assert_array_equal(actual, OfKeys()(*map(torch.from_numpy, feeds.values())).numpy())


class Seen(nn.Module):
    """Repeated keys that come out, too."""

    def forward(self, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        wide = repeated(keys, GROUPS)
        return torch.matmul(query, wide.transpose(2, 3)), wide


def test_keys_that_something_else_takes_stay_repeated(tmp_path: Path) -> None:
    ports = ("query: float32[batch, 6, seq, 8]", "keys: float32[batch, 2, past, 8]")
    path = written(Seen().eval(), ports, tmp_path / "bundle")
    assert operators(path)["Expand"] == 1
    assert operators(path)["MatMul"] == 1


class Norm(nn.Module):
    """The norm of Llama."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def test_a_norm_divides_by_its_root(tmp_path: Path) -> None:
    path = written(Norm().eval(), ["x: float32[batch, seq, 8]"], tmp_path / "bundle")
    assert operators(path)["Reciprocal"] == 0
    assert operators(path)["Div"] == 1
    x = np.random.default_rng(0).standard_normal((2, 3, 8), np.float32)
    (actual,) = ran(path, {"x": x})
    np.testing.assert_allclose(actual, Norm()(torch.from_numpy(x)).numpy(), rtol=1e-6)


class LookUp(nn.Module):
    """Rows of a table at positions."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(16, 4)

    def forward(self, positions: Tensor) -> Tensor:
        rows: Tensor = self.rows(positions)
        return rows


def test_a_negative_position_is_sent_behind_the_table_once(tmp_path: Path) -> None:
    path = written(LookUp().eval(), ["positions: int64[batch, seq] positions < 16"], tmp_path / "bundle")
    assert operators(path)["Where"] == 1
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument, match="out of data bounds"):
        ran(path, {"positions": np.array([[-1]])})
