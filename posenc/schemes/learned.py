"""A learned table of positions, as in GPT-2 and BERT: one trained row a position, and none beyond the last."""

from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from posenc.families.additive import additive
from posenc.lookup import check_width, inside, leading, take
from posenc.scheme import Encoding, Feeds, Form, Tolerance, rounding, scheme
from posenc.weights import load_matrix


class LearnedTable(nn.Module):
    """A trainable row per position: a source for `posenc.families.additive`."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, positions: Tensor, width: int) -> Tensor:
        """Return the rows at int64 positions: (...) -> (..., dim)."""
        check_width(width, self.weight.shape[1])
        return take(self.weight, inside(positions, self.weight.shape[0]), self.weight.shape[0])

    def span(self, length: int, width: int) -> Tensor:
        """Return the rows of positions 0..length-1: (1, length, dim)."""
        check_width(width, self.weight.shape[1])
        return leading(self.weight, length)


NO_DYNAMIC = "a row exists for each position up to max_len and no formula gives another; use --baked"


@scheme(
    "learned",
    paper="arXiv:1705.03122; GPT-2 and BERT (arXiv:1810.04805) made it common",
    unsupported={"dynamic": NO_DYNAMIC},
)
def learned(
    form: Form,
    *,
    d_model: int | None = None,
    output: Literal["add", "rows", "table"] = "add",
    weights: str | None = None,
    key: str | None = None,
    std: float = 0.02,
) -> Encoding:
    """A trainable table of max_len rows, from a file of weights or drawn at random.

    d_model: features [default: those of the weights, or 512].
    output: "add" x + row, "rows" the rows at the positions, "table" the whole table with no input.
    weights: a .npy, .safetensors, .pt, .pth or .bin file; its rows are max_len.
    key: the name of the table in a file that holds several tensors.
    std: standard deviation of the random rows, where no weights are given.
    """
    table = _table(form, d_model, weights, key, std).to(getattr(torch, form.angle_dtype))
    rows, width = table.shape
    if form.max_len > rows:
        raise ValueError(f"max_len must be at most the {rows} rows of {weights}, got {form.max_len}")
    source = LearnedTable(table[: form.max_len].contiguous())
    module, inputs, outputs = additive(source, form, output, width, form.max_len)
    rounded = rounding(form, output == "add")
    return Encoding(
        module=module,
        inputs=inputs,
        outputs=outputs,
        truth=partial(truth, source.weight, output=output),
        error=lambda _: rounded,
        parity=lambda _: Tolerance(bits=True),
        positions=form.positions,
        limit=form.max_len,
    )


def _table(form: Form, d_model: int | None, weights: str | None, key: str | None, std: float) -> Tensor:
    if d_model is not None and d_model < 1:
        raise ValueError(f"d_model must be at least 1, got {d_model}")
    if weights is None:
        if key is not None:
            raise ValueError(f"key names a tensor in a file: give weights=FILE beside key={key}")
        if not std > 0:
            raise ValueError(f"std must be above 0, got {std}")
        return torch.randn(form.max_len, d_model or 512) * std
    table = load_matrix(weights, key)
    if d_model not in (None, table.shape[1]):
        raise ValueError(f"d_model must be the {table.shape[1]} columns of {weights}, got {d_model}")
    return table


def truth(weight: Tensor, feeds: Feeds, at: NDArray[np.int64] | None = None, *, output: str) -> dict[str, NDArray[Any]]:
    """Return the output in float64, rows looked up and added to x, at every position of seq or at the indices `at`."""
    picked = slice(None) if at is None else at
    table = weight.detach().cpu().numpy()
    x = feeds.get("x")
    if "positions" in feeds:
        rows = table[feeds["positions"][:, picked]].astype(np.float64)
    elif x is None:
        rows = table[picked].astype(np.float64)
    else:
        first = int(feeds["start"][0]) if "start" in feeds else 0
        rows = table[None, np.arange(first, first + x.shape[1])[picked]].astype(np.float64)
    return {"y": rows if output != "add" or x is None else x[:, picked].astype(np.float64) + rows}
