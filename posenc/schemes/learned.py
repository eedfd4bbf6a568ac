"""A learned table of positions, as in GPT-2 and BERT: one trained row a position, and none beyond the last."""

from collections.abc import Mapping
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from posenc.call import Call
from posenc.encoding import SAME_BITS, Encoding, Probes, Tables, Tolerance
from posenc.families import additive
from posenc.lookup import check_width, inside, leading, take
from posenc.memory import check_room
from posenc.ports import Array
from posenc.scheme import Unsupported, scheme
from posenc.spec import Spec
from posenc.weights import load_matrix


class LearnedTable(nn.Module):
    """A trainable row per position: a source of rows."""

    probes = Probes()
    half_safe = ""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.end = weight.shape[0]

    def forward(self, positions: Tensor, width: int) -> Tensor:
        """Return the rows at int64 positions: (...) -> (..., dim)."""
        check_width(width, self.weight.shape[1])
        return take(self.weight, inside(positions, self.weight.shape[0]), self.weight.shape[0])

    def arange(self, length: int, width: int) -> Tensor:
        """Return the rows of positions 0..length-1: (1, length, dim)."""
        check_width(width, self.weight.shape[1])
        return leading(self.weight, length)

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far rows may be from the reference: they are looked up."""
        return Tolerance()

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph's rows may be from these: no bit."""
        return SAME_BITS

    def tables(self) -> Tables:
        """Return the one table, whose rows hold no pairs."""
        rows = self.weight.detach()
        return Tables("rows", {"table": rows}, (0,) * rows.shape[1], rows.shape[1], None, self.end)


def rows_of_file(parameters: Mapping[str, object]) -> int | None:
    """Return how many rows a file of weights has; None where no file is given."""
    weights, key = parameters.get("weights"), parameters.get("key")
    if not isinstance(weights, str):
        return None
    return load_matrix(weights, key if isinstance(key, str) else None).shape[0]


@scheme(
    "learned",
    rows=rows_of_file,
    paper="arXiv:1705.03122; GPT-2 and BERT (arXiv:1810.04805) made it common",
    samples=({"d_model": 16}, {"d_model": 7}),
    unsupported=Unsupported(
        modes={"dynamic": "a row exists for each position up to max_len and no formula gives another; use --baked"}
    ),
)
def learned(
    spec: Spec,
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
    weights: a .npy, .safetensors, .pt, .pth or .bin file; max_len is at most its rows, and by default all of them.
    key: the name of the table in a file that holds several tensors.
    std: standard deviation of the random rows, where no weights are given.
    """
    table = (_random(spec, d_model, key, std) if weights is None else _from_file(weights, key, d_model)).to(
        getattr(torch, spec.angle_dtype)
    )
    rows, width = table.shape
    if spec.max_len > rows:
        raise ValueError(f"max_len must be at most the {rows} rows of {weights}, got {spec.max_len}")
    source = LearnedTable(table[: spec.max_len].contiguous())
    look_up = partial(reference, source.weight, add=output == "add")
    return additive.encode(source, spec, additive.Output(output, width), formula=look_up)


def _random(spec: Spec, d_model: int | None, key: str | None, std: float) -> Tensor:
    _check_width(d_model)
    if key is not None:
        raise ValueError(f"key names a tensor in a file: give weights=FILE beside key={key}")
    if not std > 0:
        raise ValueError(f"std must be above 0, got {std}")
    check_room("a table", (spec.max_len, d_model or 512), "float32")
    return torch.randn(spec.max_len, d_model or 512) * std


def _from_file(weights: str, key: str | None, d_model: int | None) -> Tensor:
    _check_width(d_model)
    table = load_matrix(weights, key)
    if d_model not in (None, table.shape[1]):
        raise ValueError(f"d_model must be the {table.shape[1]} columns of {weights}, got {d_model}")
    return table


def _check_width(d_model: int | None) -> None:
    if d_model is not None and d_model < 1:
        raise ValueError(f"d_model must be at least 1, got {d_model}")


def reference(weight: Tensor, call: Call, *, add: bool) -> tuple[Array]:
    """Return the output in float64: rows looked up and added to x, at the positions that are wanted."""
    rows = weight.detach().cpu().numpy()[call.positions[..., call.picked]].astype("float64")
    return (call.values[0][:, call.picked].astype("float64") + rows if add and call.values else rows,)
