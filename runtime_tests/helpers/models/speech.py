"""Small models of transformers for speech and sound, and text models with fairseq's rows, each with its positions."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from helpers.models.scores import FRAMES, clipped, frames, of_pairs, queries
from helpers.models.text import BART, ENDS, IDS, MASK, VOCAB, Model, counted, rows, side

CLAP = {"hidden_size": 32, "patch_embeds_hidden_size": 8, "depths": [1, 1], "num_attention_heads": [2, 4]}
GEMMA = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
SEAMLESS = {"hidden_size": 16, "max_position_embeddings": 12, "vocab_size": VOCAB, "speech_encoder_layers": 1}
SEAMLESS |= {"speech_encoder_attention_heads": 2, "speech_encoder_intermediate_size": 16, "pad_token_id": 1}
VITS = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "window_size": 3, "ffn_dim": 16}
SPEECHT5 = {"hidden_size": 16, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 16}
SPEECHT5 |= {"decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 16, "vocab_size": VOCAB}
SPEECHT5 |= {"encoder_max_relative_position": 7}
TROCR = {**BART, "max_position_embeddings": 12}
TROCR_SINES = {**TROCR, "use_learned_position_embeddings": False}
XGLM = {"d_model": 16, "num_layers": 1, "attention_heads": 2, "ffn_dim": 16, "vocab_size": VOCAB, "pad_token_id": 1}


def module_of(model_type: str, name: str) -> Any:
    return getattr(import_module(f"transformers.models.{model_type}.modeling_{model_type}"), name)


def alone(model_type: str, name: str) -> Callable[[Any], nn.Module]:
    """What makes a module of a model, of its configuration."""
    made: Callable[[Any], nn.Module] = module_of(model_type, name)
    return made


def fastspeech2(config: Any) -> nn.Module:
    kind = module_of("fastspeech2_conformer", "FastSpeech2ConformerRelPositionalEncoding")
    made: nn.Module = kind(config, {"positional_dropout_rate": 0.0})
    return made


def of_frames(module: Any) -> Tensor:
    given: Any = module(torch.zeros(1, 6, 16))
    values: Tensor = given[1] if isinstance(given, tuple) else given
    return values


def gemma3n(module: Any) -> Tensor:
    positions = torch.arange(module.max_backward, -module.max_forward - 1, -1)
    values: Tensor = module._get_timing_signal_1d_pos(positions[None], torch.float32)
    return values


def text_of(model_type: str, name: str) -> Callable[[Any], nn.Module]:
    """What makes a seamless model's sines and cosines, which take their sizes one by one."""

    def make(config: Any) -> nn.Module:
        made: nn.Module = module_of(model_type, name)(config.max_position_embeddings, config.hidden_size, 1)
        return made

    return make


def of_tokens(module: Any) -> Tensor:
    values: Tensor = module(IDS)
    return values


def of_places(model: Any) -> Tensor:
    """XGLM's rows: its positions are given, as `generate` gives them, from the mask."""
    values: Tensor = model.embed_positions((MASK.cumsum(1) - 1).clamp(min=0)) * MASK[..., None]
    return values


def unpadded(module: nn.Module) -> Tensor:
    return counted(16)(module) * MASK[..., None]


def vits_keys(attention: Any, q: Tensor) -> Tensor:
    """The scores that the keys' rows of VITS's attention add: q (1, heads, seq, head_dim) -> (1, heads, seq, seq)."""
    rows = attention._get_relative_embeddings(attention.emb_rel_k, q.shape[2])
    values: Tensor = attention._relative_position_to_absolute_position(q[0] * attention.scaling @ rows.transpose(1, 2))
    return values[None]


def vits_values(attention: Any, p: Tensor) -> Tensor:
    """What the values' rows of VITS's attention add: p (1, heads, seq, seq) -> (1, heads, seq, head_dim)."""
    rows = attention._get_relative_embeddings(attention.emb_rel_v, p.shape[2])
    values: Tensor = attention._absolute_position_to_relative_position(p[0]) @ rows
    return values[None]


def vits(part: str, own: Callable[[Any, Tensor], Tensor], given: Tensor, *inputs: Tensor) -> Model:
    def of_layer(model: Any) -> Tensor:
        return own(model.text_encoder.encoder.layers[1].attention, given)

    key = f"text_encoder.encoder.layers.1.attention.emb_rel_{part[0]}"
    return Model("vits", of_layer, lambda module: module(*inputs), VITS, part, roundings=16, key=key)


def speecht5(model: Any) -> Tensor:
    rows: Tensor = model.encoder.wrapped_encoder.embed_positions(torch.zeros(1, 30, 16))
    return rows


def with_queries(module: nn.Module) -> Tensor:
    values: Tensor = module(queries(), queries())
    return values


P = torch.randn(1, 2, 30, 30, generator=torch.Generator().manual_seed(0)).softmax(-1)


def clap(model: Any) -> Tensor:
    attention = model.audio_encoder.layers[1].blocks[0].attention.self
    table = attention.relative_position_bias_table[attention.relative_position_index.view(-1)]
    values: Tensor = table.view(64, 64, -1).permute(2, 0, 1)[None]
    return values


def decoder(config: Any) -> nn.Module:
    made: nn.Module = module_of("trocr", "TrOCRForCausalLM")(config).model
    return made


def gemma(model_type: str, own: Callable[[Any], Tensor], name: str, **sizes: Any) -> Model:
    make = alone(model_type.removesuffix("_audio"), name)
    return Model(model_type, own, lambda module: module(), {**GEMMA, **sizes}, make=make, roundings=FRAMES)


def seamless_text(model_type: str, name: str) -> Model:
    return Model(model_type, of_tokens, counted(16), SEAMLESS, "text", text_of(model_type, name), ENDS)


SPEECH = [
    vits("keys", vits_keys, queries(), queries(), queries()),
    vits("values", vits_values, P, P),
    Model("speecht5", of_pairs(speecht5), with_queries, SPEECHT5, "encoder", roundings=16),
    Model("clap_audio_model", clap, lambda module: module(), CLAP, "stage2", alone("clap", "ClapAudioModel")),
    gemma("gemma4_audio", of_frames, "Gemma4AudioRelPositionalEncoding"),
    gemma("gemma4_audio", of_frames, "Gemma4AudioRelPositionalEncoding", attention_context_left=8),
    gemma("gemma3n_audio", gemma3n, "Gemma3nAudioRelativePositionEmbedding", conf_attention_context_right=2),
    Model(
        "seamless_m4t",
        of_frames,
        frames,
        SEAMLESS,
        "speech",
        alone("seamless_m4t", "SeamlessM4TConformerRelPositionalEmbedding"),
        FRAMES,
    ),
    Model(
        "seamless_m4t_v2",
        of_pairs(clipped),
        with_queries,
        SEAMLESS,
        "speech",
        alone("seamless_m4t_v2", "SeamlessM4Tv2SpeechEncoder"),
        16,
    ),
    seamless_text("seamless_m4t", "SeamlessM4TSinusoidalPositionalEmbedding"),
    seamless_text("seamless_m4t_v2", "SeamlessM4Tv2SinusoidalPositionalEmbedding"),
    Model("fastspeech2_conformer", of_frames, frames, {"hidden_size": 16}, make=fastspeech2, roundings=FRAMES),
    Model("xglm", of_places, unpadded, XGLM, roundings=ENDS),
    Model("trocr", side("decoder"), rows(16), TROCR, make=decoder),
    Model("trocr", side("decoder"), counted(16), TROCR_SINES, make=decoder, roundings=ENDS),
]
