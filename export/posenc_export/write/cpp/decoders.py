"""A causal language model in C++: which of its ports is what, and the test that it writes the tokens that it should."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from posenc.ports import Port
from posenc_export.bundle.manifest import Generation, Manifest
from posenc_export.write.cpp import BUNDLE_TEMPLATES, filled
from posenc_export.write.cpp.names import braced

PORTS = ("input_ids", "attention_mask", "position_ids")
LOGITS = "logits"
BEFORE, AFTER = "past_key_values.", "present."
"""The names that whole models have for these: a part of the cache is the input that its output becomes."""


def decoder_ports(inputs: Sequence[Port], outputs: Sequence[Port], caches: Mapping[str, str] | None = None) -> str:
    """Return posenc::DecoderPorts as an expression: the number of each input and output that a decoder feeds.

    Args:
        inputs: What goes in.
        outputs: What comes out.
        caches: The input that an output shares a buffer with, by output: a decoder works in place where all of them do.
    """
    number = {port.name: i for i, port in enumerate(inputs)}
    of_output = {port.name: i for i, port in enumerate(outputs)}
    of_cache = {name.replace(BEFORE, AFTER): name for name in number if name.startswith(BEFORE)}
    in_place = bool(of_cache) and all((caches or {}).get(after) == before for after, before in of_cache.items())
    cache = (braced(n, of_output[name.replace(BEFORE, AFTER)]) for name, n in number.items() if name.startswith(BEFORE))
    numbers = [number.get(name, -1) for name in PORTS]
    return f"DecoderPorts{braced(*numbers, of_output[LOGITS], braced(*cache), *(['true'] if in_place else []))}"


def generation_source(manifest: Manifest, name: str) -> str:
    """Return the text of generation.cpp: prompts, and the tokens that the model writes behind them."""
    texts = ",\n".join(f"      {_generation(one)}" for one in manifest.generations)
    return filled("generation.cpp", BUNDLE_TEMPLATES, name=name, generations=texts)


def _generation(one: Generation) -> str:
    # with their types, as {{1}} may be a row of one token, or one row of no token
    return braced(*(f"Rows{braced(*(f'Row{braced(*row)}' for row in rows))}" for rows in (one.prompts, one.tokens)))
