"""Stored tensors of a file against those of the module they were written from, row by row and bit by bit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, permutations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from posenc.ports import Array, Floats
from posenc.stored import stored_rows
from posenc_export.arrays import FLOATS, to_numpy
from posenc_export.validation.judging.compare import judge, measure

if TYPE_CHECKING:
    from torch import nn

Bools = NDArray[np.bool_]
Digest = tuple[str, str]
MOST_AXES = 4
"""Axes of a tensor whose orders are gone through: an exporter may turn a matrix round."""
AT_ONCE = 2**22
"""Numbers that are compared at a time."""


@dataclass(frozen=True)
class Twin:
    """A tensor of a module that a stored one was made of, and which rows of that are the same.

    is_transposed: whether its rows are not the rows of the module's.
    """

    name: str
    same: Bools
    is_transposed: bool


@dataclass(frozen=True)
class ModuleRows:
    """The tensors of a module by name, and which rows of each are held: against float64, or as they were given.

    problems: where what is stored is not what float64 says.
    """

    tensors: Mapping[str, Array]
    held: Mapping[str, Bools]
    problems: tuple[str, ...] = ()


def module_rows(module: nn.Module) -> ModuleRows:
    """Return the tensors of a module, each row that says what it must be held against that.

    Parameters are held as they are: they are learned, and no formula says what they must be.
    """
    learned = {name: to_numpy(tensor) for name, tensor in module.named_parameters()}
    tensors = learned | {name: to_numpy(tensor) for name, tensor in module.named_buffers()}
    held = {name: np.full(array.shape[:1], name in learned) for name, array in tensors.items()}
    problems = []
    for name, rows, stored in stored_rows(module):
        judgement = judge(measure(to_numpy(rows), np.asarray(stored.expected, np.float64)), stored.tolerance)
        if judgement.passed:
            held[name][stored.first : stored.first + len(stored.expected)] = True
        else:
            problems.append(f"this version's {name} is not what float64 says: {judgement.reason}")
    return ModuleRows(tensors, held, tuple(problems))


def twin(array: Array, axis: int, tensors: Mapping[str, Array], near: bool) -> Twin | None:
    """Return the tensor of a module that has more than half of the numbers of a stored one, and most of all.

    near: whether one step of the dtype is no difference, as where another version has made the tables.
    """
    best: Twin | None = None
    most = 0.5
    for name, tensor in tensors.items():
        if tensor.dtype != array.dtype or tensor.size != array.size:
            continue
        for view in _views(tensor, array.shape):
            shares = shares_alike(array, view, axis, near)
            if shares.mean() > most:
                is_transposed = axis > 0 or view.shape[:1] != tensor.shape[:1]
                best, most = Twin(name, shares == 1, is_transposed), shares.mean()
            if most == 1:
                return best
    return best


def _views(tensor: Array, shape: tuple[int, ...]) -> Iterator[Array]:
    """Yield a tensor in every way in which it has a shape: as it lies, and with its axes in another order."""
    yield tensor.reshape(shape)
    flat = tensor.squeeze()
    if 1 < flat.ndim <= MOST_AXES:
        for order in list(permutations(range(flat.ndim)))[1:]:
            if tuple(flat.shape[i] for i in order) == tuple(n for n in shape if n != 1):
                yield flat.transpose(order).reshape(shape)


def shares_alike(one: Array, other: Array, axis: int, near: bool) -> Floats:
    """Return which part of the numbers of each row is the same, bit for bit, in two arrays of one shape and dtype."""
    ones, others = np.moveaxis(one, axis, 0), np.moveaxis(other, axis, 0)
    step = max(1, AT_ONCE * len(ones) // max(one.size, 1))
    parts = [_alike(ones[i : i + step], others[i : i + step], near) for i in range(0, len(ones), step)]
    return np.concatenate([part.reshape(len(part), -1).mean(1) for part in parts])


def _alike(one: Array, other: Array, near: bool) -> Bools:
    kind = f"u{one.dtype.itemsize}"
    bits = np.ascontiguousarray(one).view(kind), np.ascontiguousarray(other).view(kind)
    same: Bools = bits[0] == bits[1]
    if near and one.dtype.name in FLOATS:
        same |= np.maximum(*bits) - np.minimum(*bits) <= 1  # floats of one sign follow one another as their bits do
    return same


def digest(array: Array) -> Digest:
    """Return the dtype and shape of an array, and the SHA-256 of its bits."""
    bits = np.ascontiguousarray(array).view(np.uint8) if array.size else np.zeros(0, np.uint8)
    return f"{array.dtype} {array.shape}", hashlib.sha256(bits.data).hexdigest()


def digests_of(module: nn.Module) -> dict[str, Digest]:
    """Return a digest of every parameter and buffer by its name; of a matrix that of its columns, too."""
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    arrays = {name: to_numpy(tensor) for name, tensor in own.items()}
    transposed = {f"{name}.T": array.T for name, array in arrays.items() if array.ndim == 2}
    return {name: digest(array) for name, array in {**arrays, **transposed}.items()}


def ranges(rows: Bools) -> str:
    """Return which rows are true, in words: "row 7", "rows 3..5, 97..511"; of many ranges the first."""
    runs = []
    for _, run in groupby(enumerate(np.flatnonzero(rows)), lambda pair: pair[1] - pair[0]):
        at = [int(index) for _, index in run]
        runs.append(str(at[0]) if len(at) == 1 else f"{at[0]}..{at[-1]}")
    more = f" and {len(runs) - 4} more" if len(runs) > 4 else ""
    return f"row{'' if rows.sum() == 1 else 's'} {', '.join(runs[:4])}{more}"
