"""Small models of transformers, each with what it adds for positions, in its own words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel

transformers.logging.set_verbosity(50)
transformers.logging.disable_progress_bar()

VOCAB, SEQ = 40, 9
IDS = torch.tensor([[5, 6, 7, 8, 9, 10, 11, 12, 13], [5, 6, 7, 8, 9, 10, 1, 1, 1]])
"""Tokens; 1 is padding, where a model has some."""
MASK = (IDS != 1).long()
BERT = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "vocab_size": VOCAB,
}
VIT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
TINY_VIT = {**VIT, "image_size": 32, "patch_size": 8}
BART = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "vocab_size": VOCAB,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": 2,
}
T5 = {"d_model": 16, "d_kv": 4, "d_ff": 16, "num_layers": 2, "num_heads": 4, "vocab_size": VOCAB}
SWIN = {"image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4}
HEIGHT, WIDTH = 5, 3
"""Of a grid in patches, of a size that no model here was made for."""


@dataclass(frozen=True)
class Model:
    """A model type in small, one of its encodings, and what the model's own modules give for that.

    own: of a model, the values. call: of our module, the values to be equal to them. sizes: its configuration.
    make: of that, the model, or the module alone. allowed: by how much values may be off.
    """

    model_type: str
    own: Callable[[Any], Tensor]
    call: Callable[[nn.Module], Tensor]
    sizes: Mapping[str, Any] = field(default_factory=dict)
    part: str | None = None
    make: Callable[[Any], nn.Module] | None = None
    allowed: float = 0.0
    mode: str = "baked"

    @property
    def name(self) -> str:
        return f"{self.model_type}-{self.part}" if self.part else self.model_type

    def config(self) -> Any:
        return AutoConfig.for_model(self.model_type, **self.sizes)

    def model(self) -> nn.Module:
        torch.manual_seed(0)
        made = (self.make or AutoModel.from_config)(self.config()).eval()
        for name, parameter in made.named_parameters():
            if "pos" in name or "wpe" in name or "relative" in name or "distance" in name:
                torch.manual_seed(len(name))
                if parameter.requires_grad or "scale" in name:
                    nn.init.normal_(parameter)
        return made


def alone(embeddings: nn.Module) -> nn.Module:
    """Leave nothing of embeddings but positions."""
    for name, parameter in embeddings.named_parameters():
        if "position" not in name:
            nn.init.zeros_(parameter)
    for name, _ in list(embeddings.named_children()):
        if "norm" in name.lower():
            setattr(embeddings, name, nn.Identity())
    return embeddings


def of_tokens(model: Any) -> Tensor:
    """What BERT and its kind add to tokens."""
    inner = getattr(model, "text_model", model)
    values: Tensor = alone(inner.embeddings)(input_ids=IDS)
    return values


def rows(width: int, seq: int = SEQ) -> Callable[[nn.Module], Tensor]:
    """What a module adds to as many tokens, of a batch of two."""
    return lambda module: module(torch.zeros(2, seq, width))


def counted(width: int) -> Callable[[nn.Module], Tensor]:
    """What a module adds to tokens of which some are padding."""
    return lambda module: module(torch.zeros(2, SEQ, width), MASK)


def repeated(values: Tensor) -> Tensor:
    """Values of one sequence as those of two."""
    return values.reshape(1, *values.shape[-2:]).expand(2, -1, -1)


def bert(model_type: str, width: int = 16, **sizes: Any) -> Model:
    return Model(model_type, of_tokens, rows(width), {**BERT, "max_position_embeddings": 12, **sizes})


def roberta(model_type: str) -> Model:
    return Model(model_type, of_tokens, counted(16), {**BERT, "max_position_embeddings": 12, "pad_token_id": 1})


def side(name: str, of_shape: bool = False) -> Callable[[Any], Tensor]:
    """What an encoder's or a decoder's module of positions gives."""

    def own(model: Any) -> Tensor:
        values: Tensor = getattr(model, name).embed_positions(IDS.shape if of_shape else IDS)
        return values if values.dim() == 3 else repeated(values)

    return own


def bart(model_type: str, part: str) -> Model:
    return Model(model_type, side(part), rows(16), {**BART, "max_position_embeddings": 12}, part)


def resized(embeddings: Any) -> Tensor:
    """SigLIP2's rows for an image of another size than it was made for."""
    square = embeddings.position_embedding.weight.reshape(4, 4, -1)
    sizes = torch.tensor([[HEIGHT, WIDTH]])
    values: Tensor = embeddings.resize_positional_embeddings(square, sizes, HEIGHT * WIDTH)
    return values


def of_patches(prefix: int) -> Callable[[Any], Tensor]:
    """What a vision model adds to patches of another size than it was made for."""

    def own(model: Any) -> Tensor:
        inner = getattr(model, "vision_model", model).embeddings
        size = inner.patch_size if isinstance(inner.patch_size, int) else inner.patch_size[0]
        tokens = torch.zeros(1, prefix + HEIGHT * WIDTH, 16)
        values: Tensor = inner.interpolate_pos_encoding(tokens, HEIGHT * size, WIDTH * size)
        return values

    return own


