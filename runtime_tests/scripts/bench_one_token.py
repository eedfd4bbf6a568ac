"""Rotary queries and keys of one token: the dynamic graph beside the plain export, and what its parts cost, by turns.

python bench_one_token.py             one token: q (1, 32, 1, 128), k with 8 heads and with 32, on one thread and on two
python bench_one_token.py --tokens N  as many tokens

Prints Markdown: how many times as fast as the plain export each graph is, by medians of blocks of calls that take turns
in one process, of ONNX Runtime on the CPU. The plain export is torch's own of the usual module: Sin and Cos of float32
angles, rotate_half, nothing refused. The others are ours; ours without its checks, which is the look-ups and the
rotation alone; and the rotation alone, with one look-up each of whole rows of cosines and sines. The last column says
how many operators write as many numbers as q has, which a Reshape does not.
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import ModelProto, helper, numpy_helper

from posenc.spec import Spec
from posenc_export.proof.benchmarks.baselines import BaselineRotary
from posenc_export.proof.exporter import ExportOptions, write_bundle
from posenc_export.write.targets.scheme import scheme_target

HEADS, DIM, BASE, ROWS, FIRST = 32, 128, 10000.0, 4096, 1234
PLAIN, OURS, UNCHECKED, ALONE = "plain export", "ours", "ours without checks", "rotation of stored rows alone"
CHECKS = ("positions_checked", "k_checked", "clamp", "remainder")
"""What nodes that check, or move positions out of range, give."""


def plain(path: Path) -> None:
    """Write what torch.onnx makes of the usual module."""
    tokens = (torch.zeros(2, 4, 5, DIM), torch.zeros(2, 3, 5, DIM), torch.zeros(2, 5, dtype=torch.int64))
    batch, seq, free = torch.export.Dim("batch"), torch.export.Dim("seq"), torch.export.Dim.DYNAMIC
    heads = {0: batch, 1: free, 2: seq}
    axes = (heads, heads, {0: batch, 1: seq})
    program = torch.export.export(BaselineRotary(DIM, BASE), tokens, dynamic_shapes=axes)
    exported = torch.onnx.export(program, dynamo=True, opset_version=18, verbose=False)
    assert exported is not None
    exported.save(path)


def ours(folder: Path) -> Path:
    """Write our dynamic graph."""
    folder.mkdir()
    target = scheme_target("rope", Spec("dynamic", positions="explicit"), {"head_dim": DIM, "rope_theta": BASE}, 0)
    write_bundle(target, ExportOptions(("onnx",), validate=False), folder)
    return folder / "model.onnx"


def unchecked(path: Path) -> ModelProto:
    """Return our graph without what compares lengths, and without what moves positions out of range."""
    model = onnx.load(path)
    for output in CHECKS:
        node = next(node for node in model.graph.node if output in node.output)
        for user in model.graph.node:
            user.input[:] = [node.input[0] if name == output else name for name in user.input]
        model.graph.node.remove(node)
    read = {name for node in model.graph.node for name in node.input}
    unread = [n for n in model.graph.node if n.op_type in ("Mul", "Shape") and n.name.startswith(("positions_", "k_"))]
    for node in reversed(unread):
        assert node.op_type == "Shape" or node.output[0] not in read
        model.graph.node.remove(node)
    return model


def rotation_alone(model: ModelProto) -> ModelProto:
    """Return a graph with stored rows in the place of cosines and sines: two look-ups by positions themselves."""
    alone = ModelProto()
    alone.CopyFrom(model)
    rows = [node.output[0] for node in alone.graph.node if node.op_type == "Concat"]
    angles = np.arange(ROWS)[:, None] * BASE ** (-np.arange(0, DIM, 2) / DIM)
    unsqueeze = next(node for node in alone.graph.node if node.op_type == "Unsqueeze")
    unsqueeze.input[0], looked_up = "positions", unsqueeze.output[0]  # (batch, seq) -> (batch, 1, seq)
    needed = {output.name for output in alone.graph.output}
    nodes: list[onnx.NodeProto] = []
    for node in reversed(alone.graph.node):
        name = node.output[0]
        taken = helper.make_node("Gather", [f"{name}_rows", looked_up], [name], axis=0) if name in rows else node
        if needed & set(taken.output):
            needed |= set(taken.input)
            nodes.insert(0, taken)
    del alone.graph.value_info[:]
    del alone.graph.node[:]
    alone.graph.node.extend(nodes)
    for name, parts in zip(rows, (np.cos(angles), np.sin(angles)), strict=True):
        signs = np.repeat([1.0 if name == rows[0] else -1.0, 1.0], DIM // 2)
        stored = (np.tile(parts, 2) * signs).astype(np.float32)
        alone.graph.initializer.append(numpy_helper.from_array(stored, f"{name}_rows"))
    return alone


def written(folder: Path) -> dict[str, Path]:
    """Return the files to compare, by name."""
    files = {name: folder / f"{name}.onnx" for name in (PLAIN, UNCHECKED, ALONE)}
    plain(files[PLAIN])
    path = ours(folder / "ours")
    model = unchecked(path)
    onnx.save(model, files[UNCHECKED])
    onnx.save(rotation_alone(model), files[ALONE])
    return {PLAIN: files[PLAIN], OURS: path, UNCHECKED: files[UNCHECKED], ALONE: files[ALONE]}


def feeds_of(heads_of_k: int, tokens: int) -> dict[str, np.ndarray]:
    """Return a call, at positions from `FIRST` on."""
    random = np.random.default_rng(0)
    q, k = (random.standard_normal((1, heads, tokens, DIM), np.float32) for heads in (HEADS, heads_of_k))
    return {"q": q, "k": k, "positions": np.arange(FIRST, FIRST + tokens)[None]}


def session_of(path: Path, threads: int) -> onnxruntime.InferenceSession:
    """Return a session on the CPU."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def timed(files: dict[str, Path], feeds: dict[str, np.ndarray], threads: int, blocks: int, calls: int) -> list[float]:
    """Return the median time of a call of each file, in blocks of calls that take turns, in seconds."""
    sessions = [session_of(path, threads) for path in files.values()]
    times = np.zeros((blocks, len(sessions)))
    for block in range(-2, blocks):  # the first two warm up
        for number, session in enumerate(sessions):
            session.run(None, feeds)
            began = time.perf_counter()
            for _ in range(calls):
                session.run(None, feeds)
            times[block, number] = (time.perf_counter() - began) / calls
    return list(np.median(times, axis=0))


