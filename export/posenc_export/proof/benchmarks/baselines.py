"""Baselines: encodings as they are usually written and exported, which `posenc bench` compares ours with.

To add one, write a function from a manifest to a `Baseline` and register it below, by the family of the encodings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from posenc.parameters import ABSENT
from posenc.ports import Port, Positions, Values, carrying
from posenc.rope_types import scaling_parameters
from posenc_export.bundle.manifest import Manifest
from posenc_export.common.arrays import numpy_dtype

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto, ValueInfoProto


ADDITIVE_PARAMETERS = frozenset({"d_model", "base", "layout", "spacing", "output", "strict_even"})
"""Parameters of an additive encoding that do not change its cost: the baseline is comparable with any value."""
ALIKE: Mapping[str, object] = {"padding_row": None, "scale_x": 1.0, "scale": 1.0, "weights": None, "key": None}
"""Parameters that add cost, with the values at which the encoding does the same as the baseline."""
ROTARY_PARAMETERS = frozenset(
    {"head_dim", "rotary_dim", "rope_theta", "rope_type", "layout", "tensor_layout", "output", "width", "direction"}
)
"""Parameters of a rotary encoding that do not change its cost, beside those of rope types."""


class BaselineSinusoidal(nn.Module):
    """Sin and Cos of float32 angles, stacked and flattened, computed at each call."""

    def __init__(self, d_model: int, base: float) -> None:
        super().__init__()
        self.d_model = d_model
        self.base = base

    def forward(self, x: Tensor) -> Tensor:
        """Return x + PE: (batch, seq, d_model) -> the same."""
        position = torch.arange(x.shape[1], device=x.device).unsqueeze(1).float()
        pairs = torch.arange(0, self.d_model, 2, device=x.device).float()
        # (seq, 1) * (d_model / 2,) -> (seq, d_model / 2)
        angles = position * torch.exp(pairs * (-math.log(self.base) / self.d_model))
        # twice (seq, d_model / 2) -> (seq, d_model / 2, 2) -> (seq, d_model)
        rows = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        return x + rows[:, : self.d_model].to(x.dtype)


class BaselineRotary(nn.Module):
    """Sin and Cos of float32 angles at full width, then the rotate-half formula: as transformers models have it."""

    inv_freq: Tensor

    def __init__(self, head_dim: int, rope_theta: float) -> None:
        super().__init__()
        inv_freq = 1.0 / rope_theta ** (torch.arange(0, head_dim, 2, dtype=torch.float) / head_dim)
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, q: Tensor, k: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return q and k rotated: (batch, head, seq, head_dim), positions (batch, seq)."""
        # (batch, seq, 1) * (head_dim / 2,) -> (batch, seq, head_dim / 2)
        angles = positions[..., None].float() * self.inv_freq
        full = torch.cat((angles, angles), -1)  # (batch, seq, head_dim)
        # (batch, seq, head_dim) -> (batch, 1, seq, head_dim), for every head
        cos, sin = full.cos().to(q.dtype).unsqueeze(1), full.sin().to(q.dtype).unsqueeze(1)
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def rotate_half(x: Tensor) -> Tensor:
    """Return (-b, a) for halves (a, b) of the last axis."""
    # (..., head_dim) -> twice (..., head_dim / 2)
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


# ---- one operator ----------------------------------------------------------------------------------------------------


def write_one_op(manifest: Manifest, rows: int, path: Path) -> None:
    """Write the graph by hand: one RotaryEmbedding for q and one for k, over a baked cache of so many rows."""
    import onnx
    from onnx import helper

    values = carrying(manifest.inputs, Values)
    graph = helper.make_graph(
        [_rotary_node(p.name, out.name, manifest) for p, out in zip(values, manifest.outputs, strict=True)],
        "one_op",
        [_value(port) for port in manifest.inputs],
        [_value(port) for port in manifest.outputs],
        _caches(manifest, rows),
    )
    opsets = [helper.make_opsetid("", manifest.opset), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=manifest.ir_version), path)


