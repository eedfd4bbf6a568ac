"""Milliseconds of a prompt of 512 tokens, and of one token behind it, of decoders with states: eager and ONNX Runtime.

python runtime_tests/scripts/bench_states.py                 prints a row for each kind of state
python runtime_tests/scripts/bench_states.py mamba           prints that of a model type

Each model has two or three layers, 256 features and random weights; both sides have one thread. The least of five
prompts counts, and of twenty steps. It takes five minutes on two cores.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
import transformers

sys.path.insert(0, str(Path(__file__).parents[1]))

import posenc_export
from helpers.model_folders import GROUPED, WORDS
from helpers.state_models import DELTA, STATES
from helpers.whole_models import run_of
from posenc_export.bundle.folder import Bundle
from posenc_export.common.markdown import table
from posenc_export.proof.callees import Callee
from posenc_export.proof.generation import empty_caches, presents, read_tokens
from posenc_models import ModelFolder

TOKENS, VOCABULARY = 512, 256
SIZES = {"hidden_size": 256, "vocab_size": VOCABULARY, "max_position_embeddings": 2048}
ATTENDING = {**GROUPED, **SIZES, "intermediate_size": 512, "num_key_value_heads": 2, "head_dim": 64}
WIDE: dict[str, dict[str, Any]] = {
    "lfm2": {**STATES["lfm2"].config, **ATTENDING, "num_hidden_layers": 3, "block_ff_dim": 512},
    "mamba2": {
        **{**WORDS, **SIZES, "state_size": 128, "num_hidden_layers": 2},
        **{"num_heads": 8, "head_dim": 64, "n_groups": 1, "chunk_size": 256},
    },
    "qwen3_next": {
        **{**STATES["qwen3_next"].config, **ATTENDING, **DELTA},
        **{"linear_key_head_dim": 128, "linear_value_head_dim": 128},
    },
    "mamba": {**WORDS, **SIZES, "state_size": 16, "num_hidden_layers": 2},
}
"""Wider configs of one model for each kind of state."""


def least(call: Callable[[], object], times: int) -> float:
    """Return the milliseconds of the fastest call, behind one that is not counted."""
    call()
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return 1000 * min(seconds)


def row(kind: str, folder: Path) -> tuple[str, ...]:
    """Return the row of a model type: prompt and step, of eager and of the file."""
    small = replace(STATES[kind], config=WIDE[kind])
    small.save(folder / "model")
    source = ModelFolder.load(folder / "model")
    posenc_export.export(source, to=folder / "bundle", formats=["onnx"], validate=False, max_len=24)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    path = folder / "bundle" / "model.onnx"
    run = run_of(onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]))
    file = Callee(run, Bundle.open(folder / "bundle").manifest.inputs)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder / "model").eval()
    ids = np.random.default_rng(0).integers(3, VOCABULARY, (1, TOKENS))
    mask, first = np.ones((1, TOKENS + 1), np.int64), empty_caches(file.inputs, 1)
    past = presents(read_tokens(file, ids, mask[:, :-1], first), first)
    read = model(input_ids=torch.tensor(ids), use_cache=True)
    cache = "cache_params" if hasattr(read, "cache_params") else "past_key_values"
    one = torch.tensor(ids[:, :1])
    times = (
        least(lambda: model(input_ids=torch.tensor(ids), use_cache=True), 5),
        least(lambda: read_tokens(file, ids, mask[:, :-1], first), 5),
        least(lambda: model(input_ids=one, use_cache=True, **{cache: read[cache]}), 20),
        least(lambda: read_tokens(file, ids[:, :1], mask, past), 20),
    )
    return small.title, *(f"{number:.0f}" for number in times[:2]), *(f"{number:.1f}" for number in times[2:])


def main() -> None:
    """Print a row for each model."""
    torch.set_num_threads(1)
    rows = []
    with torch.no_grad():
        for kind in sys.argv[1:] or WIDE:
            with tempfile.TemporaryDirectory() as folder:
                rows.append(row(kind, Path(folder)))
    print(table(("model", "512 tokens: eager", "ONNX Runtime", "a step: eager", "ONNX Runtime"), rows))


if __name__ == "__main__":
    main()
