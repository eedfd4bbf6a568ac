"""What formats are asked for, and what is refused before anything is captured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from posenc.ports import Array
from posenc.scheme import SCHEMES
from posenc_export.bundle.case import Case, Padding
from posenc_export.bundle.decoders import is_cache, states_in
from posenc_export.common.arrays import to_torch
from posenc_export.common.errors import BadInput
from posenc_export.proof.exporter.options import SHORTEST, ExportOptions
from posenc_export.write.cpp.embed import check_embeddable
from posenc_export.write.cpp.names import namespace_for
from posenc_export.write.formats import FORMATS, WriteRequest
from posenc_export.write.runtime_configs import RUNTIME_CONFIGS
from posenc_export.write.targets import Target
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.sizes import long_sizes, trace_sizes

if TYPE_CHECKING:
    import torch
    from torch import nn


def request_for(target: Target, options: ExportOptions) -> WriteRequest:
    """Return what formats are given; raise BadInput, in one line, for what cannot be written."""
    encoding, max_len = target.encoding, target.spec.max_len
    problem = next(_problems(target, options), None)
    if problem is not None:
        raise BadInput(problem)
    if options.cpp:
        check_embeddable(encoding.inputs, encoding.outputs)
    # without an end, ours may be traced beyond a short max_len
    end = (encoding.end or max(max_len, 64)) if target.rules.known_end else max_len
    # a traced size that equals a stored one could be taken for it
    dims = dims_of(encoding.module)
    trace = trace_sizes(encoding.inputs, dims, end)
    if trace and end < SHORTEST:
        raise BadInput(f"max_len {max_len} leaves no length to vary: give --max-len {SHORTEST} or more")

    def at(sizes: Mapping[str, int]) -> tuple[torch.Tensor, ...]:
        feeds = feeds_for(encoding.inputs, Case("trace", sizes), options.seed)
        return tuple(to_torch(feeds[port.name]) for port in encoding.inputs)

    def inputs(sizes: Mapping[str, int], padding: Padding) -> Mapping[str, Array]:
        ports = tuple(port for port in encoding.inputs if not is_cache(port))
        return feeds_for(ports, Case("part", sizes, padding=padding), options.seed)

    return WriteRequest(
        at(trace),
        max_len,
        opset=options.onnx_opset,
        opset_reason=options.opset_reason,
        rotary_op=options.rotary_op,
        attention_op=options.attention_op,
        check_positions=options.check_positions,
        namespace=options.namespace or namespace_for(target.name),
        at=at,
        sizes=trace,
        other_sizes=trace_sizes(encoding.inputs, dims | set(trace.values()), end),
        long=long_sizes(encoding.inputs, trace, max_len),
        cpu_isa=options.cpu_isa,
        quantize=target.quantize,
        accuracy_level=options.accuracy_level,
        inputs=inputs,
        positions=target.positions,
    )


def _problems(target: Target, options: ExportOptions) -> Iterator[str]:
    """Yield why a target cannot be written as it is asked for."""
    name, spec, end = target.name, target.spec, target.encoding.end
    lacking = SCHEMES[name].unsupported.formats if target.rules.registered else {}
    for format_ in options.formats:
        reason = lacking.get(format_) or FORMATS[format_].refuses(target.encoding)
        if reason:
            yield f"{name} cannot be exported to {format_}: {reason}"
        elif format_ != "onnx" and states_in(target.encoding.inputs):
            yield f"{name} cannot be exported to {format_}: its layers remember states, which are written to onnx alone"
    reason = RUNTIME_CONFIGS[options.runtime_config].refuses(target) if options.runtime_config else ""
    if reason:
        yield f"--runtime-config {options.runtime_config} is not for {name}: {reason}"
    if options.rotary_op != "decomposed" and spec.dtype == "fp64":
        yield f"--rotary-op {options.rotary_op} has no fp64: expected fp32, fp16 or bf16"
    if options.rotary_op != "decomposed" and spec.narrow:
        yield f"--rotary-op {options.rotary_op} takes ids of int64 alone: leave it out, or --index-dtype"
    if options.attention_op != "decomposed" and target.rules.known_operators:
        yield f"--attention-op {options.attention_op} is for modules and whole models: {name} has no attention"
    if options.accuracy_level != 1 and target.quantize is None:
        yield f"--accuracy-level {options.accuracy_level} is for weights in blocks, and {name} has none: leave it out"
    if end is not None and spec.max_len > end:
        yield f"max_len must be at most the {end} positions of {name}, got {spec.max_len}"
    if spec.positions == "mask" and spec.max_len - spec.position_offset < SHORTEST:
        yield f"max_len {spec.max_len} leaves no length to vary behind position_offset {spec.position_offset}"


def dims_of(module: nn.Module) -> set[int]:
    """Return every size that a parameter or a buffer has: no traced length may be taken for one of them."""
    return {int(n) for tensor in (*module.parameters(), *module.buffers()) for n in tensor.shape}
