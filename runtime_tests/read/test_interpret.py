"""A graph interpreted at sizes: constants stay closed, positions are computed, data carry their shape."""

from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.graph_files import exported, graph
from helpers.position_modules import Learned, Relative, Rotary
from posenc_export.read.graph import Graph
from posenc_export.read.graph.read import read_graph
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.interpret.run import interpret
from posenc_export.read.interpret.settle import settle
from posenc_export.read.interpret.sizes import default_sizes, lengths
from posenc_export.read.values import Array, Constant, Data, Meeting, Position, Run, Unknown

IDS = "int64[batch, sequence] input_ids"


def meeting(run: Run, op_type: str) -> Meeting:
    return next(item for item in run.meetings if item.op_type == op_type)


def position(run: Run, item: Meeting) -> Position:
    values = [operand.value for operand in item.operands if operand]
    return next(value for value in values if isinstance(value, Position))


def interpreted(folder: Path, body: str, **tables: Array) -> Run:
    return interpret(graph(folder, body, tables))


def test_cosines_of_a_model_meet_its_queries(tmp_path: Path) -> None:
    ids = torch_ids()
    found = read_graph(exported(tmp_path, Rotary(), [("input_ids", ids, ("batch", "sequence"))]))
    run = interpret(found, {"sequence": 13})
    assert run.stopped is None
    items = [item for item in run.meetings if item.op_type == "Mul"]
    cos, sin = (position(run, item) for item in items)
    angles = np.arange(13)[:, None] * 10000.0 ** (-np.arange(4) / 4)
    np.testing.assert_allclose(cos.array.astype(float), np.cos(np.tile(angles, 2)), atol=1e-6)
    np.testing.assert_allclose(sin.array.astype(float), np.sin(np.tile(angles, 2)), atol=1e-6)
    assert cos.sizes
    assert not cos.inputs
    assert cos.stored


def torch_ids() -> torch.Tensor:
    return torch.tensor([[5, 7, 11, 13, 17, 19, 23, 29]])


def test_words_are_data_and_rows_of_positions_are_not(tmp_path: Path) -> None:
    found = read_graph(exported(tmp_path, Learned(), [("input_ids", torch_ids(), ("batch", "sequence"))]))
    run = interpret(found)
    words, places = (item for item in run.meetings if item.op_type == "Gather")
    if isinstance(run.values[words.outputs[0]], Position):
        words, places = places, words
    assert isinstance(run.values[words.outputs[0]], Data)
    rows = run.values[places.outputs[0]]
    assert isinstance(rows, Position)
    table = found.constants[places.operands[0].tensor].load()  # type: ignore[union-attr]
    np.testing.assert_array_equal(rows.array.reshape(13, 16), table[:13])
    assert position(run, meeting(run, "Add")) is rows


def test_positions_times_a_weight_are_a_meeting_and_data(tmp_path: Path) -> None:
    found = read_graph(exported(tmp_path, Relative(), [("input_ids", torch_ids(), ("batch", "sequence"))]))
    run = interpret(found)
    product = meeting(run, "MatMul")
    assert position(run, product).array.shape == (2 * 13 - 1, 32)
    assert isinstance(run.values[product.outputs[0]], Data)


def test_the_ids_that_come_in_are_ranges_offset_by_the_past(tmp_path: Path) -> None:
    cache = "float[b, 2, past, 8] past_key_values_0_key"
    inputs = f"int64[b, s] position_ids, int64[b, past_plus_s] attention_mask, {cache}"
    found = graph(tmp_path, f"g ({inputs}) => (int64[b, s] y) {{ y = Identity (position_ids) }}")
    run = interpret(found, {"past": 7})
    value, mask = run.values["y"], run.values["attention_mask"]
    assert isinstance(value, Position)
    assert isinstance(mask, Position)
    assert value.array.tolist() == [list(range(7, 20))]
    assert value.inputs == {"position_ids"}
    assert mask.array.shape == (1, 20)
    assert (mask.array == 1).all()


