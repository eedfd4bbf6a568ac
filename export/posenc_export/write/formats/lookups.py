"""Look-ups that refuse a negative position, as PyTorch's embedding does: ONNX's Gather takes -1 for the last row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from posenc.libraries import replaced
from posenc.ports import Port
from posenc_export.bundle.carries import limits_of
from posenc_export.bundle.rules import rules_of


@contextmanager
def refusing_lookups(family: str, ports: Sequence[Port]) -> Iterator[None]:
    """Have torch.nn.functional.embedding send negative indices behind the table, where a graph refuses them.

    That is done for a user's module alone, and where an input holds positions with an end; schemes do it themselves.

    Args:
        family: of the encoding.
        ports: what goes into it.
    """
    import torch

    if rules_of(family).known_refusals or all(limits_of(port).end is None for port in ports):
        yield
        return
    real = torch.nn.functional.embedding

    sent = False

    def embedding(input: torch.Tensor, weight: torch.Tensor, *values: Any, **settings: Any) -> torch.Tensor:
        """Return `weight[input]`: (...), (rows, dim) -> (..., dim)."""
        nonlocal sent
        if sent:  # torch.export's modes call the function of this name again, each of them
            return real(input, weight, *values, **settings)
        sent = True
        try:
            return real(input.masked_fill(input < 0, weight.shape[0]), weight, *values, **settings)
        finally:
            sent = False

    with replaced(torch.nn.functional, "embedding", embedding):
        yield
