"""Arithmetic of sizes that a tracer follows without a branch."""

import torch


def larger(a: int, b: int) -> int:
    """Return the larger of two sizes; which one is larger may differ from call to call."""
    if torch.jit.is_scripting():  # type: ignore[attr-defined]
        return max(a, b)
    size: int = torch.sym_max(a, b)
    return size
