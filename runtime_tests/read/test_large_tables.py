"""Tables of 131072 rows: every row is measured, layers that store the same again share the work, files are mapped."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.costs import cost_of_inspecting
from helpers.large_decoders import Decoder, change_row, write_decoder
from posenc.formulas.parts.cos_sin_rows import rows_of
from posenc_export.read.errors.by_position import Floats
from posenc_export.read.errors.tables import Effort, table_errors
from posenc_export.read.examine import Examining, examine
from posenc_export.read.facts import facts_of
from posenc_export.read.graph.read import read_graph
from posenc_export.read.graph.store import MAPPED, part_of
from posenc_export.read.inspection import SCHEMA_VERSION, Errors, FoundEncoding, Inspection
from posenc_export.read.interpret.run import interpret
from posenc_export.read.recognise.rotary.encodings import rotary_of
from posenc_export.read.recognise.rotary.rows import MANY
from posenc_export.read.report.schema import inspection_json, inspection_read
from posenc_export.read.report.text import body_lines

ROWS = MANY + 3000
INV_FREQ = 10000.0 ** (-np.arange(0, 16, 2) / 16)
EXACT = rows_of(INV_FREQ, 1.0)
SOME = np.arange(0, ROWS, 7)


def cosines() -> NDArray[np.float32]:
    """Return a table whose columns are there twice, as Llama's are."""
    return np.tile(np.cos(np.arange(ROWS)[:, None] * INV_FREQ), (1, 2)).astype(np.float32)


def inspected(path: Path) -> Inspection:
    """Inspect a file as the command does, in this process."""
    graph = read_graph(path)
    return examine(graph, facts_of(graph, path.name), Examining(path.name, None, 60, lambda _: None))


@pytest.mark.parametrize(("row", "column"), [(5003, 0), (ROWS - 2, 15)], ids=["left half", "right half"])
def test_a_wrong_number_in_one_of_many_layers_is_seen(tmp_path: Path, row: int, column: int) -> None:
    decoder = Decoder(3, ROWS, width=16)
    path = write_decoder(tmp_path / "decoder.onnx", decoder)
    change_row(path, decoder, 1, row, column)
    inspection = inspected(path)
    words = f"rotary: off by more than 0.001 from position {row:,} on"
    findings = [(finding.name, finding.where, finding.detail[: len(words)]) for finding in inspection.findings]
    assert ("off-formula", "cos1", words) in findings
    (errors,) = [encoding.errors for encoding in inspection.encodings]
    assert errors is not None
    assert (errors.sampled, errors.tensor, errors.exceeds_from) == (None, "cos1", row)


def test_right_tables_have_no_finding_but_their_end(tmp_path: Path) -> None:
    inspection = inspected(write_decoder(tmp_path / "decoder.onnx", Decoder(2, ROWS, width=16)))
    assert [finding.name for finding in inspection.findings] == ["ends"]
    lines = list(body_lines(inspection))
    assert any(line.startswith("  error against float64: at most 3e-08, at position") for line in lines), lines


class TestTableErrors:
    def test_equal_blocks_are_measured_once_and_others_are_all_measured(self) -> None:
        asked = []

        def exact(positions: NDArray[np.int64]) -> Floats:
            asked.append(len(positions))
            return EXACT(positions)

        wrong = cosines()
        wrong[4321, 3] += 0.25
        first = table_errors([("a", cosines()), ("b", cosines())], exact, SOME, Effort())
        once = sum(asked)
        measured = table_errors([("a", cosines()), ("b", cosines()), ("c", wrong)], exact, SOME, Effort())
        assert first is not None
        assert measured is not None
        assert once <= 2 * len(SOME) + 2 * ROWS
        assert (first.rows, measured.rows, measured.tensor) == (ROWS, ROWS, "c")
        assert first.errors.max() < 1e-7
        assert np.flatnonzero(measured.errors > 1e-7).tolist() == [4321]
        assert measured.errors[4321] == pytest.approx(0.25, abs=1e-6)

    def test_nan_is_an_error(self) -> None:
        table = cosines()
        table[9000, 15] = np.nan
        measured = table_errors([("a", cosines()), ("b", table)], EXACT, SOME, Effort())
        assert measured is not None
        assert np.flatnonzero(~(measured.errors < 1e-7)).tolist() == [9000]
        assert measured.tensor == "b"

    def test_rows_are_sampled_where_the_effort_is_spent(self) -> None:
        measured = table_errors([("a", cosines())], EXACT, SOME, Effort(numbers=1000))
        assert measured is not None
        assert measured.rows == len(SOME)
        assert measured.positions.tolist() == SOME.tolist()

    def test_tables_without_columns_of_the_form_are_left_out(self) -> None:
        assert table_errors([("a", np.full((ROWS, 16), 3, np.float32))], EXACT, SOME, Effort()) is None


def test_sampled_rows_are_said_to_be() -> None:
    errors = Errors((0, 9), (0.0, 1e-7), 1e-3, None, sampled=8192, tensor="cos")
    where = ((), (), ("cos",), ("cos",))
    encoding = FoundEncoding("rotary", "default", {}, (), *where, "float32", 131072, "range", error=1e-7, errors=errors)
    inspection = Inspection(SCHEMA_VERSION, "m.onnx", 1, {}, (), (encoding,))
    words = "  error against float64, of 8,192 sampled rows of 131,072: at most 1e-07, at position 9"
    assert words in list(body_lines(inspection))
    assert inspection_read(json.dumps(inspection_json(inspection))) == inspection


def test_the_form_of_a_large_table_is_that_of_a_small_one(tmp_path: Path) -> None:
    forms = []
    for name, rows in (("small", 2048), ("large", ROWS)):
        graph = read_graph(write_decoder(tmp_path / f"{name}.onnx", Decoder(1, rows, (500000.0,), width=32)))
        (named,) = rotary_of(interpret(graph))
        forms.append((named.form, named.rows))
    assert forms[0][0].parameters == forms[1][0].parameters
    assert [rows for _, rows in forms] == [2048, ROWS]


def test_rows_of_a_block_are_those_of_the_formula() -> None:
    angles = 131072 * 1.0
    for start in (0, 1, 77777, 130000):
        positions = np.arange(start, start + 1024)
        direct = EXACT(positions[::2])
        assert np.abs(EXACT(positions)[::2] - direct).max() <= 4 * angles * 2.0**-53


def test_a_large_part_of_a_file_is_mapped_and_a_short_one_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(np.arange(MAPPED, dtype=np.uint32).tobytes())
    assert isinstance(part_of(path, 12, 40), bytes)
    part = part_of(path, 12, MAPPED)
    assert isinstance(part, memoryview)
    assert np.array_equal(np.frombuffer(part, np.uint32), np.arange(3, 3 + MAPPED // 4))


@pytest.mark.exhaustive
def test_tables_of_all_layers_take_less_memory_than_they_have(tmp_path: Path) -> None:
    path = write_decoder(tmp_path / "decoder.onnx", Decoder(24, 131072, width=64))
    assert path.with_suffix(".data").stat().st_size == 24 * 2 * 2**25
    cost = cost_of_inspecting(path)
    assert cost.status == 0, cost.lines
    assert any("error against float64: at most" in line for line in cost.lines), cost.lines
    assert cost.peak < 800
