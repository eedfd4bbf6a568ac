"""Tokens that optimum's ORTModelForCausalLM writes: run by loaders.py with a Python of its own, which lacks ours."""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from optimum.onnxruntime import ORTModelForCausalLM
from transformers import AutoTokenizer


def main(folder: Path, asked: dict[str, Any]) -> dict[str, Any]:
    model = ORTModelForCausalLM.from_pretrained(folder)
    model.generation_config.eos_token_id = None
    written = []
    for prompts, count in zip(asked["prompts"], asked["counts"], strict=True):
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        tokens = model.generate(ids, attention_mask=mask, max_new_tokens=count, do_sample=False, pad_token_id=0)
        written.append(tokens[:, width:].tolist())
    return {"tokens": written, "ids": AutoTokenizer.from_pretrained(folder)(asked["text"])["input_ids"]}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), json.loads(sys.argv[2]))))