def on_grid(*axes: int, flat: bool = True) -> Callable[[nn.Module], Tensor]:
    """What a module gives for a grid of patches; line by line, where flat."""

    def call(module: nn.Module) -> Tensor:
        values: Tensor = module(torch.zeros(1, HEIGHT, WIDTH, 16))
        return values.flatten(1, 2) if values.dim() == 4 else values

    return call


def vit(model_type: str, prefix: int, **sizes: Any) -> Model:
    return Model(model_type, of_patches(prefix), on_grid(), {**TINY_VIT, **sizes}, mode="dynamic")


def two(text: dict[str, Any], vision: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a model of text and images."""
    return {"text_config": {**BERT, "max_position_embeddings": 12, **text}, "vision_config": {**TINY_VIT, **vision}}


def scores(heads: int, seq: int = 6, seq_k: int | None = None) -> Callable[[nn.Module], Tensor]:
    """The bias of a module for queries and keys."""

    def call(module: nn.Module) -> Tensor:
        q, k = torch.zeros(1, heads, seq, 4), torch.zeros(1, heads, seq_k or seq, 4)
        values: Tensor = module(q, k)
        return values

    return call


def t5(model_type: str, part: str, layer: str = "SelfAttention") -> Model:
    def own(model: Any) -> Tensor:
        attention = getattr(getattr(model, part).block[0].layer[0], layer)
        values: Tensor = attention.compute_bias(6, 6) if layer == "SelfAttention" else local(attention)
        return values

    return Model(model_type, own, scores(4), T5, part)


def local(attention: Any) -> Tensor:
    """The bias of LongT5's blocks, read back by distance: of block b, query i and key j of three blocks."""
    blocks = attention.compute_bias(6)[0, 0]  # (heads, block, 3 block)
    places = torch.arange(6)
    values: Tensor = blocks[:, 0, 6 + places[None, :] - places[:, None]]
    return values[None]


MODELS = (
    *(bert(name) for name in ("bert", "deberta-v2", "megatron-bert", "splinter")),
    bert("electra", 8, embedding_size=8),
    bert("albert", 8, embedding_size=8),
    *(roberta(name) for name in ("roberta", "xlm-roberta", "camembert", "longformer")),
    Model(
        "distilbert",
        of_tokens,
        rows(16),
        {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 16, "vocab_size": VOCAB, "max_position_embeddings": 12},
    ),
    Model(
        "gpt2",
        lambda model: repeated(model.wpe(torch.arange(SEQ))),
        rows(16),
        {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": VOCAB, "n_positions": 12},
    ),
    Model(
        "opt",
        lambda model: model.decoder.embed_positions(MASK),
        counted(16),
        {**BERT, "word_embed_proj_dim": 16, "ffn_dim": 16, "max_position_embeddings": 12},
    ),
    *(bart(name, part) for name in ("bart", "mbart") for part in ("encoder", "decoder")),
    *(
        Model(name, side("encoder", of_shape=True), rows(16), {**BART, "max_position_embeddings": 12})
        for name in ("marian", "pegasus")
    ),
    Model("m2m_100", side("decoder"), counted(16), {**BART, "max_position_embeddings": 12}),
    Model(
        "speech_to_text",
        side("encoder"),
        counted(16),
        {**BART, "max_source_positions": 12, "conv_channels": 8},
        "encoder",
    ),
    Model(
        "whisper",
        lambda model: repeated(model.encoder.embed_positions.weight),
        rows(16, 12),
        {**BART, "max_source_positions": 12, "begin_suppress_tokens": None},
        "encoder",
    ),
    Model(
        "whisper",
        side("decoder"),
        rows(16),
        {**BART, "max_target_positions": 12, "begin_suppress_tokens": None},
        "decoder",
    ),
    vit("vit", 1),
    vit("deit", 2),
    vit("dinov2", 1),
    vit("dinov2_with_registers", 1),
    vit("beit", 1, use_absolute_position_embeddings=True),
    Model("clip", of_tokens, rows(16), two({}, {}), "text"),
    Model("clip", of_patches(1), on_grid(), two({}, {}), "vision", mode="dynamic"),
    Model("siglip", of_tokens, rows(16), two({}, {}), "text"),
    Model("siglip", of_patches(0), on_grid(), two({}, {}), "vision", mode="dynamic"),
    Model(
        "siglip2",
        lambda model: resized(model.vision_model.embeddings),
        on_grid(),
        two({}, {"num_patches": 16}),
        "vision",
        mode="dynamic",
    ),
    *(t5(name, part) for name in ("t5", "mt5") for part in ("encoder", "decoder")),
)
