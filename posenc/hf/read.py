"""A model's config to a scheme and its parameters, each with the key that it was read from.

Where a key is absent, what transformers does then is done; what was taken from elsewhere is said in `origin`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from posenc.hf.config.config import ModelConfig
from posenc.hf.config.settings import Json, Setting, short
from posenc.hf.encodings.described import parameters_of as described_parameters
from posenc.hf.encodings.parts import Part, parts_of
from posenc.hf.encodings.rows import Row
from posenc.hf.rope.layouts import PAIRS, SWITCHED, check_known
from posenc.hf.rope.rotary import PARTIAL_KEYS, THETA_KEYS
from posenc.hf.rope.scaling import parameters_of, rope_type_names, scaling_names, scaling_value
from posenc.hf.rope.widths import SHARE, head_dim_of, is_rotated_apart, rotary_dim_of, share_of

Parameters = dict[str, Any]
"""Keyword arguments of a scheme."""
ALIASES = {"su": "longrope", "mrope": "default"}
"""Rope types by other names."""
READ = frozenset(("rope_type", "type", "mrope_section", "mrope_interleaved", *THETA_KEYS, *PARTIAL_KEYS))
"""Keys of rope settings that are read for every rope type."""
OF_NO_ACCOUNT = {
    "finetuned": "says how weights were made",
    "llama_4_scaling_beta": "scales queries, after they are rotated",
}
"""Keys of rope settings that change no angle, with what they do."""
NULL_IS_FALSE = ("truncate",)
"""Parameters that are true where they are absent, and for transformers false where they are null: null is refused."""
OPTIONAL_ZEROS = ("mscale", "mscale_all_dim")
"""Parameters whose 0 means that there is none."""


@dataclass(frozen=True)
class Reading:
    """What a config says: the scheme, its keyword arguments, and for each the key it was read from.

    origin also names, under "not used", the rope settings that nothing was read from.
    max_position_embeddings: how many positions the model is made for, if the config says so.
    spec: fields of a spec that the model implies: positions, position_offset, max_len; `origin` says where from.
    notes: in what the scheme is known to be other than the model.
    """

    scheme: str
    parameters: Parameters
    origin: dict[str, str]
    max_position_embeddings: int | None = None
    spec: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


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

    overrides: parameters to take as they are, whatever the config says of them; their origin is "given".
    part: which of its encodings; a `ModelConfig` has chosen already. positions: how they are given, where it matters.
    layer: which of its layers, by its number. angles_alone: leave open which features of a head are a pair.
    Raises ValueError, in one line that names the key, for a config whose encoding is not known, an unknown rope type, a
    missing or malformed field, and a layer type or a part that is missing, or that the config has not.
    """
    if not isinstance(config, ModelConfig):
        config = ModelConfig.of(config, layer_type, part=part, layer=layer)
    elif layer_type not in (None, config.layer_type) or layer not in (None, config.choice.index):
        config = ModelConfig.of(config.content, layer_type, config.path, part, layer)
    if config.part is not None and config.part.row is not None:
        return _described(config, config.part, config.part.row, overrides or {}, positions)
    if not angles_alone:
        check_known(config.model_type, str(config.content.get("model_type")), "layout" in (overrides or {}))
    return _Reader(config, overrides or {}, angles_alone).read()


def _described(
    config: ModelConfig, part: Part, row: Row, overrides: Mapping[str, object], positions: str | None
) -> Reading:
    """Return what the row of a model type says of its config."""
    spec = config.spec_settings(positions)
    settings = described_parameters(part, row, positions, overrides)
    values = {name: setting.value for name, setting in settings.items() if setting.value is not None}
    origin = {name: setting.path for name, setting in {**settings, **spec}.items()}
    fields = {name: setting.value for name, setting in spec.items()}
    length = None if row.length is None else int(str(row.length.read(part.config, part.absent).value))
    origin = {**dict.fromkeys(overrides, "given"), **origin}
    others = [other for other in parts_of(part.config, part.model_type) if other.row is not None and other.row.lacks]
    if others:
        origin["not used"] = "; ".join(f"{other.name}: {other.row.lacks}" for other in others if other.row is not None)
    notes = (row.differs,) if row.differs else ()
    return Reading(row.scheme, {**overrides, **values}, origin, length, fields, notes)


