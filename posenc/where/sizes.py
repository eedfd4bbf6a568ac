"""Arithmetic of sizes that a tracer follows without a branch."""

import torch


def larger(length: int, other: int) -> int:
    """Return the larger of two sizes, whichever that is in a call."""
    if torch.jit.is_scripting():  # type: ignore[attr-defined]
        return max(length, other)
    most: int = torch.sym_max(length, other)
    return most
