"""Towers of sounds that cut frames into blocks, by sizes that a graph computes: the last block may not be full."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from posenc.libraries import library_class, replaced

ATTENDING = ("context_size", "to_q", "to_kv", "to_out", "rel_pos_emb")
ASKING = ("window_size", "downsample_rate", "query", "qformer", "linear")
"""What parts have that attend within blocks of frames, and that make rows of each block."""


@contextmanager
def sounds_in_blocks(model: nn.Module) -> Iterator[None]:
    """Have parts of a model that cut frames into blocks fill the last one, whether or not it is full.

    Their own code asks whether frames are left over, and fills a block if so: a graph would do what its trace did.
    """
    with ExitStack() as stack:
        for kind, part in {library_class(part): part for part in model.modules()}.items():
            for names, forward in ((ATTENDING, _attending), (ASKING, _asking)):
                if all(hasattr(part, name) for name in names):
                    stack.enter_context(replaced(kind, "forward", forward))
        yield


def _filled(frames: Tensor, size: int) -> Tensor:
    """Return frames with zeros behind them up to whole blocks: (sounds, blocks * size, features)."""
    return nn.functional.pad(frames, (0, 0, 0, -frames.shape[1] % size))


def _attending(self: Any, hidden_states: Tensor, attention_dists: Tensor) -> Tensor:
    """Attend within blocks, with what queries add for distances: no query sees what fills a block."""
    count, size = hidden_states.shape[1], self.context_size
    filled = _filled(self.pre_norm(hidden_states), size)
    keys, values = self.to_kv(filled).chunk(2, dim=-1)
    # (sounds * blocks, heads, size, features) each
    queries, keys, values = (_heads(one, size, self.num_heads) for one in (self.to_q(filled), keys, values))
    scores = torch.einsum("b h c d, c r d -> b h c r", queries, self.rel_pos_emb(attention_dists)) * self.scale
    place = torch.arange(filled.shape[1], device=filled.device).expand(filled.shape[0], -1)
    filling = (place >= count).reshape(-1, 1, 1, size)
    scores = scores.masked_fill(filling, torch.finfo(scores.dtype).min)
    attended = nn.functional.scaled_dot_product_attention(queries, keys, values, attn_mask=scores, scale=self.scale)
    rows = attended.transpose(1, 2).reshape(filled.shape[0], filled.shape[1], -1)
    result: Tensor = self.dropout(self.to_out(rows[:, :count]))
    return result


def _heads(rows: Tensor, size: int, heads: int) -> Tensor:
    """Return rows, (sounds, frames, heads * features), as blocks of heads: (sounds * blocks, heads, size, features)."""
    return rows.reshape(-1, size, heads, rows.shape[-1] // heads).transpose(1, 2)


def _asking(self: Any, hidden_states: Tensor) -> Tensor:
    """Ask each block of frames some queries: (sounds, blocks * queries, hidden)."""
    filled = _filled(hidden_states, self.window_size)
    blocks = filled.reshape(-1, self.window_size, filled.shape[-1])
    answers = self.qformer(
        query_embeds=self.query, encoder_hidden_states=blocks, encoder_attention_mask=None, return_dict=True
    ).last_hidden_state
    rows: Tensor = self.linear(answers.reshape(filled.shape[0], -1, answers.shape[-1]))
    return rows
