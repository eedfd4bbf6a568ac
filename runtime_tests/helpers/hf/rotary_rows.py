"""What a model type's rotary encodings are, in words: as its default config is read, where the model's code agrees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from helpers.hf.asked import built_in, modes_of, question_of
from helpers.hf.surveyed import LAYER_TYPES, default_config, findings_of
from posenc.scheme import SCHEMES
from posenc_models import ModelConfig, Reading, read_config
from posenc_models.asking import CannotAsk
from posenc_models.asking.rotary import layers_of as layers_asked
from posenc_models.config.encodings.parts import choose_part, parts_of
from posenc_models.config.rope.layers import UNATTENDING, Layer, layers_of
from posenc_models.config.rope.rotary import text_part, with_class
from posenc_models.config.settings import Settings

AXES: Mapping[str, str] = {
    "rope": "1",
    "mrope": "3: time, height, width",
    "rope_2d": "2: row, column",
    "dinov3": "2: row, column",
    "rope_nd": "",
}
"""The axes of positions by rotary scheme; of `rope_nd` the parameters say how many there are."""
SHOWN = 3
"""Layers that do not rotate and are shown by their numbers."""


class Row(NamedTuple):
    """A row of the table but for the names that share it: cells in words."""

    scheme: str
    rope_type: str
    pairing: str
    width: str
    axes: str
    bases: str
    unrotated: str


class Rotary(NamedTuple):
    """An encoding of a model type: its name, with the part where there are several, and its row; why, where none is."""

    name: str
    row: Row | None
    why: str = ""


def rotary_of(name: str) -> list[Rotary]:
    """Return the rotary encodings of a model type, each with a row where the model's own code agrees with all of it."""
    content = default_config(name)
    if isinstance(content, str):
        return []
    readings = {part: read for part in _parts(name, content) if (read := _readings(content, part))}
    if not readings:
        return []
    words = {finding.part: (finding.word, finding.why) for finding in findings_of(name, content)}
    found = []
    for part, by_type in readings.items():
        asked = [words.get(", ".join(filter(None, (part, kind))), ("not asked", "")) for kind in by_type]
        why = next((f"{word}: {reason}" for word, reason in asked if word != "right"), "")
        layers = _layers(content, part)
        why = why or _differs(content, part, next(iter(by_type.values())), layers)
        found.append(Rotary(f"{name} ({part})" if part else name, None if why else _row(by_type, layers), why))
    # the text of a model that is read without --part has the name of the whole
    first, *others = found
    return [first, *(rotary for rotary in others if rotary[1:] != first[1:])]


def _differs(content: Mapping[str, Any], part: str, reading: Reading, layers: tuple[Layer, ...]) -> str:
    """Return how the layers that do not rotate differ from those in which the model's own code rotates nothing."""
    if not layers:
        return ""
    still = {i for i, layer in enumerate(layers) if not layer.rotates and layer.type not in UNATTENDING}
    try:
        seen = layers_asked(question_of(content, part, reading, built_in(reading, modes_of(reading.scheme))))
    except CannotAsk as error:
        return f"not decided: {error}" if still else ""
    theirs = {i for i, layer in enumerate(seen) if layer.like is None and layer.layer_type not in UNATTENDING}
    if still == theirs and len(seen) == len(layers):
        return ""
    # of a layer whose call ended early, as in experts without weights, nobody knows whether it rotates
    if any(layer.error for layer in seen) or len(seen) != len(layers):
        return f"not decided: not all of its {len(layers)} layers can be called" if still else ""
    return f"wrong: layers {sorted(still ^ theirs)} rotate, or do not"


def _parts(name: str, content: Mapping[str, Any]) -> list[str]:
    """Return the parts of a config that are read: where it has an encoding without choice, that one first."""
    named = [part.name for part in parts_of(Settings(content), name) if part.row is None or not part.row.lacks]
    return list(dict.fromkeys(["", *named]))


def _readings(content: Mapping[str, Any], part: str) -> dict[str, Reading]:
    """Return what is read of a part's rotary encoding, by the types of layers that differ; nothing where none is."""
    types = [""]
    try:
        ModelConfig.of(content, part=part or None)
    except ValueError as error:
        listed = LAYER_TYPES.search(str(error))
        if listed is None:
            return {}
        types = listed[1].split(", ")
    try:
        readings = {kind: read_config(dict(content), kind or None, part=part or None) for kind in types}
    except ValueError:
        return {}
    rotary = all(reading.scheme in AXES for reading in readings.values())
    return readings if rotary else {}


def _row(readings: Mapping[str, Reading], layers: tuple[Layer, ...]) -> Row:
    def cell(words: Callable[[Reading], str]) -> str:
        """Return a cell: of layers that differ in it each with its type."""
        by_type = {kind: words(reading) for kind, reading in readings.items()}
        if len(set(by_type.values())) == 1:
            return next(iter(by_type.values()))
        return "; ".join(f"{kind} {text}" for kind, text in by_type.items())

    return Row(
        cell(lambda r: f"`{r.scheme}`"),
        cell(lambda r: str(r.parameters.get("rope_type", "default"))),
        cell(_pairing),
        cell(_width),
        cell(lambda r: AXES[r.scheme] or str(len(r.parameters["axes_dim"]))),
        cell(_bases),
        _unrotated(layers),
    )


def _pairing(reading: Reading) -> str:
    """Return which features of a head are a pair."""
    return str(reading.parameters.get("layout", SCHEMES[reading.scheme].parameters["layout"].default))


def _width(reading: Reading) -> str:
    """Return how much of a head is rotated."""
    parameters = reading.parameters
    share, rotated = parameters.get("partial_rotary_factor"), parameters.get("rotary_dim")
    if share not in (None, 1):
        return f"{share:g} of the pairs"
    if rotated in (None, parameters["head_dim"]):
        return "all"
    return f"{rotated} of {parameters['head_dim']}"


def _bases(reading: Reading) -> str:
    """Return the base of the frequencies, or those of the axes."""
    theta = reading.parameters.get("rope_theta", "")
    bases = theta if isinstance(theta, (list, tuple)) else [theta]
    return " / ".join(f"{base:,.0f}" for base in bases if base != "")


def _layers(content: Mapping[str, Any], part: str) -> tuple[Layer, ...]:
    """Return the layers of a part, where its config says what they are."""
    chosen = choose_part(content, part or None)
    if chosen is not None and chosen.row is not None:
        return ()
    text = text_part(content) if chosen is None else with_class(chosen.config.content, chosen.config.path)
    return layers_of(text, str(text.content.get("model_type") or "") if text.absent else "")


def _unrotated(layers: tuple[Layer, ...]) -> str:
    """Return which of the layers that attend do not rotate: by type, or by number, with how many there are."""
    still = [i for i, layer in enumerate(layers) if not layer.rotates and layer.type not in UNATTENDING]
    if not still:
        return ""
    types = {layers[i].type for i in still}
    apart = types.isdisjoint({layer.type for layer in layers if layer.rotates}) and "" not in types
    numbers = ", ".join(map(str, still[:SHOWN])) + (", ..." if len(still) > SHOWN else "")
    return f"{', '.join(sorted(types)) if apart else numbers} ({len(still)} of {len(layers)})"


def groups(found: Iterable[Rotary]) -> dict[Row, list[str]]:
    """Return the names that share each row."""
    shared: dict[Row, list[str]] = {}
    for rotary in found:
        if rotary.row is not None:
            shared.setdefault(rotary.row, []).append(rotary.name)
    return shared
