"""Inspections as they come out of files, built by hand: what compares them needs no file."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from posenc_export.read.findings import finding
from posenc_export.read.inspection import SCHEMA_VERSION, End, Errors, FoundEncoding, GraphInput, Inspection, Rounded


def rotary(layers: Sequence[int], rope_theta: float = 10000.0, **parameters: Any) -> FoundEncoding:
    """Rotary angles in float32, in some layers."""
    named = {"rope_theta": rope_theta, "head_dim": 16, "rotary_dim": 16, "layout": "halves", **parameters}
    return FoundEncoding(
        "rotary",
        str(named.get("rope_type", "default")),
        {name: value for name, value in named.items() if name != "rope_type"},
        (),
        tuple(f"/layers.{layer}/Mul" for layer in layers),
        tuple(layers),
        ("cos",),
        ("inv_freq",),
        "float32",
        None,
        "position_ids",
    )


def table(rows: int, d_model: int = 64, **parameters: Any) -> FoundEncoding:
    """A learned table."""
    settings = {"rows": rows, "d_model": d_model, **parameters}
    where = (("/Gather",), (), ("wpe",), ("wpe.weight",))
    return FoundEncoding("learned", "table", settings, (), *where, "float32", rows, "range")


def inspection(*encodings: FoundEncoding, attentions: int = 0) -> Inspection:
    """A file with these encodings."""
    count = attentions or 1 + max((layer for e in encodings for layer in e.layers), default=-1)
    made = Inspection(SCHEMA_VERSION, "model.onnx", 10, {"": 20}, (), tuple(encodings))
    return replace(made, attentions=count)


ENDED = End("seq", 512, 1024, "/Gather", "refuses", "index 512 of 512 rows")
CURVE = Errors((0, 1, 10, 99), (0.0, 1e-7, 2e-3, 3e-3), 1e-3, 10)
FULL = replace(
    inspection(
        replace(
            rotary(range(4)),
            error=3e-3,
            errors=CURVE,
            rounded=(Rounded("float16", None, 99, 50), Rounded("bfloat16", 0.01, 9, None)),
        ),
        table(512),
    ),
    inputs=(GraphInput("input_ids", ("batch", None, 3), "int64"),),
    ends=(ENDED,),
    findings=(
        finding("shared-table", "cos_cache", "one table for two bases"),
        finding("ends", "/Gather", "right up to 512 along seq"),
    ),
)
