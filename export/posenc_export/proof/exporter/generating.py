"""Tokens that a causal language model writes behind prompts of random ids, recorded for the proof of its graph."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from posenc.ports import Array
from posenc_export.bundle.carries import limits_of
from posenc_export.bundle.manifest import Generation
from posenc_export.common.arrays import call_on_arrays
from posenc_export.proof.exporter.options import ExportOptions
from posenc_export.proof.generation import recorded
from posenc_export.write.targets import Target

PROMPTS = (7, 3)
"""How many tokens the prompts of a generation have: unlike, so that a batch of them is padded."""


def generations_of(target: Target, options: ExportOptions) -> tuple[Generation, ...]:
    """Return the tokens that a causal language model writes behind prompts of random ids."""
    if not target.generates:
        return ()
    options.validation.progress(f"writing {target.generates} tokens with the eager module")
    inputs, outputs = target.encoding.inputs, target.encoding.outputs
    module = target.encoding.uncalled().module
    rng = np.random.default_rng(options.seed)
    (end,) = (limits_of(port).end for port in inputs if port.name == "input_ids")
    prompts = [rng.integers(0, end, size).tolist() for size in PROMPTS]

    def call(feeds: Mapping[str, Array]) -> dict[str, Array]:
        results = call_on_arrays(module, [feeds[port.name] for port in inputs])
        return {port.name: array for port, array in zip(outputs, results, strict=True)}

    return recorded(call, inputs, prompts, target.generates)
