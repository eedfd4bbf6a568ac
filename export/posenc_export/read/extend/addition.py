"""Angle addition as nodes of a graph, in the place of Sin and Cos: the form of `posenc.sincos`, for files of others.

A position is 32768 h + 64 m + l, and each digit looks up a sine and a cosine; `posenc/sincos/angle_addition.py` says
why. Positions below 0, which padding may have, turn backward: a look-up would count them from the last row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, helper, numpy_helper

from posenc_export.read.extend.chains import Wave
from posenc_export.read.extend.held import Array, Floats

LOW, MID, HIGH = 64, 512, 512
"""Rows of the tables of digits, as `posenc.sincos` has them."""
Real = NDArray[np.floating[Any]]
CHUNK = 1 << 12
SIDES = ("sin", "cos")
AXES_AS_INPUT = 13
"""The opset from which Squeeze and Unsqueeze take axes as an input."""


@dataclass(frozen=True)
class Digits:
    """Sines and cosines of each digit of a position, by name: low, middle and high ones, (rows, columns)."""

    tables: Mapping[str, Real]

    @classmethod
    def made(cls, inv_freq: Floats, scale: float, dtype: np.dtype[np.generic]) -> Digits:
        """Make the tables of frequencies; the factor of all sines and cosines is in those of the lowest digit."""
        tables: dict[str, Real] = {}
        for name, rows, step in (("low", LOW, 1), ("mid", MID, LOW), ("high", HIGH, LOW * MID)):
            angles = step * np.arange(rows, dtype=np.float64)[:, None] * inv_freq
            factor = scale if name == "low" else 1.0
            tables[f"{name}_sin"] = (factor * np.sin(angles)).astype(dtype)
            tables[f"{name}_cos"] = (factor * np.cos(angles)).astype(dtype)
        return cls(tables)

    def rows(self, positions: NDArray[np.int64]) -> tuple[Real, Real]:
        """Return sines and cosines at positions from 0 on, by the steps that the graph takes."""
        high, mid, low = positions // (LOW * MID), positions // LOW % MID, positions % LOW
        t = self.tables
        b = t["high_sin"][high] * t["mid_cos"][mid] + t["high_cos"][high] * t["mid_sin"][mid]
        a = t["high_cos"][high] * t["mid_cos"][mid] - t["high_sin"][high] * t["mid_sin"][mid]
        return b * t["low_cos"][low] + a * t["low_sin"][low], a * t["low_cos"][low] - b * t["low_sin"][low]

    def worst(self, inv_freq: Floats, scale: float, count: int) -> tuple[float, int]:
        """Return the largest error of all positions below a number against float64, and its position."""
        worst = (0.0, 0)
        for first in range(0, count, CHUNK):
            positions = np.arange(first, min(first + CHUNK, count))
            angles = positions[:, None] * inv_freq
            exact = scale * np.stack([np.sin(angles), np.cos(angles)])
            off = np.abs(np.stack(self.rows(positions)).astype(np.float64) - exact).max(axis=(0, 2))
            row = int(np.argmax(off))
            worst = max(worst, (float(off[row]), first + row))
        return worst


@dataclass
class NodeWriter:
    """Nodes and stored tensors that are added to a graph.

    Args:
        prefix: begins their names, which no tensor of the graph does.
        opset: of ONNX's own operators.
        nodes: what was written, in order.
        stored: the same of tensors.
    """

    prefix: str
    opset: int
    nodes: list[NodeProto] = field(default_factory=list)
    stored: dict[str, Array] = field(default_factory=dict)

    def node(self, op_type: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Write a node, and return the name of its output."""
        name = output or f"{self.prefix}{op_type}_{len(self.nodes)}"
        label = f"{self.prefix}node_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [name], name=label, **attributes))
        return name

    def store(self, name: str, array: Array) -> str:
        """Store a tensor, and return its name."""
        self.stored[f"{self.prefix}{name}"] = array
        return f"{self.prefix}{name}"

    def whole(self, name: str, number: int) -> str:
        """Store a whole number."""
        return self.store(name, np.array(number, np.int64))

    def reaxed(self, op_type: str, tensor: str, axes: tuple[int, ...]) -> str:
        """Write a Squeeze or an Unsqueeze, as the opset has it."""
        if not axes:
            return tensor
        if self.opset < AXES_AS_INPUT:
            return self.node(op_type, tensor, axes=list(axes))
        return self.node(op_type, tensor, self.store(f"axes_{len(self.nodes)}", np.array(axes, np.int64)))

    def initializers(self) -> Iterator[onnx.TensorProto]:
        """Yield the stored tensors."""
        return (numpy_helper.from_array(array, name) for name, array in self.stored.items())


def add_rows(writer: NodeWriter, wave: Wave, digits: Digits) -> dict[str, str]:
    """Write sines and cosines at the positions of a node, and return the names of both."""
    whole = writer.node("Cast", wave.positions, to=onnx.TensorProto.INT64)
    signed = writer.reaxed("Unsqueeze", writer.reaxed("Squeeze", whole, wave.fitting.squeezed), wave.fitting.unsqueezed)
    positions = writer.node("Abs", signed)
    low, mid = writer.whole("rows_of_low", LOW), writer.whole("rows_of_mid", MID)
    # a digit is the remainder, and the quotient has the digits above it; nothing is below 0
    blocks = writer.node("Div", positions, low)
    places = {"low": writer.node("Mod", positions, low), "mid": writer.node("Mod", blocks, mid)}
    places["high"] = writer.node("Div", blocks, mid)
    looked_up = {
        name: writer.node("Gather", writer.store(name, table), places[name.partition("_")[0]], axis=0)
        for name, table in digits.tables.items()
    }
    sin, cos = _added(writer, *(looked_up[f"{digit}_{side}"] for digit in ("high", "mid") for side in SIDES))
    sin, cos = _added(writer, sin, cos, looked_up["low_sin"], looked_up["low_cos"])
    kind = helper.np_dtype_to_tensor_dtype(digits.tables["low_sin"].dtype)
    sign = writer.node("Cast", writer.node("Sign", signed), to=kind)
    last = writer.store("last_axis", np.array([-1], np.int64))
    takes_input = writer.opset >= AXES_AS_INPUT
    column = writer.node("Unsqueeze", sign, last) if takes_input else writer.node("Unsqueeze", sign, axes=[-1])
    rows = {"Sin": writer.node("Mul", sin, column), "Cos": cos}
    if not wave.fitting.expanded:
        return rows
    shape = writer.node("Shape", wave.angles)
    return {name: writer.node("Expand", row, shape) for name, row in rows.items()}


def _added(writer: NodeWriter, a_sin: str, a_cos: str, b_sin: str, b_cos: str) -> tuple[str, str]:
    """Write the sine and the cosine of a sum of two angles."""
    products = [writer.node("Mul", *pair) for pair in ((a_sin, b_cos), (a_cos, b_sin), (a_cos, b_cos), (a_sin, b_sin))]
    return writer.node("Add", *products[:2]), writer.node("Sub", *products[2:])
