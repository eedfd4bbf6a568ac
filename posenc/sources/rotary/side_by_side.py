"""Tables of the axes of a position, put together as the pairs of one row."""

from dataclasses import replace

import torch
from torch import Tensor

from posenc.encoding import Tables


def side_by_side(parts: list[Tables], order: Tensor | None) -> Tables:
    """Return the tables of a row whose pairs belong to several axes.

    Args:
        parts: The tables of each axis.
        order: Which of the joined pairs comes first, second, ...; None where they follow one another.
    """
    first = parts[0]
    halves = {name: [part.arrays[name] for part in parts] for name in first.arrays}
    pairs = [next(iter(part.arrays.values())).shape[1] // (2 if part.kind == "rows" else 1) for part in parts]
    axes = [axis for axis, count in enumerate(pairs) for _ in range(count)]
    if order is not None:
        axes = [axes[i] for i in order.tolist()]
    width = sum(part.width for part in parts)
    if first.kind == "digits":
        arrays = {name: _joined(tables, order) for name, tables in halves.items()}
        return replace(first, arrays=arrays, axes=tuple(axes), width=width)
    # Rows hold all sines, then all cosines: (rows, 2 pairs) -> twice (rows, pairs).
    split = [table.chunk(2, -1) for table in halves["table"]]
    sin, cos = (_joined([half[i] for half in split], order) for i in (0, 1))
    return replace(first, arrays={"table": torch.cat([sin, cos], -1)}, axes=(*axes, *axes), width=width)


def _joined(tables: list[Tensor], order: Tensor | None) -> Tensor:
    joined = torch.cat(tables, -1)
    return joined if order is None else joined.index_select(-1, order)
