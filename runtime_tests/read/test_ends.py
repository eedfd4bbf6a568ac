"""Where positions end: the last length that is right, to the unit, as ONNX Runtime stops, and where it does not."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import posenc_export
from helpers.graph_files import exported, graph, runs, written
from helpers.position_modules import Alibi, Learned, Relative, Rotary
from posenc_export.read.ends import MAX_LENGTH, find_end, search_end
from posenc_export.read.graph.read import read_graph
from posenc_export.read.values import Array

CASES: dict[str, tuple[nn.Module, int, str, bool]] = {
    "a learned table": (Learned(48), 48, "refuses", False),
    "a learned table whose first rows are left out": (Learned(50, 2), 48, "refuses", False),
    "MPT's biases": (Alibi(256), 256, "broadcasts", True),
    "a conformer's distances": (Relative(40), 40, "broadcasts", True),
    "those of a conformer of 500 frames": (Relative(500), 500, "broadcasts", True),
}


def file_of(folder: Path, module: nn.Module, dynamo: bool = False) -> Path:
    ids = torch.tensor([[5, 7, 11, 13, 17]])
    return exported(folder, module, [("input_ids", ids, ("batch", "sequence"))], dynamo)


def ids(length: int) -> dict[str, Array]:
    return {"input_ids": np.full((1, length), 7)}


@pytest.mark.parametrize("name", CASES)
def test_the_end_is_the_last_right_length(name: str, tmp_path: Path) -> None:
    module, last, beyond, runs_on = CASES[name]
    path = file_of(tmp_path, module)
    end = find_end(read_graph(path))
    assert end is not None
    assert (end.last, end.beyond, end.axis) == (last, beyond, "length")
    assert runs(path, ids(last))
    assert runs(path, ids(last + 1)) is runs_on


STRIDED = """strided (float[1, frames, 8] x) => (float[1, a, b] y, float[1, c, 8] z) {
    zero = Constant <value_ints = [0]> ()  one = Constant <value_ints = [1]> ()  two = Constant <value_ints = [2]> ()
    far = Constant <value_ints = [99999999]> ()  half = Slice (x, zero, far, one, two)  z = Relu (half)
    quarter = Slice (z, zero, far, one, two)  shape = Shape (quarter)  count = Gather (shape, single)
    past = Sub (single, count)  places = Range (past, count, single)  numbers = Cast <to = 1> (places)
    column = Unsqueeze (numbers, one)  angles = Mul (column, frequencies)  sines = Sin (angles)
    rows = MatMul (sines, weights)  turned = Transpose <perm = [1, 0]> (rows)  y = MatMul (quarter, turned) }"""


def test_distances_of_a_quarter_of_the_frames_have_no_end(tmp_path: Path) -> None:
    """At each fourth length a quarter has as many distances, 2 n - 1, as a half has frames: they do not follow it."""
    weights = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    tables = {"single": np.array(1), "frequencies": (1e4 ** (-np.arange(8) / 8)).astype(np.float32), "weights": weights}
    path = written(tmp_path, STRIDED, tables)
    assert runs(path, {"x": np.zeros((1, 255, 8), np.float32)})
    assert find_end(read_graph(path), max_length=4099) is None


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[3]])
def test_a_file_that_runs_on_is_an_error(name: str, tmp_path: Path) -> None:
    module, last, _, _ = CASES[name]
    (found,) = posenc_export.inspect(file_of(tmp_path, module)).findings
    assert (found.code, found.severity) == ("PE202", "error")
    words = f"right up to a length of {last}; at {last + 1} it runs on with too few positions: 1 places of positions"
    assert found.detail.startswith(words)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CASES)
def test_the_end_of_files_by_the_new_exporter(name: str, tmp_path: Path) -> None:
    module, last, _, _ = CASES[name]
    path = file_of(tmp_path, module, dynamo=True)
    end = find_end(read_graph(path))
    assert end is not None
    assert end.last == last
    assert runs(path, ids(last))
    assert runs(path, ids(last + 1)) is (end.beyond != "refuses")


@pytest.mark.parametrize("layout", ["half", "pairs"])
def test_positions_that_are_computed_do_not_end(layout: str, tmp_path: Path) -> None:
    path = file_of(tmp_path, Rotary(layout))
    searched = search_end(read_graph(path))
    assert (searched.end, searched.right, searched.reason) == (None, MAX_LENGTH, "")
    assert runs(path, ids(2000))


def test_an_end_that_is_no_matter_of_positions_does_not_count(tmp_path: Path) -> None:
    body = """g (float[1, sequence, 4] inputs_embeds) => (float y) {
        n = Constant <value_ints = [16]> ()  zero = Constant <value_ints = [0]> ()
        axis = Constant <value_ints = [1]> ()
        few = Slice (inputs_embeds, zero, n, axis)  y = Add (few, inputs_embeds)
    }"""
    path = written(tmp_path, body)
    assert not runs(path, {"inputs_embeds": np.ones((1, 17, 4), np.float32)})
    searched = search_end(read_graph(path))
    assert (searched.end, searched.right) == (None, 16)
    assert searched.reason.startswith("at 17, it stops for another reason: Add#")


def test_a_search_says_what_it_could_not_follow(tmp_path: Path) -> None:
    body = """g (int64[1, sequence] position_ids, float[1, sequence, 4] x) => (float y) {
        rows = com.microsoft.Tulip (x)  y = Add (rows, x)
    }"""
    searched = search_end(graph(tmp_path, body))
    assert searched.end is None
    assert searched.reason == "2 values are not known: the shape of Tulip is not known"


def test_positions_that_stay_at_the_last_row_end_there(tmp_path: Path) -> None:
    body = """g (int64[1, sequence] position_ids, float[1, sequence, 4] x) => (float y) {
        last = Constant <value = int64 {39}> ()  ids = Min (position_ids, last)
        rows = Gather (table, ids)  y = Add (x, rows)
    }"""
    end = find_end(graph(tmp_path, body, {"table": np.arange(160, dtype=np.float32).reshape(40, 4)}))
    assert end is not None
    assert (end.last, end.beyond) == (40, "repeats")


@pytest.mark.parametrize("operator", ["MatMul", "MatMulNBits"])
def test_distances_that_a_weight_takes_in_end(operator: str, tmp_path: Path) -> None:
    """What a quantizer made of the product is a product, too: rows that are too few do not show in its data."""
    quantised = "com.microsoft.MatMulNBits <K = 32, N = 32, bits = 4, block_size = 32> (rows, low, scale)"
    product = "MatMul (rows, weight)" if operator == "MatMul" else quantised
    body = f"""g (float[1, sequence, 32] x) => (float y) {{
        length = Shape <start = 1, end = 2> (x)  zero = Constant <value_ints = [0]> ()
        last = Constant <value_ints = [39]> ()  one = Constant <value_ints = [1]> ()
        below = Sub (last, length)  first = Add (below, one)  begin = Max (first, zero)  above = Add (last, length)
        rows = Slice (table, begin, above, zero)  taken = {product}
        turned = Transpose <perm = [1, 0]> (taken)  y = MatMul (x, turned)
    }}"""
    tables: dict[str, Array] = {
        "table": np.random.default_rng(0).standard_normal((79, 32)).astype(np.float32),
        "weight": np.ones((32, 32), np.float32),
        "low": np.zeros((32, 1, 16), np.uint8),
        "scale": np.ones(32, np.float32),
    }
    end = find_end(graph(tmp_path, body, tables))
    assert end is not None
    assert (end.last, end.beyond) == (40, "broadcasts")


def test_a_graph_that_goes_through_at_its_traced_length_alone_ends_there(tmp_path: Path) -> None:
    """An optimizer for GPT-2 has made a conformer so: its shapes are stored as they were traced."""
    body = """g (int64[1, sequence] position_ids, float[1, sequence, 4] x) => (float y) {
        rows = Gather (table, position_ids)  sum = Add (x, rows)
        traced = Constant <value_ints = [1, 23, 2, 2]> ()  y = Reshape (sum, traced)
    }"""
    path = written(tmp_path, body, {"table": np.random.default_rng(0).standard_normal((64, 4)).astype(np.float32)})
    for count in (22, 23, 24):
        feeds: dict[str, Array] = {"position_ids": np.arange(count)[None], "x": np.ones((1, count, 4), np.float32)}
        assert runs(path, feeds) is (count == 23)
    end = find_end(read_graph(path))
    assert end is not None
    assert (end.last, end.beyond) == (23, "refuses")
    assert end.reason.endswith("this one alone goes through: (1, 24, 4) cannot take the shape [1, 23, 2, 2]")
    # rows drawn at random are a table without a name
    said = {found.code: found.detail for found in posenc_export.inspect(path).findings}
    assert "right up to a length of 23; longer calls are refused" in said["PE201"], said


def test_long_tables_end_to_the_unit(tmp_path: Path) -> None:
    body = """g (int64[1, sequence] position_ids, float[1, sequence, 4] x) => (float y) {
        rows = Gather (table, position_ids)  y = Mul (x, rows)
    }"""
    end = find_end(graph(tmp_path, body, {"table": np.ones((131072, 4), np.float32)}))
    assert end is not None
    assert end.last == 131072


def test_a_graph_of_a_fixed_length_has_no_end_to_look_for(tmp_path: Path) -> None:
    body = "g (int64[1, 16] input_ids) => (float y) { y = Gather (table, input_ids) }"
    assert find_end(graph(tmp_path, body, {"table": np.ones((64, 4), np.float32)})) is None


def test_digits_of_positions_that_are_read_again_are_no_end(tmp_path: Path) -> None:
    body = """g (int64[1, sequence] position_ids, float[1, sequence, 4] x) => (float y) {
        base = Constant <value = int64 {64}> ()  high = Div (position_ids, base)  low = Mod (position_ids, base)
        tens = Gather (high_rows, high)  ones = Gather (low_rows, low)  rows = Add (tens, ones)  y = Add (x, rows)
    }"""
    low, high = np.arange(64.0).repeat(4).reshape(64, 4), 64 * np.arange(100.0).repeat(4).reshape(100, 4)
    tables = {"low_rows": low.astype(np.float32), "high_rows": high.astype(np.float32)}
    end = find_end(graph(tmp_path, body, tables))
    assert end is not None
    assert (end.last, end.beyond) == (6400, "refuses")


class Clipped(nn.Module):
    """Scores of as many distances as tokens have, 40 each way at most, of which places take theirs: DeBERTa's."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.rows, self.take = nn.Embedding(64, 32), nn.Embedding(80, 32), nn.Linear(32, 32)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        x, count = self.words(input_ids), torch.arange(input_ids.shape[1])
        span = torch.sym_min(input_ids.shape[1], 40)
        scores = x @ self.take(self.rows.weight[40 - span : 40 + span][None]).transpose(1, 2)
        index = (count[:, None] - count + span).clamp(0, 2 * span - 1)
        weights = (x @ x.transpose(1, 2) + scores.gather(-1, index.expand(x.shape[0], -1, -1))).softmax(-1)
        mixed: torch.Tensor = weights @ x
        return mixed


def test_distances_that_are_clipped_have_no_end(tmp_path: Path) -> None:
    path = file_of(tmp_path, Clipped(), dynamo=True)
    assert runs(path, ids(60))
    assert find_end(read_graph(path)) is None
