"""Errors of grids, of distances and of positions in sound: each is measured, as far as the report says, and judged."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from helpers.foreign.files import foreign_files
from helpers.misread import codes, inspected, read
from posenc.formulas.fitting import Form
from posenc.ports import Array
from posenc_export.cli.commands.inspect import fails
from posenc_export.read.errors.places import distance_errors, place_errors, stored_distances
from posenc_export.read.inspection import Errors, FoundEncoding, Inspection
from posenc_export.read.report.text import body_lines

OMEGA = (1e4 ** (-np.arange(8) / 8)).astype(np.float32)
BOUND = 1e-3


def grid(rows: str, dtype: str = "") -> str:
    """Return a graph that adds sines of rows and columns to an image of 32 features.

    Args:
        rows: nodes that make the rows `r` of those that are counted, `counted`.
        dtype: "half" where angles are computed in float16.
    """
    to = 10 if dtype else 1
    back = "back = Cast <to = 1> (e)" if dtype else "back = Identity (e)"
    return f"""grid (float[batch, height, width, 32] x) => (float[batch, height, width, 32] y) {{
    sh = Shape (x)  h = Gather (sh, one)  w = Gather (sh, two)
    counted = Range (zero, h, one)  {rows}  c = Range (zero, w, one)
    rf = Cast <to = {to}> (r)  cf = Cast <to = {to}> (c)  ru = Unsqueeze (rf, axis1)  cu = Unsqueeze (cf, axis1)
    ra = Mul (ru, omega)  ca = Mul (cu, omega)  rs = Sin (ra)  rc = Cos (ra)  cs = Sin (ca)  cc = Cos (ca)
    byrow = Concat <axis = -1> (rs, rc)  bycolumn = Concat <axis = -1> (cs, cc)
    h1 = Unsqueeze (h, axis0)  w1 = Unsqueeze (w, axis0)  size = Concat <axis = 0> (h1, w1, sixteen)
    rx = Unsqueeze (byrow, axis1)  re = Expand (rx, size)  cx = Unsqueeze (bycolumn, axis0)  ce = Expand (cx, size)
    e = Concat <axis = -1> (ce, re)  {back}  y = Add (x, back) }}"""


def tables(omega: Array = OMEGA) -> dict[str, Array]:
    """Return the constants of such a graph."""
    return {"omega": omega, "sixteen": np.array([16], np.int64)}


def only(made: Inspection) -> FoundEncoding:
    """Return the one encoding."""
    (encoding,) = made.encodings
    return encoding


def line(made: Inspection) -> str:
    """Return what the report says of its error."""
    return next(text.strip() for text in body_lines(made) if "error against float64" in text)


def test_a_grid_is_measured_in_larger_images_than_it_is_told_by(tmp_path: Path) -> None:
    made = read(tmp_path, grid("r = Identity (counted)"), tables(), bound=BOUND)
    errors = only(made).errors
    assert errors is not None
    assert (only(made).family, errors.place, errors.grid, errors.last_position) == (
        "grid",
        "coordinate",
        (256, 384),
        383,
    )
    angles = np.arange(384, dtype=np.float32)[:, None] * OMEGA
    exact = np.arange(384)[:, None] * 1e4 ** (-np.arange(8) / 8)
    off = max(np.abs(wave(angles) - wave(exact)).max() for wave in (np.sin, np.cos))
    assert max(errors.errors) == pytest.approx(off, abs=2.0**-23)
    assert not fails(made, (), BOUND)
    assert line(made).endswith("of grids up to 256 x 384")
    assert fails(read(tmp_path, grid("r = Identity (counted)"), tables(), bound=1e-6), (), 1e-6)


def test_a_grid_that_is_another_in_larger_images_is_not_judged(tmp_path: Path) -> None:
    """Small images are right; rows from the hundredth on are all the same."""
    made = read(tmp_path, grid("r = Min (counted, hundred)"), {**tables(), "hundred": np.array(100)}, bound=BOUND)
    assert only(made).family == "grid"
    (entry,) = made.not_judged
    assert entry.reason.endswith("up to coordinate 95: in larger calls its numbers were not recognised")
    assert codes(made) == {"PE216": "error"}
    assert fails(made, (), BOUND)


def test_a_grid_in_half_precision_is_off(tmp_path: Path) -> None:
    made = read(tmp_path, grid("r = Identity (counted)", "half"), tables(OMEGA.astype(np.float16)), bound=BOUND)
    assert fails(made, (), BOUND)


@pytest.mark.parametrize("model", ["dinov3", "detr"])
def test_other_peoples_grids_are_held_to_a_bound(model: str) -> None:
    for path, truth in foreign_files(models=[model], exporters=["plain old"], optimizers=[""]):
        made = inspected(path, BOUND)
        first = made.encodings[0]
        assert first.errors is not None, truth.file
        assert first.errors.grid == (128, 192), truth.file
        assert max(first.errors.errors) < 1e-6, truth.file
        assert not fails(made, (), BOUND), truth.file


def test_positions_of_sound_are_measured_as_far_as_samples_go() -> None:
    for path, truth in foreign_files(models=["conformer-rotary"], exporters=["plain old"], optimizers=[""]):
        made = inspected(path, 0.1)
        errors = only(made).errors
        assert errors is not None, truth.file
        # a position is four samples: the last of a million
        assert (errors.samples, errors.last_position) == (2**20, 262142), truth.file
        assert made.not_judged == ()
        assert not fails(made, (), 0.1)
        strict = inspected(path, BOUND)
        assert codes(strict) == {"PE204": "error"}, "angles of float32 are off by more than 0.001 there"


def test_a_row_of_a_distance_that_no_short_call_reads_is_measured(tmp_path: Path) -> None:
    for path, _ in foreign_files(models=["conformer"], exporters=["transformers.exporters"], optimizers=[""]):
        whole = inspected(path, BOUND)
        model = onnx.load(path)
    errors = only(whole).errors
    assert errors is not None
    assert (errors.place, errors.last_position) == ("distance", 47)
    assert not fails(whole, (), BOUND)
    (table,) = (entry for entry in model.graph.initializer if list(entry.dims) == [1, 95, 32])
    numbers = numpy_helper.to_array(table).copy()
    numbers[0, 2, 5] += 0.01  # distance 45: short calls read 38 and less
    table.CopyFrom(numpy_helper.from_array(numbers, table.name))
    onnx.save(model, tmp_path / "wrong.onnx")
    wrong = inspected(tmp_path / "wrong.onnx", BOUND)
    (off,) = (entry for entry in wrong.findings if entry.code == "PE204")
    assert "from distance 45 on" in off.detail
    assert fails(wrong, (), BOUND)


def above_0(errors: Errors) -> dict[int, float]:
    """Return the errors above 0, by their place."""
    return {place: error for place, error in zip(errors.positions, errors.errors, strict=True) if error}


def form(differences: Array, **parameters: int) -> Form:
    """Return a form that numbers differ from."""
    return Form("grid", "of a test", parameters, differences=differences.astype(np.float64))


def test_a_coordinate_has_the_largest_error_of_its_places() -> None:
    differences = np.zeros((3, 5))
    differences[2, 1], differences[0, 2], differences[1, 4] = 0.5, 0.25, 0.125
    errors = place_errors(form(differences), 0.2)
    assert errors is not None
    assert above_0(errors) == {2: 0.5, 4: 0.125}
    assert (errors.exceeds_from, errors.grid, errors.last_position) == (2, (3, 5), 4)


def test_heads_that_turn_apart_are_no_axis_of_a_grid() -> None:
    differences = np.zeros((2, 3, 8))
    differences[0, 1, 7] = 0.5
    errors = place_errors(form(differences, heads=8), 0.2)
    assert errors is not None
    assert (errors.grid, errors.exceeds_from) == ((2, 3), 1)


def test_a_distance_has_the_larger_error_of_both_directions() -> None:
    distances = np.arange(3, -4, -1)
    errors = distance_errors(distances, np.array([0, 0.1, 0, 0, 0, 0.3, 0]), 0.2)
    assert above_0(errors) == {2: 0.3}
    assert (errors.place, errors.exceeds_from) == ("distance", 2)


def test_distances_of_a_table_follow_from_the_rows_that_are_read() -> None:
    table = np.random.default_rng(0).normal(size=(9, 4))
    told = form(np.zeros(3), first_distance=1, last_distance=-1)
    found = stored_distances(told, table[3:6], table)
    assert found is not None
    assert found.tolist() == [4, 3, 2, 1, 0, -1, -2, -3, -4]
    assert stored_distances(told, table[3:6] + 1, table) is None, "rows of another table"
    twice = np.concatenate([table, table])
    assert stored_distances(told, table[3:6], twice) is None, "rows that are there twice"


@pytest.mark.parametrize(("table", "row"), [("cos_cache_small", 20), ("sin_cache_large", 90)])
def test_both_tables_of_longrope_are_measured(tmp_path: Path, table: str, row: int) -> None:
    """An operator reads one of them in short calls, and the other in long ones."""
    for path, _ in foreign_files(models=["phi3"], exporters=["onnxruntime-genai"], optimizers=[""]):
        whole = inspected(path, BOUND)
        model = onnx.load(path)
    assert (only(whole).name, only(whole).rows) == ("longrope", 96)
    assert not fails(whole, (), BOUND)
    stored = [*model.graph.initializer, *branch_tensors(model)]
    (tensor,) = (entry for entry in stored if entry.name == table)
    numbers = numpy_helper.to_array(tensor).copy()
    numbers[row, 3] += 0.01
    tensor.CopyFrom(numpy_helper.from_array(numbers, table))
    onnx.save(model, tmp_path / "wrong.onnx")
    wrong = inspected(tmp_path / "wrong.onnx", BOUND)
    (off,) = (entry for entry in wrong.findings if entry.code == "PE204")
    assert table.startswith(off.where), "the table, or what the operator reads"
    # a wrong number of the short table moves the factor that all of its rows have
    assert "large" not in table or f"from position {row} on" in off.detail
    assert fails(wrong, (), BOUND)


def branch_tensors(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """Return the tensors of the branches of an If, by their names."""
    branches = [entry.g for node in model.graph.node if node.op_type == "If" for entry in node.attribute]
    constants = (node for branch in branches for node in branch.node if node.op_type == "Constant")
    named = [(node.output[0], node.attribute[0].t) for node in constants]
    for name, tensor in named:
        tensor.name = name
    return [tensor for _, tensor in named]
