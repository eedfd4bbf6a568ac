"""What an interpretation costs, and what it does with files that are damaged or made to cost much."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from helpers.graph_files import graph, written
from posenc_export.read.graph.read import read_graph
from posenc_export.read.interpret.budget import Budget
from posenc_export.read.interpret.run import interpret
from posenc_export.read.interpret.settle import settle
from posenc_export.read.values import Data, Position, Unknown

IDS = "g (int64[batch, sequence] input_ids) => (float y)"
LAYER = """shape{i} = Shape (x{i})  n{i} = Gather <axis = 0> (shape{i}, one)  ids{i} = Range (zero, n{i}, one)
    places{i} = Cast <to = 1> (ids{i})  column{i} = Unsqueeze (places{i}, axis)  angles{i} = Mul (column{i}, freq)
    cos{i} = Cos (angles{i})  a{i} = Mul (x{i}, cos{i})  x{j} = Neg (a{i})"""


def test_a_network_of_4000_nodes_is_read_whole(tmp_path: Path) -> None:
    layers = "\n".join(LAYER.format(i=i, j=i + 1) for i in range(450))
    ints = "one = Constant <value = int64 {1}> ()  zero = Constant <value = int64 {0}> ()"
    body = f"""g (float[1, sequence, 8] x0) => (float x450) {{
        {ints}  axis = Constant <value_ints = [1]> ()  {layers}
    }}"""
    found = graph(tmp_path, body, {"freq": np.linspace(0.1, 1, 8, dtype=np.float32)})
    assert len(found.nodes) > 4000
    run = interpret(found)
    assert run.stopped is None
    assert len(run.meetings) == 450


def test_layers_that_share_a_table_read_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "\n".join(f"c{i} = Gather (table, position_ids)" for i in range(20))
    body = f"g (int64[1, sequence] position_ids) => (float c0) {{ {rows} }}"
    found = graph(tmp_path, body, {"table": np.ones((5000, 64), np.float32)})
    table, count = found.constants["table"], [0]
    load = table.load

    def counted() -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
        count[0] += 1
        return load()

    monkeypatch.setitem(table.__dict__, "load", counted)
    run = interpret(found)
    assert run.stopped is None
    assert len(run.meetings) == 20
    assert count == [1]


@pytest.mark.parametrize("size", [2**31, 2**60])
def test_inputs_of_any_size_take_no_memory(size: int, tmp_path: Path) -> None:
    body = (
        f"g (int64[{size}, 4] attention_mask, int64[1, {size}] input_ids) => (int64 y) {{ y = Neg (attention_mask) }}"
    )
    run = interpret(graph(tmp_path, body))
    value = run.values["y"]
    assert isinstance(value, Data)
    assert value.positional
    assert value.shape == (size, 4)


@pytest.mark.parametrize(
    "node", ["y = Gather (input_ids)", "y = Where (input_ids)", "y = MatMul (input_ids)", "y = Transpose ()",
             "y = com.microsoft.Attention (input_ids)", "y = com.microsoft.GroupQueryAttention (input_ids, , )"]
)  # fmt: skip
def test_damaged_nodes_stop_a_run_or_are_unknown(node: str, tmp_path: Path) -> None:
    run = interpret(graph(tmp_path, f"{IDS} {{ {node} }}"))
    assert run.stopped is not None or isinstance(run.values["y"], Unknown)


def test_a_loop_without_end_is_not_taken(tmp_path: Path) -> None:
    body = f"""{IDS} {{
        many = Constant <value = int64 {{1000000000}}> ()  go = Constant <value = bool {{1}}> ()
        y = Loop (many, go, input_ids) <
            body = turn (int64 i, bool c, int64 v) => (bool d, int64 w) {{ d = Identity (c)  w = Neg (v) }}
        >
    }}"""
    assert isinstance(interpret(graph(tmp_path, body)).values["y"], Unknown)


def test_seconds_end_a_run(tmp_path: Path) -> None:
    run = interpret(graph(tmp_path, f"{IDS} {{ y = Neg (input_ids) }}"), budget=Budget(seconds=-1))
    assert run.stopped is not None
    assert "were spent" in run.stopped[0]


def test_steps_of_a_scan_are_taken(tmp_path: Path) -> None:
    body = """g (int64[batch, sequence] position_ids) => (int64 y) {
        zero = Constant <value = int64[1] {0}> ()  rows = Transpose <perm = [1, 0]> (position_ids)
        last, y = Scan <num_scan_inputs = 1, body = step (int64[1] sum, int64[1] row) => (int64[1] new, int64[1] out) {
            new = Add (sum, row)  out = Identity (new)
        }> (zero, rows)
    }"""
    value = interpret(graph(tmp_path, body)).values["y"]
    assert isinstance(value, Position)
    assert value.array.ravel().tolist() == np.cumsum(range(13)).tolist()


def test_convolutions_in_blocks_of_channels_are_passed(tmp_path: Path) -> None:
    body = """g (float[1, 16, height, width] pixel_values) => (float y) {
        a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (pixel_values, w)  r = Relu (a)
        m = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)  y = Conv <kernel_shape = [3, 3]> (m, w)
    }"""
    path = written(tmp_path, body, {"w": np.ones((16, 16, 3, 3), np.float32)})
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "dump.onnx")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    expected = session.run(None, {"pixel_values": np.ones((1, 16, 64, 96), np.float32)})[0]
    found = read_graph(tmp_path / "dump.onnx")
    assert any(node.domain == "com.microsoft.nchwc" for node in found.nodes)
    value = settle(found)[1].values["y"]
    assert isinstance(value, Data)
    assert value.shape == expected.shape
