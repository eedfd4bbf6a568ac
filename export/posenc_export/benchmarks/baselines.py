"""Encodings as most people write and export them: what `posenc bench` measures ours against."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from posenc_export.bundle.folder import Manifest


class PlainSinusoidal(nn.Module):
    """Sin and Cos of float32 angles, stacked and flattened, computed at each call."""

    def __init__(self, d_model: int, base: float) -> None:
        super().__init__()
        self.d_model = d_model
        self.base = base

    def forward(self, x: Tensor) -> Tensor:
        """Return x + PE: (batch, seq, d_model) -> the same."""
        position = torch.arange(x.shape[1], device=x.device).unsqueeze(1).float()
        pairs = torch.arange(0, self.d_model, 2, device=x.device).float()
        angles = position * torch.exp(pairs * (-math.log(self.base) / self.d_model))
        rows = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        return x + rows[:, : self.d_model].to(x.dtype)


class PlainRotary(nn.Module):
    """Sin and Cos of float32 angles at full width, then the rotate-half formula: as transformers models have it."""

    inv_freq: Tensor

    def __init__(self, head_dim: int, rope_theta: float) -> None:
        super().__init__()
        inv_freq = 1.0 / rope_theta ** (torch.arange(0, head_dim, 2, dtype=torch.float) / head_dim)
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, q: Tensor, k: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return q and k turned: (batch, head, seq, head_dim), positions (batch, seq)."""
        angles = positions[..., None].float() * self.inv_freq
        both = torch.cat((angles, angles), -1)
        cos, sin = both.cos().to(q.dtype).unsqueeze(1), both.sin().to(q.dtype).unsqueeze(1)
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def rotate_half(x: Tensor) -> Tensor:
    """Return (-b, a) for halves (a, b) of the last axis."""
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def write_one_op(manifest: Manifest, path: Path) -> None:
    """Write the graph that a hand would: one RotaryEmbedding for q, one for k, over a baked cache of max_len rows."""
    import onnx
    from onnx import helper, numpy_helper

    dim, theta = int(manifest.params["head_dim"]), float(manifest.params["rope_theta"])
    angles = np.arange(manifest.max_len)[:, None] * theta ** (-np.arange(0, dim, 2) / dim)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(manifest.dtype))
    caches = [
        numpy_helper.from_array(np.asarray(f(angles), manifest.dtype), n)
        for n, f in (("cos_cache", np.cos), ("sin_cache", np.sin))
    ]
    microsoft = manifest.rotary_op == "microsoft"
    rest = ["positions", "cos_cache", "sin_cache"] if microsoft else ["cos_cache", "sin_cache", "positions"]
    attributes: dict[str, Any] = {"domain": "com.microsoft" if microsoft else ""}
    nodes = [helper.make_node("RotaryEmbedding", [n, *rest], [f"{n}_rotated"], **attributes) for n in ("q", "k")]

    def value(name: str, dtype: int, axes: tuple[str | int, ...]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, dtype, list(axes))

    inputs = [value(p.name, kind if p.name != "positions" else onnx.TensorProto.INT64, p.axes) for p in manifest.inputs]
    outputs = [value(p.name, kind, p.axes) for p in manifest.outputs]
    graph = helper.make_graph(nodes, "one_op", inputs, outputs, caches)
    opsets = [helper.make_opsetid("", manifest.opset), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=manifest.ir_version), path)
