"""The choices that all encodings share, beside their own parameters: `Spec`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Mode = Literal["baked", "dynamic"]
Method = Literal["exact", "trig"]
Positions = Literal["implicit", "offset", "explicit", "mask"]
DType = Literal["fp32", "fp16", "bf16", "fp64"]
IndexDType = Literal["int64", "int32"]

TorchName = Literal["float32", "float16", "bfloat16", "float64"]
TORCH_NAMES: Mapping[DType, TorchName] = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp64": "float64"}
CHOICES: Mapping[str, tuple[str, ...]] = {
    "mode": get_args(Mode),
    "method": get_args(Method),
    "positions": get_args(Positions),
    "dtype": get_args(DType),
    "index_dtype": get_args(IndexDType),
}
TABLE_ROWS, BLOCK_ROWS, MOST_TABLE_ROWS = 2048, 64, 2**20
"""Stored rows of a dynamic graph: as many as are usual, of which they are a multiple, and the most."""
MOST_IN_INT32 = 2**30
"""Rows, and a first position, of which a sum fits an int32."""


def is_table_rows(rows: int) -> bool:
    """Return whether a dynamic graph may store so many rows."""
    return rows % BLOCK_ROWS == 0 and BLOCK_ROWS <= rows <= MOST_TABLE_ROWS


class UnsupportedSpec(ValueError):
    """An encoding does not support a spec; the text says why, in one line."""


@dataclass(frozen=True)
class Spec:
    """How an encoding is built: the choices that all schemes share, beside their own parameters.

    Args:
        mode: "baked", a table of `max_len` rows, or "dynamic", rows computed in the graph.
        method: how a dynamic graph computes cosines and sines, "exact" by angle addition or "trig" by Sin and Cos; a
            baked graph has nothing to compute.
        positions: "implicit" 0..seq-1; "offset" the same from `start` (1,); "explicit" `positions` (batch, seq); "mask"
            counted from an attention mask (batch, seq); None for the scheme's own default.
        position_offset: where positions from a mask begin; padding is one before, and never below 0 (RoBERTa and OPT:
            2).
        max_len: rows of a baked table; the length up to which a dynamic graph is validated.
        dtype: of x and of the output.
        index_dtype: of positions, masks and all integers that are computed of them; sizes stay int64, as ONNX has them.
        table_rows: how many of the first positions have their cosines and sines stored in a dynamic graph of method
            "exact", which computes those of all others; None for 2048. They are fast, and right to half an ulp.

    Raises ValueError, in one line, for an unknown choice, where max_len is below 1, where int32 has no room for it, and
    where table_rows is out of range.
    """

    mode: Mode = "baked"
    method: Method = "exact"
    positions: Positions | None = None
    max_len: int = 2048
    dtype: DType = "fp32"
    position_offset: int = 0
    index_dtype: IndexDType = "int64"
    table_rows: int | None = None

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if value not in choices and value is not None:
                raise ValueError(f"{name} must be {' or '.join(choices)}, got {value!r}")
        if self.max_len < 1:
            raise ValueError(f"max_len must be at least 1, got {self.max_len}")
        if self.position_offset < 0 or (self.position_offset and self.positions not in (None, "mask")):
            values = f"{self.position_offset} with positions {self.positions}"
            raise ValueError(f"position_offset must be at least 0, and goes with positions mask, got {values}")
        if self.index_dtype == "int32" and max(self.max_len, self.position_offset) > MOST_IN_INT32:
            most = f"max_len and position_offset must be at most {MOST_IN_INT32} with index_dtype int32"
            raise ValueError(f"{most}, got {self.max_len} and {self.position_offset}")
        if self.table_rows is not None and not is_table_rows(self.table_rows):
            expected = f"a multiple of {BLOCK_ROWS}, from {BLOCK_ROWS} to {MOST_TABLE_ROWS}"
            raise ValueError(f"table_rows must be {expected}, got {self.table_rows}")

    @property
    def torch_dtype(self) -> TorchName:
        """The name that torch and numpy give to `dtype`."""
        return TORCH_NAMES[self.dtype]

    @property
    def narrow(self) -> bool:
        """Whether integers are int32."""
        return self.index_dtype == "int32"

    @property
    def angle_dtype(self) -> str:
        """The dtype of cosines and sines: at least float32, whatever the dtype of the output."""
        return "float64" if self.dtype == "fp64" else "float32"

    @property
    def stored_positions(self) -> int:
        """Positions whose cosines and sines a dynamic graph of method "exact" stores."""
        return TABLE_ROWS if self.table_rows is None else self.table_rows
