"""Reading trained tables from files of weights and models' folders, without ever unpickling code."""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from posenc.memory import check_room
from posenc.ranges import check_at_least
from posenc.strict_json import parse

IN_FOLDERS = ("model.safetensors", "diffusion_pytorch_model.safetensors", "pytorch_model.bin")
"""Files of weights of a model's folder, or with .index.json behind their names what several of them hold."""
NAMED = 20
"""Names that a message lists."""
_RECORD: ContextVar[list[Tensor] | None] = ContextVar("record", default=None)


@contextmanager
def recording() -> Iterator[list[Tensor]]:
    """Collect the learned tables of what is built inside, as files or chance gave them, in the order they came in."""
    tables: list[Tensor] = []
    outer = _RECORD.set(tables)
    try:
        yield tables
    finally:
        _RECORD.reset(outer)


def record(table: Tensor) -> Tensor:
    """Note a learned table in what `recording` collects, and return it."""
    tables = _RECORD.get()
    if tables is not None:
        tables.append(table)
    return table


def load_tensor(path: str, key: str | None, axes: tuple[str, ...]) -> Tensor:
    """Return the float tensor with these axes in a .npy, .safetensors, .pt, .pth or .bin file, or the one named `key`.

    path: a file, or a model's folder, in which the file is found that holds `key`.
    axes: their names, as messages show them; leading axes of size 1 beyond them are left out.
    Raises ValueError, in one line, for a file that is missing, unreadable, of another kind, or ambiguous.
    """
    file = file_of(path, key)
    table = _pick(_read(file), key, file.as_posix(), lambda tensor: tensor.dim() == len(axes))
    return record(_with_axes(table, file.as_posix(), axes))


def one_start(path: str, count: int, meant: Sequence[str], known: Sequence[str], *, key: str | None, what: str) -> str:
    """Return what the names of several tensors begin with, of those that are meant.

    count: tensors of the file. known, what: what a message lists, and calls it.
    Raises ValueError, in one line, where not one is meant.
    """
    if len(meant) == 1:
        return meant[0]
    names = [start.rstrip(".") for start in known] or ["none"]
    cause = "no key was given" if key is None else f"none of them is {key!r}"
    listed = ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
    raise ValueError(f"weights: {path} holds {count} tensors and {cause}; {what}: {listed}")


@dataclass(frozen=True)
class Weights:
    """Where learned numbers come from: a file, or chance where there is none.

    Args:
        file: a .npy, .safetensors, .pt, .pth or .bin file, or a model's folder; None for random numbers.
        key: the name of the tensor in a file that holds several.
        std: standard deviation of random numbers.
    """

    file: str | None
    key: str | None = None
    std: float = 1.0

    def check_key(self) -> None:
        """Raise ValueError, in one line, where a key is given, but no file that it could be in."""
        if self.file is None and self.key is not None:
            raise ValueError(f"key names a tensor in a file: give weights=FILE beside key={self.key}")

    def table(self, sizes: Mapping[str, int | None], default: Sequence[int] = ()) -> Tensor:
        """Return a table of floats: the tensor of the file, or random numbers.

        Args:
            sizes: the axes by the names that messages give them; None for a size that the file decides.
            default: the shape of a random table where sizes are None.

        Raises:
            ValueError: in one line, for a size below 1 and for a tensor that cannot be read or has another shape; for a
                key without a file, std not above 0, and a random table larger than the free memory.
        """
        check_at_least(1, **sizes)
        if self.file is None:
            return self._random(_with_default(sizes, default))
        table = load_tensor(self.file, self.key, tuple(sizes))
        shape, expected = tuple(table.shape), _with_default(sizes, table.shape)
        if shape != expected:
            tensor = "weights" if self.key is None else f"weights: {self.key}"
            axes = ", ".join(sizes)
            raise ValueError(f"{tensor} must be ({axes}) = {expected}, got {shape} in {self.file}")
        return table

    def _random(self, shape: tuple[int, ...]) -> Tensor:
        self.check_key()
        if not self.std > 0:
            raise ValueError(f"std must be above 0, got {self.std}")
        check_room("a table", shape, "float32")
        return record(torch.randn(*shape) * self.std)

    def number(self, default: float) -> float:
        """Return the only number, of any shape, in the file, or the default where there is no file.

        Raises ValueError, in one line, for a key without a file, and for a tensor that cannot be read or holds more.
        """
        self.check_key()
        if self.file is None:
            return default
        file = file_of(self.file, self.key)
        number = _pick(_read(file), self.key, file.as_posix(), lambda tensor: tensor.numel() == 1)
        if not isinstance(number, Tensor) or not number.is_floating_point() or number.numel() != 1:
            kind = f"{number.dtype} {tuple(number.shape)}" if isinstance(number, Tensor) else type(number).__name__
            raise ValueError(f"weights must be one number, a float, got {kind}")
        return float(record(number))


