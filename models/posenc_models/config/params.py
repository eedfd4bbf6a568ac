"""Mistral's own params.json, which lies beside the weights in its own format, as the keys of a config.json.

Its code (mistral-inference) rotates neighbouring features; `yarn` has other names for what transformers calls
beta_fast (beta) and beta_slow (alpha), and `apply_scale` says whether cosines and sines are multiplied.
"""

from collections.abc import Mapping

from posenc_models.config.settings import Json, plain, short


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


KIND = "mistral_params"
"""The name of the type in messages: the file itself names none."""
LISTED = 6
"""Keys that a message names."""
MARKS = ("dim", "n_layers", "n_heads")
"""Keys that a params.json has, and no config.json."""
KEYS = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "head_dim": "head_dim",
    "qk_rope_head_dim": "qk_rope_head_dim",
    "rope_theta": "rope_theta",
    "max_position_embeddings": "max_position_embeddings",
    "max_seq_len": "max_position_embeddings",
}
"""The keys that are read, by what a config.json calls them."""
WITHOUT_EFFECT = _names("""
    hidden_dim n_kv_heads norm_eps vocab_size tied_embeddings sliding_window _sliding_window causal use_biases moe
    vision_encoder q_lora_rank qk_nope_head_dim kv_lora_rank v_head_dim quantization max_batch_size model_type audio
    """)
"""Keys that change no position of the text."""
YARN = {
    "factor": "factor",
    "original_max_position_embeddings": "original_max_position_embeddings",
    "beta": "beta_fast",
    "alpha": "beta_slow",
}
"""The keys of `yarn`, by what transformers calls them."""
SCALING = "yarn"
"""The key of the settings of YaRN."""
SCALE = "apply_scale"
TEMPERATURE = "llama_4_scaling"
"""The settings of a factor of queries that grows with their positions: it turns nothing."""
SHOWN = {f"rope_scaling.{new}": f"yarn.{old}" for old, new in YARN.items()} | {
    "rope_scaling.rope_type": "yarn",
    "rope_scaling.attention_factor": f"yarn.{SCALE}",
    "max_position_embeddings": "max_position_embeddings",
    "hidden_size / num_attention_heads": "dim / n_heads",
}
"""How an origin is called in the file itself."""


def is_params(content: Json) -> bool:
    """Return whether a file is a params.json, and no config.json."""
    return not content.get("model_type") and not content.get("_class_name") and all(key in content for key in MARKS)


def as_config(content: Json) -> dict[str, object]:
    """Return the keys of a config.json that a params.json stands for.

    Raises ValueError, in one line, for the params.json of another model, and for keys that may change positions.
    """
    title = "this is a params.json, not a config.json"
    if "rope_theta" not in content or not ("head_dim" in content or "qk_rope_head_dim" in content):
        # Meta's code takes constants for use_scaled_rope that are not those of all its models
        unread = ", ".join(f"{key} ({short(content[key])})" for key in ("use_scaled_rope",) if content.get(key))
        reason = f"{unread} is not read" if unread else "it names no rope_theta and head_dim, as Mistral's do"
        raise ValueError(f"{title}: {reason}: give the config.json of the same model")
    unknown = [
        key for key, value in content.items() if value and key not in {*KEYS, *WITHOUT_EFFECT, SCALING, TEMPERATURE}
    ]
    if unknown:
        raise ValueError(f"{title}: {', '.join(map(plain, unknown[:LISTED]))} is not read, and may change positions")
    config = {new: content[old] for old, new in KEYS.items() if old in content}
    yarn = content.get(SCALING)
    if yarn:
        config["rope_scaling"] = _yarn(yarn)
    return {**config, "model_type": KIND}


def _yarn(yarn: object) -> dict[str, object]:
    """Return the rope settings of `yarn`; raise ValueError where it has a key that is not known, or lacks one."""
    if not isinstance(yarn, Mapping):
        raise ValueError(f"yarn must be an object, got {short(yarn)}")
    unknown = [key for key in yarn if key not in {*YARN, SCALE}]
    if unknown:
        raise ValueError(f"yarn.{plain(unknown[0])} is not read, and may change the angles")
    missing = [key for key in (*YARN, SCALE) if yarn.get(key) is None]
    if missing:
        raise ValueError(f"yarn.{missing[0]} is missing: nothing says what the model takes for it")
    if not isinstance(yarn[SCALE], bool):
        raise ValueError(f"yarn.{SCALE} must be true or false, got {short(yarn[SCALE])}")
    settings = {"rope_type": "yarn", **{new: yarn[old] for old, new in YARN.items()}}
    # scaled: 0.1 ln(factor) + 1, as transformers does by itself
    return settings if yarn[SCALE] else {**settings, "attention_factor": 1.0}


def in_its_words(origin: Mapping[str, str]) -> dict[str, str]:
    """Return where parameters are from, under the names that the file has."""
    return {
        name: f"{KIND}: mistral-inference turns neighbours"
        if name == "layout" and KIND in words
        else SHOWN.get(words, words)
        for name, words in origin.items()
    }


def notes_on(content: Json) -> list[str]:
    """Return notes on what a params.json says beside the rotation."""
    scaling = content.get(TEMPERATURE)
    if not scaling:
        return []
    return [
        f"{TEMPERATURE}: the model scales queries by a factor that grows with their positions, which is not written"
    ]
