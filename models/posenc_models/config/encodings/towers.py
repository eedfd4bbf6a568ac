"""Model types of images whose heads are rotated by a patch's row and column: the vision towers of Qwen2-VL's kind."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from posenc_models.config.encodings.rows import If, Row, alike, hidden
from posenc_models.config.keys import Key, KeyOrigin, quotient
from posenc_models.config.settings import Setting, Settings

BLOCKS = (
    "the model's patches come in blocks of spatial_merge_size, and implicit positions row by row: where blocks are "
    "larger than a patch, give rows and columns with --positions explicit"
)
CLASS_TOKEN = (
    "the model turns its class token by learned angles: what is rotated here are the patches behind it"  # class_pos_emb
)
ROPE_TYPES = ("axial", "default")
"""What the settings may say: configuration classes take "default" for "axial"."""
RULES = ("default", "axial", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional", "mrope")
"""Rope types of transformers."""
# attribute_map: the general name is set last, and so counts
HEADS = Key("num_attention_heads", 16, ("num_heads",))
PLAIN_HEADS = Key("num_attention_heads", 16)


@dataclass(frozen=True)
class Either:
    """The value under a key, or, where the config has none, that of another source."""

    first: Key
    otherwise: KeyOrigin

    def read(self, config: Settings, absent: str) -> Setting:
        """Return the value with its origin."""
        setting = self.first.read(config, absent)
        return self.otherwise.read(config, absent) if setting.value is None else setting


@dataclass(frozen=True)
class OfRope:
    """A value of the rope settings, which stand under one of two keys.

    Args:
        name: its key there.
        default: what counts where it is absent.
        older: another name of the key.
        beside: keys beside the settings, for what they leave out.
    """

    name: str
    default: object
    older: str = ""
    beside: tuple[str, ...] = ()

    def read(self, config: Settings, absent: str) -> Setting:
        """Return the value with its origin."""
        # convert_rope_params_to_dict: rope_scaling takes the place of rope_parameters, whatever it leaves out
        settings = "rope_scaling" if config.content.get("rope_scaling") else "rope_parameters"
        older = (f"{settings}.{self.older}",) if self.older else ()
        return Key(f"{settings}.{self.name}", self.default, (*older, *self.beside)).read(config, absent)


def of_types(row: Row, types: tuple[str, ...] = ROPE_TYPES) -> tuple[Row, Row]:
    """Return the row of a tower, and that of a tower whose rope type its code refuses.

    Args:
        row: the tower's own.
        types: the rope types that its code takes; the first is what it takes where the settings say none.
    """
    kind, usual = OfRope("rope_type", types[0], "type"), types[0]
    others = tuple(name for name in RULES if name not in types)
    lacks = f"its rope type is not {usual}, and its own code takes no other"
    refused = Row("", part=row.part, when=(*row.when, If(kind, others)), lacks=lacks)
    return replace(row, when=(*row.when, If(kind, types))), refused


def base_of(theta: float) -> OfRope:
    """Return where the base stands: in the rope settings, or beside them; `theta` where the config says none."""
    return OfRope("rope_theta", theta, beside=("rope_theta",))


def head_of(width: KeyOrigin, heads: KeyOrigin) -> Either:
    """Return the features of a head, which the config says, or which share the width."""
    return Either(Key("head_dim", None), quotient(width, heads))


def _tower(width: KeyOrigin, heads: KeyOrigin, theta: float = 10000.0, differs: str = BLOCKS) -> tuple[Row, Row]:
    """Return the row of a tower, and that of a tower whose rope type its code refuses.

    Args:
        width: the features that the heads share.
        heads: how many heads there are.
        theta: the base where the config says none.
        differs: the note on what the scheme leaves to the caller.
    """
    parameters = {"head_dim": head_of(width, heads), "rope_theta": base_of(theta)}
    return of_types(Row("rope_2d", parameters, differs=differs))


def _usual(width: int, heads: Key = HEADS) -> tuple[Row, Row]:
    """Return a tower under the usual key of its width."""
    return _tower(hidden(width), heads)


TOWERS: Mapping[str, tuple[Row, ...]] = {
    "qwen2_vl_vision": _tower(Key("embed_dim", 1280), HEADS),  # its hidden_size is the language model's
    **alike("qwen2_5_vl_vision qwen2_5_omni_vision_encoder exaone4_5_vision", *_usual(3584)),
    **alike(
        "cohere_compass_vision qwen3_vl_vision qwen3_vl_moe_vision qwen3_5_vision qwen3_5_moe_vision qwen4_exp_vision "
        "qwen3_omni_moe_vision_encoder",
        *_usual(1152),
    ),
    **alike("glm4v_vision glm4v_moe_vision", *_usual(1536, Key("num_attention_heads", 12, ("num_heads",)))),
    **alike("glm5_next_vision glm_ocr_vision", *_usual(1024)),
    "ernie4_5_vl_moe_vision": _usual(1280),
    "dots3_note_vision_encoder": _usual(1536, Key("num_attention_heads", 24)),
    "lfm3_vl_vision": _tower(hidden(1024), PLAIN_HEADS, 1e6),
    **alike("mlcd mlcd_vision_model", *_tower(hidden(1664), PLAIN_HEADS, differs=CLASS_TOKEN)),
    "paddleocr_vl_vision": _tower(hidden(1152), PLAIN_HEADS, differs=""),
    "video_llama_3_vision": _usual(768, Key("num_attention_heads", 12)),
}
