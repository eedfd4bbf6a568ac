"""Quantised tables get more rows as floats: 8 bits would not hold what the formula says."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper

import posenc_export
from helpers.graph_files import written
from helpers.longer import foreign_file, longer, sinusoids
from posenc_export.common.errors import BadInput
from posenc_export.read.extend.model import Model
from posenc_export.read.values import Array

ROWS, LENGTH = 48, 700
FOREIGN = ("roformer.plain-old.quantize_dynamic.onnx", "roformer.plain-old.rows-int8.onnx")
"""Looked up as uint8 and dequantised then; dequantised row by row, and looked up then."""
LOOKED_UP = """
embedded (float[batch, sequence, 16] x, int64[batch, sequence] position_ids) => (float[batch, sequence, 16] y) {
    quantized = Gather (table, position_ids)
    rows = DequantizeLinear (quantized, scale, zero)
    y = Add (x, rows)
}
"""
WHOLE = """
embedded (float[batch, sequence, 16] x, int64[batch, sequence] position_ids) => (float[batch, sequence, 16] y) {
    floats = DequantizeLinear <axis = AXIS> (table, scale)
    rows = Gather (floats, position_ids)
    y = Add (x, rows)
}
"""
CAST = """
embedded (float[batch, sequence, 16] x, int64[batch, sequence] position_ids) => (float[batch, sequence, 16] y) {
    quantized = Gather (table, position_ids)
    floats = Cast <to = 1> (quantized)
    rows = Mul (floats, scale)
    y = Add (x, rows)
}
"""


def in_steps(scale: NDArray[np.float32], zero: int, dtype: type) -> Array:
    """Return the sinusoids in steps of a scale."""
    steps = np.rint(sinusoids(ROWS, 16) / scale) + zero
    return np.asarray(np.clip(steps, np.iinfo(dtype).min, np.iinfo(dtype).max)).astype(dtype)


def per_tensor(folder: Path) -> Path:
    scale, zero = np.array(2 / 255, np.float32), np.array(127, np.uint8)
    table = in_steps(scale, 127, np.uint8)
    return written(folder, LOOKED_UP, {"table": table, "scale": scale, "zero": zero}, opset=21)


def by_axis(folder: Path, axis: int) -> Path:
    """Scales of rows or of columns, no two alike."""
    scale = (np.linspace(1, 1.01, (ROWS, 16)[axis]) / 127).astype(np.float32)
    table = in_steps(scale[:, None] if axis == 0 else scale, 0, np.int8)
    return written(folder, WHOLE.replace("AXIS", str(axis)), {"table": table, "scale": scale}, opset=21)


@pytest.mark.parametrize("kind", ["a scale", "of rows", "of columns"])
def test_rows_are_those_of_the_formula(tmp_path: Path, kind: str) -> None:
    path = per_tensor(tmp_path) if kind == "a scale" else by_axis(tmp_path, int(kind == "of columns"))
    made = tmp_path / "longer.onnx"
    result = posenc_export.extend(path, made, max_len=LENGTH)
    assert (result.passed, result.reached) == (True, LENGTH)
    assert any("was quantised to" in note for note in result.notes)
    assert 1e-3 < result.tables[0].old_error < 5e-3
    rows = Model.load(made).array("table")
    assert rows.dtype.name == "float32"
    assert np.abs(rows.astype(np.float64) - sinusoids(LENGTH, 16)).max() < 3.1e-8
    onnx.checker.check_model(str(made), full_check=True)
    model = onnx.load(str(made))
    assert {tensor.name for tensor in model.graph.initializer} == {"table"}, "no scale is left that nothing takes"
    (inspected,) = posenc_export.inspect(made).encodings
    assert (inspected.family, inspected.rows) == ("sinusoidal", LENGTH)


@pytest.mark.parametrize("name", FOREIGN)
def test_tables_that_quantizers_wrote_grow(name: str, tmp_path: Path) -> None:
    made = tmp_path / "longer.onnx"
    with foreign_file(name) as path:
        result = posenc_export.extend(path, made, max_len=LENGTH)
    assert (result.passed, result.reached, len(result.runs)) == (True, LENGTH, 2)
    assert result.tables[0].dtype == "float32"
    assert result.tables[0].steps <= 0.5


def test_rows_that_stay_are_what_they_stood_for(tmp_path: Path) -> None:
    path = per_tensor(tmp_path)
    work = longer(path, LENGTH, keep_rows=True)
    rows = Model.load(work.place).array("table")
    stood_for = (Model.load(path).array("table").astype(np.float32) - 127) * np.float32(2 / 255)
    assert np.array_equal(rows[:ROWS], stood_for)
    assert np.abs(rows[ROWS:].astype(np.float64) - sinusoids(LENGTH, 16)[ROWS:]).max() < 3.1e-8


def test_a_table_that_is_dequantised_otherwise_is_refused(tmp_path: Path) -> None:
    scale = np.array(1 / 127, np.float32)
    path = written(tmp_path, CAST, {"table": in_steps(scale, 0, np.int8), "scale": scale})
    before = path.read_bytes()
    with pytest.raises(BadInput, match="table stored as int8, and Cast takes it as it is stored: extend"):
        longer(path, LENGTH)
    assert path.read_bytes() == before


def test_scales_of_what_was_looked_up_are_refused(tmp_path: Path) -> None:
    path = per_tensor(tmp_path)
    model = onnx.load(str(path))
    for tensor in model.graph.initializer:
        if tensor.name in ("scale", "zero"):
            array = numpy_helper.to_array(tensor)
            tensor.CopyFrom(numpy_helper.from_array(np.full(16, array), tensor.name))
    model.graph.node[1].attribute.append(onnx.helper.make_attribute("axis", 2))
    onnx.save(model, str(path))
    with pytest.raises(BadInput, match="scales of its rows or columns are applied to what was looked up"):
        longer(path, LENGTH)
