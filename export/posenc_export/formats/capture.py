"""torch.export of an encoding, with every named axis dynamic or an error."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from posenc.encoding import Encoding
from posenc_export.errors import ExportFailed, first_line
from posenc_export.formats import Digests, Request, quiet
from posenc_export.formats.guards import broken_guard

if TYPE_CHECKING:
    import torch
    from torch import nn


def capture(encoding: Encoding, module: nn.Module, request: Request) -> torch.export.ExportedProgram:
    """Run torch.export on a module with an encoding's ports, every named axis dynamic.

    Raises ExportFailed where the program, or a range of it, went static.
    """
    import torch

    dynamic = torch.export.Dim.DYNAMIC
    shapes = tuple(dict.fromkeys(port.dynamic, dynamic) for port in encoding.inputs)
    with quiet():
        try:
            program = torch.export.export(module, request.trace, dynamic_shapes=shapes or None, strict=False)
        except Exception as error:
            raise ExportFailed(f"torch.export refused the module: {explain_capture(error)}") from error
    _check_ranges(program, encoding, request.max_len)
    if encoding.family == "module" and not hasattr(program, "_guards_code"):
        raise ExportFailed(
            f"torch {torch.__version__} does not say what torch.export assumed of sizes: a module of your own may hold "
            "for some lengths only; use torch 2.13"
        )
    broken = broken_guard(program, module, encoding, request.max_len)
    if broken is not None:
        raise ExportFailed(str(broken))
    return program


def program_digests(program: torch.export.ExportedProgram) -> Digests:
    """Return what must be the same of two captures: the graph, what it assumes of sizes, every tensor in it."""
    guards = getattr(program, "_guards_code", None) or ()
    texts = (program.graph, program.graph_signature, program.range_constraints, *guards)
    return {"graph": "\n".join(map(str, texts)).encode(), **tensor_digests(program.state_dict | program.constants)}


def tensor_digests(tensors: Mapping[str, object]) -> Digests:
    """Return a digest of each tensor's dtype, shape and bytes; what is no tensor has that of its text."""
    import torch

    digests = {}
    for name, value in tensors.items():
        digest = hashlib.sha256()
        if isinstance(value, torch.Tensor):
            digest.update(f"{value.dtype} {tuple(value.shape)}".encode())
            digest.update(value.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
        else:
            digest.update(str(value).encode())
        digests[name] = digest.digest()
    return digests


def explain_capture(error: Exception) -> str:
    """Return the part of a torch.export error that says what happened."""
    text = str(error)
    marked = re.search(r"(You marked .*? as dynamic but .*?)(?:\.|\n)", text)
    specialised = re.search(r"- (.*?specialized.*?)\n", text)
    reason = marked or specialised
    return reason.group(1) if reason else first_line(error)


def _check_ranges(program: torch.export.ExportedProgram, encoding: Encoding, max_len: int) -> None:
    """Refuse a program that torch.export, without a word, made to hold for short sequences only."""
    metas = [node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"]
    metas = metas[len(metas) - len(encoding.inputs) :]
    for port, value in zip(encoding.inputs, metas, strict=True):
        for index, axis in port.dynamic.items():
            size = value.shape[index]
            if isinstance(size, int):
                raise ExportFailed(f"torch.export made axis {axis.name!r} of {port.name} static, at {size}")
            bounds = program.range_constraints.get(size.node.expr)
            if axis.is_length and bounds is not None and bounds.upper < max_len:
                raise ExportFailed(
                    f"torch.export keeps the graph to {axis.name} <= {bounds.upper}, but it must hold up to {max_len}: "
                    f"the module branches on the length, or --max-len asks for more than it has"
                )
