"""Small models of transformers for speech and sound, and text models with fairseq's rows, each with its positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from helpers.models.scores import FRAMES, clipped, frames, of_pairs, queries
from helpers.models.text import BART, ENDS, IDS, MASK, VOCAB, Model, code, counted, rows, side

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


def of_frames(module: Any) -> Any:
    output = module(torch.zeros(1, 6, 16))
    return output[1] if isinstance(output, tuple) else output


def gemma3n(module: Any) -> Any:
    positions = torch.arange(module.max_backward, -module.max_forward - 1, -1)
    return module._get_timing_signal_1d_pos(positions[None], torch.float32)


def vits_keys(attention: Any, q: Tensor) -> Any:
    """The scores that the keys' rows of VITS's attention add: q (1, heads, seq, head_dim) -> (1, heads, seq, seq)."""
    rows = attention._get_relative_embeddings(attention.emb_rel_k, q.shape[2])
    return attention._relative_position_to_absolute_position(q[0] * attention.scaling @ rows.transpose(1, 2))[None]


def vits_values(attention: Any, p: Tensor) -> Any:
    """What the values' rows of VITS's attention add: p (1, heads, seq, seq) -> (1, heads, seq, head_dim)."""
    rows = attention._get_relative_embeddings(attention.emb_rel_v, p.shape[2])
    return (attention._absolute_position_to_relative_position(p[0]) @ rows)[None]


def vits(part: str, own: Callable[[Any, Tensor], Tensor], given: Tensor, *inputs: Tensor) -> Model:
    def of_layer(model: Any) -> Tensor:
        return own(model.text_encoder.encoder.layers[1].attention, given)

    key = f"text_encoder.encoder.layers.1.attention.emb_rel_{part[0]}"
    return Model("vits", of_layer, lambda module: module(*inputs), VITS, part, roundings=16, key=key)


def speecht5(model: Any) -> Any:
    return model.encoder.wrapped_encoder.embed_positions(torch.zeros(1, 30, 16))


def with_queries(module: nn.Module) -> Any:
    return module(queries(), queries())


P = torch.randn(1, 2, 30, 30, generator=torch.Generator().manual_seed(0)).softmax(-1)


def clap(model: Any) -> Any:
    attention = model.audio_encoder.layers[1].blocks[0].attention.self
    table = attention.relative_position_bias_table[attention.relative_position_index.view(-1)]
    return table.view(64, 64, -1).permute(2, 0, 1)[None]


def trocr(own_sizes: dict[str, Any], call: Callable[[nn.Module], Any], roundings: int = 0) -> Model:
    make = code("trocr", "TrOCRForCausalLM")
    return Model("trocr", side("decoder"), call, own_sizes, make=lambda config: make(config).model, roundings=roundings)


def gemma(model_type: str, own: Callable[[Any], Tensor], name: str, **sizes: Any) -> Model:
    make = code(model_type.removesuffix("_audio"), name)
    return Model(model_type, own, lambda module: module(), {**GEMMA, **sizes}, make=make, roundings=FRAMES)


def seamless_text(model_type: str, name: str) -> Model:
    """A seamless model's sines and cosines, which take their sizes one by one."""
    kind = code(model_type, name)

    def make(config: Any) -> Any:
        return kind(config.max_position_embeddings, config.hidden_size, 1)

    return Model(model_type, lambda module: module(IDS), counted(16), SEAMLESS, "text", make, ENDS)


SPEECH = [
    vits("keys", vits_keys, queries(), queries(), queries()),
    vits("values", vits_values, P, P),
    Model("speecht5", of_pairs(speecht5), with_queries, SPEECHT5, "encoder", roundings=16),
    Model("clap_audio_model", clap, lambda module: module(), CLAP, "stage2", code("clap", "ClapAudioModel")),
    gemma("gemma4_audio", of_frames, "Gemma4AudioRelPositionalEncoding"),
    gemma("gemma4_audio", of_frames, "Gemma4AudioRelPositionalEncoding", attention_context_left=8),
    gemma("gemma3n_audio", gemma3n, "Gemma3nAudioRelativePositionEmbedding", conf_attention_context_right=2),
    Model(
        "seamless_m4t",
        of_frames,
        frames,
        SEAMLESS,
        "speech",
        code("seamless_m4t", "SeamlessM4TConformerRelPositionalEmbedding"),
        FRAMES,
    ),
    Model(
        "seamless_m4t_v2",
        of_pairs(clipped),
        with_queries,
        SEAMLESS,
        "speech",
        code("seamless_m4t_v2", "SeamlessM4Tv2SpeechEncoder"),
        16,
    ),
    seamless_text("seamless_m4t", "SeamlessM4TSinusoidalPositionalEmbedding"),
    seamless_text("seamless_m4t_v2", "SeamlessM4Tv2SinusoidalPositionalEmbedding"),
    Model(
        "fastspeech2_conformer",
        of_frames,
        frames,
        {"hidden_size": 16},
        make=lambda config: code("fastspeech2_conformer", "FastSpeech2ConformerRelPositionalEncoding")(
            config, {"positional_dropout_rate": 0.0}
        ),
        roundings=FRAMES,
    ),
    # its positions are given, as `generate` gives them, from the mask
    Model(
        "xglm",
        lambda model: model.embed_positions((MASK.cumsum(1) - 1).clamp(min=0)) * MASK[..., None],
        lambda module: counted(16)(module) * MASK[..., None],
        XGLM,
        roundings=ENDS,
    ),
    trocr(TROCR, rows(16)),
    trocr(TROCR_SINES, counted(16), ENDS),
]
