"""`--rotary-op`: one ONNX operator in the place of a rotation's products and sums.

The operators look up their caches by themselves, with limits of their own: ids of a batch of one, ids out of range that
CUDA passes over. Stored rows they get whole, with ids that the graph has checked: see `whole_caches`. Else they are
given the cosines and sines of this very call, so that their ids are always in range and always of the whole batch.

`ai.onnx` takes (batch, seq, pairs). `com.microsoft` takes batch x seq rows with ids 0, 1, 2, ..., or a start of 0
where one row of positions serves the batch: no id is out of range, which CUDA would pass over (onnxruntime#27597), and
none is of batch 1 (onnxruntime#29618). It gets (batch, seq, head, dim) as batch x seq sequences of one token. Partial
rotation is split outside: the operator's attribute for it needs a fixed number of heads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
from torch import nn

from posenc.encoding import Tolerance, eps
from posenc.joins.apply_rotary import ApplyApart, ApplyRotary
from posenc.joins.rotary_parts import RotaryParts
from posenc_export.common.errors import BadInput
from posenc_export.write.formats import RotaryOp
from posenc_export.write.formats.onnx.whole_caches import with_whole_caches
from posenc_export.write.formats.rewriting import rewritten

if TYPE_CHECKING:
    from torch import Tensor


def operator_tolerance(dtype: str) -> Tolerance:
    """Return how far an operator may be from the products and sums it stands for: its kernels contract them.

    That changes two roundings of values up to the largest of a head, and at most the last digit of a narrower dtype.
    """
    return Tolerance(vector=2 * eps("float32"), ulps=0.0 if dtype == "float32" else 1.0)


class RotaryOperator(nn.Module):
    """What `ApplyRotary` does, by ai.onnx RotaryEmbedding (opset 23) or that of com.microsoft: for export alone."""

    op: Final[str]

    def __init__(self, rotary: ApplyRotary, op: str) -> None:
        super().__init__()
        self.op = op
        self.head_axis = rotary.head_axis
        self.rotary_dim = rotary.rotary_dim
        self.passing = rotary.head_dim - rotary.rotary_dim
        self.interleaved = rotary.interleaved

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return x rotated; shapes are those of `ApplyRotary`."""
        if not self.passing:
            return self.rotate(x, cos, sin)
        # The operators want a static number of heads with their own attribute for this.
        rotated, passing = x.split([self.rotary_dim, self.passing], -1)
        return torch.cat([self.rotate(rotated, cos, sin), passing], -1)

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Bring heads and caches to the operators' shapes: (batch, head, seq, dim) and (1 or batch, seq, pairs)."""
        wide = x.to(cos.dtype)
        cos, sin = cos.flatten(1, -2), sin.flatten(1, -2)  # a grid is a sequence
        if self.head_axis == 1:
            return self.call(wide.flatten(2, -2), cos, sin).view(x.shape).to(x.dtype)
        # (batch, seq, head, dim) is batch x seq sequences of one token
        rows = wide.flatten(1, -3)
        batch, seq, heads, dim = rows.shape
        if cos.shape[0] == 1:
            cos, sin = cos.expand(batch, -1, -1), sin.expand(batch, -1, -1)
        # (batch, seq, pairs) -> (batch * seq, 1, pairs)
        cos, sin = (c.reshape(batch * seq, 1, dim // 2) for c in (cos, sin))
        # (batch, seq, heads, dim) -> (batch * seq, heads, 1, dim)
        return self.call(rows.reshape(batch * seq, heads, 1, dim), cos, sin).view(x.shape).to(x.dtype)

    def call(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Call the operator: (batch, head, seq, dim), twice (1 or batch, seq, pairs) -> as x."""
        if self.op == "onnx":
            if cos.shape[0] == 1:
                cos, sin = cos.expand(x.shape[0], -1, -1), sin.expand(x.shape[0], -1, -1)
            # ai.onnx wants a cache for every sequence: (batch, seq, pairs)
            return torch.onnx.ops.rotary_embedding(x, cos, sin, interleaved=self.interleaved)
        seq = x.shape[2]
        if cos.shape[0] == 1:
            ids = torch.zeros(1, dtype=torch.int64, device=x.device)  # where the sequence starts in the cache
        else:
            # (batch, seq): row i of the flattened cache belongs to token i
            ids = torch.arange(x.shape[0] * seq, device=x.device).view(x.shape[0], seq)
        return torch.onnx.ops.symbolic(
            "com.microsoft::RotaryEmbedding",
            [x, ids, cos.flatten(0, 1), sin.flatten(0, 1)],
            {"interleaved": int(self.interleaved)},
            dtype=x.dtype,
            shape=x.shape,
            version=1,
        )


def with_rotary_op(module: nn.Module, op: RotaryOp) -> nn.Module:
    """Return a module with `op` in the place of every rotation; raise BadInput where there is none."""
    if op == "decomposed":
        return module
    if any(isinstance(part, RotaryParts) for part in module.modules()):
        raise BadInput(f"--rotary-op {op} rotates whole heads, and layout=axis_halves parts of them: leave it out")
    if any(isinstance(part, ApplyRotary) and part.count for part in module.modules()):
        raise BadInput(f"--rotary-op {op} turns all heads by the same angles, and each by its own here: leave it out")
    if not any(isinstance(part, ApplyRotary) for part in module.modules()):
        if any(isinstance(part, ApplyApart) for part in module.modules()):
            raise BadInput(f"--rotary-op {op} turns a pair by one angle: the two features of a pair turn apart here")
        raise BadInput(f"--rotary-op {op} is for what rotates q and k: nothing here does")
    stored = rewritten(module, lambda part: with_whole_caches(part, op))
    if op == "microsoft-mrope" and stored is module:
        raise BadInput(
            "--rotary-op microsoft-mrope is for time, height and width: give mrope with --baked and three sections"
        )
    return rewritten(stored, lambda part: RotaryOperator(part, op) if isinstance(part, ApplyRotary) else part)