def _rotary_node(x: str, y: str, manifest: Manifest) -> NodeProto:
    from onnx import helper

    (ids,) = (port.name for port in carrying(manifest.inputs, Positions))
    if manifest.rotary_op == "microsoft":
        names = [x, ids, "cos_cache", "sin_cache"]
        return helper.make_node("RotaryEmbedding", names, [y], domain="com.microsoft")
    return helper.make_node("RotaryEmbedding", [x, "cos_cache", "sin_cache", ids], [y])


def _caches(manifest: Manifest, rows: int) -> list[TensorProto]:
    from onnx import numpy_helper

    dim, theta = manifest.params["head_dim"], manifest.params["rope_theta"]
    # (rows, 1) * (head_dim / 2,) -> (rows, head_dim / 2)
    angles = np.arange(rows)[:, None] * float(theta) ** (-np.arange(0, dim, 2) / dim)
    caches = {"cos_cache": np.cos(angles), "sin_cache": np.sin(angles)}
    return [numpy_helper.from_array(rows.astype(numpy_dtype(manifest.dtype)), name) for name, rows in caches.items()]


def _value(port: Port) -> ValueInfoProto:
    from onnx import helper

    kind = helper.np_dtype_to_tensor_dtype(numpy_dtype(port.dtype))
    return helper.make_tensor_value_info(port.name, kind, [axis.size or axis.name for axis in port.axes])


# ---- which baseline does the work of a bundle ------------------------------------------------------------------------


@dataclass(frozen=True)
class Baseline:
    """The usual way to do what a bundle does.

    module, parameters: the usual module. write_one_op: writes the ONNX graph of one operator, with a cache of so many
    rows; None where no operator does it.
    """

    module: type[nn.Module]
    parameters: Mapping[str, object]
    write_one_op: Callable[[Manifest, int, Path], None] | None = None


def additive_baseline(manifest: Manifest) -> Baseline | None:
    """Return the module that adds sines and cosines to x; None for an encoding that does something else."""
    params = manifest.params
    if any(ALIKE.get(name, ABSENT) != params[name] for name in params.keys() - ADDITIVE_PARAMETERS):
        return None
    if len(manifest.inputs) != 1 or "base" not in params:
        return None
    width = manifest.inputs[0].axes[-1].size
    if params.get("output") != "add" or width is None:
        return None
    return Baseline(BaselineSinusoidal, {"d_model": width, "base": params["base"]})


def rotary_baseline(manifest: Manifest) -> Baseline | None:
    """Return the module that rotates whole heads, by halves, at one position a token; None for anything else.

    Rope types that scale frequencies cost the same as unscaled ones, which are timed in their place.
    """
    params, ports = manifest.params, manifest.inputs
    positions = [port for port in carrying(ports, Positions) if len(port.axes) == 2]
    if len(ports) != 3 or not positions:
        return None
    if params.keys() - ROTARY_PARAMETERS - scaling_parameters().keys() or "rope_theta" not in params:
        return None
    head_dim = ports[0].axes[-1].size
    whole = params.get("rotary_dim") in (None, head_dim)
    form = params.get("layout"), params.get("tensor_layout"), params.get("direction", "forward")
    if not whole or form != ("halves", "bhsd", "forward"):
        return None
    one_op = None if manifest.rotary_op == "decomposed" else write_one_op
    return Baseline(BaselineRotary, {"head_dim": head_dim, "rope_theta": params["rope_theta"]}, one_op)


BASELINES: Mapping[str, Callable[[Manifest], Baseline | None]] = {
    "additive": additive_baseline,
    "rotary": rotary_baseline,
}
"""By family of encoding; the other families have none."""


def baseline_of(manifest: Manifest) -> Baseline | None:
    """Return the usual way to do what a bundle does; None where there is none."""
    choose = BASELINES.get(manifest.family)
    return None if choose is None else choose(manifest)
