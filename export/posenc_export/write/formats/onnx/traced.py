"""ONNX by the TorchScript-based exporter, torch.onnx.export(dynamo=False): the last way to capture a user's module.

It runs a module on inputs and writes which operators ran. It sees no branch of Python, so that a graph is accepted only
if it cannot hide one: no number goes from a tensor, or a size, to Python, unless torch.export has captured the module
already and said what it assumes of sizes; and inputs of other sizes and numbers give the same graph.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posenc.libraries import replaced
from posenc_export.common.errors import ExportFailed
from posenc_export.write.formats import Digests, WriteRequest
from posenc_export.write.formats.capture import GRAPH, Findings
from posenc_export.write.formats.linspace import dynamic_linspace
from posenc_export.write.formats.tracing import trace_of

if TYPE_CHECKING:
    from torch import Tensor, nn

    from posenc.encoding import Encoding
    from posenc.ports import Port

NAME = "torch.onnx.export(dynamo=False), the TorchScript-based exporter"
MAX_OPSET = 20
"""The newest opset that it writes."""
CHECK = "check_forward_args"


@dataclass(frozen=True)
class TracedGraph:
    """A graph as that exporter wrote it.

    Attributes:
        model: A serialised ONNX model.
        findings: With a note on the way.
    """

    model: bytes
    findings: Findings

    @property
    def digests(self) -> Digests:
        """The digests, which must be the same when the module is captured again."""
        return {GRAPH: hashlib.sha256(self.model).digest()}

    def read(self) -> Any:
        """Return it as torch.onnx returns a model."""
        import onnx
        import onnx_ir as ir

        model = ir.serde.deserialize_model(onnx.load_from_string(self.model))
        for value in (*model.graph.inputs, *model.graph.outputs):
            # a copy that is not frozen: axes get names later
            value.shape = None if value.shape is None else ir.Shape(value.shape.dims)
        return model


def traced(encoding: Encoding, request: WriteRequest, reason: str, *, branches: bool) -> TracedGraph:
    """Return the graph of a module, by running it twice; raise ExportFailed where that may not be all that it does.

    Args:
        encoding: The encoding of a user's module.
        request: What to trace with, at two sizes, and the opset.
        reason: Why there is no other way.
        branches: Whether torch.export has said what the module does by sizes.
    """
    if request.at is None or request.opset > MAX_OPSET:
        raise ExportFailed(f"{NAME} writes opsets up to {MAX_OPSET}, and traces at two sizes")
    names = _names(encoding.inputs, encoding.outputs) | {"opset_version": request.opset}
    first, second = (
        _model(encoding.uncalled().module, inputs, names, branches)
        for inputs in (request.trace, request.at(request.other_sizes))
    )
    # sizes or numbers that the graph keeps differ between two runs
    if second != first:
        raise ExportFailed(f"{NAME} keeps sizes or numbers of the inputs that it traces with")
    return TracedGraph(first, Findings((note_of(reason),)))


def note_of(reason: str) -> str:
    """Return the line of a report that a graph was written in this way."""
    return f"written by {NAME}: {reason}"


def _model(module: nn.Module, inputs: tuple[Tensor, ...], names: Mapping[str, object], branches: bool) -> bytes:
    """Return the model that one run of a module gives, without the shapes of that run."""
    import onnx
    import torch

    export: Any = torch.onnx.export  # this exporter writes into memory, too, which its types do not say
    buffer = io.BytesIO()
    with _no_checks_of_rnns(), _no_print_of_graphs(), dynamic_linspace():
        trace_of(module, lambda seen: export(seen, inputs, buffer, dynamo=False, **names), NAME, branches=branches)
    model = onnx.load_from_string(buffer.getvalue())
    inputs_of_graph = [value.name for value in model.graph.input]
    if inputs_of_graph != names["input_names"]:
        raise ExportFailed(f"{NAME} gives the graph other inputs: {', '.join(inputs_of_graph)}")
    # shapes of this run alone
    del model.graph.value_info[:]
    return bytes(model.SerializeToString(deterministic=True))


@contextmanager
def _no_print_of_graphs() -> Iterator[None]:
    """Keep torch from printing the whole graph, past Python's stdout, before it raises an error."""
    import torch

    with replaced(torch._C, "_jit_onnx_log", lambda *_: None):
        yield


@contextmanager
def _no_checks_of_rnns() -> Iterator[None]:
    """Keep nn.LSTM, nn.GRU and nn.RNN from comparing sizes, which would look like a branch."""
    # the comparison only raises errors, and eager raises them too
    from torch.nn.modules import rnn

    def unchecked(*arguments: object) -> None:
        """Take any sizes."""

    with replaced(rnn.LSTM, CHECK, unchecked), replaced(rnn.RNNBase, CHECK, unchecked):
        yield


def _names(inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> dict[str, object]:
    """Return the names of inputs, outputs and axes, as the exporter takes them."""
    return {
        "input_names": [port.name for port in inputs],
        "output_names": [port.name for port in outputs],
        "dynamic_axes": {port.name: {i: a.name for i, a in port.dynamic.items()} for port in (*inputs, *outputs)},
    }
