"""Whole models that somebody exported wrongly, each given to `posenc prove FILE --model FOLDER`: run by hand.

python wrong_files.py --python PYTHON --genai PYTHON           proves every file, and prints what came of it
python wrong_files.py --python PYTHON --genai PYTHON --write   puts the table into docs/reference/measured/models.md

A wrong file is a right one of a model that differs in one thing, with the same weights: the rotary base, a window, a
layer that does not rotate. What no config says is changed in the graph: a mask or positions that nothing reads. Right
files are ours, and those of the exporters of `loading/peer_files.py`.
"""

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.numpy_helper import from_array

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.made_parts import put_part
from posenc_export.common.markdown import table
from scripts.loading.peer_files import PEERS, Others, add_pythons, file_in, ours

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "models.md"
SIZES: Mapping[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
    "tie_word_embeddings": False,
}
DYNAMIC: Mapping[str, Any] = {
    "rope_type": "dynamic",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
}
RIGHT = ("posenc", "optimum-onnx", "transformers.exporters")
"""The exporters whose right files are proved, ours first."""
Weights = dict[str, Any]


def swapped_heads(weights: Weights) -> None:
    """Have the keys and values of the two groups of queries change places."""
    for name in weights:
        if "k_proj" in name or "v_proj" in name:
            weights[name] = weights[name].reshape(2, 8, -1).flip(0).reshape(16, -1)


def replace_input(model: onnx.ModelProto, name: str, nodes: list[onnx.NodeProto]) -> None:
    """Have every node read what new nodes make, the last output of which takes the place of an input."""
    for node in model.graph.node:
        node.input[:] = [nodes[-1].output[0] if one == name else one for one in node.input]
    for node in reversed(nodes):
        model.graph.node.insert(0, node)
    model.graph.initializer.extend(
        from_array(np.array(value), name)
        for name, value in (("wrong.zero", 0), ("wrong.one", 1), ("wrong.axis", [1]), ("wrong.two", [2]))
    )


def without_mask(model: onnx.ModelProto) -> None:
    """Have all tokens count, whatever the mask says."""
    name = "attention_mask"
    nodes = [
        helper.make_node("Mul", [name, "wrong.zero"], ["wrong.zeros"]),
        helper.make_node("Add", ["wrong.zeros", "wrong.one"], ["wrong.mask"]),
    ]
    replace_input(model, name, nodes)


def _past(name: str) -> list[onnx.NodeProto]:
    """Return nodes that make the number of cached tokens, as an array of one number."""
    return [
        helper.make_node("Shape", ["past_key_values.0.key"], ["wrong.shape"]),
        helper.make_node("Gather", ["wrong.shape", "wrong.two"], [name]),
    ]


def without_positions(model: onnx.ModelProto) -> None:
    """Have positions count from the number of cached tokens, whatever the ids of positions say."""
    name = "position_ids"
    nodes = [
        *_past("wrong.past"),
        helper.make_node("Mul", [name, "wrong.zero"], ["wrong.zeros"]),
        helper.make_node("Add", ["wrong.zeros", "wrong.one"], ["wrong.ones"]),
        helper.make_node("CumSum", ["wrong.ones", "wrong.one"], ["wrong.counted"]),
        helper.make_node("Sub", ["wrong.counted", "wrong.one"], ["wrong.from_zero"]),
        helper.make_node("Add", ["wrong.from_zero", "wrong.past"], ["wrong.positions"]),
    ]
    replace_input(model, name, nodes)


def one_off(model: onnx.ModelProto) -> None:
    """Have positions be one too few behind a cache."""
    name = "position_ids"
    nodes = [
        *_past("wrong.past"),
        helper.make_node("Min", ["wrong.past", "wrong.one_long"], ["wrong.behind"]),
        helper.make_node("Sub", [name, "wrong.behind"], ["wrong.fewer"]),
        helper.make_node("Max", ["wrong.fewer", "wrong.zero"], ["wrong.positions"]),
    ]
    replace_input(model, name, nodes)
    model.graph.initializer.append(from_array(np.array([1]), "wrong.one_long"))


@dataclass(frozen=True)
class Fault:
    """A fault of a file.

    Args:
        kind: the type of the model that the file should be, which has a Llama's weights.
        config: what that model's config says beside.
        weights: what its weights have beside.
        graph: what is wrong in the graph itself, of the model's own file.
    """

    kind: str = "llama"
    config: Mapping[str, Any] = field(default_factory=dict)
    weights: Callable[[Weights], None] | None = None
    graph: Callable[[onnx.ModelProto], None] | None = None


