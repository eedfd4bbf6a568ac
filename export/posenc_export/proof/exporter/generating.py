"""Tokens that a language model writes behind prompts of random ids, recorded for the proof of its graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from posenc.encoding import Encoding
from posenc.ports import Array
from posenc_export.bundle.carries import limits_of
from posenc_export.bundle.manifest import Generation
from posenc_export.common.arrays import call_on_arrays
from posenc_export.proof.exporter.options import ExportOptions
from posenc_export.proof.generation import Callee, TokenWriter, differences, recorded
from posenc_export.write.targets import Target

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
        return (), ()
    options.validation.progress(f"writing {target.generates} tokens with the eager module")
    reads = target.encoding if encoder is None else encoder
    rng = np.random.default_rng(options.seed)
    ends = [limits_of(port).end for port in reads.inputs if port.name == "input_ids"]
    # of sounds a prompt is one number, which features are made of
    prompts = [rng.integers(0, end, size).tolist() for end in ends for size in PROMPTS] or [[1], [2]]
    writer = TokenWriter(_callee(target.encoding), None if encoder is None else _callee(encoder))
    written = recorded(writer, prompts, target.generates, target.begins)
    return written, _beside_float32(target, writer, prompts)


def _beside_float32(target: Target, writer: TokenWriter, prompts: Sequence[Sequence[int]]) -> tuple[str, ...]:
    """Return a line on the tokens of a model in half precision, led along those that it writes in float32."""
    if target.precise is None:
        return ()
    precise = target.precise()
    encoders = [_callee(make().encoding) for make in precise.others]
    in_float32 = TokenWriter(_callee(precise.encoding), next(iter(encoders), None))
    others: list[str] = []
    count = 0
    for one in recorded(in_float32, prompts, target.generates, target.begins):
        wrong, near = differences(writer, one)
        others += [*wrong, *near]
        count += sum(map(len, one.tokens))
    words = (
        f"of {count} tokens that the model writes in float32, it writes {count - len(others)} in {target.spec.dtype}"
    )
    return (f"{words}; {others[0]}" if others else words,)


def _callee(encoding: Encoding) -> Callee:
    """Return an eager module that can be called by names."""
    module, inputs = encoding.uncalled().module, encoding.inputs

    def call(feeds: Mapping[str, Array]) -> dict[str, Array]:
        results = call_on_arrays(module, [feeds[port.name] for port in inputs])
        return {port.name: array for port, array in zip(encoding.outputs, results, strict=True)}

    return Callee(call, inputs)
