"""Inspections as they come out of files, built by hand: what compares them needs no file."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from posenc_export.read.inspection import SCHEMA_VERSION, Encoding, Inspection


def rotary(layers: Sequence[int], rope_theta: float = 10000.0, **parameters: Any) -> Encoding:
    """Rotary angles in float32, in some layers."""
    named = {"rope_theta": rope_theta, "head_dim": 16, "rotary_dim": 16, "layout": "halves", **parameters}
    return Encoding(
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


def table(rows: int, d_model: int = 64, **parameters: Any) -> Encoding:
    """A learned table."""
    settings = {"rows": rows, "d_model": d_model, **parameters}
    where = (("/Gather",), (), ("wpe",), ("wpe.weight",))
    return Encoding("learned", "table", settings, (), *where, "float32", rows, "range")


def inspection(*encodings: Encoding, attentions: int = 0) -> Inspection:
    """A file with these encodings."""
    count = attentions or 1 + max((layer for e in encodings for layer in e.layers), default=-1)
    made = Inspection(SCHEMA_VERSION, "model.onnx", 10, {"": 20}, (), tuple(encodings))
    return replace(made, attentions=count)
