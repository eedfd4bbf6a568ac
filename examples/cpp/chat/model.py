"""A small Llama whose tokens are bytes, which learns a short text by heart: python model.py TEXT FOLDER [--steps N]."""

import argparse
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("text", type=Path)
parser.add_argument("folder", type=Path)
parser.add_argument("--steps", type=int, default=150)
options = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)  # so small a model takes longer on several
text = torch.tensor(list(options.text.read_bytes()))
config = LlamaConfig(
    vocab_size=256,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=2048,
    bos_token_id=None,
    eos_token_id=10,
    pad_token_id=0,
)
model = LlamaForCausalLM(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for step in range(options.steps):
    starts = torch.randint(len(text) - 65, (8,))
    ids = torch.stack([text[start : start + 64] for start in starts.tolist()])
    loss = model(input_ids=ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step}: loss {loss.item():.2f}", flush=True)
model.save_pretrained(options.folder)
