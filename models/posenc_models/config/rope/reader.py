"""One pass over a rotary model's config: the parameters of "rope" or "mrope", each with the key it was read from."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from posenc_models.config.accounts import ignored
from posenc_models.config.rope.layouts import PAIRS, SWITCHED
from posenc_models.config.rope.rotary import PARTIAL_KEYS, THETA_KEYS
from posenc_models.config.rope.rotary_config import RotaryConfig
from posenc_models.config.rope.scaling import parameters_of, rope_type_names, scaling_names, scaling_value
from posenc_models.config.rope.widths import SHARE, head_dim_of, is_rotated_apart, rotary_dim_of, share_of
from posenc_models.config.settings import Setting, short

ALIASES = {"su": "longrope", "mrope": "default"}
"""Rope types by other names: Phi-3's first files say "su", Qwen2-VL's "mrope"."""
READ = frozenset(
    ("rope_type", "type", "mrope_section", "xdrope_section", "mrope_interleaved", *THETA_KEYS, *PARTIAL_KEYS)
)
"""Keys of rope settings that are read for every rope type."""
OF_NO_ACCOUNT = {
    "finetuned": "says how weights were made",
    "llama_4_scaling_beta": "scales queries, after they are rotated",
}
"""Keys of rope settings that change no angle, with what they do."""
UNROTATED = "without rotation"
"""The name in a manifest of the layers that attend and do not rotate."""
NULL_IS_FALSE = ("truncate",)
"""Parameters that are true where they are absent, and for transformers false where they are null: null is refused."""
TYPO = 0.85
"""How like a known key an unknown one must be to be taken for a slip of the pen."""
FAST, SLOW = 32.0, 1.0
"""What transformers takes for beta_fast and beta_slow where a config does not say."""
OPTIONAL_ZEROS = ("mscale", "mscale_all_dim")
"""Parameters whose 0 stands for their absence: `if mscale and mscale_all_dim` in _compute_yarn_parameters."""


class RotaryReader:
    """Parameters and their origins, in the order in which they are read.

    Args:
        config: what is read.
        overrides: parameters that are taken as they are.
        length: how many positions the model is made for, if the config says so.
        angles_alone: leave open which features of a head are a pair.
    """

    def __init__(
        self, config: RotaryConfig, overrides: Mapping[str, object], length: int | None, angles_alone: bool
    ) -> None:
        self.config, self.text, self.rope, self.defaults = config, config.text, config.rope, config.defaults
        self.length = length
        self.alpha: Setting | None = None
        self.angles_alone = angles_alone
        self.notes: list[str] = []
        self.parameters: dict[str, Any] = dict(overrides)
        self.origin = dict.fromkeys(overrides, "given")

    def read(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the parameters and the origin of each."""
        self.read_rope_type()
        self.read_rotary_dim(self.read_head_dim())
        self.read_theta()
        if not self.angles_alone:
            self.read_layout()
        self.read_sections()
        self.read_scaling()
        self.note_doubts()
        self.note_unused()
        if self.config.choice.note:
            self.origin["layers"] = self.config.choice.note
        if self.config.unrotated:
            self.origin[UNROTATED] = self.config.unrotated
        return self.parameters, self.origin

    def set(self, name: str, value: object, origin: str) -> None:
        """Note a parameter and where it is from, unless an override is stronger."""
        if name not in self.parameters:
            self.parameters[name] = value
            self.origin[name] = origin

    def read_rope_type(self) -> None:
        """Read the rope type, under its new name or its old one ("type")."""
        rope = self.rope
        key = "rope_type" if "rope_type" in rope.content else "type"
        # rope_scaling of old files says "type"
        name = rope.content.get(key, "default")
        rope_type = {**ALIASES, **self.defaults.aliases}.get(name, name) if isinstance(name, str) else ""
        if rope_type not in rope_type_names():
            expected = f"expected one of {', '.join(rope_type_names())}, su or mrope"
            raise ValueError(f"{rope.path_of(key)} is {short(name)}: {expected}")
        if rope_type == "dynamic" and self.defaults.stretched and rope.nonempty("alpha") is not None:
            # HunYuan's code: a base that is stretched once, whatever the length of a call
            self.alpha, rope_type = rope.nonempty("alpha"), "default"
        self.set("rope_type", rope_type, rope.path_of(key) if key in rope.content else "default")

    def read_head_dim(self) -> int:
        """Read how many features a head has."""
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
        """Read which share of a head is rotated: a parameter of some rope types, a width for the others."""
        names = parameters_of(self.parameters["rope_type"])
        takes_share = SHARE in names
        partial = share_of(self.config, bool(names), takes_share)
        if partial is None:
            return
        share = partial.number()
        width = int(head_dim * share)  # rounded down, as transformers does
        if takes_share:
            self.set(SHARE, share, partial.path)
        elif self.defaults.tail and self.origin.get("head_dim") != "given":
            # DeepSeek V4 rotates the last features alone: these are the head that the scheme sees
            self.parameters["head_dim"] = width
            self.origin["head_dim"] += f", of which {partial.path} {share:g}, the last ones, are rotated"
        elif width != head_dim:
            self.set("rotary_dim", width, f"{partial.path} {share:g} of head_dim {head_dim}")

    def read_theta(self) -> None:
        """Read the base: from the rope settings, else beside them, else what the model's own code takes."""
        if "rope_theta" in self.parameters:
            return
        text = self.text
        keys = text.absent.get("thetas", THETA_KEYS if not text.absent else ("rope_theta",))
        assert isinstance(keys, (list, tuple))
        theta = self.rope.first(*THETA_KEYS) or text.first(*keys) or text.first("rope_theta")
        if theta is None and self.defaults.rope_theta is not None:
            theta = self.config.default(self.defaults.rope_theta)
        if theta is None:
            missing = text.path_of("rope_theta")
            raise ValueError(f"the config has no {missing}, in which models differ: give -p rope_theta=VALUE")
        base, origin = theta.number(), theta.path
        if self.alpha is not None:
            dim = int(self.parameters["head_dim"])
            base *= self.alpha.number() ** (dim / (dim - 2))
            origin += f" x {self.alpha.path} ^ ({dim} / {dim - 2})"
        self.set("rope_theta", base, origin)

    def read_layout(self) -> None:
        """Read which features are a pair, halves by default or neighbours, and which way pairs turn."""
        if self.defaults.backward:
            self.set("direction", "backward", f"model_type {self.config.model_type}")
        if self.config.model_type in PAIRS:
            self.set("layout", "interleaved", f"model_type {self.config.model_type}")
        elif self.config.model_type in SWITCHED:
            setting = self.text.at("rope_interleave")
            if not isinstance(setting.value, (bool, type(None))):
                raise ValueError(f"{setting.path} must be true or false, got {short(setting.value)}")
            self.set("layout", "interleaved" if setting.value else "halves", setting.path)

    def read_sections(self) -> None:
        """Read which pairs are of which position, where a token has several."""
        sections = self.config.sections
        if sections is None:
            return
        share = self.text.nonempty("freq_allocation")
        if share is not None and not self.text.absent and self.rope.nonempty("mrope_section") is None:
            # ERNIE's own code, before transformers had it: the pairs of time; height and width share the others
            time, pairs = share.whole(), int(self.parameters["head_dim"]) // 2
            sections = Setting((time, *((pairs - time) // 2,) * 2), f"{share.path} {time} of {pairs} pairs")
        if self.defaults.section_layout == "interleaved":
            sections = self.alternating(sections)
        self.set("sections", sections.value, sections.path)
        if self.defaults.section_layout:
            self.set("section_layout", self.defaults.section_layout, f"model_type {self.config.model_type}")
        elif self.rope.content.get("mrope_interleaved") is True:
            self.set("section_layout", "interleaved", self.rope.path_of("mrope_interleaved"))

    def alternating(self, sections: Setting) -> Setting:
        """Return sections of pairs by turns: height and width end with the head, time has the rest."""
        pairs = int(self.parameters.get("rotary_dim") or self.parameters["head_dim"]) // 2
        written = sections.value
        if not isinstance(written, tuple) or len(written) != 3 or sum(written) == pairs:
            return sections
        # slice(1, 3 height, 3) and slice(2, 3 width, 3) of the pairs, in recomposition_frequencies of Qwen3-VL
        height, width = (len(range(axis, min(3 * written[axis], pairs), 3)) for axis in (1, 2))
        return Setting((pairs - height - width, height, width), f"{sections.path}, for {pairs} pairs")

    def read_scaling(self) -> None:
        """Read what the rope type takes, from the rope settings, or from where transformers falls back to."""
        rope_type = self.parameters["rope_type"]
        for name, required in parameters_of(rope_type).items():
            if name in self.parameters:
                continue
            setting = self.scaling(name)
            if name in NULL_IS_FALSE and setting.value is None and name in self.rope.content:
                raise ValueError(f"{setting.path} must be true or false, got None")
            if setting.value is None or (name in OPTIONAL_ZEROS and not setting.value):
                if required:
                    raise ValueError(f"{setting.path} is missing: rope type {rope_type} needs it")
                continue
            self.set(name, scaling_value(name, setting), setting.path)

    def note_doubts(self) -> None:
        """Note settings of which transformers' own validation warns: it computes with them all the same."""
        values, path_of = self.parameters, self.rope.path_of
        factor = values.get("factor")
        if isinstance(factor, (int, float)) and factor < 1 and self.origin.get("factor") == path_of("factor"):
            self.notes.append(f"{path_of('factor')} is {factor:g}: transformers warns of factors below 1")
        has_ramp = "beta_fast" in parameters_of(values["rope_type"])
        if has_ramp and factor is None and "factor" not in self.rope.content:
            # transformers refuses such a config; a null it takes for the ratio of the two contexts
            raise ValueError(f"{path_of('factor')} is missing: rope type {values['rope_type']} needs it")
        fast, slow = values.get("beta_fast"), values.get("beta_slow")
        if has_ramp and (fast or FAST) < (slow or SLOW):
            told = f"{path_of('beta_fast')} ({fast or FAST:g}) is below beta_slow ({slow or SLOW:g})"
            self.notes.append(f"{told}: transformers warns of that, and the ramp between the two is turned round")
        low, high = values.get("low_freq_factor"), values.get("high_freq_factor")
        if isinstance(low, (int, float)) and isinstance(high, (int, float)) and high <= low:
            self.notes.append(f"{path_of('high_freq_factor')} ({high:g}) is not above low_freq_factor ({low:g})")

    def scaling(self, name: str) -> Setting:
        """Return what is said of a parameter: a model's own original context is stronger than its rope settings."""
        setting, context = self.rope.at(name), "max_position_embeddings"
        if name == context:
            return Setting(self.length, context)
        if name == "original_max_position_embeddings":
            own = self.text.at(name)  # Phi-3 has it beside the rope settings
            return own if own.value else setting if setting.value is not None else Setting(self.length, context)
        return setting

    def note_unused(self) -> None:
        """Note keys of another rope type, or of no account; raise ValueError for unknown keys."""
        rope = self.rope
        read = READ if self.alpha is None else READ | {"alpha"}
        keys = [key for key, value in rope.content.items() if value is not None and key not in read]
        passed_over = ignored(self.config.model_type)
        known = sorted(read | scaling_names() | set(OF_NO_ACCOUNT))
        for key in (key for key in keys if key not in known and key not in passed_over):
            near = get_close_matches(key, known, n=1, cutoff=TYPO)
            hint = f": did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"{rope.path_of(key)} is not read, and may change the angles{hint}")
        # a key that is known and was not read is of another rope type
        unused = [rope.path_of(key) for key in keys if rope.path_of(key) not in self.origin.values()]
        if unused:
            self.origin["not used"] = ", ".join(unused)