def passes(path: Path, feeds: dict[str, np.ndarray]) -> int:
    """Return how many operators write as many numbers as q has, two halves counting once."""
    model = onnx.load(path)
    made = [name for node in model.graph.node if node.op_type not in ("Reshape", "Shape") for name in node.output]
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    results = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)
    large = sum(int(result.size) for result in results if result.size >= feeds["k"].size / 2)
    return round(float(large) / (feeds["q"].size + feeds["k"].size))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1)
    tokens = parser.parse_args().tokens
    blocks, calls = (250, 5) if tokens < 64 else (25, 1)
    with TemporaryDirectory() as folder:
        files = written(Path(folder))
        columns = [(heads, threads) for heads in (8, HEADS) for threads in (1, 2)]
        ratios = []
        for heads, threads in columns:
            times = timed(files, feeds_of(heads, tokens), threads, blocks, calls)
            ratios.append([times[0] / took for took in times])
        titles = [f"k with {heads} heads, {threads} thread{'s'[: threads - 1]}" for heads, threads in columns]
        print("| graph |", " | ".join(titles), "| nodes | passes over q and k |")
        print("|---" * (len(columns) + 3) + "|")
        feeds = feeds_of(HEADS, max(tokens, 64))
        for number, (name, path) in enumerate(files.items()):
            figures = [f"{column[number]:.2f}x" for column in ratios]
            print(
                "|", " | ".join([name, *figures, str(len(onnx.load(path).graph.node)), str(passes(path, feeds))]), "|"
            )


if __name__ == "__main__":
    main()
