"""A model's config to a scheme and its parameters, each with the key that it was read from.

Where a key is absent, what transformers does then is done; what was taken from elsewhere is said in `origin`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from posenc_models.config.encodings.described import parameters_of
from posenc_models.config.encodings.parts import ConfigPart, parts_of
from posenc_models.config.encodings.rows import Row
from posenc_models.config.model_config import ModelConfig
from posenc_models.config.params import in_its_words, is_params, notes_on
from posenc_models.config.rope.by_type import TypesReader
from posenc_models.config.rope.layouts import check_known, check_refused, is_known
from posenc_models.config.rope.reader import RotaryReader
from posenc_models.config.settings import Json
from posenc_models.config.unread import check_rotary_keys, check_row_keys, whose_notes


@dataclass(frozen=True)
class Reading:
    """What a config says: the scheme, its keyword arguments, and for each the key it was read from.

    Args:
        scheme: the name of the scheme.
        parameters: its keyword arguments.
        origin: the key of each; under "not used" the rope settings that nothing was read from.
        max_position_embeddings: how many positions the model is made for, if the config says so.
        spec: fields of a spec that the model implies: positions, position_offset, max_len; `origin` says where from.
        notes: known differences between the scheme and the model.
        cut: how many of the first rows of its table the model leaves out.
    """

    scheme: str
    parameters: dict[str, Any]
    origin: dict[str, str]
    max_position_embeddings: int | None = None
    spec: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    cut: int = 0


def read_config(
    config: ModelConfig | Json,
    layer_type: str | None = None,
    overrides: Mapping[str, object] | None = None,
    *,
    part: str | None = None,
    positions: str | None = None,
    layer: int | None = None,
    angles_alone: bool = False,
) -> Reading:
    """Return the scheme that a config describes, of one of its parts and layers where those differ.

    Args:
        config: a config.json, or a view of it that has chosen part and layer already.
        layer_type: the type of the layers that are read, or "all" for every type that rotates.
        overrides: parameters to take as they are, whatever the config says of them; their origin is "given".
        part: which of its encodings.
        positions: how positions are given, where it matters.
        layer: which of its layers, by its number.
        angles_alone: read the rope settings alone, and leave open which features of a head are a pair.

    Raises:
        ValueError: in one line that names the key, for a config whose encoding is not known, an unknown rope type, a
            missing or malformed field, and a layer type or a part that the config does not have.
    """
    overrides = overrides or {}
    if not isinstance(config, ModelConfig) and angles_alone:
        config = ModelConfig.of_rotation(config, layer_type)
    elif not isinstance(config, ModelConfig):
        config = ModelConfig.of(config, layer_type, part=part, layer=layer)
    elif layer_type not in (None, config.layer_type) or layer not in (None, config.layer):
        config = ModelConfig.of(config.content, layer_type, config.path, part, layer)
    if config.rotary is None:
        assert config.part is not None
        assert config.part.row is not None
        return _described(config, config.part, config.part.row, overrides, positions)
    if not angles_alone:
        check_refused(config.rotary.model_type, str(config.content.get("model_type")))
    if not angles_alone and not is_known(config.rotary.model_type):
        # keys that were not read say more than what is missing
        check_rotary_keys(config.rotary, config.content, overrides)
    scheme, length = config.scheme, config.max_position_embeddings
    if config.by_type:
        types = TypesReader(config.by_type, overrides, length)
        parameters, origin = types.read()
        notes = types.notes
    else:
        reader = RotaryReader(config.rotary, overrides, length, angles_alone)
        parameters, origin = reader.read()
        notes = reader.notes
    if not angles_alone:
        whole = {} if is_params(config.content) else config.content
        origin |= check_rotary_keys(config.rotary, whole, parameters)
        if is_params(config.content):
            origin = in_its_words(origin)
            notes = [*notes, *notes_on(config.content)]
        check_known(config.rotary.model_type, "layout" in overrides)
        notes = [*notes, *whose_notes(config.rotary.model_type, config.content)]
    return Reading(scheme, parameters, origin, length, notes=tuple(notes))


def _described(
    config: ModelConfig, part: ConfigPart, row: Row, overrides: Mapping[str, object], positions: str | None
) -> Reading:
    """Return what the row of a model type says of its config."""
    unread_keys = check_row_keys(part, row, config.content)
    spec = config.spec_settings(positions)
    row = row.asked_for(overrides)
    settings = parameters_of(part, row, positions, overrides)
    values = {name: setting.value for name, setting in settings.items() if setting.value is not None}
    origin = dict.fromkeys(overrides, "given")
    origin |= {name: setting.path for name, setting in {**settings, **spec}.items()}
    origin |= unread_keys
    fields = {name: setting.value for name, setting in spec.items()}
    length = None if row.length is None else int(str(row.length.read(part.config, part.absent).value))
    unread = [(p.name, p.row.lacks) for p in parts_of(part.config, part.model_type) if p.row is not None]
    lacking = "; ".join(f"{name}: {lacks}" for name, lacks in unread if lacks)
    if lacking:
        origin["not used"] = lacking
    notes = (row.differs,) if row.differs else ()
    return Reading(row.scheme, {**overrides, **values}, origin, length, fields, notes, row.cut)
