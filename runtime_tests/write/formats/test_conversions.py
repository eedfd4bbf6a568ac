"""The table of docs/reference/measured/conversions.md: what needs no further package, measured again."""

import re
from pathlib import Path

import pytest

from helpers.made_parts import part_of
from scripts.conversions import PAGE, PART, half_row, ours, plain, single_row
from scripts.converters import BUT_ANGLES, HALVES, SINGLES

BY_ONNXRUNTIME = "onnxruntime.transformers float16"
SCHEMES = ("rope", "sinusoidal", "xpos")


def shown() -> dict[tuple[str, str], list[str]]:
    """What the table says of each tool and file."""
    part = part_of(PAGE, PART)
    lines = [line for line in part.splitlines() if line.startswith("|")][2:]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {(row[0], row[1]): row[2:] for row in rows}


def roundings(words: str) -> float:
    found = re.match(r"([\d.e+-]+) roundings", words)
    return float(found.group(1)) if found else float("inf")


def test_the_table_has_every_tool_and_file() -> None:
    files = {*SCHEMES, "rope, --method trig", "plain Sin and Cos"}
    assert {pair for pair in shown() if pair[0] not in BUT_ANGLES} == {
        (t, f) for t in (*HALVES, *SINGLES) for f in files
    }
    assert {tool for tool, _ in shown()} == {*HALVES, *BUT_ANGLES, *SINGLES}


def test_the_default_form_of_every_row_keeps_to_two_roundings_and_the_plain_export_does_not() -> None:
    for tool in HALVES:
        assert all(roundings(shown()[tool, scheme][0]) <= 2 for scheme in SCHEMES)
        assert roundings(shown()[tool, "plain Sin and Cos"][0]) > 100


@pytest.mark.parametrize("file", ["rope", pytest.param("plain Sin and Cos", marks=pytest.mark.exhaustive)])
def test_float16_by_onnxruntime_is_as_the_table_says(tmp_path: Path, file: str) -> None:
    path = ours(tmp_path, "rope") if file == "rope" else plain(tmp_path)
    row, (off, refuses, _) = half_row(path, HALVES[BY_ONNXRUNTIME]), shown()[BY_ONNXRUNTIME, file]
    assert roundings(row.off) == pytest.approx(roundings(off), rel=0.1)
    assert row.refuses == refuses


@pytest.mark.exhaustive
def test_quantized_tables_are_as_the_table_says(tmp_path: Path) -> None:
    path = ours(tmp_path, "rope")
    off, refuses, _ = shown()["quantize_dynamic", "rope"]
    row = single_row(path, SINGLES["quantize_dynamic"])
    assert float(row.off) == pytest.approx(float(off), rel=0.1)
    assert row.refuses == refuses
    assert single_row(path, SINGLES["quantize_dynamic, MatMul alone"]).off == "same bits"


@pytest.mark.exhaustive
def test_no_list_of_nodes_helps_the_converter_of_onnxruntime(tmp_path: Path) -> None:
    """Should this fail, a release of ONNX Runtime has mended its converter: then a bundle may come with such a list."""
    tool = f"{BY_ONNXRUNTIME}, angles in node_block_list"
    assert "does not load" in half_row(ours(tmp_path, "rope", "trig"), BUT_ANGLES[tool]).refuses
