"""Small configs of rotary models, questions about them, and what asks in the process of the test."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc.ports import Feeds
from posenc.scheme import build
from posenc.spec import Spec
from posenc_models import read_config
from posenc_models.asking import Question

Config = dict[str, Any]
SMALL: Config = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
SMALL |= {"intermediate_size": 32, "vocab_size": 50, "max_position_embeddings": 2048, "rope_theta": 10000.0}
LATENT = {"qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "kv_lora_rank": 8, "q_lora_rank": 8}
DEEPSEEK: Config = {**SMALL, **LATENT, "model_type": "deepseek_v3", "num_key_value_heads": 4}
SHORT, LONG = [1.0 + i / 8 for i in range(8)], [2.0 + i for i in range(8)]
LONGROPE: Config = {
    **SMALL,
    "model_type": "phi3",
    "pad_token_id": 0,
    "original_max_position_embeddings": 64,
    "rope_scaling": {"type": "longrope", "short_factor": SHORT, "long_factor": LONG},
}
CONFIGS: Mapping[str, Config] = {
    "halves": {**SMALL, "model_type": "llama"},
    "neighbours": {**SMALL, "model_type": "cohere"},
    "neighbours, a part of a head": {**SMALL, "model_type": "glm", "head_dim": 16, "pad_token_id": 0},
    "complex numbers": {**SMALL, "model_type": "llama4_text", "head_dim": 16},
    "features swapped": DEEPSEEK,
    "a table of an attention's own": {
        **{"model_type": "gptj", "n_embd": 64, "n_head": 4, "n_layer": 1, "rotary_dim": 8, "vocab_size": 50},
        **{"n_positions": 600},
    },
    "a switch": LONGROPE,
    "positions that the model counts": {**SMALL, "model_type": "dia_encoder", "head_dim": 16},
    "three positions": {
        **{**SMALL, "model_type": "qwen2_vl_text"},
        "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
    },
}


def question(content: Config, **parameters: object) -> Question:
    reading = read_config(content, overrides=parameters)
    encoding = build(reading.scheme, Spec("dynamic"), **reading.parameters)
    return Question(content, "", None, reading, encoding.inputs, encoding.outputs)


def feeds_of(asked: Question, last: int) -> Feeds:
    """Return random heads at positions up to one."""
    random, width = np.random.default_rng(0), asked.reading.parameters["head_dim"]
    shape = (2, 9) if asked.reading.scheme == "rope" else (3, 2, 9)
    positions = random.integers(0, last + 1, shape)
    positions[..., 0] = last
    heads = (random.standard_normal((2, n, 9, width)).astype(np.float32) for n in (3, 2))
    return {**dict(zip("qk", heads, strict=True)), "positions": positions}
