"""Encoders of text: ids and a mask of what is no padding."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from transformers import T5Config, T5EncoderModel, UMT5Config, UMT5EncoderModel

from whole import VOCABULARY, Whole, built, drawn

SIZES: Mapping[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "initializer_range": 0.2,
}
DISENTANGLED = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False}
DISTIL = {"dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4}
XLNET = {"d_model": 32, "n_head": 4, "n_layer": 2, "d_inner": 48}
T5_SIZES = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": VOCABULARY}
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "bert": SIZES,
    "roberta": {**SIZES, "pad_token_id": 1},
    "deberta": {**SIZES, **DISENTANGLED},
    "deberta-v2": {**SIZES, **DISENTANGLED, "position_buckets": 8, "share_att_key": True, "norm_rel_ebd": "layer_norm"},
    "albert": {**SIZES, "embedding_size": 16},
    "electra": {**SIZES, "embedding_size": 16},
    "modernbert": {**SIZES, "global_attn_every_n_layers": 2, "local_attention": 16, "pad_token_id": 0},
    "roformer": {**SIZES, "embedding_size": 16},
    "distilbert": {**SIZES, **DISTIL},
    "longformer": {**SIZES, "attention_window": [8, 8]},
    "mpnet": SIZES,
    "nomic_bert": SIZES,
    "xlnet": {**XLNET, "vocab_size": VOCABULARY, "initializer_range": 0.2},
    "esm": {**SIZES, "position_embedding_type": "rotary", "pad_token_id": 1, "mask_token_id": 4},
    "eurobert": {**SIZES, "num_key_value_heads": 2, "pad_token_id": 0},
    "t5": {**T5_SIZES, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 32},
    "umt5": {**T5_SIZES, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 32},
}


class Tokens(nn.Module):
    """Ids and a mask to hidden states."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self.model = made(model)

    def forward(self, ids: Tensor, attention_mask: Tensor) -> Tensor:
        hidden: Tensor = self.model(input_ids=ids, attention_mask=attention_mask).last_hidden_state
        return hidden


def made(model: str) -> nn.Module:
    """Return an encoder; T5 and UMT5 have one beside the decoder."""
    if model == "t5":
        return drawn(T5EncoderModel(T5Config(**CONFIGS[model])))
    if model == "umt5":
        return drawn(UMT5EncoderModel(UMT5Config(**CONFIGS[model])))
    return built(model, CONFIGS[model])


IDS, MASK = f"ids: int64[batch, seq] < {VOCABULARY}", "attention_mask: int64[batch, seq]"


def row(name: str, model: str) -> Whole:
    return Whole(name, "whole.text:Tokens", model, (IDS, MASK))


ROWS = (
    row("BERT", "bert"),
    row("RoBERTa", "roberta"),
    row("T5 encoder", "t5"),
    row("UMT5 encoder", "umt5"),
    row("DeBERTa", "deberta"),
    row("DeBERTa-v2", "deberta-v2"),
    row("XLNet", "xlnet"),
    row("ALBERT", "albert"),
    row("ELECTRA", "electra"),
    row("ModernBERT", "modernbert"),
    row("RoFormer", "roformer"),
    row("DistilBERT", "distilbert"),
    row("Longformer", "longformer"),
    row("MPNet", "mpnet"),
    row("NomicBERT", "nomic_bert"),
    row("ESM", "esm"),
    row("EuroBERT", "eurobert"),
)
