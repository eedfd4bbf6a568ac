"""Where ONNX Runtime would run each node on CUDA: its own partitioner says so, on any machine, and runs no kernel.

A child process loads the graphs: the first takes a second, others some milliseconds. It has stubs of CUDA's libraries
(`cuda_stubs`) unless there is a CUDA driver.
"""

from __future__ import annotations

import json
import os
import re
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from posenc.ports import Array, Feeds
from posenc_export.bundle.manifest import Manifest
from posenc_export.common.machine import has_nvidia_driver
from posenc_export.proof.runtimes import NO_DEVICE, Crashed, Missing, RunFailed, Runner, cuda_stubs, runtime
from posenc_export.proof.runtimes.onnx_runtime import ort_cuda_missing
from posenc_export.proof.runtimes.process import Process, python_child
from posenc_export.proof.runtimes.sessions import CUDA
from posenc_export.write.formats.onnx import read_onnx
from posenc_export.write.formats.onnx.inner_graphs import graphs_of

if TYPE_CHECKING:
    from onnx import ModelProto


def check_placement() -> None:
    """Raise Missing where no CUDA session comes up: with a driver CUDA must be there, without one the stubs."""
    import onnxruntime

    if not hasattr(onnxruntime.InferenceSession, "get_provider_graph_assignment_info"):
        known = cuda_stubs.release()
        newer = f"pip install --upgrade {known.partition(' ')[0]}"
        raise Missing(f"{known} does not say where nodes run, 1.24 and newer do: {newer}")
    if has_nvidia_driver():
        ort_cuda_missing()
    else:
        cuda_stubs.check()


@runtime("cuda-placement", format_="onnx", device=NO_DEVICE, check=check_placement, slow=True)
def load_placement(path: Path, manifest: Manifest) -> Runner:
    """ONNX Runtime's CUDA provider says where each node would run; its kernels are not run, and no GPU is needed."""

    def call(feeds: Feeds) -> dict[str, Array]:
        raise RunFailed("cuda-placement runs no graph: it says where its nodes would run")

    with TemporaryDirectory(prefix="posenc-placed-") as scratch:
        child, file = _child(), path.resolve()
        words = [str(file), "", scratch]
        named = _named(read_onnx(file))
        if named is not None:
            words = [str(Path(scratch, "named.onnx")), str(file.parent), scratch]
            Path(words[0]).write_bytes(named.SerializeToString())
        try:
            placed = json.loads(child.ask(json.dumps(words)))
        except Crashed as crash:
            # it may be the stubs that a library does not take: that says nothing of the file
            raise Missing(f"no session came up: {crash}") from crash
        if CUDA not in placed["providers"]:
            raise Missing(f"{cuda_stubs.release()} does not start CUDA here: {_message(child.last_words())}")
        nodes = tuple((str(where), str(name), str(op)) for where, name, op in placed["nodes"])
        graph = read_onnx(Path(placed["optimized"]))
    return Runner(call, manifest.inputs, manifest.outputs, tuple(placed["providers"]), nodes, optimized=graph)


def _named(model: ModelProto) -> ModelProto | None:
    """Return a graph whose nodes have a name each, by which placement goes; None where they have them already."""
    nodes = [node for graph in graphs_of(model.graph) for node in graph.node]
    if all(node.name for node in nodes) and len({node.name for node in nodes}) == len(nodes):
        return None
    seen: set[str] = set()
    for number, node in enumerate(nodes):
        if not node.name or node.name in seen:
            node.name = f"{node.op_type} {number}"
        seen.add(node.name)
    return model


def _message(log: str) -> str:
    """Return what a line of ONNX Runtime's log says, without its colour, its time and its place in the source."""
    return re.sub(r"\x1b\[[\d;]*m", "", log).partition("] ")[2] or log


def _child() -> Process:
    """Return the process that places graphs, another where it has ended."""
    child = _started()
    if child.process.poll() is not None:
        _started.cache_clear()
        child = _started()
    return child


@cache
def _started() -> Process:
    command = [sys.executable, "-P", "-m", "posenc_export.proof.runtimes.placing_child"]
    if has_nvidia_driver():
        return python_child("CUDA", [*command, "driver"])
    folders = [str(cuda_stubs.stubs()), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    return python_child("CUDA without a GPU", [*command, "stubs"], LD_LIBRARY_PATH=os.pathsep.join(folders))
