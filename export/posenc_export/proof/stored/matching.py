"""Which tensor of a module each stored tensor of a file was written from, compared row by row and bit by bit."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby, permutations
from typing import TYPE_CHECKING

import numpy as np

from posenc.encoding import NoTables, Tables
from posenc.ports import Array, Bools, Floats
from posenc.stored import stored_rows
from posenc_export.common.arrays import FLOATS, to_numpy
from posenc_export.proof.judging.compare import judge, measure

if TYPE_CHECKING:
    from torch import nn

Digest = tuple[str, str]
MAX_AXES = 4
"""Axes of a tensor, at most, that are tried in every order: an exporter may transpose a matrix."""
AT_ONCE = 2**22
"""Numbers that are compared at a time, which bounds the memory of a comparison."""


@dataclass(frozen=True)
class Twin:
    """The tensor of a module that a stored one was written from.

    Args:
        name: The name of the module's tensor.
        matches: Which rows of the stored tensor are equal to it.
        is_transposed: Whether rows of the stored tensor are not rows of the module's.
    """

    name: str
    matches: Bools
    is_transposed: bool


@dataclass(frozen=True)
class ModuleRows:
    """The tensors of a module.

    Args:
        tensors: By name.
        held: By name, which rows are held: they agree with float64, or are learned.
        problems: Rows that do not agree with float64.
    """

    tensors: Mapping[str, Array]
    held: Mapping[str, Bools]
    problems: tuple[str, ...] = ()


def module_rows(module: nn.Module) -> ModuleRows:
    """Return the tensors of a module, with the rows that agree with what float64 says they must be.

    Parameters are held as they are: they are learned, and no formula gives them.
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


def side_by_side(rows: ModuleRows, tables_of: Callable[[], Tables]) -> ModuleRows:
    """Return the tensors of a module with the table of all axes of a position, which an operator may take whole.

    A row of it is held where those of all axes are.

    Args:
        rows: The tensors of a module.
        tables_of: The tables of its encoding; it raises NoTables where there are none.
    """
    with suppress(NoTables):
        tables = tables_of()
        if tables.kind == "rows" and any(tables.axes):
            (joined,) = (to_numpy(table) for table in tables.arrays.values())
            parts = [rows.held[name] for name, array in rows.tensors.items() if array.ndim == joined.ndim]
            alike = [held for held in parts if len(held) == len(joined)]
            held = {"all axes": np.logical_and.reduce(alike)} if alike else {}
            return replace(rows, tensors={**rows.tensors, "all axes": joined}, held={**rows.held, **held})
    return rows


def twin(array: Array, axis: int, tensors: Mapping[str, Array], near: bool) -> Twin | None:
    """Return the tensor of a module that shares the most numbers with a stored one, if these are more than half.

    Args:
        array: The stored tensor.
        axis: The axis of its rows.
        tensors: The tensors of the module, by name.
        near: Whether neighbouring numbers of the dtype count as equal, as tables of another torch or numpy differ.
    """
    best: Twin | None = None
    largest_share = 0.5
    for name, tensor in tensors.items():
        if tensor.dtype != array.dtype:
            continue
        for view in _views(tensor, array.shape):
            shares = shares_alike(array, view, axis, near)
            if shares.mean() > largest_share:
                is_transposed = axis > 0 or view.shape[:1] != tensor.shape[:1]
                best, largest_share = Twin(name, shares == 1, is_transposed), shares.mean()
            if largest_share == 1:
                return best
    return best


def _views(tensor: Array, shape: tuple[int, ...]) -> Iterator[Array]:
    """Yield a tensor in every way in which it has a shape: as it lies, with its axes in other orders, a half of it."""
    rows, columns = shape if len(shape) == 2 else (0, 0)
    if tensor.shape == (rows, 2 * columns):
        # rotary operators take the cosines and the sines of a row as two tables
        yield from (tensor[:, columns:], tensor[:, :columns])
    # an exporter may reshape or transpose a tensor, and keeps its numbers
    if tensor.size != math.prod(shape):
        return
    yield tensor.reshape(shape)
    # axes of size 1 are dropped, so that they do not multiply the orders
    flat = tensor.squeeze()
    if 1 < flat.ndim <= MAX_AXES:
        for order in list(permutations(range(flat.ndim)))[1:]:
            if tuple(flat.shape[i] for i in order) == tuple(n for n in shape if n != 1):
                yield flat.transpose(order).reshape(shape)


def shares_alike(stored: Array, expected: Array, axis: int, near: bool) -> Floats:
    """Return the share of equal numbers, bit for bit, in each row of two arrays of one shape and dtype: (rows,)."""
    stored_rows, expected_rows = np.moveaxis(stored, axis, 0), np.moveaxis(expected, axis, 0)
    step = max(1, AT_ONCE * len(stored_rows) // max(stored.size, 1))
    starts = range(0, len(stored_rows), step)
    parts = [_alike(stored_rows[i : i + step], expected_rows[i : i + step], near) for i in starts]
    return np.concatenate([part.reshape(len(part), -1).mean(1) for part in parts])  # (rows, numbers of a row) each


def _alike(stored: Array, expected: Array, near: bool) -> Bools:
    kind = f"u{stored.dtype.itemsize}"
    bits = np.ascontiguousarray(stored).view(kind), np.ascontiguousarray(expected).view(kind)
    equal: Bools = bits[0] == bits[1]
    if near and stored.dtype.name in FLOATS:
        equal |= np.maximum(*bits) - np.minimum(*bits) <= 1  # neighbouring floats of one sign have neighbouring bits
    return equal


def digest(array: Array) -> Digest:
    """Return the dtype and shape of an array, and the SHA-256 of its bits."""
    bits = np.ascontiguousarray(array).view(np.uint8) if array.size else np.zeros(0, np.uint8)
    return _kind(array), hashlib.sha256(bits.data).hexdigest()


def _kind(array: Array) -> str:
    return f"{array.dtype} {array.shape}"


def digests_of(module: nn.Module) -> dict[str, Digest]:
    """Return a digest of every parameter and buffer by its name."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: digest(to_numpy(tensor)) for name, tensor in tensors.items()}


def is_one_of(array: Array, digests: Collection[Digest]) -> bool:
    """Return whether an array has the bits of one of these, as it lies or, of a matrix, transposed."""
    kinds = {kind for kind, _ in digests}
    views = (array, array.T) if array.ndim == 2 else (array,)
    return any(_kind(view) in kinds and digest(view) in digests for view in views)


def ranges(rows: Bools) -> str:
    """Return which rows are true, in words: "row 7", "rows 3..5, 97..511"; of more than four ranges the first four."""
    runs = []
    for _, run in groupby(enumerate(np.flatnonzero(rows)), lambda pair: pair[1] - pair[0]):
        at = [int(index) for _, index in run]
        runs.append(str(at[0]) if len(at) == 1 else f"{at[0]}..{at[-1]}")
    more = f" and {len(runs) - 4} more" if len(runs) > 4 else ""
    return f"row{'' if rows.sum() == 1 else 's'} {', '.join(runs[:4])}{more}"


def are(rows: Bools) -> str:
    """Return the verb behind `ranges`."""
    return "is" if rows.sum() == 1 else "are"
