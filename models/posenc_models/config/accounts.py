"""Every key of a config is accounted for: read, known to change no position, or not read, and then said so."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from posenc_models.config.settings import Json, Settings, short


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


WORDS = _names("""
    rope ropes rotary rot yarn ntk logn alibi mrope xdrope xpos longrope pos position positions positional pose mscale
    theta thetas xrope drope irope nope relative sinusoidal sinusoid kerple
    """)
"""Words of which one in the name of a key says that it speaks of positions."""
BEGINNINGS = ("rope", "rotary", "yarn", "ntk", "logn", "alibi", "mscale", "xpos")
"""Beginnings of such words: `rotary2d`, `ropescaling`."""
NAMES = _names("""
    alpha beta base llama_4_scaling llama_4_scaling_beta compression_ratio scaling_factor seq_scale freq_base
    freq_allocation inv_freq interpolation_factor linear_scaling dynamic_scaling long_factor short_factor factor
    original_max_len max_trained_length context_scaling_factor use_dynamic_scaling attn_temperature_tuning
    """)
"""Whole names that do."""
OPEN = _names("alpha beta base interleave interleaved period freq frequency buckets distance timescale ratio")
"""Words of names that may speak of positions: in a config of an unknown type nothing says that they do not."""
PROPORTIONS = _names("ratio factor scale alpha pct percent percentage fraction")
"""Words of names whose value 1 changes nothing."""
LISTED = 6
"""Keys that a message names."""
PARTS = _names("""
    vision visual image audio speech sound text language llm encoder decoder text_encoder audio_encoder thinker talker
    backbone vision_encoder projector code2wav token2wav vq codec qformer prompt_encoder mask_decoder perceiver vit dit
    vae generator question_encoder depth_decoder detection video
    """)
"""Names of parts of a model, whose configs are read for themselves."""
RUNTIME = _names("""
    _name_or_path architectures auto_map model_type transformers_version torch_dtype dtype quantization_config
    _attn_implementation attn_implementation _attn_implementation_autoset use_cache output_attentions
    output_hidden_states return_dict is_encoder_decoder is_decoder use_return_dict tokenizer_class pruned_heads
    gradient_checkpointing id2label label2id num_labels problem_type finetuning_task task_specific_params prefix
    tie_word_embeddings tie_encoder_decoder torchscript use_bfloat16 use_flash_attn use_flash_attention pretraining_tp
    bf16 fp16 fp32 onnx_safe no_bias resid_pdrop embd_pdrop attn_pdrop attn_dropout_prob emb_dropout_prob seq_length
    num_layers padded_vocab_size multi_query_attention multi_query_group_num ffn_hidden_size layernorm_epsilon rmsnorm
    apply_residual_connection_post_layernorm add_bias_linear add_qkv_bias post_layer_norm layer_norm_eps
    layer_norm_epsilon norm_epsilon initializer_range for_llm_compressor unsloth_version unsloth_fixed
    parallelization model_max_length vocab_size_or_config_json_file bias rms_norm use_qk_norm qk_norm ep_size
    first_k_dense_replace moe_layer_freq num_nextn_predict_layers scoring_func topk_method seq_aux aux_loss_alpha
    head_dim dropout name norm_eps n_embd n_head n_layer n_ctx n_inner activation_function ffn_config eos_token_ids
    mup_base_width quantization kv_cache_scheme max_window_layers use_sliding_window max_sequence_length
    """)
"""Keys of published configs that say how a model is run, trained or stored, or how large it is beside positions."""
NO_EFFECT: Mapping[str, str] = {
    "static_position_embeddings": "says what the type always does",
    "extra_pos_embeddings": "was read by the first versions of BART alone",
    "qk_nope_head_dim": "features of a head that are not rotated",
    "positional_dropout": "is of training",
    "positional_dropout_rate": "is of training",
    "position_id_per_seconds": "says how a processor counts frames",
    **dict.fromkeys(
        ("conv_pos_batch_norm", "conv_pos_kernel_size", "num_conv_pos_embeddings", "num_conv_pos_embedding_groups"),
        "is of a convolution over features",
    ),
    "dropout_positions": "is of training",
    "indexer_rope_interleave": "is of an indexer beside the attention",
    "max_trained_positions": "counts only beside a rotary_scaling_factor",
    "offset_alibi": "was read by the first version of BLOOM alone",
    "memory_attention_rope_dropout": "is of training",
    "pos_embed_jitter": "is of training",
    "pos_embed_rescale": "is of training",
    "pos_embed_shift": "is of training",
    "encoder_positional_dropout_rate": "is of training",
    "decoder_positional_dropout_rate": "is of training",
    "positionwise_conv_kernel_size": "is of a convolution",
    "infer_is_positive": "is of forecasts",
    "positive_label_weight": "is of training",
}
"""Keys that speak of positions and change none, with the reason."""
AGREEING: Mapping[str, tuple[object, ...]] = {
    "use_rotary_pos_emb": (True,),
    "use_rotary_position_embeddings": (True,),
    "use_rotary_embedding": (True,),
    "use_rotary_emb": (True,),
    "use_rotary": (True,),
    "use_rope": (True,),
    "use_pos_enc": (True,),
    "rotary": (True,),
    "apply_rope": (True,),
    "pos_emb": ("rope", "rotary"),
    "pos_encoding": ("rope", "rotary"),
    "pos_embedding_type": ("rope", "rotary"),
    "positional_embedding_type": ("rope", "rotary"),
    "position_encoding": ("rope", "rotary"),
    "position_embedding": ("rope", "rotary"),
    "position_encoding_type": ("rope", "rotary"),
    "rotary_emb_fraction": (1, 1.0),
    "rope_pct": (1, 1.0),
    "rotary_pct": (1, 1.0),
    "rope_percent": (1, 1.0),
}
"""Values that say of a rotary model that heads are rotated, and whole."""


@dataclass(frozen=True)
class KeyAccount:
    """What became of the keys of a config that were not read.

    Args:
        refused: those that may change positions, with their values.
        listed: the others, by their paths.
    """

    refused: Mapping[str, object]
    listed: tuple[str, ...]

    @property
    def words(self) -> str:
        """The refused keys and their values, in words."""
        some = list(self.refused.items())
        shown = ", ".join(f"{key} ({short(value)})" for key, value in some[:LISTED])
        return shown + (f" and {len(some) - LISTED} more" if len(some) > LISTED else "")


def words_in(name: str) -> list[str]:
    """Return the words of a key: `useScaledRope` and `use_scaled_rope` have the same."""
    return [word for word in re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()) if word]


def speaks_of_positions(name: str) -> bool:
    """Return whether the name of a key says that it is about positions."""
    words = words_in(name)
    return name.lower() in NAMES or any(word in WORDS or word.startswith(BEGINNINGS) for word in words)


def is_neutral(name: str, value: object) -> bool:
    """Return whether a value leaves positions as they are without the key: nothing, off, or a proportion of 1."""
    if value is None or value is False or value == "" or value in ({}, [], 0):
        return True
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value == 1 and not PROPORTIONS.isdisjoint(words_in(name))
    return False


def harmless(name: str) -> bool:
    """Return whether a key is known to change no position, in whatever config it stands."""
    if name in RUNTIME or name in NO_EFFECT:
        return True
    return name in _fields() and not speaks_of_positions(name) and OPEN.isdisjoint(words_in(name))


def account(
    settings: Settings, read: Iterable[str], *, is_known: bool, agreeing: Mapping[str, tuple[object, ...]]
) -> KeyAccount:
    """Return what became of the keys of a config that nothing was read from.

    Args:
        settings: the config, or the part of it.
        read: keys that were read.
        is_known: whether its type is known: a key that nobody knows then counts only by what its name says.
        agreeing: values that say the same as what was read, by key.
    """
    names = frozenset(read)
    refused: dict[str, object] = {}
    listed: list[str] = []
    for key, value in _left(settings.content, names):
        if is_neutral(key, value) or value in agreeing.get(key, ()) or key in NO_EFFECT:
            continue
        if speaks_of_positions(key) or not (is_known or harmless(key)):
            refused[settings.path_of(key)] = value
        elif not harmless(key):
            listed.append(settings.path_of(key))
    # those whose names say it come first
    order = sorted(refused, key=lambda path: not speaks_of_positions(path.removeprefix(f"{settings.path}.")))
    return KeyAccount({path: refused[path] for path in order}, tuple(listed))


def _left(content: Json, read: frozenset[str]) -> Iterator[tuple[str, object]]:
    """Yield the keys that were not read, but for the configs of other parts and for a tool's own notes."""
    for key, value in content.items():
        if key not in read and not _is_part(key, value) and not key.startswith("_") and key not in RUNTIME:
            yield key, value


