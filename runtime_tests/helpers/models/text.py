"""Small models of transformers, each with what it adds for positions, in its own words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
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


@dataclass(frozen=True)
class Model:
    """A small model of a type, one of its encodings, and the values that the model's own modules give for it.

    Args:
        model_type: the type.
        own: from the model to its values.
        call: from our module to the values that must equal them.
        sizes: the arguments of its configuration.
        part: the name of the encoding, where the type has several.
        make: from a configuration to the model, or to the module alone.
        roundings: the allowed error, in roundings of the largest value.
        mode: the mode of our module.
        key: the name of the weights, where several layers have some.
    """

    model_type: str
    own: Callable[[Any], Any]
    call: Callable[[nn.Module], Any]
    sizes: Mapping[str, Any] = field(default_factory=dict)
    part: str | None = None
    make: Callable[[Any], nn.Module] | None = None
    roundings: int = 0
    mode: str = "baked"
    key: str = ""

    @property
    def name(self) -> str:
        return f"{self.model_type}-{self.part}" if self.part else self.model_type

    @property
    def kind(self) -> str:
        """The function that gives its values: models that are alike share it."""
        return f"{self.own.__qualname__} in line {self.own.__code__.co_firstlineno}"

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


def code(model_type: str, name: str) -> Any:
    """A class, or a function, of a model type's own code."""
    folder = model_type.replace("-", "_")
    return getattr(import_module(f"transformers.models.{folder}.modeling_{folder}"), name)


def alone(embeddings: nn.Module) -> nn.Module:
    """Leave nothing of embeddings but positions."""
    for name, parameter in embeddings.named_parameters():
        if "position" not in name:
            nn.init.zeros_(parameter)
    for name, _ in list(embeddings.named_children()):
        if "norm" in name.lower():
            setattr(embeddings, name, nn.Identity())
    return embeddings


def of_tokens(model: Any) -> Any:
    """What BERT and its kind add to tokens."""
    inner = getattr(model, "text_model", model)
    return alone(inner.embeddings)(input_ids=IDS)


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


ENDS = 16
"""Roundings of angles that are computed in float32, of positions below 16."""
GPT2 = {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": VOCAB, "n_positions": 12}
DISTILBERT = {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 16, "vocab_size": VOCAB}
OPT = {**BERT, "word_embed_proj_dim": 16, "ffn_dim": 16, "max_position_embeddings": 12}
WHISPER = {**BART, "max_source_positions": 12, "max_target_positions": 12, "begin_suppress_tokens": None}
SPEECH = {**BART, "max_source_positions": 12, "max_target_positions": 12, "conv_channels": 8}
LAYOUT = {**BERT, "max_position_embeddings": 12, "max_2d_position_embeddings": 20}


def boxes() -> Tensor:
    """Left, upper, right and lower side of each token."""
    low = torch.arange(2 * SEQ).reshape(2, SEQ, 1) % 5
    return torch.cat([low, low + 1, low + 3, low + 6], -1)


def in_tables(module: nn.Module) -> Any:
    left, upper, right, lower = boxes().unbind(-1)
    order = torch.arange(SEQ).expand(2, -1)
    positions = torch.stack([order, left, upper, right, lower, lower - upper, right - left])
    return module(torch.zeros(2, SEQ, 16), positions)


def fairseq(model_type: str, sizes: Mapping[str, Any], part: str | None = None) -> Model:
    return Model(model_type, side(part or "decoder"), counted(16), sizes, part, roundings=ENDS)


TEXTS = [
    *(bert(name) for name in ("bert", "deberta-v2", "megatron-bert", "splinter")),
    *(bert(name, 8, embedding_size=8) for name in ("electra", "albert")),
    *(roberta(name) for name in ("roberta", "xlm-roberta", "camembert", "longformer")),
    Model("distilbert", of_tokens, rows(16), {**DISTILBERT, "max_position_embeddings": 12}),
    Model("gpt2", lambda model: repeated(model.wpe(torch.arange(SEQ))), rows(16), GPT2),
    Model("opt", lambda model: model.decoder.embed_positions(MASK), counted(16), OPT),
    Model(
        "layoutlm",
        lambda model: alone(model.embeddings)(input_ids=IDS, bbox=boxes()),
        in_tables,
        LAYOUT,
        roundings=8,
    ),
    *(bart(name, part) for name in ("bart", "mbart") for part in ("encoder", "decoder")),
    *(
        Model(name, side("encoder", of_shape=True), rows(16), {**BART, "max_position_embeddings": 12})
        for name in ("marian", "pegasus")
    ),
    fairseq("m2m_100", {**BART, "max_position_embeddings": 12}),
    fairseq("speech_to_text", SPEECH, "encoder"),
    fairseq("speech_to_text", SPEECH, "decoder"),
    Model(
        "whisper",
        lambda model: repeated(model.encoder.embed_positions.weight),
        rows(16, 12),
        WHISPER,
        "encoder",
        roundings=ENDS,
    ),
    Model("whisper", side("decoder"), rows(16), WHISPER, "decoder"),
]
