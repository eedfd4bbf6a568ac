"""Tokens that onnxruntime-genai writes: run by loaders.py with a Python of its own, which lacks ours."""

import json
import sys
from typing import Any

import onnxruntime_genai as og


def main(folder: str, asked: dict[str, Any]) -> dict[str, Any]:
    model = og.Model(folder)
    written = []
    for prompts, count in zip(asked["prompts"], asked["counts"], strict=True):
        width = max(map(len, prompts))
        # it makes the mask itself, of where the token for padding is, which prompts must not hold
        ids = [[asked["pad"]] * (width - len(prompt)) + prompt for prompt in prompts]
        params = og.GeneratorParams(model)
        params.set_search_options(max_length=width + count, do_sample=False, batch_size=len(ids))
        generator = og.Generator(model, params)
        generator.append_tokens(ids)
        steps = []
        while not generator.is_done():
            generator.generate_next_token()
            steps.append([int(token) for token in generator.get_next_tokens()])
        written.append([list(row) for row in zip(*steps, strict=True)])
    return {"tokens": written, "ids": [int(id_) for id_ in og.Tokenizer(model).encode(asked["text"])]}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], json.loads(sys.argv[2]))))
