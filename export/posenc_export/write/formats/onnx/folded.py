"""Weights into which torch.onnx folds a batch norm: they get another name, since they are no longer the module's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

Part = Any
"""A graph of onnx_ir that is being written."""
NORMS = ("batch_norm", "_native_batch_norm_legit_no_training", "_batch_norm_no_update")
SUMS = ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "convolution", "linear", "addmm")


def name_folded(model: Part, program: torch.export.ExportedProgram) -> None:
    """Give weights before a batch norm another name where their numbers are not the module's any more, in place."""
    for name in _before_norms(program):
        value = model.graph.initializers.get(name)
        own = program.state_dict[name].detach().cpu()
        if value is not None and not np.array_equal(value.const_value.numpy(), own.numpy()):
            value.name = f"{name}_with_batch_norm"


def _before_norms(program: torch.export.ExportedProgram) -> Iterator[str]:
    """Yield the names of weights and biases whose sums go into a batch norm."""
    parameters = program.graph_signature.inputs_to_parameters
    for node in program.graph.nodes:
        if _is(node, NORMS) and _is(node.args[0], SUMS):
            weights = node.args[0].args[1:3]
            yield from (parameters[weight.name] for weight in weights if getattr(weight, "name", None) in parameters)


def _is(node: object, names: tuple[str, ...]) -> bool:
    target = getattr(node, "target", None)
    return getattr(target, "__name__", "").partition(".")[0] in names
