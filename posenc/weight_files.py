"""Tensors in files of weights and in models' folders, read without ever unpickling code."""

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from posenc.weight_index import weight_map

IN_FOLDERS = ("model.safetensors", "diffusion_pytorch_model.safetensors", "pytorch_model.bin")
"""Files of weights in a model's folder; with .index.json behind its name, a file says which of several holds what."""
NAMED = 20
"""Names that a message lists."""


def read_tensor(path: str, key: str | None, fits: Callable[[Tensor], bool]) -> tuple[object, str]:
    """Return the value named `key`, or without a key the only tensor that fits, and the path of its file.

    Raises ValueError, in one line, for a file that is missing, unreadable, of another kind, or ambiguous.
    """
    file = file_of(path, key)
    return _pick(_read(file), key, file.as_posix(), fits), file.as_posix()


def names_in(path: str) -> tuple[str, ...]:
    """Return the names of all tensors in a file of weights or a model's folder; none of a .npy file.

    Raises ValueError, in one line, as load_tensor does.
    """
    folder = Path(path).expanduser()  # ~ of a text that no shell has read
    index = _index_of(folder) if folder.is_dir() else None
    if index is not None:
        return tuple(index)
    tensors = _read(file_of(path, None))
    return tuple(tensors) if isinstance(tensors, Mapping) else ()


def file_of(path: str, key: str | None) -> Path:
    """Return the file itself, or the file of a model's folder that holds `key`; raise ValueError without one."""
    file = Path(path).expanduser()
    if not file.is_dir():
        return file
    index = _index_of(file)
    if index is not None:
        if key not in index:
            why = "no key was given" if key is None else f"none of them is {key!r}"
            raise ValueError(f"weights: {path} holds {len(index)} tensors and {why}: give the name of one as key")
        return file / index[key]
    names = [name for name in IN_FOLDERS if (file / name).is_file()]
    if not names:
        raise ValueError(f"weights: {path} has none of {', '.join(IN_FOLDERS)}")
    return file / names[0]


def _index_of(folder: Path) -> dict[str, str] | None:
    """Return the files of a folder by the tensors that they hold, if its weights are in several files; else None."""
    indices = [path for name in IN_FOLDERS if (path := folder / f"{name}.index.json").is_file()]
    if not indices:
        return None
    try:
        return weight_map(indices[0])
    except ValueError as error:
        raise ValueError(f"weights: {error}") from None


def _read(file: Path) -> object:
    """Return the tensor, or the tensors by name, that a file holds; raise ValueError, in one line, if unreadable."""
    if file.suffix not in READERS:
        raise ValueError(f"weights must be one of {', '.join(READERS)}, got {file}")
    if not file.is_file():
        raise ValueError(f"weights: no such file: {file}")
    try:
        return READERS[file.suffix](file)
    except ImportError:
        raise
    except Exception as error:
        raise ValueError(f"weights: cannot read {file} as {file.suffix}: {EXPECTED[file.suffix]}") from error


def _pick(content: object, key: str | None, path: str, fits: Callable[[Tensor], bool]) -> object:
    if not isinstance(content, Mapping):
        if key is not None:
            raise ValueError(f"weights: {path} holds a single array: leave out key={key}")
        return content
    tables = {k: v for k, v in content.items() if isinstance(v, Tensor) and fits(v)}
    if key is None and len(tables) == 1:
        return next(iter(tables.values()))
    if key not in content:
        why = "no key was given" if key is None else f"it has no {key!r}"
        known = difflib.get_close_matches(key or "", tables, n=NAMED, cutoff=0) if len(tables) > NAMED else tables
        raise ValueError(f"weights: {path} holds {len(content)} tensors and {why}; key is one of {', '.join(known)}")
    return content[key]


def _npy(path: Path) -> Tensor:
    return torch.from_numpy(np.load(path, allow_pickle=False))


def _safetensors(path: Path) -> dict[str, Tensor]:
    try:
        from safetensors.torch import load_file
    except ImportError as error:
        raise ImportError("reading .safetensors needs: pip install safetensors") from error
    return load_file(path)


def _state_dict(path: Path) -> object:
    content: object = torch.load(path, map_location="cpu", weights_only=True)
    return content


TORCH = "expected tensors alone, as torch.save(module.state_dict(), FILE) writes them; other objects are not loaded"
EXPECTED = {
    ".npy": "expected one array of numbers, as numpy.save(FILE, table) writes it",
    ".safetensors": "expected tensors, as safetensors.torch.save_file(tensors, FILE) writes them",
    **dict.fromkeys((".pt", ".pth", ".bin"), TORCH),
}
"""The words of a file that cannot be read; torch's own message would advise to load it unsafely."""
READERS = {".npy": _npy, ".safetensors": _safetensors, ".pt": _state_dict, ".pth": _state_dict, ".bin": _state_dict}
