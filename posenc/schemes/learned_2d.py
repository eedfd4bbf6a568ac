"""Learned embeddings of the rows and of the columns of a grid: DETR with position_embedding_type="learned".

Two tables: a place of a grid has the embeddings of its column and of its row, side by side, column first in DETR
(arXiv:2005.12872) and its kin. Places beyond a table were never trained, and are refused.
"""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Literal

import torch
from torch import Tensor

from posenc import reasons
from posenc.encoding import Encoding
from posenc.formulas.learned_2d import reference
from posenc.ranges import EVEN, above, minimum
from posenc.scheme import Unsupported, scheme
from posenc.sources.grid import encode as grid
from posenc.sources.rows.learned_tables import LearnedTable
from posenc.spec import Spec
from posenc.weights import Weights, load_tensor

ROWS, DIM = 50, 256
"""Rows of each of DETR's tables, and features of both together."""


def rows_of(parameters: Mapping[str, object]) -> int | None:
    """Return how many rows each table has."""
    weights, key, rows = (parameters.get(name) for name in ("weights", "key", "rows"))
    if isinstance(weights, str):
        names = _names(weights, key if isinstance(key, str) else None)
        return min(len(load_tensor(weights, name, ("rows", "dim / 2"))) for name in names)
    return max(1, rows) if isinstance(rows, int) else ROWS


@scheme(
    "learned_2d",
    rows=rows_of,
    paper="arXiv:2005.12872",
    formula="PE[y, x] = (columns[x], rows[y])",
    models=("DETR", "Conditional DETR", "Deformable DETR", "Table Transformer"),
    samples=({"dim": 6},),
    unsupported=Unsupported(
        modes={"dynamic": "a row exists for each place up to max_len and no formula gives another; use --baked"},
        positions={
            **reasons.GRID,
            "mask": "rows and columns are counted with padding and all; use --positions implicit",
        },
    ),
)
def learned_2d(
    spec: Spec,
    *,
    dim: Annotated[int | None, EVEN] = None,
    rows: Annotated[int | None, minimum(1)] = None,
    order: Literal["column_first", "row_first"] = "column_first",
    tensor_layout: Literal["bdhw", "bhwd"] = "bdhw",
    weights: str | None = None,
    key: str | None = None,
    std: Annotated[float, above(0)] = 0.02,
) -> Encoding:
    """Trainable rows of each row and of each column of a grid, side by side.

    Args:
        dim: features, half by the row, half by the column [default: those of the weights, or 256].
        rows: of each table [default: those of the weights, or max_len, which is 50 by default, as in DETR].
        order: whose half comes first, "column_first" as in DETR, or "row_first".
        tensor_layout: "bdhw" (batch, dim, height, width) or "bhwd" (batch, height, width, dim), of x and of the output.
        weights: a .safetensors, .pt, .pth or .bin file, or a model's folder, with both tables, of one shape.
        key: the names of the tables of rows and of columns, as ...row_embeddings.weight,...column_embeddings.weight.
        std: standard deviation of the random rows, where no weights are given.
    """
    names = (key, key) if weights is None else _names(weights, key)
    sizes = {"rows": rows, "dim / 2": None if dim is None else dim // 2}
    tables: list[Tensor] = []
    for name in names:
        tables.append(Weights(weights, name, std).table(sizes, (spec.max_len, DIM // 2)))
        sizes = dict(zip(sizes, tables[0].shape, strict=True))  # both tables have one shape
    if spec.max_len > len(tables[0]):
        held = f"{len(tables[0])} rows of {weights or 'the tables'}"
        raise ValueError(f"max_len must be at most the {held}, got {spec.max_len}")
    dtype = getattr(torch, spec.angle_dtype)
    tables = [table.to(dtype) for table in tables]
    sources = [LearnedTable(table[: spec.max_len].contiguous()) for table in tables]
    axes, channels_first = (1, 0) if order == "column_first" else (0, 1), tensor_layout == "bdhw"
    layout = grid.GridLayout(("height", "width"), axes, add=False, channels_first=channels_first)
    exact = [table.double().numpy() for table in tables]
    formula = partial(reference, exact, order=order, tensor_layout=tensor_layout)
    return grid.encode(sources, [table.shape[1] for table in tables], spec, layout, formula=formula)


def _names(weights: str, key: str | None) -> list[str]:
    """Return the names of the tables of rows and of columns; raise ValueError where there are not two."""
    if weights.endswith(".npy"):
        raise ValueError(f"weights must hold two tables by their names, as .safetensors and .pt do, got {weights}")
    names = [] if key is None else [name.strip() for name in key.split(",")]
    if len(names) != 2:
        two = "two names, of the table of rows and of that of columns, with a comma between"
        raise ValueError(f"key must be {two}: key=ROWS,COLUMNS of {weights}, got {key or 'none'}")
    return names