def test_tokens_are_primes_within_the_vocabulary(tmp_path: Path) -> None:
    table = np.ones((30, 4), np.float32)
    run = interpreted(tmp_path, f"g ({IDS}) => (float[b, s, 4] y) {{ y = Gather (table, input_ids) }}", table=table)
    ids = run.values["input_ids"]
    assert isinstance(ids, Position)
    assert set(ids.array.ravel().tolist()) <= {5, 7, 11, 13, 17, 19, 23, 29}
    assert len(set(np.diff(ids.array.ravel()).tolist())) > 1


def test_positions_that_count_a_mask_or_tokens_are_computed(tmp_path: Path) -> None:
    body = """g (int64[batch, sequence] input_ids) => (float[b, s, 4] y) {
        one = Constant <value = int64 {1}> ()  axis = Constant <value = int64 {1}> ()
        same = Equal (input_ids, one)  other = Not (same)  mask = Cast <to = 7> (other)
        count = CumSum (mask, axis)  places = Mul (count, mask)  ids = Add (places, one)
        y = Gather (table, ids)
    }"""
    run = interpreted(tmp_path, body, table=np.arange(128, dtype=np.float32).reshape(32, 4))
    rows = run.values["y"]
    assert isinstance(rows, Position)
    assert rows.array[0, :, 0].tolist() == [4.0 * i for i in range(2, 15)]
    assert rows.inputs == {"input_ids"}


def test_constants_stay_closed_until_they_are_asked_for(tmp_path: Path) -> None:
    table = np.ones((300, 40), np.float32)
    body = "g (float[b, 40] x) => (float[b, 300] y) { t = Transpose <perm = [1, 0]> (w)  y = MatMul (x, t) }"
    found = graph(tmp_path, body, {"w": table})
    closed = {"w": Constant((300, 40), table.dtype, lambda: pytest.fail("a weight was opened"), frozenset({"w"}))}
    run = interpret(Graph(found.path, found.inputs, found.outputs, found.nodes, closed, found.opsets))
    assert run.stopped is None
    turned = run.values["t"]
    assert isinstance(turned, Constant)
    assert turned.shape == (40, 300)
    assert turned.stored == {"w"}


def test_constants_of_constants_are_computed_when_asked(tmp_path: Path) -> None:
    table = np.arange(300 * 40, dtype=np.float32).reshape(300, 40)
    body = "g (float[b, 40] x) => (float[b, 300] y) { t = Transpose <perm = [1, 0]> (w)  y = MatMul (x, t) }"
    turned = interpreted(tmp_path, body, w=table).values["t"]
    assert isinstance(turned, Constant)
    np.testing.assert_array_equal(turned.load(), table.T)


def test_a_graph_stops_where_shapes_do_not_fit(tmp_path: Path) -> None:
    body = f"g ({IDS}) => (float[b, s, 4] y) {{ words = Gather (table, input_ids)  y = Add (words, places) }}"
    tables = {"table": np.ones((64, 4), np.float32), "places": np.ones((32, 4), np.float32)}
    found = graph(tmp_path, body, tables)
    assert interpret(found, {"sequence": 32}).stopped is None
    run = interpret(found, {"sequence": 33})
    assert run.stopped is not None
    assert run.stopped[1] == run.nodes[-1].node
    assert run.nodes[-1].op_type == "Add"


@pytest.mark.parametrize(("flag", "op_type"), [(True, "Cos"), (False, "Sin")])
def test_the_branch_that_is_known_is_taken(tmp_path: Path, flag: bool, op_type: str) -> None:
    body = """g (float[13] x) => (float[13] y) {
        ids = Constant <value_floats = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]> ()
        turn = If (flag) <
            then_branch = yes () => (float[13] a) { a = Cos (ids) },
            else_branch = no () => (float[13] c) { c = Sin (ids) }
        >
        y = Mul (x, turn)
    }"""
    run = interpreted(tmp_path, body, flag=np.array(flag))
    turn = run.values["turn"]
    assert isinstance(turn, Constant)
    np.testing.assert_allclose(turn.load().astype(float), getattr(np, op_type.lower())(np.arange(13.0)), atol=1e-6)
    assert meeting(run, "Mul").operands[1].tensor == "turn"  # type: ignore[union-attr]


