"""Tokens that a language model writes behind prompts of random ids, recorded for the proof of its graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from posenc.encoding import Encoding
from posenc.ports import Array
from posenc_export.bundle.carries import limits_of
from posenc_export.bundle.case import Case
from posenc_export.bundle.decoders import reads_prompts
from posenc_export.bundle.manifest import Generation
from posenc_export.common.arrays import call_on_arrays, numpy_dtype
from posenc_export.proof.exporter.options import ExportOptions
from posenc_export.proof.exporter.request import dims_of
from posenc_export.proof.generation import Callee, TokenWriter, precision_cost, recorded
from posenc_export.write.targets import Target
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.sizes import trace_sizes

PROMPTS = (7, 3)
"""How many tokens the prompts of a generation have: unlike, so that a batch of them is padded."""


def generations_of(
    target: Target, encoder: Encoding | None, options: ExportOptions
) -> tuple[tuple[Generation, ...], tuple[str, ...]]:
    """Return the tokens that a language model writes behind prompts of random ids, and lines for the report.

    Args:
        target: The model, or its decoder.
        encoder: What reads the prompts, where the decoder does not.
        options: The seed counts.
    """
    if not target.generates:
        return (), _beside_float32(target, options)
    reads = target.encoding if encoder is None else encoder
    rng = np.random.default_rng(options.seed)
    ends = [limits_of(port).end for port in reads.inputs if port.name == "input_ids"]
    # of sounds a prompt is one number, which features are made of
    prompts = [rng.integers(0, end, size).tolist() for end in ends for size in PROMPTS] or [[1], [2]]
    writer = TokenWriter(_callee(target.encoding), None if encoder is None else _callee(encoder))
    written = recorded(writer, prompts, target.generates, target.begins, options.validation.progress)
    if options.accuracy_level != 1:
        parts = (target.encoding,) if encoder is None else (target.encoding, encoder)
        writer = TokenWriter(*(_callee(_in_file(part, options)) for part in parts))
    return written, _tokens_of_float32(target, writer, prompts, _precision(target, options))


def _in_file(encoding: Encoding, options: ExportOptions) -> Encoding:
    """Return a model that computes as its file does: at accuracy level 4 its products round what goes in."""
    if options.accuracy_level == 1:
        return encoding
    from posenc_export.proof.recording.rounded_inputs import with_rounded_inputs

    return with_rounded_inputs(encoding)


def _precision(target: Target, options: ExportOptions) -> str:
    """Return what a model computes in, in words: int4, int4 at accuracy level 4."""
    return target.precision + (f" at accuracy level {options.accuracy_level}" if options.accuracy_level != 1 else "")


def _tokens_of_float32(
    target: Target, writer: TokenWriter, prompts: Sequence[Sequence[int]], precision: str
) -> tuple[str, ...]:
    """Return a line on the tokens of a model in half precision or of few bits, led along those of float32."""
    if target.precise is None:
        return ()
    precise = target.precise()
    others = [make().encoding for make in precise.others]
    encoders = [_callee(other) for other in others if reads_prompts(other.inputs)]
    in_float32 = TokenWriter(_callee(precise.encoding), next(iter(encoders), None))
    found = precision_cost(writer, in_float32, prompts, target.generates, target.begins)
    words = (
        f"of {found.count} tokens that the model writes in float32, it writes {found.count - len(found.changed)} in "
        f"{precision}; a logit is off by {found.off:.1e} of the largest"
    )
    return (f"{words}; {found.changed[0]}" if found.changed else words,)


def _beside_float32(target: Target, options: ExportOptions) -> tuple[str, ...]:
    """Return a line on how far off a model is that writes no tokens, in half precision or of few bits."""
    if target.precise is None:
        return ()
    precise = target.precise()
    encoding = _in_file(target.encoding, options)
    sizes = trace_sizes(encoding.inputs, dims_of(encoding.module), target.spec.max_len)
    feeds = feeds_for(precise.encoding.inputs, Case("beside float32", sizes), options.seed)
    ours, theirs = (
        _callee(one).call({port.name: feeds[port.name].astype(numpy_dtype(port.dtype)) for port in one.inputs})
        for one in (encoding, precise.encoding)
    )
    shares = {name: np.abs(ours[name] - expected).max() / np.abs(expected).max() for name, expected in theirs.items()}
    words = ", ".join(f"{name} by {share:.1e}" for name, share in shares.items())
    return (f"in {_precision(target, options)} it is off, of the largest in float32: {words}",)


def _callee(encoding: Encoding) -> Callee:
    """Return an eager module that can be called by names."""
    module, inputs = encoding.uncalled().module, encoding.inputs

    def call(feeds: Mapping[str, Array]) -> dict[str, Array]:
        results = call_on_arrays(module, [feeds[port.name] for port in inputs])
        return {port.name: array for port, array in zip(encoding.outputs, results, strict=True)}

    return Callee(call, inputs)
