"""The files of weights in a model's folder: whether all are there, and whole, and the sizes of their tensors.

torch is not loaded, and of a file its head alone is read.
"""

from __future__ import annotations

from math import prod
from pathlib import Path

from posenc.weight_index import weight_map

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


EXPERTS = ".experts"


def sizes_of_weights(folder: Path) -> dict[str, int]:
    """Return how many numbers each weight of a folder holds; all experts of a layer count as its LAYER.experts.

    Raises ValueError, in one line, where files of weights are missing, cut off, or no safetensors.
    """
    sizes: dict[str, int] = {}
    for path in _files(folder):
        for name, size in _sizes(path):
            layer, experts, _ = name.partition(f"{EXPERTS}.")
            key = f"{layer}{EXPERTS}" if experts else name
            sizes[key] = sizes.get(key, 0) + size
    return sizes


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


def _sizes(path: Path) -> list[tuple[str, int]]:
    """Return the tensors of a file, and how many numbers each holds; raise ValueError where it cannot be read."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise ValueError("a model's folder takes transformers: pip install transformers") from None
    try:
        with safe_open(path, framework="numpy") as tensors:
            return [(name, prod(tensors.get_slice(name).get_shape())) for name in tensors.keys()]  # noqa: SIM118
    except FileNotFoundError:
        raise ValueError(f"{path} cannot be read: there is no such file") from None
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} cannot be read: it is cut off, or no safetensors ({error})") from None
