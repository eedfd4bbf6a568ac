"""Model types whose queries are multiplied by a factor of their position, besides rotation: `--part temperature`."""

from collections.abc import Mapping
from dataclasses import dataclass

from posenc_models.config.encodings.rows import LENGTH, If, Row, alike
from posenc_models.config.keys import Key
from posenc_models.config.settings import Setting, Settings

NAME = "temperature"
"""The name of such a part."""
ROPE_KEYS = ("rope_parameters", "rope_scaling")
"""Where rope settings stand, which hold those of Ministral's factor too."""
OFF = "attn_temperature_tuning is off: queries are multiplied by nothing"


@dataclass(frozen=True)
class Switch:
    """Whether a key is on: published files of Llama 4 have a number there."""

    name: str

    def read(self, config: Settings, absent: str) -> Setting:
        """Return whether the value is true or not 0; an absent key is on."""
        is_absent = self.name not in config.content
        return Setting(is_absent or bool(config.content[self.name]), absent if is_absent else config.path_of(self.name))


@dataclass(frozen=True)
class InRope:
    """A number among the rope settings, or what the class takes where a config has none at all.

    Args:
        name: its key.
        default: what the class's own rope settings have.
    """

    name: str
    default: float

    def read(self, config: Settings, absent: str) -> Setting:
        """Return the number; raise ValueError where there are rope settings without it."""
        written = next((key for key in ROPE_KEYS if isinstance(config.content.get(key), Mapping)), None)
        if written is None:
            return Setting(self.default, absent)
        rope = config.content[written]
        assert isinstance(rope, Mapping)
        setting = Setting(rope.get(self.name), f"{config.path_of(written)}.{self.name}")
        # the class fills in no single key of settings that a file has
        if setting.value is None:
            raise ValueError(f"{setting.path} is missing: the factor of queries needs it")
        return Setting(setting.whole() if isinstance(self.default, int) else setting.number(), setting.path)


def _llama4() -> tuple[Row, Row]:
    """Return the factor of Llama4TextAttention, in layers without rotation, or why there is none."""
    tuned = Switch("attn_temperature_tuning")
    # it counts positions from 1
    parameters = {"beta": Key("attn_scale", 0.1), "step": Key("floor_scale", 8192), "offset": 1}
    length = Key(LENGTH, 131072)
    return (
        Row("attention_temperature", parameters, NAME, (If(tuned, (True,)),), length=length),
        Row("", part=NAME, when=(If(tuned, (False,)),), lacks=OFF),
    )


def _ministral(step: int, length: int) -> Row:
    """Return the factor of `get_llama_4_attn_scale`, in all layers, after the rotation."""
    parameters = {
        "beta": InRope("llama_4_scaling_beta", 0.1),
        "step": InRope("original_max_position_embeddings", step),
    }
    return Row("attention_temperature", parameters, NAME, length=Key(LENGTH, length))


TEMPERATURES: Mapping[str, tuple[Row, ...]] = {
    "llama4_text": _llama4(),
    **alike("ministral3", _ministral(16384, 262144)),
    **alike("mistral4", _ministral(8192, 1048576)),
}
"""Rows by model type, of types that are rotary: what is read of them without `--part` is their rotation."""
