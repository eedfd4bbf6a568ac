"""Reading one trained table from a file, without ever unpickling code."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor


def load_matrix(path: str, key: str | None = None) -> Tensor:
    """Return the (rows, columns) float tensor in a .npy, .safetensors, .pt, .pth or .bin file, or the one named `key`.

    Raises ValueError, in one line, for a file that is missing, unreadable, of another kind, or ambiguous.
    """
    file = Path(path).expanduser()
    if file.suffix not in READERS:
        raise ValueError(f"weights must be one of {', '.join(READERS)}, got {path}")
    if not file.is_file():
        raise ValueError(f"weights: no such file: {path}")
    try:
        found = READERS[file.suffix](file)
    except ImportError:
        raise
    except Exception as error:
        raise ValueError(f"weights: cannot read {path} as {file.suffix}: {WANTED[file.suffix]}") from error
    return _as_matrix(_pick(found, key, path), path)


def _pick(found: Any, key: str | None, path: str) -> Any:
    if not isinstance(found, Mapping):
        if key is not None:
            raise ValueError(f"weights: {path} holds a single array: leave out key={key}")
        return found
    tables = {k: v for k, v in found.items() if isinstance(v, Tensor) and v.dim() == 2}
    if key is None and len(tables) == 1:
        return next(iter(tables.values()))
    if key not in found:
        given = "no key was given" if key is None else f"it has no {key!r}"
        raise ValueError(f"weights: {path} holds {len(found)} tensors and {given}; key is one of {', '.join(tables)}")
    return found[key]


def _as_matrix(table: Any, path: str) -> Tensor:
    if not isinstance(table, Tensor):
        raise ValueError(f"weights: {path} holds a {type(table).__name__}, not a tensor")
    if table.dim() == 3 and table.shape[0] == 1:
        table = table[0]  # (1, rows, columns), as vision transformers keep it
    if table.dim() != 2 or not table.is_floating_point() or table.numel() == 0:
        raise ValueError(f"weights must be floats of shape (rows, columns), got {table.dtype} {tuple(table.shape)}")
    if not bool(torch.isfinite(table).all()):
        raise ValueError(f"weights: {path} holds numbers that are not finite")
    return Tensor.detach(table)


def _npy(path: Path) -> Tensor:
    return torch.from_numpy(np.load(path, allow_pickle=False))


def _safetensors(path: Path) -> Any:
    try:
        from safetensors.torch import load_file
    except ImportError as error:
        raise ImportError("reading .safetensors needs: pip install safetensors") from error
    return load_file(path)


def _state_dict(path: Path) -> Any:
    return torch.load(path, map_location="cpu", weights_only=True)


OF_TORCH = "expected tensors alone, as torch.save(module.state_dict(), FILE) writes them; other objects are not loaded"
WANTED = {
    ".npy": "expected one array of numbers, as numpy.save(FILE, table) writes it",
    ".safetensors": "expected tensors, as safetensors.torch.save_file(tensors, FILE) writes them",
    **dict.fromkeys((".pt", ".pth", ".bin"), OF_TORCH),
}
"""What to write instead of a file that cannot be read: what readers say themselves advises to load it unsafely."""
READERS = {".npy": _npy, ".safetensors": _safetensors, ".pt": _state_dict, ".pth": _state_dict, ".bin": _state_dict}
