"""Llamas of any size with random weights and byte tokens, as every exporter takes them."""

import json
from pathlib import Path

THETA = 10_000.0


def save(folder: Path, *, layers: int, size: int, heads: int, kv_heads: int, positions: int) -> int:
    """Write a model's folder with its tokenizer; return how wide a head is."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from scripts.loading.byte_tokenizer import VOCABULARY, save_tokenizer

    torch.manual_seed(0)
    config = LlamaConfig(
        **VOCABULARY,
        hidden_size=size,
        intermediate_size=2 * size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=positions,
        rope_parameters={"rope_type": "default", "rope_theta": THETA},
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    save_tokenizer(folder)
    # transformers 4, which some exporters need, has another key for it
    path = folder / "config.json"
    said = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**said, "rope_theta": THETA, "torch_dtype": "float32"}), encoding="utf-8")
    return size // heads
