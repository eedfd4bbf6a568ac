"""A model's config to a scheme and its parameters, each with the key that it was read from.

Where a key is absent, what transformers does then is done; what was taken from elsewhere is said in `origin`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from posenc.hf.config import ModelConfig
from posenc.hf.described import parameters_of as described_parameters
from posenc.hf.parts import Part
from posenc.hf.rotary import HEAD_DIM_KEYS, HEADS_KEYS, PARTIAL_KEYS, THETA_KEYS, WIDTH_KEYS
from posenc.hf.rows import Row
from posenc.hf.scaling import parameters_of, rope_type_names, scaling_names, scaling_value
from posenc.hf.settings import Json, Setting, short

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
SHARE = "partial_rotary_factor"
"""The parameter of rope types that leave part of a head as it is by themselves."""
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
) -> Reading:
    """Return the scheme that a config describes, of one of its parts and layer types where those differ.

    overrides: parameters to take as they are, whatever the config says of them; their origin is "given".
    part: which of its encodings; a `ModelConfig` has chosen already. positions: how they are given, where it matters.
    Raises ValueError, in one line that names the key, for a config whose encoding is not known, an unknown rope type, a
    missing or malformed field, and a layer type or a part that is missing, or that the config has not.
    """
    if not isinstance(config, ModelConfig):
        config = ModelConfig.of(config, layer_type, part=part)
    elif layer_type not in (None, config.layer_type):
        config = ModelConfig.of(config.content, layer_type, config.path, part)
    if config.part is not None and config.part.row is not None:
        return _described(config, config.part, config.part.row, overrides or {}, positions)
    return _Reader(config, overrides or {}).read()


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
    return Reading(row.scheme, {**overrides, **values}, origin, length, fields, (row.differs,) if row.differs else ())


class _Reader:
    """One pass over a config: parameters and their origins, in the order in which they are read."""

    def __init__(self, config: ModelConfig, overrides: Mapping[str, object]) -> None:
        self.config = config
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
        if "head_dim" in self.parameters:
            return int(self.parameters["head_dim"])
        text = self.config.text
        wide = text.nonempty("global_head_dim") if self.config.layer_type == "full_attention" else None
        setting = wide or text.first(*HEAD_DIM_KEYS) or self.shared_width()
        head_dim = setting.whole()
        self.set("head_dim", head_dim, setting.path)
        return head_dim

    def shared_width(self) -> Setting:
        """Return what each head has of the model's width."""
        text = self.config.text
        width, heads = text.first(*WIDTH_KEYS), text.first(*HEADS_KEYS)
        if width is None or heads is None:
            missing = [text.path_of(key) for key in ("head_dim", "hidden_size" if width is None else HEADS_KEYS[0])]
            raise ValueError(f"the config has neither {missing[0]} nor {missing[1]}: give -p head_dim=VALUE")
        head_dim, rest = divmod(width.whole(), heads.whole())
        if rest:
            multiple = f"{width.path} ({width.value}) must be a multiple of {heads.path} ({heads.value})"
            raise ValueError(f"{multiple}: give -p head_dim")
        return Setting(head_dim, f"{width.path} / {heads.path}")

    def read_rotary_dim(self, head_dim: int) -> None:
        """Read how many features of a head are rotated."""
        text, defaults = self.config.text, self.config.defaults
        if text.content.get("qk_rope_head_dim"):
            return
        rotary_dim = text.nonempty("rotary_dim")
        if rotary_dim is None and defaults.rotary_dim is not None:
            rotary_dim = Setting(defaults.rotary_dim, text.path_of(self.config.default(None).path))
        if rotary_dim is None:
            self.read_share(head_dim)
        else:
            self.set("rotary_dim", rotary_dim.whole(), rotary_dim.path)

    def read_share(self, head_dim: int) -> None:
        """Read which share of a head is rotated, a parameter of a rope type that has it, else a width."""
        partial = self.config.rope.first(*PARTIAL_KEYS) or self.config.text.first(*PARTIAL_KEYS)
        if partial is None and self.config.defaults.partial_rotary_factor is not None:
            partial = self.config.default(self.config.defaults.partial_rotary_factor)
        if partial is None:
            return
        share = partial.number()
        if SHARE in parameters_of(self.parameters["rope_type"]):
            self.set(SHARE, share, partial.path)
        elif int(head_dim * share) != head_dim:
            self.set("rotary_dim", int(head_dim * share), f"{partial.path} {share:g} of head_dim {head_dim}")

    def read_theta(self) -> None:
        if "rope_theta" in self.parameters:
            return
        theta = self.config.rope.first(*THETA_KEYS) or self.config.text.first(*THETA_KEYS)
        if theta is None and self.config.defaults.rope_theta is not None:
            theta = self.config.default(self.config.defaults.rope_theta)
        if theta is None:
            missing = self.config.text.path_of("rope_theta")
            raise ValueError(f"the config has no {missing}, in which models differ: give -p rope_theta=VALUE")
        self.set("rope_theta", theta.number(), theta.path)

    def read_layouts(self) -> None:
        """Read which features are a pair, and which pairs are of which position."""
        config, by_type = self.config, f"model_type {self.config.model_type}"
        if config.defaults.interleaved:
            self.set("layout", "interleaved", by_type)
        sections = config.sections
        if sections is None:
            return
        self.set("sections", sections.value, sections.path)
        if config.defaults.interleaved_sections:
            self.set("section_layout", "interleaved", by_type)
        elif config.rope.content.get("mrope_interleaved") is True:
            self.set("section_layout", "interleaved", config.rope.path_of("mrope_interleaved"))

    def read_scaling(self, length: int | None) -> None:
        """Read what the rope type takes, from the rope settings, or from where transformers falls back to."""
        rope_type = self.parameters["rope_type"]
        for name, required in parameters_of(rope_type).items():
            if name in self.parameters:
                continue
            setting = self.scaling(name, length)
            if setting.value is None or (name in OPTIONAL_ZEROS and not setting.value):
                if required:
                    raise ValueError(f"{setting.path} is missing: rope type {rope_type} needs it")
                continue
            self.set(name, scaling_value(name, setting), setting.path)

    def scaling(self, name: str, length: int | None) -> Setting:
        """Return what is said of a parameter: a model's own original context is stronger than its rope settings."""
        setting = self.config.rope.at(name)
        if name == "original_max_position_embeddings":
            own = self.config.text.content.get(name)
            if own:
                return Setting(own, name)
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
