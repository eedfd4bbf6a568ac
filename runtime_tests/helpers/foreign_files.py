"""ONNX files as other exporters write them, by hand: an embedding with a table of positions."""

from pathlib import Path

import onnx
import torch
from onnx import ModelProto, TensorProto, helper, numpy_helper
from torch import nn

WORDS, ROWS, DIM = 16, 24, 4


class Embedding(nn.Module):
    """Tokens to vectors, with a table of positions."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.tokens = nn.Embedding(WORDS, DIM, _weight=torch.randn(WORDS, DIM, generator=generator))
        self.register_buffer("table", torch.randn(ROWS, DIM, generator=generator))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        assert isinstance(self.table, torch.Tensor)
        rows: torch.Tensor = self.tokens(ids) + self.table[: ids.shape[1]]
        return rows


def embedding_file(path: Path, *, length: int | str = "s", dtype: int = TensorProto.INT64, rows: int = ROWS) -> Path:
    """Write the file that an exporter of its own names, and of int32 ids or a fixed length, makes of `Embedding`."""
    module = Embedding()
    assert isinstance(module.table, torch.Tensor)
    stored = {
        "words": module.tokens.weight.detach().numpy(),
        "table": module.table.numpy()[:rows],
        "zero": torch.zeros(1, dtype=torch.int64).numpy(),
    }
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["embedded"]),
        helper.make_node("Shape", ["input_ids"], ["end"], start=1, end=2),
        helper.make_node("Slice", ["table", "zero", "end"], ["ids"]),  # a name that the target has for its input
        helper.make_node("Add", ["embedded", "ids"], ["last_hidden_state"]),
    ]
    if dtype == TensorProto.UINT8:  # which Gather does not take
        nodes[0].input[1] = "whole"
        nodes.insert(0, helper.make_node("Cast", ["input_ids"], ["whole"], to=TensorProto.INT64))
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info("input_ids", dtype, ["b", length])],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["b", length, DIM])],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, producer_name="by hand", opset_imports=opset, ir_version=8), path)
    return path


def changed(path: Path, name: str, row: int) -> Path:
    """Write a file again with a row of a stored table zeroed."""
    model: ModelProto = onnx.load(path)
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == name)
    array = numpy_helper.to_array(tensor).copy()
    array[row] = 0
    tensor.CopyFrom(numpy_helper.from_array(array, name))
    onnx.save(model, path)
    return path
