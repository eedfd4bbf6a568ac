"""What ends behind a table: buffers that can be continued grow, others are the next wall, and it is named."""

from pathlib import Path

import numpy as np
import pytest

from helpers.graph_files import written
from helpers.longer import BUFFERED, ROWS, buffered, longer, session
from posenc_export.common.errors import BadInput
from posenc_export.read.extend.lines import extension_lines
from posenc_export.read.extend.model import Model
from posenc_export.read.extend.result import Grown
from posenc_export.read.extend.walls import _continued
from posenc_export.read.extend.work import extended
from posenc_export.read.values import Array

LENGTH = 300


def test_buffers_behind_a_table_grow_until_no_wall_is_left(tmp_path: Path) -> None:
    work = longer(buffered(tmp_path), LENGTH)
    assert {buffer.name for buffer in work.grown} == {"position_ids", "token_type_ids"}
    assert set(work.grown) == {Grown(buffer.name, ROWS, LENGTH) for buffer in work.grown}
    result, _ = extended(work.request)
    assert (result.walls, result.reached) == ((), LENGTH)
    assert Model.load(work.place).array("position_ids").tolist() == [list(range(LENGTH))]
    ids = np.arange(LENGTH)[None] % 97
    (hidden,) = session(work.place).run(None, {"input_ids": ids})
    assert hidden.shape == (1, LENGTH, 16)


def test_a_buffer_that_nothing_continues_is_the_next_wall(tmp_path: Path) -> None:
    kinds = np.random.default_rng(0).integers(0, 2, (1, ROWS))
    work = longer(buffered(tmp_path, token_type_ids=kinds), LENGTH)
    result, _ = extended(work.request)
    assert [wall.last for wall in result.walls] == [ROWS]
    assert not result.passed
    first, second, *_ = extension_lines(result)
    assert first == f"FAILED: {result.out} is written, and positions end before {LENGTH}"
    assert second.startswith(f"next wall: correct up to {ROWS}; ")
    assert {buffer.name for buffer in work.grown} == {"position_ids"}


def test_a_learned_table_is_refused(tmp_path: Path) -> None:
    table = np.random.default_rng(1).standard_normal((ROWS, 16)).astype(np.float32)
    with pytest.raises(BadInput, match="learned table of 48 rows: no formula"):
        longer(buffered(tmp_path, table=table), LENGTH)


def test_a_learned_table_beside_another_is_the_next_wall(tmp_path: Path) -> None:
    body = BUFFERED.replace("types = Gather (type_rows, kinds)", "types = Gather (type_rows, places)")
    work = longer(buffered(tmp_path), LENGTH)
    tables = {name: Model.load(tmp_path / "g.onnx").array(name) for name in ("words", "table", "position_ids")}
    rows = np.random.default_rng(1).standard_normal((ROWS, 16)).astype(np.float32)
    path = written(tmp_path, body, {**tables, "type_rows": rows, "token_type_ids": np.zeros((1, 1), np.int64)})
    with pytest.raises(BadInput, match="say which one is meant by --encoding"):
        longer(path, LENGTH)
    work = longer(path, LENGTH, encoding="table")
    result, _ = extended(work.request)
    assert [wall.last for wall in result.walls] == [ROWS]
    assert [table.new_rows for table in work.tables] == [LENGTH]


LOW = np.tril(np.ones((1, 1, 6, 6), bool))
CONTINUED: dict[str, tuple[Array, Array | None]] = {
    "counts": (np.arange(2, 8)[None], np.arange(2, 12)[None]),
    "zeros": (np.zeros((1, 6), np.int64), np.zeros((1, 10), np.int64)),
    "the same vector at each place": (np.ones((6, 3), np.float32), np.ones((10, 3), np.float32)),
    "a triangle": (LOW, np.tril(np.ones((1, 1, 10, 10), bool))),
    "numbers of no order": (np.array([[3, 1, 4, 1, 5, 9]]), None),
    "a square of no order": (np.arange(36).reshape(6, 6), None),
    "another size": (np.arange(5), None),
}


@pytest.mark.parametrize("name", CONTINUED)
def test_buffers_are_continued_as_they_begin(name: str) -> None:
    array, expected = CONTINUED[name]
    made = _continued(array, 6, 10)
    if expected is None:
        assert made is None
    else:
        assert made is not None
        assert made.dtype == array.dtype
        assert np.array_equal(made, expected)
