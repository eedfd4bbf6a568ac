"""Which element of which tensor stands where, after operators that move data: as ONNX Runtime moves them."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from helpers.graph_files import exported, written
from helpers.position_modules import Rotary
from posenc_export.read.graph.read import read_graph
from posenc_export.read.interpret.run import interpret
from posenc_export.read.values import Data, Moved, Operand

MOVES = {
    "transposed": "y = Transpose <perm = [2, 0, 1]> (x)",
    "reshaped": "s = Constant <value_ints = [3, -1, 2]> ()  y = Reshape (x, s)",
    "cut backwards": """a = Constant <value_ints = [-1, 3]> ()  e = Constant <value_ints = [-99, 1]> ()
        i = Constant <value_ints = [1, 2]> ()  t = Constant <value_ints = [-1, -2]> ()  y = Slice (x, a, e, i, t)""",
    "halves turned": """p, q = Split <axis = -1, num_outputs = 2> (x)  n = Neg (q)  y = Concat <axis = -1> (n, p)""",
    "uneven parts": """s = Constant <value_ints = [1, 3]> ()  p, y = Split <axis = 2> (x, s)""",
    "rows taken": "i = Constant <value_ints = [2, 0, -1]> ()  y = Gather <axis = 1> (x, i)",
    "repeated": "r = Constant <value_ints = [2, 1, 3]> ()  y = Tile (x, r)",
    "padded": "p = Constant <value_ints = [0, 1, 0, 0, 0, 2]> ()  y = Pad (x, p)",
    "cut by a pad below zero": "p = Constant <value_ints = [0, 1, -1, 0, -1, 0]> ()  y = Pad (x, p)",
    "neighbours turned": """e = Constant <value_ints = [2, 3, 2, 2]> ()  r = Reshape (x, e)
        p, q = Split <axis = -1, num_outputs = 2> (r)  n = Neg (q)  t = Concat <axis = -1> (n, p)
        f = Constant <value_ints = [2, 3, 4]> ()  y = Reshape (t, f)""",
    "expanded": """i = Constant <value_ints = [1]> ()  u = Unsqueeze (x, i)
        s = Constant <value_ints = [2, 5, 3, 4]> ()  y = Expand (u, s)""",
}


def moved(operand: Operand | None) -> Moved:
    assert operand is not None
    assert isinstance(operand.value, Data)
    assert operand.value.moved is not None
    return operand.value.moved()


@pytest.mark.parametrize("name", MOVES)
def test_elements_stand_where_onnx_runtime_moves_them(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"g (float[2, 3, 4] x) => (float y) {{ {MOVES[name]} }}")
    value = interpret(read_graph(path)).values["y"]
    data = np.arange(1, 25, dtype=np.float32)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    expected = session.run(["y"], {"x": data.reshape(2, 3, 4)})[0]
    moves = moved(Operand("y", value))
    assert moves.tensor == "x"
    sign = np.ones(expected.shape) if moves.sign is None else moves.sign
    np.testing.assert_array_equal(np.where(moves.index < 0, 0, data[moves.index] * sign), expected)


@pytest.mark.parametrize(
    ("layout", "partner"), [("half", [4, 5, 6, 7, 0, 1, 2, 3]), ("pairs", [1, 0, 3, 2, 5, 4, 7, 6])]
)
def test_features_that_are_turned_together_are_known(layout: str, partner: list[int], tmp_path: Path) -> None:
    ids = torch.tensor([[5, 7, 11, 13, 17]])
    found = read_graph(exported(tmp_path, Rotary(layout), [("input_ids", ids, ("batch", "sequence"))]))
    run = interpret(found, {"sequence": 7})
    first, second = (item for item in run.meetings if item.op_type == "Mul")
    plain, turned = moved(first.operands[0]), moved(second.operands[0])
    assert plain.tensor == turned.tensor
    np.testing.assert_array_equal(plain.index[0, :, :, partner], np.moveaxis(turned.index[0], -1, 0))
    assert turned.sign is not None
    negated = [-1] * 4 + [1] * 4 if layout == "half" else [-1, 1] * 4
    assert (turned.sign == np.array(negated)).all()


def test_what_is_computed_is_moved_from_itself(tmp_path: Path) -> None:
    path = written(tmp_path, "g (float[2, 3] x) => (float[3, 2] y) { a = Sin (x)  y = Transpose (a) }")
    moves = moved(Operand("y", interpret(read_graph(path)).values["y"]))
    assert moves.tensor == "a"
    assert moves.index.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_an_empty_cache_before_keys_is_no_other_tensor(tmp_path: Path) -> None:
    inputs = "float[b, 2, past, 4] past_key, float[b, 2, sequence, 4] k"
    path = written(tmp_path, f"g ({inputs}) => (float y) {{ y = Concat <axis = 2> (past_key, k) }}")
    assert moved(Operand("y", interpret(read_graph(path), {"past": 0}).values["y"])).tensor == "k"
    both = moved(Operand("y", interpret(read_graph(path), {"past": 3}).values["y"]))
    assert both.tensor == "y"
