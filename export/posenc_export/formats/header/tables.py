"""What an encoding stores, if that is all it needs: tables by name, and how a row is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

MOST = 2**22
"""Numbers of a table above which a compiler takes gigabytes of memory over it."""
DIGITS = ("low_sin", "low_cos", "mid_sin", "mid_cos", "high_sin", "high_cos")
BY_LENGTH = "its frequencies change with the length of a call: give --baked, for those of one length"
COMPUTED = "Sin and Cos have no bits that all compilers agree on: leave --method trig out"


@dataclass(frozen=True)
class Store:
    """Tables, (rows, columns) each, and for each column, or pair of columns, the axis of the position it is read by.

    kind: "digits", tables of each digit's sines and cosines, or "table", one of rows; constants: what else makes rows.
    """

    kind: str
    tables: Mapping[str, Tensor]
    axes: list[int]
    row_width: int
    limit: int
    constants: Mapping[str, Any] = field(default_factory=dict)


def added(source: nn.Module) -> Store:
    """Return what an additive encoding stores; raise ValueError, in one line, where it is not tables."""
    from posenc.schemes.learned import LearnedTable
    from posenc.sincos.angle_addition import AngleAddition, Table

    if isinstance(source, AngleAddition):
        return _digits([source], None, source.width, source.interleaved)
    if isinstance(source, (Table, LearnedTable)):
        return _table(source.rows if isinstance(source, Table) else source.weight.detach(), None)
    raise ValueError(COMPUTED)


def turned(turns: nn.Module) -> Store:
    """Return what a source of turns stores, rows being sines, then cosines; raise ValueError where it is not tables."""
    from posenc.sincos.angle_addition import AngleAddition, Table

    lowerings, order = _lowerings(turns)
    if all(isinstance(one, AngleAddition) for one in lowerings):
        return _digits(lowerings, order, sum(int(one.width) for one in lowerings), False)
    if all(isinstance(one, Table) for one in lowerings):
        return _tables(lowerings, order)
    raise ValueError(COMPUTED)


def _lowerings(turns: nn.Module) -> tuple[list[Any], Tensor | None]:
    """Return what computes the angles of each axis of a position, and the order in which their pairs belong."""
    from posenc.families.rotary_angles import Axial, DynamicNTK, Fixed, Switched

    if isinstance(turns, Fixed):
        return [turns.lowering], None
    if isinstance(turns, Axial):
        return list(turns.lowerings), turns.order if turns.ordered else None
    if isinstance(turns, (Switched, DynamicNTK)):
        raise ValueError(BY_LENGTH)
    raise ValueError(f"queries and keys must turn alike: those of {type(turns).__name__} do not")


def _digits(lowerings: list[Any], order: Tensor | None, row_width: int, interleaved: bool) -> Store:
    tables = {name: _joined([getattr(one, name) for one in lowerings], order) for name in DIGITS}
    _check_size(sum(table.numel() for table in tables.values()), "give fewer features")
    first = lowerings[0]
    constants = {"row_interleaved": interleaved, "low_rows": first.block, "mid_rows": first.radix}
    axes = _axes([one.low_sin.shape[1] for one in lowerings], order)
    return Store("digits", tables, axes, row_width, first.limit, constants)


def _tables(lowerings: list[Any], order: Tensor | None) -> Store:
    import torch

    _check_size(sum(one.rows.numel() for one in lowerings))
    halves = [one.rows.chunk(2, -1) for one in lowerings]
    sin, cos = (_joined([half[i] for half in halves], order) for i in (0, 1))
    axes = _axes([half[0].shape[1] for half in halves], order)
    return _table(torch.cat([sin, cos], -1), [*axes, *axes])


def _table(rows: Tensor, axes: list[int] | None) -> Store:
    _check_size(rows.numel())
    if not rows.isfinite().all():
        raise ValueError("its table holds numbers that are not finite, for which C++ has no constants")
    return Store("table", {"table": rows}, axes or [0] * rows.shape[1], rows.shape[1], rows.shape[0])


def _check_size(numbers: int, instead: str = "give --dynamic, or less --max-len") -> None:
    if numbers > MOST:
        raise ValueError(f"its tables have {numbers:,} numbers, more than {MOST:,}: {instead}")


def _joined(parts: list[Tensor], order: Tensor | None) -> Tensor:
    import torch

    joined = torch.cat(parts, -1)
    return joined if order is None else joined.index_select(-1, order)


def _axes(pairs: list[int], order: Tensor | None) -> list[int]:
    """Return the axis of each pair."""
    axes = [axis for axis, count in enumerate(pairs) for _ in range(count)]
    return axes if order is None else [axes[i] for i in order.tolist()]
