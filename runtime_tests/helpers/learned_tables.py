"""Learned tables in a model's folder."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

ROWS = {"p": 20, "x": 30, "y": 25}


def saved(folder: Path, **tensors: Tensor) -> str:
    save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    return str(folder)


@pytest.fixture
def tables(tmp_path: Path) -> str:
    """A model's folder with tables of unlike lengths."""
    generator = torch.Generator().manual_seed(0)
    return saved(tmp_path, **{name: torch.randn(rows, 6, generator=generator) for name, rows in ROWS.items()})
