"""Seconds that onnxruntime-genai takes for a step of decoding: run by bench_decode.py with a Python of its own."""

import sys
import time

import numpy as np
import onnxruntime_genai as og


def main(folder: str, prompt: int, steps: int) -> float:
    config = og.Config(folder)
    config.overlay('{"model": {"decoder": {"session_options": {"intra_op_num_threads": 1}}}}')
    model = og.Model(config)
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=prompt + steps + 2, min_length=prompt + steps + 2, do_sample=False)
    generator = og.Generator(model, params)
    generator.append_tokens(np.arange(prompt, dtype=np.int32)[None] % 200)
    generator.generate_next_token()
    began = time.perf_counter()
    for _ in range(steps):
        generator.generate_next_token()
    return (time.perf_counter() - began) / steps


if __name__ == "__main__":
    print(main(sys.argv[1], *map(int, sys.argv[2:])))
