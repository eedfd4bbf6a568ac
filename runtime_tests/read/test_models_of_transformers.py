"""Tiny models of transformers, as the exporters of PyTorch write them, are interpreted whole, and their ends found."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    BloomConfig,
    BloomModel,
    GPTJConfig,
    GPTJModel,
    LlamaConfig,
    LlamaModel,
    MptConfig,
    MptModel,
    PreTrainedModel,
    RobertaConfig,
    RobertaModel,
    RoFormerConfig,
    RoFormerModel,
    T5Config,
    T5EncoderModel,
)  # fmt: skip

from helpers.graph_files import exported, runs
from posenc_export.read.ends import find_end
from posenc_export.read.graph.read import read_graph
from posenc_export.read.interpret.run import interpret
from posenc_export.read.values import Array, Data, Unknown

SIZES: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 99,
    "max_position_embeddings": 64,
}  # fmt: skip
GPT: dict[str, Any] = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99, "n_positions": 64, "use_cache": False}
T5 = T5Config(d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, vocab_size=99)
MPT = MptConfig(d_model=32, n_layers=2, n_heads=4, vocab_size=99, max_seq_len=64, use_cache=False)
BLOOM = BloomConfig(hidden_size=32, n_layer=2, n_head=4, vocab_size=99, use_cache=False)
MODELS = {
    "bert": (BertModel, BertConfig(**SIZES), 64),
    "roberta": (RobertaModel, RobertaConfig(**SIZES), 62),
    "roformer": (RoFormerModel, RoFormerConfig(**SIZES), 64),
    "gptj": (GPTJModel, GPTJConfig(rotary_dim=4, **GPT), 64),
    "mpt": (MptModel, MPT, 64),
    "llama": (LlamaModel, LlamaConfig(num_key_value_heads=2, use_cache=False, **SIZES), None),
    "bloom": (BloomModel, BLOOM, None),
    "t5": (T5EncoderModel, T5, None),
}


class Whole(torch.nn.Module):
    """A model of transformers that takes ids and a mask in order, and returns its hidden states."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask)[0]
        return states


def feeds(length: int) -> dict[str, Array]:
    return {"input_ids": np.full((1, length), 7), "attention_mask": np.ones((1, length), np.int64)}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "dynamo"), [*((name, False) for name in MODELS), ("gptj", True), ("mpt", True)])
def test_a_model_is_interpreted_to_its_end(name: str, dynamo: bool, tmp_path: Path) -> None:
    kind, config, last = MODELS[name]
    axes = ("batch", "sequence")
    inputs = [
        ("input_ids", torch.randint(3, 90, (2, 9)), axes),
        ("attention_mask", torch.ones(2, 9, dtype=torch.int64), axes),
    ]
    found = read_graph(path := exported(tmp_path, Whole(kind(config)), inputs, dynamo))
    run = interpret(found)
    assert run.stopped is None
    assert [value for value in run.values.values() if isinstance(value, Unknown)] == []
    assert all(isinstance(run.values[output], Data) for output in found.outputs)
    end = find_end(found)
    assert (end and end.last) == last
    if end is not None:
        assert runs(path, feeds(end.last))
        assert runs(path, feeds(end.last + 1)) is (end.beyond != "refuses")
