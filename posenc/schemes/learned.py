"""Learned tables of positions, as in GPT-2 and BERT: a trained row for each position up to the last."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

import torch
from torch import Tensor

from posenc.encoding import Encoding
from posenc.formulas.learned import reference
from posenc.joins.rows import RowsOutput
from posenc.ranges import above, minimum
from posenc.scheme import Unsupported, scheme
from posenc.sources.rows import additive
from posenc.sources.rows.learned_tables import LearnedTable, SummedTables
from posenc.spec import Spec, UnsupportedSpec
from posenc.weights import Weights, load_tensor

Key = str | None
WIDTH = 512
"""Features of random rows, where no number is given."""


def rows_of_file(parameters: Mapping[str, object]) -> int | None:
    """Return how many positions the longest table of a file has; None without a file."""
    weights, key, offset = (parameters.get(name) for name in ("weights", "key", "offset"))
    if not isinstance(weights, str):
        return None
    names = _keys(key if isinstance(key, str) else None)
    rows = max(len(load_tensor(weights, name, ("rows", "d_model"))) for name in set(names))
    return max(1, rows - (offset if isinstance(offset, int) else 0))


@scheme(
    "learned",
    rows=rows_of_file,
    paper="arXiv:1705.03122; GPT-2 and BERT (arXiv:1810.04805) made it common",
    formula="PE[p] = table[p + offset], added up where a token has a position in each of several tables",
    models=("GPT-2", "BERT", "RoBERTa", "OPT", "BART", "CLIP text", "LayoutLM"),
    samples=({"d_model": 16}, {"d_model": 7, "offset": 2}),
    unsupported=Unsupported(
        modes={"dynamic": "a row exists for each position up to max_len and no formula gives another; use --baked"}
    ),
)
def learned(
    spec: Spec,
    *,
    d_model: Annotated[int | None, minimum(1)] = None,
    output: Literal["add", "rows", "table"] = "add",
    weights: str | None = None,
    key: str | None = None,
    std: Annotated[float, above(0)] = 0.02,
    offset: int = 0,
) -> Encoding:
    """A trainable table of max_len rows, from a file of weights or drawn at random.

    Args:
        d_model: features [default: those of the weights, or 512].
        output: "add" x + row, "rows" the rows at the positions, "table" the whole table with no input.
        weights: a .npy, .safetensors, .pt, .pth or .bin file, or a model's folder; max_len is at most its rows, and by
            default all of them.
        key: the name of the table in a file that holds several tensors. Several names, with commas between: a token has
            a position in each (--positions explicit, (tables, batch, seq)), and the rows are added up.
        std: standard deviation of the random rows, where no weights are given.
        offset: rows before that of position 0 (OPT and BART: 2). Padding of a mask has the row before that of the first
            token, which may be one before position 0: OPT's is offset=2, RoBERTa's is --position-offset 2.
    """
    keys = _keys(key)
    rows = spec.max_len + max(0, offset)
    sizes = {"rows": None, "d_model": d_model}
    tables = {name: Weights(weights, name, std).table(sizes, (rows, WIDTH)) for name in dict.fromkeys(keys)}
    _check(spec, tables, offset, weights, len(keys))
    dtype = getattr(torch, spec.angle_dtype)
    tables = {name: table.to(dtype) for name, table in tables.items()}
    # Positions from a mask count rows, `offset` among them: padding has the row before that of the first token.
    first = 0 if spec.positions == "mask" else offset
    formula = partial(reference, [tables[name].detach().numpy() for name in keys], before=first, add=output == "add")
    if spec.positions == "mask":
        spec = replace(spec, position_offset=spec.position_offset + offset, max_len=spec.max_len + offset)
    rows_of = {name: LearnedTable(table[first : first + spec.max_len].contiguous()) for name, table in tables.items()}
    slots = [rows_of[name] for name in keys]
    several = SummedTables(slots) if len(slots) > 1 else None
    returned = RowsOutput(output, slots[0].weight.shape[1], ends=several.ends if several else ())
    return additive.encode(several or slots[0], spec, returned, formula=formula)


def _keys(key: str | None) -> tuple[Key, ...]:
    """Return the names of tables, which commas separate."""
    return (None,) if key is None else tuple(part.strip() for part in key.split(","))


def _check(spec: Spec, tables: Mapping[Key, Tensor], offset: int, weights: str | None, slots: int) -> None:
    """Raise ValueError, in one line, where tables do not fit each other or what is asked for."""
    if len({table.shape[1] for table in tables.values()}) > 1:
        widths = ", ".join(f"{name} {table.shape[1]}" for name, table in tables.items())
        raise ValueError(f"tables whose rows are added up have as many columns, those of {weights}: {widths}")
    min_rows, max_rows = min(map(len, tables.values())), max(map(len, tables.values()))
    if not 0 <= offset < min_rows:
        held = f"{min_rows} rows of {weights or 'the table'}"
        raise ValueError(f"offset must be at least 0 and below the {held}, got {offset}")
    if spec.max_len > max_rows - offset:
        held = f"{max_rows - offset} rows of {weights}" + (f" behind offset {offset}" if offset else "")
        raise ValueError(f"max_len must be at most the {held}, got {spec.max_len}")
    if slots > 1 and spec.positions != "explicit":
        raise UnsupportedSpec(
            f"{slots} tables have no {spec.positions} form: a token has a position in each; use --positions explicit"
        )