def _is_part(key: str, value: object) -> bool:
    """Return whether an object is the config of another part of the model: one of images, of sound, of a type."""
    if not isinstance(value, Mapping):
        return False
    return "model_type" in value or (key.endswith("_config") and key.removesuffix("_config") in PARTS)


def taken(model_type: str) -> tuple[str, ...]:
    """Return the keys of positions that the class of a model type has as fields, beside those of rope settings."""
    names: tuple[str, ...] = tuple(_written()["positions"].get(model_type, ()))
    return names


def has_no_rope(model_type: str) -> bool:
    """Return whether transformers has a class of this model type, without any rope settings."""
    return model_type in _written()["without rope"]


def ignored(model_type: str) -> tuple[str, ...]:
    """Return the keys of rope settings that the class of a model type has its validation pass over."""
    names: tuple[str, ...] = tuple(_written()["ignored"].get(model_type, ()))
    return names


def fields_of_class(name: str) -> tuple[str, ...]:
    """Return the keys that a class of diffusers takes."""
    names: tuple[str, ...] = tuple(_written()["diffusers"].get(name, ()))
    return names


@cache
def _fields() -> frozenset[str]:
    """Return the names of the fields of all configuration classes of transformers."""
    return frozenset(_written()["fields"])


@cache
def _written() -> Mapping[str, Any]:
    """Return what `scripts/hf_class_defaults.py` of the tests wrote of the fields of all classes."""
    text = resources.files("posenc_models.config").joinpath("class_fields.json").read_text(encoding="utf-8")
    content: Mapping[str, Any] = json.loads(text)
    return content
