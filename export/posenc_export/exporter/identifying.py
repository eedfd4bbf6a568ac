"""The facts of what is exported: what its graphs compute, whatever format, opset or length they are written with."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from posenc.parameters import fit
from posenc.scheme import SCHEMES
from posenc_export.bundle.identity import CODE, SCHEME, TENSORS, facts_of
from posenc_export.errors import ExportFailed
from posenc_export.formats import DEFAULT_OPSET, FORMATS, Digests, Request
from posenc_export.formats.capture import tensor_digests
from posenc_export.targets import Target

WITH_CODE = ("onnx", "torchscript")
"""Formats whose program of a module is its code: the second for what torch.export and its successors cannot take."""


def facts_for(target: Target, request: Request, captured: Mapping[str, Digests]) -> dict[str, str]:
    """Return the facts of a target whose module was not called yet.

    captured: digests of its programs by format, as far as there are any.
    """
    encoding, spec = target.encoding, target.spec
    form = {
        "mode": spec.mode,
        "method": spec.method if spec.mode == "dynamic" else None,
        "positions": encoding.positions,
        "offset": spec.position_offset or None,
        "dtype": spec.torch_dtype,
    }
    made = {SCHEME: target.name, **(form if target.rules.registered else {})}
    module = encoding.module
    tensors = tensor_digests({**dict(module.named_parameters()), **dict(module.named_buffers())})
    digests = (
        {TENSORS: tensors} if target.rules.registered else {CODE: _code(target, request, captured), TENSORS: tensors}
    )
    return facts_of(made, _parameters(target), (encoding.inputs, encoding.outputs), digests)


def _parameters(target: Target) -> dict[str, object]:
    """Return what the module is made with, but for what may be any text: where tensors are read from.

    The tensors are facts themselves. What a user's own factory makes of a text, or of nothing, is in code and tensors.
    """
    if not target.rules.registered:
        return {name: value for name, value in target.params.items() if not isinstance(value, str | None)}
    known = SCHEMES[target.name].parameters
    return {name: fit(known[name], value) for name, value in target.params.items() if not known[name].takes_any_text}


def _code(target: Target, request: Request, captured: Mapping[str, Digests]) -> Digests:
    """Return digests of what somebody's own module computes: of its program, as it is without our operators."""
    plain = replace(request, opset=DEFAULT_OPSET, rotary_op="decomposed")
    as_captured = (plain.opset, plain.rotary_op) == (request.opset, request.rotary_op)
    for name in WITH_CODE:
        if as_captured and captured.get(name):
            return captured[name]
        with suppress(ExportFailed):
            return FORMATS[name].digests(FORMATS[name].capture(target.encoding.uncalled(), plain))
    return {}