FAULTS: Mapping[str, Fault] = {
    "rotary base wrong": Fault(config={"rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0}}),
    "dynamic NTK frozen": Fault(config={"rope_parameters": DYNAMIC}),
    "layers without positions rotated": Fault("smollm3", {"no_rope_layer_interval": 2, "use_sliding_window": False}),
    "sliding window ignored": Fault("mistral", {"sliding_window": 16}),
    "scale of attention wrong": Fault("granite", {"attention_multiplier": 0.25}),
    "rotary layout swapped": Fault("ernie4_5", {"use_bias": False}),
    "heads of keys repeated wrongly": Fault(weights=swapped_heads),
    "mask ignored": Fault(graph=without_mask),
    "position ids ignored": Fault(graph=without_positions),
    "cache off by one": Fault(graph=one_off),
}


def save(fault: Fault, folder: Path) -> None:
    """Write a model's folder: the weights of one Llama, as the model of a fault has them."""
    import torch
    import transformers

    torch.manual_seed(1)
    base = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    with torch.no_grad():
        for name, parameter in base.named_parameters():
            parameter.normal_(std=0.3)
            if parameter.dim() == 1 and name.endswith("weight"):
                parameter.add_(1.0)
    weights = dict(base.state_dict())
    if fault.weights is not None:
        fault.weights(weights)
    config = transformers.AutoConfig.for_model(fault.kind, **{**SIZES, **fault.config})
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.load_state_dict(weights)
    model.save_pretrained(folder)


def proved(file: Path, model: Path) -> tuple[int, str]:
    """Return the exit status of `posenc prove`, and the first thing that it found."""
    words = ["prove", file, "--model", model, "--runtime", "ort-cpu", "--max-len", "24", "--json"]
    command = [sys.executable, "-m", "posenc_export", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        return done.returncode, done.stderr.strip().splitlines()[-1][:160]
    failed = [row for row in json.loads(done.stdout)["verdicts"] if row["status"] == "fail"]
    return done.returncode, f"{failed[0]['check']}: {failed[0]['detail'][:110]}" if failed else ""


def wrong(name: str, right: Path, folder: Path) -> tuple[str, str, str]:
    """Return the row of a fault: a right file against another model, or a changed one against its own."""
    fault, model, file = FAULTS[name], folder / name.replace(" ", "-"), right
    save(fault, model)
    if fault.graph is not None:
        graph = onnx.load(right)
        fault.graph(graph)
        file = folder / f"{model.name}.onnx"
        onnx.save(graph, file)
    status, found = proved(file, model)
    return name, "found" if status == 1 else f"not found (status {status})", found


def rightly(name: str, others: Others, folder: Path) -> tuple[str, str, str]:
    """Return the row of a right file, which an exporter writes first."""
    why = PEERS[name](others, folder / "right", folder / name)
    if why:
        return f"right, by {name}", "not written", why
    status, found = proved(file_in(folder / name), folder / "right")
    return f"right, by {name}", "agrees" if status == 0 else f"refused (status {status})", found


def summary(rows: Sequence[tuple[str, str, str]]) -> str:
    """Return the text between the markers of the page."""
    found = sum(verdict == "found" for _, verdict, _ in rows)
    refused = sum(verdict.startswith("refused") for _, verdict, _ in rows)
    return (
        f"Measured on {datetime.date.today().isoformat()}: {found} of {len(FAULTS)} wrong files are found, and "
        f"{refused} right ones are refused.\n\n{table(('file', 'verdict', 'what the report says first'), rows)}\n"
    )


def main() -> None:
    """Write, prove, print, and put the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="FAULT", help=f"one of {', '.join(FAULTS)} (default: all)")
    add_pythons(parser)
    parser.add_argument("--write", action="store_true", help="put the table into docs/reference/measured/models.md")
    options = parser.parse_args()
    others, rows = Others(options.python, options.genai), []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        save(Fault(), folder / "right")
        for name in () if options.names else RIGHT:
            rows.append(rightly(name, others, folder))
            print(*rows[-1], sep=" | ", flush=True)
        if not (folder / RIGHT[0]).exists():
            ours(others, folder / "right", folder / RIGHT[0])
        for name in options.names or FAULTS:
            rows.append(wrong(name, file_in(folder / RIGHT[0]), folder))
            print(*rows[-1], sep=" | ", flush=True)
    if options.write:
        put_part(PAGE, "wrong", summary(rows))


if __name__ == "__main__":
    main()
