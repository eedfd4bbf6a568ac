"""Learned tables: read from a file of weights, or drawn at random, with their shapes checked."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor

from posenc.memory import check_room
from posenc.ranges import above, minimum
from posenc.weight_files import NAMED, read_tensor

_RECORD: ContextVar[list[Tensor] | None] = ContextVar("record", default=None)


@contextmanager
def recording() -> Iterator[list[Tensor]]:
    """Collect the learned tables of the encoding that is built inside, in the order in which they come in."""
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

    Args:
        path: a file, or a model's folder, in which the file is found that holds `key`.
        key: the name of the tensor; None where the file holds only one with these axes.
        axes: their names, as messages show them; leading axes of size 1 beyond them are left out.

    Raises ValueError, in one line, for a file that is missing, unreadable, of another kind, or ambiguous.
    """
    table, file = read_tensor(path, key, lambda tensor: tensor.dim() == len(axes))
    return record(_with_axes(table, file, axes))


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
        minimum(1).check(**sizes)
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
        above(0).check(std=self.std)
        check_room("a table", shape, "float32")
        return record(torch.randn(*shape) * self.std)

    def prefix(self, whole: Sequence[str], usual: Sequence[str], tensors: int, kind: str) -> str:
        """Return the common prefix of the names of several tensors: the one that the key says, or the only usual one.

        Args:
            whole: prefixes under which all tensors are there, with a dot at the end.
            usual: those of them that need no key.
            tensors: how many tensors the file holds.
            kind: what a message calls the usual prefixes.

        Raises ValueError, in one line, where none or several are possible.
        """
        possible = usual if self.key is None else [start for start in whole if start == f"{self.key.rstrip('.')}."]
        if len(possible) == 1:
            return possible[0]
        names = [start.rstrip(".") for start in usual if start] or ["none"]
        cause = "no key was given" if self.key is None else f"none of them is {self.key!r}"
        listed = ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
        raise ValueError(f"weights: {self.file} holds {tensors} tensors and {cause}; {kind}: {listed}")

    def number(self, default: float) -> float:
        """Return the only number, of any shape, in the file, or the default where there is no file.

        Raises ValueError, in one line, for a key without a file, and for a tensor that cannot be read or holds more.
        """
        self.check_key()
        if self.file is None:
            return default
        number, _ = read_tensor(self.file, self.key, lambda tensor: tensor.numel() == 1)
        if not isinstance(number, Tensor):
            raise ValueError(f"weights must be one number, a float, got a {type(number).__name__}")
        if not number.is_floating_point() or number.numel() != 1:
            raise ValueError(f"weights must be one number, a float, got {number.dtype} {tuple(number.shape)}")
        return float(record(number))


def _with_default(sizes: Mapping[str, int | None], default: Sequence[int]) -> tuple[int, ...]:
    return tuple(fallback if size is None else size for size, fallback in zip(sizes.values(), default, strict=True))


def _with_axes(table: object, path: str, axes: tuple[str, ...]) -> Tensor:
    if not isinstance(table, Tensor):
        raise ValueError(f"weights: {path} holds a {type(table).__name__}, not a tensor")
    shape, expected = tuple(table.shape), f"weights must be floats of shape ({', '.join(axes)})"
    if table.numel() == 0:
        raise ValueError(f"{expected}, got an empty {table.dtype} {shape} in {path}")
    while table.dim() > len(axes) and table.shape[0] == 1:
        table = table[0]  # vision transformers keep (1, rows, columns)
    if table.dim() != len(axes) or not table.is_floating_point():
        raise ValueError(f"{expected}, got {table.dtype} {shape}")
    if not bool(torch.isfinite(table).all()):
        raise ValueError(f"weights: {path} holds numbers that are not finite")
    return Tensor.detach(table)
