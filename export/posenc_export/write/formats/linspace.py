"""torch.linspace of a count that a size decides, as exporters can write it: for every count, one number included.

torch.export asks for the count as a plain number. The TorchScript-based exporter divides by count - 1, so that its
graph gives 0 / 0 for one number, where PyTorch gives the start.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from posenc.libraries import replaced


@contextmanager
def dynamic_linspace() -> Iterator[None]:
    """Have torch.linspace computed from torch.arange where its count follows from a size: the same numbers."""
    import torch

    real = torch.linspace

    def linspace(start: Any, end: Any, steps: Any, **settings: Any) -> torch.Tensor:
        """Return `steps` evenly spaced numbers from `start` to `end`, shape (steps,)."""
        # a tracer has sizes as tensors of one number
        if not isinstance(steps, torch.SymInt | torch.Tensor) or settings.get("out") is not None:
            return real(start, end, steps, **settings)
        dtype = settings.get("dtype") or torch.get_default_dtype()
        count: Any = steps
        places = torch.arange(count, dtype=dtype, device=settings.get("device"))
        intervals = torch.sym_max(steps - 1, 1) if isinstance(steps, torch.SymInt) else (steps - 1).clamp(min=1)
        step = ((end - start) * torch.ones((), dtype=dtype) / intervals).to(dtype)
        # PyTorch counts the upper half down from the end
        upper = end - step * (count - 1 - places)
        return torch.where(places < count / 2, start + step * places, upper).to(dtype)

    with replaced(torch, "linspace", linspace):
        yield
