"""What models of a type do where their config.json does not say.

`class_defaults.json` holds what transformers' configuration classes take for absent keys, and which keys they take at
all; `scripts/hf_class_defaults.py` of the tests asks them and writes it. Below is what only a model's code says.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Literal

from posenc_models.config.settings import Json


@dataclass(frozen=True)
class Defaults:
    """The rotary encoding of a model type, as far as its configs leave it out.

    Args:
        rope_theta: the base, for types that are rotary even if a config says nothing of it.
        rotary_dim: the features of a head that are rotated.
        sections: the pairs of each position, where a token has several.
        section_layout: how sections share out the pairs; empty for runs, and where the config says it.
        aliases: the type's own names for rope types.
        still: the types of layers that do not rotate.
        windowed: whether that holds only where the config has a sliding window.
        still_unwindowed: the types of layers that do not rotate where it has none.
        flat: the layers that take flat rope settings, where the class has settings by layer type; null for a layer type
            then counts as absent, elsewhere it says that such layers do not rotate.
        of_layers: the name of the rope settings by type of layer, where they have names of their own.
        full_head_dim: the features of a head of full attention.
        tail: whether the last features of a head are rotated: they then count as a head.
        heads_share: the multiple of the model's width that heads share.
        stretched: whether `alpha` of the rope type "dynamic" stretches the base, whatever the length of a call.
        backward: whether heads are rotated by minus the angle.
        listed: whether bases and shares stand in lists, one number a layer.
        needs: the key and the value without which nothing is rotated.
    """

    rope_theta: float | None = None
    rotary_dim: int | None = None
    sections: tuple[int, ...] = ()
    section_layout: str = ""
    aliases: Mapping[str, str] = field(default_factory=dict)
    still: tuple[str, ...] = ()
    windowed: bool = False
    still_unwindowed: tuple[str, ...] = ()
    flat: Literal["none", "full", "all"] = "none"
    of_layers: Mapping[str, str] = field(default_factory=dict)
    full_head_dim: int | None = None
    tail: bool = False
    heads_share: int = 1
    stretched: bool = False
    backward: bool = False
    listed: bool = False
    needs: tuple[str, object] | None = None


# What follows stands in the models' code, such as Qwen2VLTextRotaryEmbedding's mrope_section, or `use_mem_rope` of
# Zamba2Attention: no configuration class says it.
_FULL = ("full_attention",)
_COMPRESSED = {
    "sliding_attention": "main",
    "compressed_sparse_attention": "compress",
    "heavily_compressed_attention": "compress",
}
_ALTERNATE = Defaults(sections=(24, 20, 20), section_layout="interleaved")
_TIME_LAST = Defaults(sections=(20, 22, 22), section_layout="time_last")  # the config has them as 22, 22, 20
_GROUPS = (
    ("internlm2", Defaults(rope_theta=1e4)),  # rotary even where no key says so
    ("gptj codegen", Defaults(rope_theta=1e4, rotary_dim=64)),  # sinusoids of base 10000: create_sinusoidal_positions
    ("phi3", Defaults(aliases={"yarn": "longrope"})),  # files of early versions say "yarn" for longrope
    ("qwen2_vl_text qwen2_5_vl_text qwen2_5_omni_text paddleocr_vl_text", Defaults(sections=(16, 24, 24))),
    ("qwen2_5_omni_talker", Defaults(sections=(16, 24, 24))),
    ("qwen3_vl_text qwen3_vl_moe_text cosmos3_edge_text cohere_compass_text", _ALTERNATE),
    ("qwen3_omni_moe_text qwen3_omni_moe_talker_text", _ALTERNATE),
    ("qwen3_5_text qwen3_5_moe_text qwen4_exp_text", replace(_ALTERNATE, sections=(11, 11, 10))),
    ("ernie4_5_vl_moe_text ernie4_5_moe_vl ernie4_5_vl", _TIME_LAST),
    ("glm4v_text glm4v_moe_text glm_image_text glm_ocr_text", Defaults(sections=(8, 12, 12))),
    ("afmoe muse_glimmer_text muse_spark_text", Defaults(still=_FULL)),  # no position at all in full attention
    ("cohere2 cohere2_moe flint", Defaults(still=_FULL, still_unwindowed=("sliding_attention",))),
    ("exaone4 exaone_moe kolibri1", Defaults(still=_FULL, windowed=True)),
    ("gemma3_text gemma3n_text olmo3 t5gemma2_decoder t5gemma2_text", Defaults(flat="full")),
    ("modernbert modernbert-decoder", Defaults(flat="all")),
    ("gemma4_text gemma4_unified_text diffusion_gemma_text embedding_gemma2_text", Defaults(full_head_dim=512)),
    ("deepseek_v4", Defaults(of_layers=_COMPRESSED, tail=True)),
    ("hunyuan_v1_dense hunyuan_v1_moe", Defaults(stretched=True)),  # compute_ntk_alpha_rope_parameters
    ("hunyuan_vl_text", Defaults(section_layout="features", stretched=True, aliases={"xdrope": "dynamic"})),
    ("hy_v4_vl_text", Defaults(sections=(12, 10, 10), section_layout="interleaved")),
    ("sarvam_mla", Defaults(aliases={"deepseek_yarn": "yarn"})),
    ("step3p5", Defaults(listed=True)),
    ("nanochat", Defaults(backward=True)),  # its rotate_half is (x2, -x1)
    ("zamba2", Defaults(heads_share=2, needs=("use_mem_rope", True))),
    ("granitemoehybrid", Defaults(needs=("position_embedding_type", "rope"))),
    ("esm evolla EvollaModel", Defaults(needs=("position_embedding_type", "rotary"))),
)

DEFAULTS: Mapping[str, Defaults] = {name: defaults for names, defaults in _GROUPS for name in names.split()}
"""Defaults by model type."""
NO_DEFAULTS = Defaults()
"""Those of any other type."""


@cache
def _classes() -> Mapping[str, Json]:
    """Return what the classes of all model types take, by model type."""
    text = resources.files("posenc_models.config").joinpath("class_defaults.json").read_text(encoding="utf-8")
    classes: Mapping[str, Json] = json.loads(text)["classes"]
    return classes


def class_of(model_type: str) -> Json:
    """Return what the class of a model type takes for absent keys; nothing for an unknown type."""
    return _classes().get(model_type, {})


def text_type(model_type: str) -> str:
    """Return the model type of a model's text; a model without parts is its own text."""
    return str(class_of(model_type).get("text") or model_type)
