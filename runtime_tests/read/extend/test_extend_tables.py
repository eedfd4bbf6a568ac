"""Tables of other exporters' files, extended: every row is that of the formula in float64, computed in another way."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper

from helpers.foreign.files import foreign_table
from helpers.longer import buffered, foreign_file, longer, sinusoids
from posenc.rope_types import ROPE_TYPES
from posenc_export.common.errors import BadInput
from posenc_export.read.extend.held import held
from posenc_export.read.extend.model import Model
from posenc_export.read.values import Array

LENGTH = 700
OF_PLACE = {"head_dim", "rotary_dim", "layout", "attention_factor", "rope_theta", "rows"}
QUICK = ("llama.mobius.onnx", "roformer.plain-old.common-float16.onnx")
OTHERS = (
    "llama.onnxruntime-genai.onnx",
    "llama-linear.mobius.onnx",
    "llama-yarn.mobius.onnx",
    "qwen2.mobius.onnx",
    "gptj.plain-old.onnx",
    "gptj.plain-new.onnx",
    "gptj.plain-old.ORT-float16.onnx",
    "gptj.optimum.onnx",
    "roformer.plain-new.onnx",
)
"""Tables of cosines and of sines, both in a table, in halves and side by side; of float16; initializers and nodes."""
FILES = (*QUICK, *(pytest.param(name, marks=pytest.mark.exhaustive) for name in OTHERS))


def by_formula(file: str, length: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return cosines and sines of a file's encoding, from its record and the references in float64."""
    record = next(truth for truth in foreign_table().truths if truth.file == file).held[0]
    parameters = {name: value for name, value in record.parameters.items() if name not in OF_PLACE}
    width, theta = record.parameters["rotary_dim"], record.parameters["rope_theta"]
    form = ROPE_TYPES[record.form].reference(width, theta, length, **parameters)
    # powers of one turn, and not angles: a way that shares nothing with the writer
    turns = np.exp(1j * form.inv_freq.astype(np.longdouble)) ** np.arange(length)[:, None]
    cos, sin = (np.asarray(form.attention_factor * part, np.float64) for part in (turns.real, turns.imag))
    return cos, sin


@pytest.mark.parametrize("name", FILES)
def test_each_row_is_that_of_the_formula(name: str) -> None:
    cos, sin = by_formula(name, LENGTH)
    with foreign_file(name) as path:
        work = longer(path, LENGTH)
        written = Model.load(work.place)
        assert work.tables
        for table in work.tables:
            rows = written.array(table.name).reshape(-1, written.array(table.name).shape[-1])
            assert (len(rows), rows.dtype.name) == (LENGTH, table.dtype)
            allowed = 3e-7 if table.dtype == "float32" else 2.0**-12
            pairs = cos.shape[1]
            for part in (rows[:, :pairs], rows[:, -pairs:]):
                off = min(np.abs(part.astype(np.float64) - wave).max() for wave in (cos, sin))
                assert off <= allowed * max(1.0, np.abs(cos).max())


def test_nothing_else_of_a_file_changes() -> None:
    with foreign_file("gptj.plain-old.onnx") as path:
        work = longer(path, LENGTH)
        before, after = (onnx.load(str(place)) for place in (path, work.place))
    names = {table.name for table in work.tables}
    for model in (before, after):
        for node in model.graph.node:
            if set(node.output) & names:
                node.ClearField("attribute")
        for tensor in [tensor for tensor in model.graph.initializer if tensor.name in names]:
            model.graph.initializer.remove(tensor)
        del model.graph.value_info[:]
    assert before.SerializeToString(deterministic=True) == after.SerializeToString(deterministic=True)


def test_rows_that_stay_keep_their_bits_and_the_seam_is_said() -> None:
    with foreign_file("llama.mobius.onnx") as path:
        work = longer(path, LENGTH, keep_rows=True)
        before, after = Model.load(path), Model.load(work.place)
    for table in work.tables:
        old, new = before.array(table.name), after.array(table.name)
        assert old.tobytes() == new[: len(old)].tobytes()
        assert table.old_error > 1e-7
        assert table.steps <= 0.5 + 1e-6
        assert any(table.name in note and "before row 48" in note for note in work.notes)


def test_two_tables_end_to_end_get_rows_behind_the_second() -> None:
    with foreign_file("phi3.mobius.onnx") as path:
        work = longer(path, LENGTH)
    assert {(table.rows, table.new_rows) for table in work.tables} == {(120, 24 + LENGTH)}


@pytest.mark.exhaustive
def test_the_table_of_a_branch_that_long_calls_take_is_the_one_that_grows() -> None:
    with foreign_file("phi3.onnxruntime-genai.onnx") as path:
        work = longer(path, LENGTH)
    assert {(table.name, table.rows, table.new_rows) for table in work.tables} == {
        ("cos_cache_large", 96, LENGTH),
        ("sin_cache_large", 96, LENGTH),
    }


def test_a_wrong_row_is_seen_when_it_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from posenc_export.read.extend import tables

    honest = held

    def wrong(numbers: NDArray[np.float64], dtype: np.dtype[np.generic]) -> Array:
        rounded = honest(numbers, dtype)
        rounded[5, 3] += 1e-6
        return rounded

    monkeypatch.setattr(tables, "held", wrong)
    with pytest.raises(ValueError, match=r"table is off by .* steps of float32"):
        longer(buffered(tmp_path), LENGTH)


def test_rows_of_another_form_are_refused(tmp_path: Path) -> None:
    table = sinusoids(48, 16).astype(np.float32)
    table[40:] = 0.5
    with pytest.raises(BadInput, match=r"row 4\d is off by"):
        longer(buffered(tmp_path, table=table), LENGTH)


def test_a_table_beside_the_model_goes_beside_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from posenc_export.read.extend import model as room

    monkeypatch.setattr(room, "EXTERNAL_FROM", 1)
    model = onnx.load(str(buffered(tmp_path)))
    path = tmp_path / "outside.onnx"
    onnx.save(model, str(path), save_as_external_data=True, location="weights.bin", size_threshold=0)
    before = (tmp_path / "weights.bin").read_bytes()
    work = longer(path, LENGTH)
    assert (tmp_path / "weights.bin").read_bytes() == before
    new = onnx.load(str(work.place), load_external_data=False)
    files = {
        tensor.name: next(entry.value for entry in tensor.external_data if entry.key == "location")
        for tensor in new.graph.initializer
        if tensor.data_location == onnx.TensorProto.EXTERNAL
    }
    assert files["table"] == "tables"
    assert files["words"] == "weights.bin"
    tensor = next(tensor for tensor in new.graph.initializer if tensor.name == "table")
    rows = numpy_helper.to_array(tensor, str(work.place.parent))
    assert np.abs(rows - sinusoids(LENGTH, 16)).max() < 1e-7
