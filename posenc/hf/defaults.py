"""What models of a type do where their config.json does not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Defaults:
    """The rotary encoding of a model type, as far as its configs leave it out.

    interleaved: whether pairs are neighbouring features; no config says so.
    rope_theta: the base, of types that are rotary even if a config says nothing of it.
    partial_rotary_factor: the share of a head that is rotated.
    rotary_dim: the features of a head that are rotated.
    sections: the pairs of each of several positions that a token has.
    interleaved_sections: whether sections alternate pair by pair, and are not runs; no config has to say so.
    aliases: names that a type has of its own for rope types.
    """

    interleaved: bool = False
    rope_theta: float | None = None
    partial_rotary_factor: float | None = None
    rotary_dim: int | None = None
    sections: tuple[int, ...] = ()
    interleaved_sections: bool = False
    aliases: Mapping[str, str] = field(default_factory=dict)


_GROUPS = (
    (
        "llama mistral falcon qwen2 qwen2_moe qwen3 qwen3_moe gemma gemma2 olmo starcoder2 internlm2",
        Defaults(rope_theta=1e4),
    ),
    ("phi3", Defaults(rope_theta=1e4, aliases={"yarn": "longrope"})),
    ("gptj codegen", Defaults(interleaved=True, rope_theta=1e4, rotary_dim=64)),
    ("gpt_neox stablelm", Defaults(rope_theta=1e4, partial_rotary_factor=0.25)),
    ("phi persimmon", Defaults(rope_theta=1e4, partial_rotary_factor=0.5)),
    ("glm", Defaults(interleaved=True, rope_theta=1e4, partial_rotary_factor=0.5)),
    ("cohere", Defaults(interleaved=True, rope_theta=1e4)),
    ("glm4", Defaults(interleaved=True, partial_rotary_factor=0.5)),
    ("glm4_moe nemotron fuyu recurrent_gemma", Defaults(partial_rotary_factor=0.5)),
    ("qwen3_next", Defaults(partial_rotary_factor=0.25)),
    (
        "cohere2 ernie4_5 ernie4_5_moe helium llama4 llama4_text deepseek_v2 deepseek_v3 axk1 longcat_flash youtu",
        Defaults(interleaved=True),
    ),
    ("qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text", Defaults(sections=(16, 24, 24))),
    (
        "qwen3_vl qwen3_vl_text qwen3_vl_moe qwen3_vl_moe_text",
        Defaults(sections=(24, 20, 20), interleaved_sections=True),
    ),
    ("qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text", Defaults(sections=(11, 11, 10), interleaved_sections=True)),
)

DEFAULTS: Mapping[str, Defaults] = {name: defaults for names, defaults in _GROUPS for name in names.split()}
"""Defaults by model type."""
NO_DEFAULTS = Defaults()
"""Those of any other type."""