class _Reader:
    """One pass over a config: parameters and their origins, in the order in which they are read."""

    def __init__(self, config: ModelConfig, overrides: Mapping[str, object], angles_alone: bool) -> None:
        self.config = config
        self.angles_alone = angles_alone
        self.parameters: Parameters = dict(overrides)
        self.origin = dict.fromkeys(overrides, "given")

    def read(self) -> Reading:
        scheme, length = self.config.scheme, self.config.max_position_embeddings
        self.read_rope_type()
        self.read_rotary_dim(self.read_head_dim())
        self.read_theta()
        self.read_layouts()
        self.read_scaling(length)
        self.note_unused()
        if self.config.choice.note:
            self.origin["layers"] = self.config.choice.note
        return Reading(scheme, self.parameters, self.origin, length)

    def set(self, name: str, value: object, origin: str) -> None:
        """Note a parameter and where it is from, unless an override is stronger."""
        if name not in self.parameters:
            self.parameters[name] = value
            self.origin[name] = origin

    def read_rope_type(self) -> None:
        rope = self.config.rope
        key = "rope_type" if "rope_type" in rope.content else "type"
        name = rope.content.get(key, "default")
        own = {**ALIASES, **self.config.defaults.aliases}
        rope_type = own.get(name, name) if isinstance(name, str) else ""
        if rope_type not in rope_type_names():
            expected = f"expected one of {', '.join(rope_type_names())}, su or mrope"
            raise ValueError(f"{rope.path_of(key)} is {short(name)}: {expected}")
        self.set("rope_type", rope_type, rope.path_of(key) if key in rope.content else "default")

    def read_head_dim(self) -> int:
        if "head_dim" not in self.parameters:
            setting = head_dim_of(self.config)
            self.set("head_dim", setting.value, setting.path)
        return int(self.parameters["head_dim"])

    def read_rotary_dim(self, head_dim: int) -> None:
        """Read how many features of a head are rotated."""
        rotary_dim = rotary_dim_of(self.config)
        if rotary_dim is not None:
            self.set("rotary_dim", rotary_dim.value, rotary_dim.path)
        elif not is_rotated_apart(self.config):
            self.read_share(head_dim)

    def read_share(self, head_dim: int) -> None:
        """Read which share of a head is rotated, a parameter of a rope type that has it, else a width."""
        names = parameters_of(self.parameters["rope_type"])
        takes_share = SHARE in names
        partial = share_of(self.config, bool(names), takes_share)
        if partial is None:
            return
        share = partial.number()
        if takes_share:
            self.set(SHARE, share, partial.path)
        elif self.config.defaults.tail and self.origin.get("head_dim") != "given":
            self.parameters["head_dim"] = int(head_dim * share)
            self.origin["head_dim"] += f", of which {partial.path} {share:g}, the last ones, are rotated"
        elif int(head_dim * share) != head_dim:
            self.set("rotary_dim", int(head_dim * share), f"{partial.path} {share:g} of head_dim {head_dim}")

    def read_theta(self) -> None:
        if "rope_theta" in self.parameters:
            return
        text = self.config.text
        keys = text.absent.get("thetas", THETA_KEYS if not text.absent else ("rope_theta",))
        assert isinstance(keys, (list, tuple))
        theta = self.config.rope.first(*THETA_KEYS) or text.first(*keys) or text.first("rope_theta")
        if theta is None and self.config.defaults.rope_theta is not None:
            theta = self.config.default(self.config.defaults.rope_theta)
        if theta is None:
            missing = self.config.text.path_of("rope_theta")
            raise ValueError(f"the config has no {missing}, in which models differ: give -p rope_theta=VALUE")
        self.set("rope_theta", theta.number(), theta.path)

    def read_layouts(self) -> None:
        """Read which features are a pair, and which pairs are of which position."""
        config, by_type = self.config, f"model_type {self.config.model_type}"
        if config.model_type in PAIRS and not self.angles_alone:
            self.set("layout", "interleaved", by_type)
        if config.model_type in SWITCHED and not self.angles_alone:
            self.read_switch()
        sections = config.sections
        if sections is None:
            return
        self.set("sections", sections.value, sections.path)
        if config.defaults.interleaved_sections:
            self.set("section_layout", "interleaved", by_type)
        elif config.rope.content.get("mrope_interleaved") is True:
            self.set("section_layout", "interleaved", config.rope.path_of("mrope_interleaved"))

    def read_switch(self) -> None:
        """Read which features are a pair where a key says so."""
        setting = self.config.text.at("rope_interleave")
        if not isinstance(setting.value, (bool, type(None))):
            raise ValueError(f"{setting.path} must be true or false, got {short(setting.value)}")
        self.set("layout", "interleaved" if setting.value else "halves", setting.path)

    def read_scaling(self, length: int | None) -> None:
        """Read what the rope type takes, from the rope settings, or from where transformers falls back to."""
        rope_type = self.parameters["rope_type"]
        for name, required in parameters_of(rope_type).items():
            if name in self.parameters:
                continue
            setting = self.scaling(name, length)
            if name in NULL_IS_FALSE and setting.value is None and name in self.config.rope.content:
                raise ValueError(f"{setting.path} must be true or false, got None")
            if setting.value is None or (name in OPTIONAL_ZEROS and not setting.value):
                if required:
                    raise ValueError(f"{setting.path} is missing: rope type {rope_type} needs it")
                continue
            self.set(name, scaling_value(name, setting), setting.path)

    def scaling(self, name: str, length: int | None) -> Setting:
        """Return what is said of a parameter: a model's own original context is stronger than its rope settings."""
        setting = self.config.rope.at(name)
        if name == "original_max_position_embeddings":
            own = self.config.text.at(name)
            if own.value:
                return own
            return setting if setting.value is not None else Setting(length, "max_position_embeddings")
        return Setting(length, name) if name == "max_position_embeddings" else setting

    def note_unused(self) -> None:
        """Note what is of another rope type, or of no account; raise ValueError for what nobody knows."""
        rope = self.config.rope
        keys = [key for key, value in rope.content.items() if value is not None and key not in READ]
        known = sorted(READ | scaling_names() | set(OF_NO_ACCOUNT))
        for key in (key for key in keys if key not in known):
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"{rope.path_of(key)} is not known, and may change the angles: {hint}leave it out if not")
        unused = [rope.path_of(key) for key in keys if rope.path_of(key) not in self.origin.values()]
        if unused:
            self.origin["not used"] = ", ".join(unused)
