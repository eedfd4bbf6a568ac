"""Rotary operators that look up stored caches by themselves: two tables of rows x pairs, and an id for each token.

This is the form that ONNX Runtime fuses into GroupQueryAttention, which takes a cache for all positions: caches of one
call it cannot (onnxruntime#29261). Ids are checked before, by a look-up that every runtime refuses: the operators of
old releases, and those of CUDA, pass over an id that no row has.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn

from posenc.encoding import NoTables
from posenc.joins.apply_rotary import ApplyRotary
from posenc.joins.rotated import CosSin, ExplicitRotation, Rotated
from posenc.sources.rotary.angles import AxialAngles, StaticAngles, alike
from posenc_export.write.formats.rewriting import shallow_copy

if TYPE_CHECKING:
    from torch import Tensor


class RowIds(nn.Module):
    """What stands for a source of angles where an operator looks them up: ids of rows, in the place of cos and sin."""

    none: Tensor
    end: Final[int]

    def __init__(self, end: int) -> None:
        super().__init__()
        self.end = end
        # a single row: every id that the caches do not have looks up a second
        self.register_buffer("none", torch.zeros(1, 1, dtype=torch.int64), persistent=False)

    def forward(self, positions: Tensor) -> CosSin:
        """Return the ids of int64 positions, as they are or refused: (...) -> (...)."""
        outside = ((positions < 0) | (positions >= self.end)).to(torch.int64)
        ids = positions + nn.functional.embedding(outside, self.none).squeeze(-1)
        return alike(ids, ids)

    def arange(self, sizes: list[int], device: torch.device) -> CosSin:
        """Return the ids of positions 0..length-1: (1, length)."""
        # (length,) -> (1, length)
        ids: CosSin = self.forward(torch.arange(sizes[0], device=device).unsqueeze(0))
        return ids


class WholeCacheOperator(nn.Module):
    """What `ApplyRotary` does, by an operator that looks up rows of stored caches: for export alone."""

    cos_cache: Tensor
    sin_cache: Tensor
    op: Final[str]

    def __init__(self, rotary: ApplyRotary, op: str, rows: Tensor, sections: Sections | None = None) -> None:
        super().__init__()
        self.op = op
        self.attributes: dict[str, Any] = {"interleaved": int(rotary.interleaved)}
        if sections is not None:
            self.attributes |= {"mrope_section": list(sections.widths), "mrope_layout": int(sections.alternate)}
        self.head_axis = rotary.head_axis
        self.rotary_dim = rotary.rotary_dim
        self.passing = rotary.head_dim - rotary.rotary_dim
        self.interleaved = rotary.interleaved
        # a row of the table has all sines, then all cosines: twice (rows, pairs)
        sin, cos = rows.chunk(2, -1)
        self.register_buffer("cos_cache", cos.contiguous(), persistent=False)
        self.register_buffer("sin_cache", sin.contiguous(), persistent=False)

    def forward(self, x: Tensor, ids: Tensor, _: Tensor) -> Tensor:
        """Return x rotated by the rows of ids: (1 or batch, seq), or (3, batch, seq) of time, height and width."""
        if not self.passing:
            return self.rotate(x, ids)
        # the operators want a static number of heads with their own attribute for this
        rotated, passing = x.split([self.rotary_dim, self.passing], -1)
        return torch.cat([self.rotate(rotated, ids), passing], -1)

    def rotate(self, x: Tensor, ids: Tensor) -> Tensor:
        """Bring heads and ids to the operators' shapes: (batch, head, seq, dim) and (batch, seq)."""
        wide = x.to(self.cos_cache.dtype)
        if ids.shape[0] == 1:
            # the operators take no ids of a batch of one for more sequences (onnxruntime#29618)
            ids = ids.expand(x.shape[0], -1)
        if self.head_axis == 1:
            return self.call(wide, ids).to(x.dtype)
        batch, seq, heads, dim = wide.shape
        if self.op == "microsoft":
            # (batch, seq, head, dim) -> (batch, seq, heads * dim), which it takes for heads of 2 pairs each
            return self.call(wide.reshape(batch, seq, heads * dim), ids).view(x.shape).to(x.dtype)
        # others want a static number of heads for that: batch x seq sequences of one token
        alone = self.call(wide.reshape(batch * seq, heads, 1, dim), ids.flatten(-2).unsqueeze(-1))
        return alone.view(x.shape).to(x.dtype)

    def call(self, x: Tensor, ids: Tensor) -> Tensor:
        """Call the operator: heads, (batch, seq) -> as heads."""
        if self.op == "onnx":
            caches = self.cos_cache, self.sin_cache
            return torch.onnx.ops.rotary_embedding(x, *caches, ids, interleaved=self.interleaved)
        return torch.onnx.ops.symbolic(
            f"com.microsoft::{'M' if self.op == 'microsoft-mrope' else ''}RotaryEmbedding",
            [x, ids, self.cos_cache, self.sin_cache],
            self.attributes,
            dtype=x.dtype,
            shape=x.shape,
            version=1,
        )


@dataclass(frozen=True)
class Sections:
    """Which of three positions rotates each pair, as MRotaryEmbedding is told.

    Attributes:
        widths: Pairs of time, height and width.
        alternate: Whether they come by turns; else one run after the other.
    """

    widths: tuple[int, ...]
    alternate: bool

    def axes(self) -> list[int]:
        """Return the position of each pair."""
        if not self.alternate:
            return [axis for axis, width in enumerate(self.widths) for _ in range(width)]
        # time everywhere; height and width over it at every third pair, as often as they are wide
        pairs = range(sum(self.widths))
        return [pair % 3 if pair < 3 * self.widths[pair % 3] else 0 for pair in pairs]


def sections_of(angles: AxialAngles) -> Sections | None:
    """Return the sections of angles by three positions, or None where the operator knows no such order of pairs."""
    # a width counts sines and cosines
    pairs = tuple(width // 2 for width in angles.widths)
    by_axis = Sections(pairs, alternate=False).axes()
    axes = [by_axis[i] for i in angles.order.tolist()] if angles.ordered else by_axis
    known = (Sections(pairs, alternate) for alternate in (False, True))
    return next((sections for sections in known if angles.axes == 3 and sections.axes() == axes), None)


def with_whole_caches(part: nn.Module, op: str) -> nn.Module:
    """Return a rotation of queries and keys whose operators look up stored rows; other modules as they are."""
    if not isinstance(part, Rotated):
        return part
    angles, rotary, sections = part.angles, part.apply_rotary, None
    if op == "microsoft-mrope" and isinstance(part, ExplicitRotation) and isinstance(angles, AxialAngles):
        sections = sections_of(angles)
    if not isinstance(rotary, ApplyRotary) or (sections is None and not isinstance(angles, StaticAngles)):
        return part
    if op == "microsoft-mrope" and sections is None:
        return part
    with suppress(NoTables):
        tables = angles.tables()
        if tables.kind == "rows":
            copied = shallow_copy(part)
            copied._modules["angles"] = RowIds(tables.end)
            (rows,) = tables.arrays.values()
            copied._modules["apply_rotary"] = WholeCacheOperator(rotary, op, rows, sections)
            return copied
    return part
