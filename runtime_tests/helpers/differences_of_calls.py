"""What two graphs give, and refuse, in the calls of a bundle: the same bits, or not."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

from posenc.ports import Array
from posenc_export.bundle.case import GoldenCase
from posenc_export.bundle.folder import Bundle
from posenc_export.common.arrays import call_on_arrays, to_stored
from posenc_export.common.errors import check_machine

Graph = Callable[[Mapping[str, Array]], list[bytes]]


@dataclass(frozen=True)
class Difference:
    """What is otherwise: where, as "manifest.json inputs[x].dtype", and what is there in the old one and in the new."""

    where: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.where}: {self.old} -> {self.new}" if self.old or self.new else self.where


def of_calls(old: Path, new: Path, name: str) -> tuple[list[Difference], int]:
    """Return what two graphs give otherwise in the old golden calls, refusals included; and the number of calls."""
    bundle = Bundle.read(old, trusted=True)
    ports = [port.name for port in bundle.manifest.inputs]
    graphs = [loaded(folder / name, ports) for folder in (old, new)]
    lines, calls = [], 0
    for golden in bundle.golden():
        before, after = (_outcome(graph, golden) for graph in graphs)
        calls += 1
        if before != after:
            words = [one if isinstance(one, str) else "an answer" for one in (before, after)]
            words = words if words[0] != words[1] else ["bits", f"other bits{_where(before, after, bundle)}"]
            lines.append(Difference(f"{name} in {golden.case.name}", *words))
    return lines, calls


def _where(old: list[bytes] | str, new: list[bytes] | str, bundle: Bundle) -> str:
    """Return the outputs that differ."""
    ports = [port.name for port in bundle.manifest.outputs]
    if len(old) != len(new):
        return f", {len(new)} outputs in the place of {len(old)}"
    return f" of {', '.join(p for p, one, other in zip(ports, old, new, strict=False) if one != other)}"


def _outcome(graph: Graph, golden: GoldenCase) -> list[bytes] | str:
    """Return the bytes of each output of a call, or that it is refused."""
    try:
        return graph(golden.feeds)
    except Exception as error:  # each runtime has classes of its own
        check_machine(error)
        return "refused"


def loaded(path: Path, ports: list[str]) -> Graph:
    """Return a function that calls a graph by the names of its inputs."""
    if path.suffix == ".onnx":
        return _by_onnx(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module: Any = torch.jit.load(str(path)) if path.suffix == ".pt" else torch.export.load(path).module()
    return lambda feeds: [_bytes(array) for array in call_on_arrays(module, [feeds[port] for port in ports])]


def _by_onnx(path: Path) -> Graph:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    kinds = {value.name: value.type for value in session.get_inputs()}

    def call(feeds: Mapping[str, Array]) -> list[bytes]:
        values = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(to_stored(array), 16)
            if kinds.get(name) == "tensor(bfloat16)"
            else onnxruntime.OrtValue.ortvalue_from_numpy(array)
            for name, array in feeds.items()
        }
        produced = session.run_with_ort_values(None, values)
        tensors = (torch.utils.dlpack.from_dlpack(value._get_c_value().to_dlpack()) for value in produced)
        return [_bytes(tensor.view(torch.uint8)) for tensor in tensors]

    return call


def _bytes(array: Any) -> bytes:
    array = array.numpy() if isinstance(array, torch.Tensor) else array
    kind = f"{array.dtype}{list(array.shape)}".encode()
    return kind + np.ascontiguousarray(array).tobytes()
