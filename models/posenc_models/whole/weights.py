"""The files of weights in a model's folder: whether all are there, and whole, and how many numbers they hold.

torch is not loaded, and of a file its head alone is read.
"""

from __future__ import annotations

from math import prod
from pathlib import Path

from posenc.weight_index import weight_map

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


def count_weights(folder: Path) -> int:
    """Return how many numbers the weights of a folder hold.

    Raises ValueError, in one line, where files of weights are missing, cut off, or no safetensors.
    """
    return sum(map(_count, _files(folder)))


def _files(folder: Path) -> list[Path]:
    """Return the files of a folder's weights; transformers prefers the single one, too."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    index = folder / INDEX
    if not index.is_file():
        raise ValueError(f"{folder} has no weights: expected {WEIGHTS} or {INDEX}")
    names = set(weight_map(index).values())
    if not names:
        raise ValueError(f"{index} names no files of weights")
    return [folder / name for name in sorted(names)]


def _count(path: Path) -> int:
    """Return how many numbers a file of weights holds; raise ValueError where it cannot be read."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise ValueError("a model's folder takes transformers: pip install transformers") from None
    try:
        with safe_open(path, framework="numpy") as tensors:
            return sum(prod(tensors.get_slice(name).get_shape()) for name in tensors.keys())  # noqa: SIM118
    except FileNotFoundError:
        raise ValueError(f"{path} cannot be read: there is no such file") from None
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} cannot be read: it is cut off, or no safetensors ({error})") from None
