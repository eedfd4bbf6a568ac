"""Graphs that do not go through at usual sizes are read at others: short tables, short sounds, images of one size."""

from pathlib import Path

import numpy as np
import pytest

from helpers.graph_files import graph
from helpers.written_graphs import FLOAT, node, save, value
from helpers.written_graphs import graph as made
from posenc_export.read.ends import find_end
from posenc_export.read.first_run import first_run, is_spent
from posenc_export.read.graph.read import read_graph
from posenc_export.read.inputs import taken
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.interpret.run import interpret
from posenc_export.read.recognise.encodings import encodings_of
from posenc_export.read.values import Array

DRAW = np.random.default_rng(0)
LEARNED = """g (int64[1, sequence] position_ids, float[1, sequence, 16] x) => (float y) {
    rows = Gather (table, position_ids)  y = Add (x, rows)
}"""
SOUND = """g (float[batch, samples] input_values) => (float y) {
    one = Constant <value_ints = [1]> ()  sound = Unsqueeze (input_values, one)
    heard = Conv <strides = [4]> (sound, kernel)  x = Transpose <perm = [0, 2, 1]> (heard)
    shape = Shape <start = 1, end = 2> (x)  zero = Constant <value_ints = [0]> ()
    rows = Slice (table, zero, shape)  y = Add (x, rows)
}"""
IMAGE = """g (float[batch, 3, height, width] pixel_values) => (float y) {
    patches = Conv <strides = [8, 8]> (pixel_values, kernel)
    flat = Constant <value_ints = [0, 16, -1]> ()  places = Reshape (patches, flat)
    x = Transpose <perm = [0, 2, 1]> (places)  y = Add (x, table)
}"""


def numbers(*shape: int) -> Array:
    return DRAW.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("body", "tables", "rows"),
    [
        (LEARNED, {"table": numbers(7, 16)}, 7),
        (SOUND, {"kernel": numbers(16, 1, 4), "table": numbers(50, 16)}, 50),
        (IMAGE, {"kernel": numbers(16, 3, 8, 8), "table": numbers(1, 49, 16)}, 49),
    ],
    ids=["a short table", "a short sound", "an image of 56 by 56"],
)
def test_rows_are_named_at_sizes_that_fit_them(body: str, tables: dict[str, Array], rows: int, tmp_path: Path) -> None:
    read = graph(tmp_path, body, tables)
    assert interpret(read).stopped is not None
    (named,) = encodings_of(first_run(read, Budget()))
    assert (named.form.family, named.rows) == ("learned", rows)


def test_the_end_of_a_short_sound_is_found(tmp_path: Path) -> None:
    end = find_end(graph(tmp_path, SOUND, {"kernel": numbers(16, 1, 4), "table": numbers(50, 16)}))
    assert end is not None
    # 50 frames of 4 samples, and 3 more of which no frame is made
    assert (end.axis, end.last) == ("samples", 203)


def test_a_graph_that_goes_through_nowhere_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    read = graph(tmp_path, LEARNED, {"table": numbers(1, 16)})
    assert first_run(read, Budget()).stopped == interpret(read).stopped


def test_a_budget_that_is_spent_is_not_spent_again(tmp_path: Path) -> None:
    run = first_run(graph(tmp_path, LEARNED, {"table": numbers(64, 16)}), Budget(nodes=1))
    assert is_spent(run)
    assert run.stopped is not None
    assert "1 nodes" in run.stopped[0]


def test_names_of_digits_are_sizes(tmp_path: Path) -> None:
    """The exporter of transformers writes a fixed side as an axis of the name 32."""
    content = made([node("Neg", "x", "y")], "", "y")
    content.input.extend([value("x", FLOAT, "s99", "3", "32", "s32")])
    assert read_graph(save(tmp_path / "m.onnx", content)).inputs[0].shape == ("s99", 3, 32, "s32")


def test_data_whose_tokens_come_first_are_read_at_several_tokens(tmp_path: Path) -> None:
    """Axes without names of (length, batch, features), as torch.export writes them: one token would have one angle."""
    body = """g (float[s48, s63, 16] x) => (float[s48, s63, 16] y) {
        zero = Constant <value_int = 0> ()  one = Constant <value_int = 1> ()  by = Constant <value_ints = [1, 2]> ()
        shape = Shape (x)  length = Gather (shape, zero)  count = Range (zero, length, one)
        places = Cast <to = 1> (count)  row = Unsqueeze (places, by)  h = Mul (row, inv_freq)
        a = Concat <axis = -1> (h, h)  c = Cos (a)  s = Sin (a)  sizes = Constant <value_ints = [8, 8]> ()
        x1, x2 = Split <axis = -1> (x, sizes)  m2 = Neg (x2)  t = Concat <axis = -1> (m2, x1)
        qc = Mul (x, c)  qs = Mul (t, s)  y = Add (qc, qs) }"""
    inv_freq = (1e4 ** (-np.arange(8) / 8)).astype(np.float32)
    _, run, _ = taken(graph(tmp_path, body, {"inv_freq": inv_freq}), Budget())
    (named,) = encodings_of(run)
    assert (named.form.name, named.form.parameters["rope_theta"]) == ("default", 1e4)
