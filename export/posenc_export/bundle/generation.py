"""Tokens that a causal language model wrote: what a bundle of one holds beside its golden calls."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Generation:
    """Prompts that went in as one batch, padded on the left, and the tokens that came behind each, the likeliest first.

    Args:
        prompts: ids of tokens.
        tokens: as many for each prompt.
    """

    prompts: tuple[tuple[int, ...], ...]
    tokens: tuple[tuple[int, ...], ...]
