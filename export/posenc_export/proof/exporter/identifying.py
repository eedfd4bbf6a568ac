"""The facts of what is exported: what its graphs compute, whatever format, opset or length they are written with."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from posenc.encoding import Encoding
from posenc.parameters import fit
from posenc.scheme import SCHEMES
from posenc_export.bundle.identity import CODE, INDEX_DTYPE, SCHEME, TABLE_ROWS, TENSORS, facts_of
from posenc_export.common.errors import ExportFailed
from posenc_export.write.formats import DEFAULT_OPSET, FORMATS, Digests, WriteRequest
from posenc_export.write.formats.capture import tensor_digests
from posenc_export.write.targets import Target

WITH_CODE = ("onnx", "torchscript")
"""Formats whose program of a module is its code: the second for what torch.export and its successors cannot take."""


def facts_for(target: Target, request: WriteRequest, captured: Mapping[str, Digests]) -> dict[str, str]:
    """Return the facts of a target whose module was not called yet.

    Args:
        target: What is exported.
        request: As it was wanted.
        captured: Digests of its programs by format, as far as there are any.
    """
    from posenc.sincos.elsewhere import digits_of  # torch takes a second to load

    encoding, spec = target.encoding, target.spec
    module = encoding.module
    # parameters that name files are no facts, their tensors are
    digests = {TENSORS: tensor_digests({**dict(module.named_parameters()), **dict(module.named_buffers())})}
    made: dict[str, object] = {SCHEME: target.name}
    if target.rules.registered:
        params = _documented(target.name, target.params)
        made |= {
            "mode": spec.mode,
            "method": spec.method if spec.mode == "dynamic" else None,
            "positions": encoding.positions,
            "offset": spec.position_offset or None,
            "dtype": spec.torch_dtype,
            INDEX_DTYPE: spec.index_dtype if spec.narrow else None,
            TABLE_ROWS: spec.stored_positions if digits_of(module) else None,
        }
    else:
        # what a user's own factory makes of a text, or of None, shows in code and tensors
        params = {name: value for name, value in target.params.items() if not isinstance(value, str | None)}
        digests = {CODE: _code(encoding, request, captured), **digests}
    return facts_of(made, params, (encoding.inputs, encoding.outputs), digests)


def _documented(scheme: str, params: Mapping[str, object]) -> dict[str, object]:
    """Return the parameters of a scheme, but for those that say where tensors are read from: tensors are facts."""
    known = SCHEMES[scheme].parameters
    return {name: fit(known[name], value) for name, value in params.items() if not known[name].takes_any_text}


def _code(encoding: Encoding, request: WriteRequest, captured: Mapping[str, Digests]) -> Digests:
    """Return digests of what a user's module computes: of its program, as it is without our operators."""
    plain = replace(request, opset=DEFAULT_OPSET, rotary_op="decomposed", attention_op="decomposed")
    # the captured program will do if no operator of ours is in it
    as_captured = (plain.opset, plain.rotary_op) == (request.opset, request.rotary_op)
    for name in WITH_CODE:
        if as_captured and captured.get(name):
            return captured[name]
        with suppress(ExportFailed):
            return FORMATS[name].digests(FORMATS[name].capture(encoding.uncalled(), plain))
    return {}
