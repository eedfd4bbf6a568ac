"""Folders with small models of transformers, as `save_pretrained` writes them: two layers, random weights."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from helpers.shared import Once

CAUSAL, MASKED = "AutoModelForCausalLM", "AutoModelForMaskedLM"
SEQUENCES, IMAGES = "AutoModelForSequenceClassification", "AutoModelForImageClassification"
FEATURES = "AutoModel"
SEQ2SEQ, SPEECH, SOUNDS = "AutoModelForSeq2SeqLM", "AutoModelForSpeechSeq2Seq", "AutoModelForCTC"
PAIRS, TALKS = "AutoModelForZeroShotImageClassification", "AutoModelForImageTextToText"
WRITING = (CAUSAL, SEQ2SEQ, SPEECH, TALKS)
"""Models that write tokens."""
TASK = {
    CAUSAL: "text-generation",
    MASKED: "fill-mask",
    SEQUENCES: "text-classification",
    IMAGES: "image-classification",
    FEATURES: "image-feature-extraction",
    SEQ2SEQ: "text2text-generation",
    SPEECH: "automatic-speech-recognition",
    SOUNDS: "automatic-speech-recognition",
    PAIRS: "zero-shot-image-classification",
    TALKS: "text-generation",
}


@dataclass(frozen=True)
class Small:
    """A small model.

    Args:
        title: what its makers call it.
        kind: its model type.
        auto: the class of transformers that makes it.
        config: what its config says.
        added: what its config.json says beside that.
        processor: what its preprocessor_config.json says; nothing for no such file.
        weights: whether the folder has any.
        seed: of the weights: one at which a decoder writes many different tokens.
    """

    title: str
    kind: str
    auto: str = CAUSAL
    config: Mapping[str, Any] = field(default_factory=dict)
    added: Mapping[str, Any] = field(default_factory=dict)
    processor: Mapping[str, Any] = field(default_factory=dict)
    weights: bool = True
    seed: int = 1

    @property
    def task(self) -> str:
        """The task that the folder is for."""
        return TASK[self.auto]

    def save(self, folder: Path) -> None:
        """Write the folder, with weights at random: wide ones, at which what a model says depends on positions."""
        import torch
        import transformers

        torch.manual_seed(self.seed)
        config = transformers.AutoConfig.for_model(self.kind, **self.config)
        model = getattr(transformers, self.auto).from_config(config)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.normal_(std=0.3)
                # a norm that multiplies by numbers around 0 lets little of its input through
                if parameter.dim() == 1 and name.endswith("weight"):
                    parameter.add_(1.0)
        model.save_pretrained(folder)
        if self.added:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            (folder / "config.json").write_text(json.dumps({**config, **self.added}), encoding="utf-8")
        if self.processor:
            (folder / "preprocessor_config.json").write_text(json.dumps(self.processor), encoding="utf-8")
        if not self.weights:
            (folder / "model.safetensors").unlink()


SMALL: Mapping[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
    # tied to its words, a model at random writes one token for ever
    "tie_word_embeddings": False,
}
GROUPED: Mapping[str, Any] = {**SMALL, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
SQUARE: Mapping[str, Any] = {**SMALL, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
"""For models whose heads have hidden_size / num_attention_heads features."""
WINDOWS: Mapping[str, Any] = {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}
PICTURES: Mapping[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 4,
}
TOWER: Mapping[str, Any] = {
    "depth": 1,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_heads": 2,
    "patch_size": 4,
    "deepstack_visual_indexes": [0],
}
EXPERTS: Mapping[str, Any] = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
LONGROPE: Mapping[str, Any] = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0, 1.1, 1.3, 1.6],
    "long_factor": [1.0, 1.9, 4.0, 9.0],
    "original_max_position_embeddings": 64,
}
SHARED: Mapping[str, Any] = {
    "num_hidden_layers": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "sliding_window": 16,
    "num_kv_shared_layers": 2,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": 32,
}
"""Layers of which the last use the keys and values of others, with an embedding in each layer."""
LLAMA4: Mapping[str, Any] = {
    "intermediate_size_mlp": 24,
    "num_local_experts": 4,
    "interleave_moe_layer_step": 2,
    "no_rope_layers": [1, 0],
    "attention_chunk_size": 16,
    "floor_scale": 16,
}
LATENT: Mapping[str, Any] = {
    "num_key_value_heads": 2,
    "q_lora_rank": 8,
    "kv_lora_rank": 8,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
}
WORDS: Mapping[str, Any] = {
    "vocab_size": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
}

T5: Mapping[str, Any] = {**WORDS, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
TWO_STACKS: Mapping[str, Any] = {
    **WORDS,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "decoder_start_token_id": 1,
}
READ: Mapping[str, Any] = {**TWO_STACKS, "max_position_embeddings": 256}
HEARD: Mapping[str, Any] = {**TWO_STACKS, "num_mel_bins": 8, "max_source_positions": 24, "max_target_positions": 64}
CONVOLVED: Mapping[str, Any] = {
    "conv_dim": [8, 8],
    "conv_stride": [5, 2],
    "conv_kernel": [10, 3],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
}
OF_PAIRS: Mapping[str, Any] = {**SMALL, "eos_token_id": 2, "max_position_embeddings": 64}


def _sections(*sizes: int) -> Mapping[str, Any]:
    """Rotations by three positions of a token, each with so many pairs of a head."""
    return {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [*sizes]}}


def _text_of(title: str, kind: str, text: Mapping[str, Any], tower: Mapping[str, Any], **more: Any) -> Small:
    """A model that writes text about images: its text, and the tower that reads the images, which is left out."""
    config = {"text_config": text, "vision_config": tower, "tie_word_embeddings": False, **more}
    return Small(title, kind, TALKS, config)


MODELS: Mapping[str, Small] = {
    small.kind: small
    for small in (
        Small("Llama", "llama", CAUSAL, GROUPED),
        Small("Qwen2", "qwen2", CAUSAL, SQUARE),
        Small("Qwen3", "qwen3", CAUSAL, {**GROUPED, **WINDOWS, "use_sliding_window": True}),
        Small("Qwen3-MoE", "qwen3_moe", CAUSAL, {**GROUPED, **EXPERTS, "num_experts": 4}),
        Small("Gemma 2", "gemma2", CAUSAL, {**GROUPED, "sliding_window": 16, "query_pre_attn_scalar": 8}),
        Small("Gemma 3", "gemma3_text", CAUSAL, {**GROUPED, **WINDOWS, "query_pre_attn_scalar": 8}),
        Small("Mistral", "mistral", CAUSAL, {**GROUPED, "sliding_window": 16}),
        Small("Mixtral", "mixtral", CAUSAL, {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2}),
        Small(
            "Phi-3 (longrope)",
            "phi3",
            CAUSAL,
            {**SQUARE, "rope_parameters": LONGROPE, "original_max_position_embeddings": 64},
        ),
        Small("SmolLM3", "smollm3", CAUSAL, {**SQUARE, "no_rope_layer_interval": 2}),
        Small("OLMo 3", "olmo3", CAUSAL, {**SQUARE, **WINDOWS}),
        Small("Granite", "granite", CAUSAL, {**SQUARE, "embedding_multiplier": 3.0, "logits_scaling": 2.0}),
        Small("Granite with windows", "granite_swa", CAUSAL, {**SQUARE, **WINDOWS}),
        Small("DeepSeek-V3", "deepseek_v3", CAUSAL, {**SMALL, **EXPERTS, **LATENT}),
        Small("GPT-2", "gpt2", CAUSAL, {**SMALL, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 256}),
        Small("GPT-NeoX", "gpt_neox", CAUSAL, {**SQUARE, "num_key_value_heads": 4}),
        Small("Falcon", "falcon", CAUSAL, {**SQUARE, "num_kv_heads": 1, "new_decoder_architecture": False}),
        Small("BLOOM", "bloom", CAUSAL, {**SMALL, "n_layer": 2, "n_head": 2}, seed=0),
        Small("MPT", "mpt", CAUSAL, {**WORDS, "d_model": 16, "n_layers": 2, "n_heads": 2, "max_seq_len": 256}),
        Small("StableLM", "stablelm", CAUSAL, SQUARE),
        Small("Cohere 2", "cohere2", CAUSAL, {**GROUPED, "sliding_window": 16, "sliding_window_pattern": 2}, seed=2),
        Small(
            "GPT-OSS",
            "gpt_oss",
            CAUSAL,
            {**GROUPED, "sliding_window": 16, "num_local_experts": 4, "num_experts_per_tok": 2},
        ),
        Small("Gemma", "gemma", CAUSAL, GROUPED),
        Small(
            "Gemma 3n",
            "gemma3n_text",
            CAUSAL,
            {
                **GROUPED,
                **SHARED,
                "activation_sparsity_pattern": [0.5, 0.0, 0.0, 0.0],
                "laurel_rank": 4,
                "altup_num_inputs": 2,
            },
        ),
        Small(
            "Gemma 4",
            "gemma4_text",
            CAUSAL,
            {
                **GROUPED,
                **SHARED,
                "global_head_dim": 16,
            },
        ),
        Small("Llama 4", "llama4_text", CAUSAL, {**GROUPED, **LLAMA4}),
        Small("Phi", "phi", CAUSAL, SQUARE),
        Small("OPT", "opt", CAUSAL, {**SMALL, "ffn_dim": 24, "word_embed_proj_dim": 16}),
        Small("StarCoder2", "starcoder2", CAUSAL, SQUARE),
        Small("GLM-4", "glm4", CAUSAL, GROUPED),
        Small("Cohere", "cohere", CAUSAL, SQUARE),
        Small("OLMo 2", "olmo2", CAUSAL, SQUARE),
        Small(
            "Qwen2-MoE",
            "qwen2_moe",
            CAUSAL,
            {**SQUARE, **EXPERTS, "num_experts": 4, "shared_expert_intermediate_size": 16},
        ),
        Small("EXAONE 4", "exaone4", CAUSAL, {**SQUARE, **WINDOWS}, seed=2),
        Small("ERNIE 4.5", "ernie4_5", CAUSAL, GROUPED),
        Small(
            "GPT-J",
            "gptj",
            CAUSAL,
            {**SMALL, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 256, "rotary_dim": 8},
        ),
        Small(
            "GPT-Neo",
            "gpt_neo",
            CAUSAL,
            {
                **SMALL,
                "num_layers": 2,
                "num_heads": 2,
                "attention_types": [[["global", "local"], 1]],
                "window_size": 16,
            },
        ),
        Small("Nemotron", "nemotron", CAUSAL, {**SQUARE, "head_dim": 8}),
        Small("DeepSeek-V2", "deepseek_v2", CAUSAL, {**SMALL, **EXPERTS, **LATENT}),
        Small(
            "GLM-4-MoE", "glm4_moe", CAUSAL, {**GROUPED, **EXPERTS, "n_routed_experts": 4, "first_k_dense_replace": 1}
        ),
        Small("Hunyuan", "hunyuan_v1_dense", CAUSAL, GROUPED),
        Small("Ministral 3", "ministral3", CAUSAL, GROUPED),
        Small(
            "ModernBERT",
            "modernbert",
            MASKED,
            {**SMALL, "local_attention": 16, "global_attn_every_n_layers": 2, "cls_token_id": 1, "sep_token_id": 2},
        ),
        Small("BERT", "bert", MASKED, SMALL),
        Small("RoBERTa", "roberta", SEQUENCES, SMALL),
        Small(
            "DeBERTa v2",
            "deberta-v2",
            MASKED,
            {
                **SMALL,
                "relative_attention": True,
                "position_buckets": 16,
                "pos_att_type": ["p2c", "c2p"],
                "share_att_key": True,
                "norm_rel_ebd": "layer_norm",
                "position_biased_input": False,
            },
        ),
        Small("ViT", "vit", IMAGES, PICTURES),
        Small("DINOv2", "dinov2", IMAGES, PICTURES),
        Small("DINOv3", "dinov3_vit", FEATURES, PICTURES),
        Small(
            "Swin",
            "swin",
            IMAGES,
            {
                "image_size": 32,
                "patch_size": 2,
                "embed_dim": 8,
                "depths": [2, 2],
                "num_heads": [2, 4],
                "window_size": 4,
            },
        ),
        Small("SigLIP's vision", "siglip_vision_model", FEATURES, PICTURES),
        Small("CLIP's vision", "clip_vision_model", FEATURES, PICTURES),
        _text_of(
            "Qwen2-VL's text",
            "qwen2_vl",
            {**SQUARE, **_sections(1, 1, 2)},
            {"depth": 1, "embed_dim": 16, "hidden_size": 32, "num_heads": 2, "patch_size": 4},
        ),
        _text_of(
            "Gemma 3's text",
            "gemma3",
            {**GROUPED, **WINDOWS, "query_pre_attn_scalar": 8},
            PICTURES,
            mm_tokens_per_image=4,
        ),
        _text_of(
            "Gemma 4's text",
            "gemma4",
            {**GROUPED, **SHARED, "global_head_dim": 16},
            {**PICTURES, "pooling_kernel_size": 1, "head_dim": 8, "num_key_value_heads": 2},
            audio_config=None,
        ),
        _text_of("Llama 4's text", "llama4", {**GROUPED, **LLAMA4}, PICTURES),
        _text_of(
            "Qwen2.5-VL's text",
            "qwen2_5_vl",
            {**SQUARE, **_sections(2, 1, 1)},
            {**TOWER, "out_hidden_size": SQUARE["hidden_size"]},
        ),
        _text_of(
            "Qwen3-VL's text",
            "qwen3_vl",
            {**GROUPED, **_sections(2, 1, 1)},
            {**TOWER, "out_hidden_size": GROUPED["hidden_size"]},
        ),
        _text_of(
            "InternVL's text",
            "internvl",
            {**GROUPED, "model_type": "qwen2"},
            {**PICTURES, "image_size": [16, 16], "patch_size": [4, 4]},
        ),
        _text_of("SmolVLM's text", "smolvlm", {**GROUPED, "model_type": "llama"}, PICTURES),
        _text_of(
            "PaliGemma 2's text",
            "paligemma",
            {**GROUPED, "model_type": "gemma2", "sliding_window": 16, "query_pre_attn_scalar": 8},
            {**PICTURES, "model_type": "siglip_vision_model"},
        ),
        _text_of(
            "LLaVA's text",
            "llava",
            {**GROUPED, "model_type": "llama"},
            {**PICTURES, "model_type": "clip_vision_model"},
        ),
        _text_of(
            "Mistral Small 3's text",
            "mistral3",
            {**GROUPED, "model_type": "mistral"},
            {**PICTURES, "model_type": "pixtral"},
        ),
        Small("T5", "t5", SEQ2SEQ, T5, seed=13),
        Small("BART", "bart", SEQ2SEQ, READ, seed=10),
        Small("mBART", "mbart", SEQ2SEQ, READ, seed=6),
        Small("Pegasus", "pegasus", SEQ2SEQ, READ, seed=8),
        Small("Marian", "marian", SEQ2SEQ, READ, seed=4),
        Small("Whisper", "whisper", SPEECH, HEARD, seed=0),
        Small("wav2vec2", "wav2vec2", SOUNDS, {**SMALL, **CONVOLVED, "eos_token_id": 2}),
        Small(
            "CLIP",
            "clip",
            PAIRS,
            {"text_config": OF_PAIRS, "vision_config": PICTURES, "projection_dim": 8},
        ),
        Small(
            "SigLIP",
            "siglip",
            PAIRS,
            {"text_config": {**OF_PAIRS, "projection_size": 16}, "vision_config": PICTURES},
        ),
    )
}
"""The models that are exported, by their types."""

OWN_CODE: Mapping[str, Any] = {
    "model_type": "own_llama",
    "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.Own"},
}
REFUSED: Mapping[str, Small] = {
    small.title: small
    for small in (
        Small(
            "RecurrentGemma",
            "recurrent_gemma",
            CAUSAL,
            {**SMALL, "block_types": ["recurrent", "attention"], "lru_width": 16, "attention_window_size": 16},
        ),
        Small("Llama with code of its own", "llama", CAUSAL, GROUPED, OWN_CODE),
        Small("Llama without weights", "llama", CAUSAL, GROUPED, weights=False),
    )
}
"""Folders that are refused, each in one line."""


def saved(once: Once, kind: str) -> Path:
    """A folder with a small model of a type, its weights at random."""
    return once(f"model-{kind}", MODELS[kind].save)


CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32}


def folder_of(place: Path, config: object, *, weights: bool = True) -> Path:
    place.mkdir(exist_ok=True)
    (place / "config.json").write_text(json.dumps(config))
    if weights:
        save_file({"lm_head.weight": np.zeros((2, 2), np.float32)}, place / "model.safetensors")
    return place


def refused_without_torch(*words: str, command: str = "export") -> str:
    """Return the line with which a command ends in a process of its own, with status 2, and without torch."""
    program = (
        "import atexit, os, sys; from posenc_export.__main__ import main; "
        "atexit.register(lambda: 'torch' in sys.modules and os._exit(99)); main()"
    )
    line = [sys.executable, "-c", program, command, *words]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    (said,) = done.stderr.splitlines()
    return said