def _with_default(sizes: Mapping[str, int | None], default: Sequence[int]) -> tuple[int, ...]:
    return tuple(fallback if size is None else size for size, fallback in zip(sizes.values(), default, strict=True))


def names_in(path: str) -> tuple[str, ...]:
    """Return the names of all tensors in a file of weights or a model's folder; none of a .npy file.

    Raises ValueError, in one line, as load_tensor does.
    """
    folder = Path(path).expanduser()
    index = _index_of(folder) if folder.is_dir() else None
    if index is not None:
        return tuple(index)
    tensors = _read(file_of(path, None))
    return tuple(tensors) if isinstance(tensors, Mapping) else ()


def file_of(path: str, key: str | None) -> Path:
    """Return the file itself, or of a model's folder the one that holds `key`; raise ValueError where there is none."""
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
    """Return which file of a folder holds which tensor, where its weights are in several; else None."""
    index = next(
        (folder / f"{name}.index.json" for name in IN_FOLDERS if (folder / f"{name}.index.json").is_file()), None
    )
    if index is None:
        return None
    try:
        content = parse(index.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ValueError(f"weights: {index} is not JSON: {error}") from None
    files = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(files, dict) or not all(_is_file_name(name) for name in files.values()):
        raise ValueError(f"weights: {index} must hold weight_map, an object of file names of its folder")
    return files


def _is_file_name(name: object) -> bool:
    """Whether a name is that of a file, and leads out of no folder."""
    return isinstance(name, str) and name == Path(name).name and "\\" not in name and name not in ("", ".", "..")


def _read(file: Path) -> object:
    """Return the tensor, or the tensors by name, that a file holds; raise ValueError, in one line, where it cannot."""
    if file.suffix not in READERS:
        raise ValueError(f"weights must be one of {', '.join(READERS)}, got {file}")
    if not file.is_file():
        raise ValueError(f"weights: no such file: {file}")
    try:
        return READERS[file.suffix](file)
    except ImportError:
        raise
    except Exception as error:
        raise ValueError(f"weights: cannot read {file} as {file.suffix}: {WANTED[file.suffix]}") from error


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


def _with_axes(table: object, path: str, axes: tuple[str, ...]) -> Tensor:
    if not isinstance(table, Tensor):
        raise ValueError(f"weights: {path} holds a {type(table).__name__}, not a tensor")
    shape, wanted = tuple(table.shape), f"weights must be floats of shape ({', '.join(axes)})"
    if table.numel() == 0:
        raise ValueError(f"{wanted}, got an empty {table.dtype} {shape} in {path}")
    while table.dim() > len(axes) and table.shape[0] == 1:
        table = table[0]  # (1, rows, columns), as vision transformers keep it
    if table.dim() != len(axes) or not table.is_floating_point():
        raise ValueError(f"{wanted}, got {table.dtype} {shape}")
    if not bool(torch.isfinite(table).all()):
        raise ValueError(f"weights: {path} holds numbers that are not finite")
    return Tensor.detach(table)


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


OF_TORCH = "expected tensors alone, as torch.save(module.state_dict(), FILE) writes them; other objects are not loaded"
WANTED = {
    ".npy": "expected one array of numbers, as numpy.save(FILE, table) writes it",
    ".safetensors": "expected tensors, as safetensors.torch.save_file(tensors, FILE) writes them",
    **dict.fromkeys((".pt", ".pth", ".bin"), OF_TORCH),
}
"""What to write instead of a file that cannot be read: what readers say themselves advises to load it unsafely."""
READERS = {".npy": _npy, ".safetensors": _safetensors, ".pt": _state_dict, ".pth": _state_dict, ".bin": _state_dict}