def test_branches_that_data_decide_are_merged(tmp_path: Path) -> None:
    body = """g (float[13] x) => (float[13] y) {
        most = ReduceMax <keepdims = 0> (x)  flag = Cast <to = 9> (most)
        y = If (flag) <
            then_branch = yes () => (float[13] a) { a = Cos (x) },
            else_branch = no () => (float[13] c) { c = Sin (x) }
        >
    }"""
    value = interpreted(tmp_path, body).values["y"]
    assert isinstance(value, Data)
    assert value.shape == (13,)


def test_turns_of_a_loop_are_taken(tmp_path: Path) -> None:
    body = """g (int64[batch, sequence] input_ids) => (int64[s] y) {
        one = Constant <value = int64 {1}> ()  zero = Constant <value = int64 {0}> ()
        go = Constant <value = bool {1}> ()
        shape = Shape (input_ids)  count = Gather (shape, one)
        last, y = Loop (count, go, zero) <
            body = turn (int64 i, bool c, int64 v) => (bool d, int64 w, int64 u) {
                d = Identity (c)  w = Add (v, i)  u = Identity (i)
            }
        >
    }"""
    run = interpreted(tmp_path, body)
    value, last = run.values["y"], run.values["last"]
    assert isinstance(value, Position)
    assert isinstance(last, Position | Constant)
    assert value.array.tolist() == list(range(13))
    assert int(last.array if isinstance(last, Position) else last.load()) == sum(range(13))


def test_operators_that_nobody_knows_are_named_and_passed_by(tmp_path: Path) -> None:
    body = """<ir_version: 8, opset_import: ["" : 18]> g (float[b, 4] x) => (float[b, 4] y) { y = Neg (x) }"""
    found = graph(tmp_path, body[body.index("g (") :].replace("Neg (x)", "com.microsoft.Tulip (x)"))
    value = interpret(found).values["y"]
    assert isinstance(value, Unknown)
    assert "Tulip" in value.reason


def test_values_that_are_too_large_are_positional_data(tmp_path: Path) -> None:
    body = """g (int64[batch, sequence] position_ids) => (int64[s, s] y) {
        axes = Constant <value = int64[1] {2}> ()
        columns = Unsqueeze (position_ids, axes)  y = Sub (position_ids, columns)
    }"""
    run = interpret(graph(tmp_path, body), {"sequence": 5000})
    value = run.values["y"]
    assert isinstance(value, Data)
    assert value.positional
    assert value.shape == (1, 5000, 5000)


def test_a_budget_of_nodes_ends_a_run(tmp_path: Path) -> None:
    body = "g (float[4] x) => (float[4] y) { a = Cos (x)  c = Cos (a)  y = Cos (c) }"
    run = interpret(graph(tmp_path, body), budget=Budget(nodes=2))
    assert run.stopped is not None
    assert "more than 2 nodes" in run.stopped[0]


def test_sizes_are_unlike_those_of_the_file_and_totals_are_sums(tmp_path: Path) -> None:
    inputs = "int64[batch, sequence] input_ids, int64[batch, past_sequence_plus_sequence] attention_mask"
    body = f"g ({inputs}, float[batch, 13, past_sequence, 17] past_key_values_0_key) => (int64[b, s] y)"
    found = graph(tmp_path, f"{body} {{ y = Identity (input_ids) }}")
    sizes = default_sizes(found, {"past_sequence": 7})
    assert sizes == {"batch": 1, "sequence": 19, "past_sequence": 7, "past_sequence + sequence": 26}
    assert lengths(found) == ("sequence",)


def test_sizes_are_tried_until_a_graph_goes_through(tmp_path: Path) -> None:
    body = """g (float[batch, 3, height, width] pixel_values) => (float[b, s] y) {
        shape = Constant <value = int64[2] {1, 150528}> ()  y = Reshape (pixel_values, shape)
    }"""
    sizes, run = settle(graph(tmp_path, body))
    assert run.stopped is None
    assert (sizes["height"], sizes["width"]) == (224, 224)


def test_the_first_position_that_comes_in_is_the_number_of_the_past(tmp_path: Path) -> None:
    body = "g (int64[1] start, float[1, past, 8] past_key) => (int64[1] y) { y = Identity (start) }"
    value = interpret(graph(tmp_path, body), {"past": 7}).values["y"]
    assert isinstance(value, Position)
    assert value.array.tolist() == [7]
