"""What a config says of attention beside its encodings: windows, which are compared, and what no file is held against.

Scores are capped, scaled and joined by sinks in ways that a graph does not show to a reader of positions. A line names
these settings, so that nobody takes a file for held against them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from posenc_export.read.comparing.parameters import layers_named, shown
from posenc_export.read.findings import finding
from posenc_export.read.inspection import Finding, Inspection, Sight
from posenc_models.config.model_config import load_config

COUNTS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
"""Keys of the number of layers."""
LENGTHS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length")
EVERYWHERE = ("mistral", "mixtral", "phi3", "phimoe", "starcoder2", "ministral3")
"""Model types whose layers all have the window of `sliding_window`."""
LATE = ("qwen2", "qwen2_moe", "qwen3", "qwen2_vl_text", "qwen2_5_vl_text", "qwen2_5_omni_text", "deepseek_ocr2_encoder")
"""Model types whose layers have it from number `max_window_layers` on."""
EVERY_OTHER = ("gemma2", "gpt_oss", "vaultgemma", "t5_gemma_module")
"""Model types of which layer 0, and every other one, has it."""
OTHERS = ("attention_chunk_size", "local_attention", "attention_window", "attention_types")
"""Keys of windows of other kinds."""
OF_SCORES = (
    *("attn_logit_softcapping", "attention_logit_cap", "query_pre_attn_scalar", "attention_multiplier", "attn_scale"),
    *("scale_attn_by_inverse_layer_idx", "attn_temperature_tuning", "use_sinks", "attention_sink_size"),
    *("add_full_attention_sink_bias", "add_swa_attention_sink_bias", "llama_4_scaling_beta"),
)
"""Keys of what is done to scores."""
SINKS = ("gpt_oss",)
"""Model types whose heads have a sink each, which no key says."""


def compare_attending(inspection: Inspection, path: Path) -> Iterator[Finding]:
    """Yield what differs between the windows of a file and those of a config, and what was not compared.

    Args:
        inspection: of the file.
        path: a config.json, or a model's folder.
    """
    content = _text(load_config(path))
    wrong, reasons = _windows(inspection, content)
    yield from wrong
    unlike = [*reasons, *_of_scores(content)]
    if unlike and inspection.attentions:
        yield finding("not-compared", "", f"the file was not held against the config in: {'; '.join(unlike)}")


def windows_in(path: Path) -> tuple[int, ...]:
    """Return how many keys a config lets queries see; nothing where it says nothing, or cannot be read."""
    try:
        content = _text(load_config(path))
    except ValueError:  # the comparison says what is wrong with it
        return ()
    window = _window(content)
    return () if window is None else (window,)


def _text(content: Mapping[str, object]) -> Mapping[str, object]:
    """Return the part of a config that is of text, where it has parts."""
    text = content.get("text_config")
    return text if isinstance(text, Mapping) else content


def _of_scores(content: Mapping[str, object]) -> Iterator[str]:
    rope = content.get("rope_parameters")
    every = {**(rope if isinstance(rope, Mapping) else {}), **content}
    for key in OF_SCORES:
        value = every.get(key)
        if value is not None and value is not False:
            yield f"{key} {shown(value)}"
    if content.get("model_type") in SINKS:
        yield f"the sinks of {content['model_type']}"


def _window(content: Mapping[str, object]) -> int | None:
    """Return how many keys queries of a window see; None where a config has none, or none that a call can reach."""
    window, length = content.get("sliding_window"), next((content[k] for k in LENGTHS if k in content), None)
    if isinstance(window, bool) or not isinstance(window, int) or window < 1:
        return None
    if content.get("use_sliding_window") is False or (isinstance(length, int) and window >= length):
        return None
    return window


def _windows(inspection: Inspection, content: Mapping[str, object]) -> tuple[list[Finding], list[str]]:
    """Return the findings of windows that differ, and why others were not compared, in words."""
    others = [f"{key} {shown(content[key])}" for key in OTHERS if content.get(key)]
    expected = _by_layer(content)
    if expected is None:
        key = content.get("sliding_window")
        return [], [f"sliding_window {shown(key)}, whose layers are not known", *others]
    if len(expected) != inspection.attentions or len(inspection.sights) != len(expected):
        apart = f"the config has {len(expected)} layers, the file {inspection.attentions} attentions"
        window = _window(content)
        return [], [*([] if window is None else [f"sliding_window {window}: {apart}"]), *others]
    wrong: dict[str, list[Sight]] = {}
    unknown: dict[str, list[Sight]] = {}
    for sight, window in zip(inspection.sights, expected, strict=True):
        is_wrong, difference = _difference(sight, window, content)
        if difference:
            (wrong if is_wrong else unknown).setdefault(difference, []).append(sight)
    findings = [
        finding("parameter", sights[0].node, f"{layers_named([sight.layer for sight in sights])}: {words}")
        for words, sights in wrong.items()
    ]
    untold = [f"{words} in {layers_named([sight.layer for sight in sights])}" for words, sights in unknown.items()]
    return findings, [*untold, *others]


def _difference(sight: Sight, window: int | None, content: Mapping[str, object]) -> tuple[bool, str]:
    """Return whether an attention has another window than a config says, or why that is not known, in words."""
    length = next((content[key] for key in LENGTHS if isinstance(content.get(key), int)), None)
    found = sight.window if not isinstance(length, int) or sight.window is None or sight.window < length else None
    if found == window:
        return False, ""
    if found is None and window is not None:
        if sight.later is False and sight.tried > window:
            return True, f"each query sees all keys before it, expected a window of {window} by the config"
        tried = f"calls of {sight.tried} keys alone were tried" if sight.tried else "its mask was not followed"
        return False, f"a window of {window} ({tried})"
    expected = "none" if window is None else str(window)
    return True, f"window {found}, expected {expected} by the config"


def _by_layer(content: Mapping[str, object]) -> Sequence[int | None] | None:
    """Return the window of each layer by a config; None where its layers, or their windows, are not known."""
    count = next((n for key in COUNTS if isinstance(n := content.get(key), int)), 0)
    window = _window(content)
    if window is None:
        # a key that is absent may have another value in the model's class
        return [None] * count if "sliding_window" in content else []
    types, kind = content.get("layer_types"), content.get("model_type")
    if isinstance(types, list):
        known = {"sliding_attention": window, "full_attention": None}
        return [known[name] for name in types] if set(types) <= known.keys() and len(types) == count else None
    period = content.get("sliding_window_pattern")
    if isinstance(period, int) and period > 0:
        return [window if (layer + 1) % period else None for layer in range(count)]
    if kind in EVERYWHERE:
        return [window] * count
    if kind in EVERY_OTHER:
        return [None if layer % 2 else window for layer in range(count)]
    first = content.get("max_window_layers")
    if kind in LATE and isinstance(first, int) and content.get("use_sliding_window") is True:
        return [window if layer >= first else None for layer in range(count)]
    return None
