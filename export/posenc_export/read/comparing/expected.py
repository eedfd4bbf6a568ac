"""What a model's config says of its encodings: a reading for each layer that rotates, or for each of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from posenc.formulas.families import FAMILIES, Family
from posenc.formulas.fitting import family_of
from posenc_models import ModelConfig
from posenc_models.config.encodings.parts import parts_of
from posenc_models.config.model_config import load_config
from posenc_models.config.read import Reading, read_config
from posenc_models.config.settings import Settings

COUNTS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
"""Keys of the number of layers."""
ENCODER, DECODER = ("encoder_layers", "num_layers", "n_layers"), ("decoder_layers", "num_decoder_layers")
"""Keys of the number of layers of an encoder, and of a decoder."""
LENGTHS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length", "seq_length")
"""Keys of the number of positions."""
MAX_LAYERS = 2**12
"""Layers that are compared, at most."""


@dataclass(frozen=True)
class Expected:
    """An encoding that a config describes.

    Args:
        part: which part of the config; empty for its own.
        family: the family of its scheme.
        readings: a reading for each layer, None for layers without rotation; a single one where all layers are alike.
        by_layer: whether `readings` has one for each layer.
        max_length: how many positions the model has, where the config says it.
        attentions: of a part, how many attentions the whole model has, with those from a decoder to its encoder.
    """

    part: str
    family: Family
    readings: tuple[Reading | None, ...]
    by_layer: bool = False
    max_length: int | None = None
    attentions: int | None = None


def expected_of(path: Path) -> tuple[Expected, ...]:
    """Return the encodings that a config.json, or a model's folder, describes; raise ValueError, in one line."""
    content = load_config(path)
    by_layer = _by_layer(content)
    if by_layer is not None:
        return (replace(by_layer, max_length=_max_length(content)),)
    try:
        found = _of(read_config(ModelConfig.of(content)), "")
        return tuple(_whole(entry, content) for entry in found)
    except ValueError:
        # a config of several encodings, as an encoder's and a decoder's: a file may hold one of them
        parts = [part.name for part in parts_of(Settings(content), str(content.get("model_type") or "")) if part.name]
        readable = [entry for name in parts for entry in _of_part(content, name)]
        # the words of the config itself, where none of its parts can be read
        if not readable:
            raise
        return tuple(replace(entry, attentions=_attentions(content)) for entry in readable)


def _attentions(content: Mapping[str, object]) -> int | None:
    """Return how many attentions an encoder and its decoder have together; None where a config does not say it."""
    encoder = next((n for key in ENCODER if isinstance(n := content.get(key), int)), None)
    decoder = next((n for key in DECODER if isinstance(n := content.get(key), int)), encoder)
    return None if encoder is None or decoder is None else encoder + 2 * decoder


def _whole(entry: Expected, content: Mapping[str, object]) -> Expected:
    """Return the only encoding of a config: one that rotates does so in every layer."""
    count = _layers(content)
    entry = replace(entry, max_length=_max_length(content))
    if not FAMILIES[entry.family].is_turned or count is None:
        return entry
    return replace(entry, readings=entry.readings * count, by_layer=True)


def _layers(content: Mapping[str, object]) -> int | None:
    count = next((content[key] for key in COUNTS if isinstance(content.get(key), int)), None)
    return count if isinstance(count, int) and 0 < count <= MAX_LAYERS else None


def _max_length(content: Mapping[str, object]) -> int | None:
    """Return how many positions a model has; None where its config has no key of these names."""
    return next((length for key in LENGTHS if isinstance(length := content.get(key), int)), None)


def _of_part(content: Mapping[str, object], name: str) -> tuple[Expected, ...]:
    try:
        return _of(read_config(ModelConfig.of(dict(content), part=name)), name)
    except ValueError:
        return ()


def _of(reading: Reading, part: str) -> tuple[Expected, ...]:
    family = family_of(reading.scheme)
    return () if family is None else (Expected(part, family, (reading,)),)


def _by_layer(content: Mapping[str, object]) -> Expected | None:
    """Return the readings of a rotary config whose layers can be read one by one; None for every other config."""
    count = _layers(content)
    if count is None:
        return None
    readings: list[Reading | None] = []
    for layer in range(count):
        try:
            readings.append(read_config(ModelConfig.of(dict(content), layer=layer)))
        except ValueError as error:
            if "has no rotary encoding" not in str(error):
                return None
            readings.append(None)
    first = next((reading for reading in readings if reading is not None), None)
    family = None if first is None else family_of(first.scheme)
    if family is None or not FAMILIES[family].is_turned:
        return None
    return Expected("", family, tuple(readings), by_layer=True)
