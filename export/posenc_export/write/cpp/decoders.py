"""A causal language model in C++: which of its ports is what, and the test that it writes the tokens that it should."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from posenc.ports import Port, axes_of
from posenc_export.bundle.decoders import PAST, memory_ports, states_in
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.manifest import Generation, Manifest
from posenc_export.common.arrays import FLOATS
from posenc_export.write.cpp import BUNDLE_TEMPLATES, filled
from posenc_export.write.cpp.names import braced, qualified_type, spelled

PORTS = ("input_ids", "attention_mask", "position_ids")
LOGITS = "logits"
STATES = ("encoder_hidden_states", "encoder_attention_mask")
OF_STATES = ".encoder."
"""What stands in the name of a cache of keys and values of an encoder's states."""
OF_MODEL = {"class_": "Model", "graph": "words[1]", "makes": "decoder", "fields": "", "start": "", "headers": ""}
"""What the program is filled in with that tries a model of one graph."""
PRESENT = "present."
"""What the names begin with of outputs that hold what layers remember: each is the input of the next call."""


def decoder_ports(inputs: Sequence[Port], outputs: Sequence[Port], caches: Mapping[str, str] | None = None) -> str:
    """Return posenc::DecoderPorts as an expression: the number of each input and output that a decoder feeds.

    Args:
        inputs: What goes in.
        outputs: What comes out.
        caches: The input that an output shares a buffer with, by output: a decoder works in place where all of them do.
    """
    number = {port.name: i for i, port in enumerate(inputs)}
    of_output = {port.name: i for i, port in enumerate(outputs)}
    of_cache = {port.name: port.name.replace(PAST, PRESENT) for port in memory_ports(inputs)}
    pairs = {before: braced(number[before], of_output[after]) for before, after in of_cache.items()}
    of_layers = [pairs.pop(name) for name in states_in(inputs)]
    in_place = bool(pairs) and all((caches or {}).get(of_cache[before]) == before for before in pairs)
    own = braced(*(pair for name, pair in pairs.items() if OF_STATES not in name))
    fields = [*(number.get(name, -1) for name in PORTS), of_output[LOGITS], own]
    if STATES[0] in number:
        of_states = braced(*(pair for name, pair in pairs.items() if OF_STATES in name))
        fields += ["false", *(number.get(name, -1) for name in STATES), of_states]
    elif of_layers:
        fields += [str(in_place).lower(), -1, -1, "{}", braced(*of_layers)]
    elif in_place:
        fields.append("true")
    return f"DecoderPorts{braced(*fields)}"


def generation_source(manifest: Manifest, name: str, encoder: Bundle | None = None) -> str:
    """Return the text of generation.cpp: prompts, and the tokens that the model writes behind them.

    Args:
        manifest: That of the model, or of its decoder.
        name: The name of its class's namespace.
        encoder: The bundle of the encoder that reads the prompts.
    """
    texts = ",\n".join(f"      {_generation(one)}" for one in manifest.generations)
    begin, include = filled("generation_prompts.cpp", BUNDLE_TEMPLATES), ""
    if encoder is not None:
        of_encoder = part_name(name, encoder.folder.name)
        begin, include = _encoded(manifest, of_encoder, encoder.manifest), f'#include "{of_encoder}.hpp"\n'
    fields = {"name": name, "generations": texts, "begin": begin, "include": include}
    return filled("generation.cpp", BUNDLE_TEMPLATES, **fields, **OF_MODEL)


def part_name(name: str, part: str) -> str:
    """Return the name of the class, its file and its target of a model's other graph: NAME_encoder of encoder_model."""
    return f"{name}_{part.removesuffix('_model')}"


def _encoded(manifest: Manifest, name: str, encoder: Manifest) -> str:
    """Return the function with which a decoder begins behind an encoder of tokens, or of sounds.

    Args:
        manifest: That of the decoder.
        name: The name of the encoder's class.
        encoder: The manifest of the encoder.
    """
    batch = next(axis.name for axis in axes_of(encoder.inputs) if axis.kind == "batch")
    lengths = [axis.name for axis in axes_of(encoder.inputs) if axis.is_length]
    sounds = [port for port in encoder.inputs if port.dtype in FLOATS]
    by_name = {"input_ids": "ids", "attention_mask": "mask", **{port.name: "sounds" for port in sounds}}
    if sounds:
        prompts = filled("generation_sounds.cpp", BUNDLE_TEMPLATES, batch=batch, port=spelled(sounds[0].name))
    else:
        prompts = filled("generation_tokens.cpp", BUNDLE_TEMPLATES, batch=batch, seq=lengths[0])
    states = encoder.outputs[0]
    return filled(
        "generation_encoded.cpp",
        BUNDLE_TEMPLATES,
        encoder=name,
        prompts=prompts,
        element=qualified_type(states),
        arguments=", ".join(by_name[port.name] for port in encoder.inputs),
        features=states.axes[-1].size,
        mask=", mask" if any(port.name == STATES[1] for port in manifest.inputs) else "",
    )


def writes_in_cpp(encoder: Manifest) -> bool:
    """Return whether C++ makes the prompts of an encoder for its test: tokens, or sounds in float32."""
    return all(port.dtype in ("int64", "float32") for port in encoder.inputs)


def _generation(one: Generation) -> str:
    # with their types, as {{1}} may be a row of one token, or one row of no token
    rows = (f"Rows{braced(*(f'Row{braced(*row)}' for row in rows))}" for rows in (one.prompts, one.tokens))
    return braced(*rows, f"Row{braced(*one.begins)}")
