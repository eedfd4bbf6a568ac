"""Faulty files of the fusion of ONNX Runtime, run as it is, and of operators that some versions refuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from helpers.foreign.exporters import traced, without_traces
from helpers.foreign.models import rotary
from helpers.foreign.truth import Held
from helpers.foreign.two_thetas import HEAD, ROWS, TwoThetas
from helpers.foreign.worker import LENGTHS

DRAW = 5
BY_TOKEN = {0: "batch", 1: "sequence"}
HELD = (
    rotary(layers=(0,), theta=1e4, head_dim=HEAD, rows=ROWS),
    rotary(layers=(1,), theta=1e6, head_dim=HEAD, rows=ROWS),
)
ONE_TABLE = (rotary(layers=(0, 1), theta=1e4, head_dim=HEAD, rows=ROWS),)


def arrays(model: TwoThetas) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    """Return what goes in and comes out of a model at each length; it refuses lengths beyond its tables."""
    values = {}
    for length in LENGTHS:
        ids = torch.randint(0, 64, (2, 400), generator=torch.Generator().manual_seed(DRAW))[:, :length].contiguous()
        values[f"{length}/input input_ids"] = ids.numpy()
        if length <= ROWS:
            with torch.no_grad():
                values[f"{length}/out"] = model(ids).numpy()
    return values


def exported(model: TwoThetas, path: Path) -> onnx.ModelProto:
    """Return a model by the plain exporter, its names those that the fusion takes."""
    ids = torch.zeros(2, 11, dtype=torch.int64)
    # the fusion takes ids by the name of the input
    feeds = {"input_ids": ids} if model.own_ids else {"input_ids": ids, "position_ids": ids}
    return onnx.load(traced(model.eval(), feeds, dict.fromkeys(feeds, BY_TOKEN), path))


def fuse(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a graph after the fusion of rotary embeddings of onnxruntime.transformers."""
    from onnxruntime.transformers.fusion_rotary_attention import FusionRotaryEmbeddings
    from onnxruntime.transformers.onnx_model import OnnxModel

    wrapped = OnnxModel(model)
    FusionRotaryEmbeddings(wrapped).apply()
    # the chain that computed cosines has no user now
    wrapped.prune_graph()
    if not any(opset.domain == "com.microsoft" for opset in model.opset_import):
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def write_fused(folder: Path, name: str, own_ids: bool, fused: bool) -> Path:
    """Write a file of two layers with a theta each, fused or not, and what the model gives."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "eager.npz", **arrays(TwoThetas(own_ids=True).eval()))  # type: ignore[arg-type]
    model = exported(TwoThetas(own_ids=own_ids), folder / "raw.onnx")
    onnx.save(fuse(model) if fused else model, folder / "fused.onnx")
    path = folder / f"two-thetas.{name}.onnx"
    without_traces(folder / "fused.onnx", path)
    return path


def write_three_inputs(folder: Path) -> Path:
    """Write a rotation by ONNX's own operator without ids: its tables have a row a token, (batch, sequence, d/2).

    Rebuilt from its description; the rows are gathered before it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    inv_freq = 1e4 ** (-np.arange(0, HEAD, 2) / HEAD)
    angles = np.arange(ROWS)[:, None] * inv_freq
    tables = {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
    nodes = [helper.make_node("Gather", [name, "position_ids"], [f"{name}_rows"]) for name in tables]
    nodes.append(helper.make_node("RotaryEmbedding", ["x", "cos_rows", "sin_rows"], ["out"], name="rotary"))
    shape: list[str | int | None] = ["batch", 2, "sequence", HEAD]
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, shape),
        helper.make_tensor_value_info("position_ids", TensorProto.INT64, shape[::2]),
    ]
    out = [helper.make_tensor_value_info("out", TensorProto.FLOAT, shape)]
    stored = [numpy_helper.from_array(array, name) for name, array in tables.items()]
    graph = helper.make_graph(nodes, "rotation", ports, out, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    onnx.checker.check_model(model)
    path = folder / "two-thetas.fault-three-inputs.onnx"
    onnx.save(model, path)
    np.savez(folder / "eager.npz", **rotations(angles))  # type: ignore[arg-type]
    return path


def rotations(
    angles: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    """Return features and what the rotation makes of them in float64, at each length."""
    values: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = {}
    x = np.random.default_rng(DRAW).standard_normal((2, 2, LENGTHS[-1], HEAD)).astype(np.float32)
    for length in LENGTHS:
        values[f"{length}/input x"] = x[:, :, :length]
        values[f"{length}/input position_ids"] = np.broadcast_to(np.arange(length), (2, length))
        if length <= ROWS:
            cos, sin = np.cos(angles[:length]), np.sin(angles[:length])
            first, second = x[:, :, :length, : HEAD // 2], x[:, :, :length, HEAD // 2 :]
            values[f"{length}/out"] = np.concatenate((first * cos - second * sin, second * cos + first * sin), -1)
    return values


FUSED: dict[str, tuple[str, tuple[Held, ...]]] = {
    "fault-one-table": (
        "one table, of theta 10000, used by both layers; the second had 1000000",
        ONE_TABLE,
    ),
    "fault-ids-of-batch-1": (
        "ids of shape (1, sequence) go into RotaryEmbedding, which refuses other batches; one table for both layers",
        ONE_TABLE,
    ),
    "fault-three-inputs": (
        "RotaryEmbedding of ONNX 23 without position_ids, which some versions of ONNX Runtime reject",
        (rotary(layers=(0,), head_dim=HEAD, rows=ROWS),),
    ),
}
