"""Rotary forms that switch by the length of a call are named with both sides."""

from pathlib import Path

import numpy as np
import pytest

from helpers.rotary_graphs import DIM, Sheet, layer
from posenc_export.read.graph.read import read_graph
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.other_lengths import refit_by_length
from posenc_export.read.recognise.named import Named
from posenc_export.read.recognise.rotary.encodings import rotary_of

CONTEXT = 24
PAIRS = DIM // 2
DEFAULT = 1e4 ** (-np.arange(PAIRS) / PAIRS)
SHORT, LONG = 1 + np.arange(PAIRS) / 8, 2 + np.arange(PAIRS) / 4


def turned(sheet: Sheet, inv_freq: str) -> str:
    """Turn queries and keys by frequencies that the graph makes."""
    axes = [sheet.keep(np.array([axis], np.int64)) for axis in (2, 1)]
    ids = sheet.op("Unsqueeze", sheet.op("Cast", "position_ids", to=1), axes[0])
    angles = sheet.op("Mul", ids, inv_freq)
    both = sheet.op("Unsqueeze", sheet.op("Concat", angles, angles, axis=-1), axes[1])
    return layer(sheet, sheet.op("Cos", both), sheet.op("Sin", both))


def length(sheet: Sheet) -> str:
    """Return the number of tokens, a float."""
    size = sheet.op("Shape", "position_ids", start=1, end=2)
    return sheet.op("Cast", size, to=1)


def chosen(sheet: Sheet, short: np.ndarray, long: np.ndarray) -> str:
    """Return the frequencies of a call: those of a longer one beyond the context."""
    is_long = sheet.op("Greater", length(sheet), sheet.keep(np.array([CONTEXT], np.float32)))
    sides = [sheet.keep(side.astype(np.float32)) for side in (long, short)]
    return sheet.op("Where", is_long, *sides)


def grown(sheet: Sheet, factor: float) -> str:
    """Return the frequencies of dynamic NTK, whose base grows with the length."""
    context = sheet.keep(np.array([CONTEXT], np.float32))
    longest = sheet.op("Max", length(sheet), context)
    stretch = sheet.op("Mul", sheet.op("Div", longest, context), sheet.keep(np.array([factor], np.float32)))
    stretch = sheet.op("Sub", stretch, sheet.keep(np.array([factor - 1], np.float32)))
    power = sheet.keep(np.array([PAIRS / (PAIRS - 1)], np.float32))
    base = sheet.op("Mul", sheet.op("Pow", stretch, power), sheet.keep(np.array([1e4], np.float32)))
    return sheet.op("Pow", base, sheet.keep((-np.arange(PAIRS) / PAIRS).astype(np.float32)))


def named(sheet: Sheet, folder: Path, output: str) -> Named:
    run = sheet.run(folder, output)
    (entry,) = refit_by_length(read_graph(folder / "model.onnx"), run, rotary_of(run), Budget())
    return entry


def test_longrope_has_the_divisors_of_both_sides(tmp_path: Path) -> None:
    sheet = Sheet()
    entry = named(sheet, tmp_path, turned(sheet, chosen(sheet, DEFAULT / SHORT, DEFAULT / LONG)))
    parameters = entry.form.parameters
    assert (entry.form.name, parameters["rope_theta"], parameters["layout"]) == ("longrope", 1e4, "halves")
    assert parameters["original_max_position_embeddings"] == CONTEXT
    assert parameters["short_factor"] == pytest.approx(tuple(SHORT), rel=1e-12)
    assert parameters["long_factor"] == pytest.approx(tuple(LONG), rel=1e-12)
    assert entry.form.exact is not None
    np.testing.assert_allclose(entry.form.exact(np.array([1]))[0, :PAIRS], np.cos(DEFAULT / LONG), rtol=1e-12)


def test_dynamic_has_its_factor(tmp_path: Path) -> None:
    sheet = Sheet()
    entry = named(sheet, tmp_path, turned(sheet, grown(sheet, 4.0)))
    parameters = entry.form.parameters
    assert (entry.form.name, parameters["rope_theta"], parameters["factor"]) == ("dynamic", 1e4, 4.0)
    assert parameters["max_position_embeddings"] == CONTEXT


def test_sides_of_no_known_form_are_both_said(tmp_path: Path) -> None:
    sheet = Sheet()
    long = 1e6 ** (-np.arange(PAIRS) / PAIRS)
    entry = named(sheet, tmp_path, turned(sheet, chosen(sheet, DEFAULT, long)))
    sides = [entry.form.parameters[side] for side in ("short", "long")]
    assert (entry.form.name, sides) == (
        "unknown frequencies",
        ["default rope_theta=10000", "default rope_theta=1e+06"],
    )
