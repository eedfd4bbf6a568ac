"""Keys that whole models cache far out, as five exporters write them, against float64: run by hand, not by pytest.

python far_cache.py --python PYTHON --genai PYTHON           writes a tiny Llama with each, and prints the errors
python far_cache.py --python PYTHON --genai PYTHON --write   puts the table into docs/reference/measured/models.md

`loading/peer_files.py` says what these environments have. A token goes in at a position; what comes out is the key of
the first layer that the next step would read. Float64 is NumPy, by the formula: the norm, the projection and the
rotation of the token's embedding, with the model's own weights.
"""

import argparse
import datetime
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from safetensors.numpy import load_file

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.made_parts import put_part
from posenc.ports import Array
from posenc_export.common.markdown import table
from scripts.loading.peer_files import PEERS, Others, add_pythons, file_in
from scripts.loading.small_llama import THETA, save

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "models.md"
POSITIONS = (0, 8_000, 100_000)
TOKEN = 65
LAYER = "model.layers.0"


def reference(model: Path, position: int, width: int) -> Array:
    """Return the key of a token at a position in float64: (heads, width)."""
    weights = {name: array.astype(np.float64) for name, array in load_file(model / "model.safetensors").items()}
    hidden = weights["model.embed_tokens.weight"][TOKEN]
    hidden = hidden / np.sqrt((hidden**2).mean() + 1e-6) * weights[f"{LAYER}.input_layernorm.weight"]
    keys = (weights[f"{LAYER}.self_attn.k_proj.weight"] @ hidden).reshape(-1, width)
    angles = position * THETA ** (-2 * np.arange(width // 2) / width)
    halves = keys[:, : width // 2] + 1j * keys[:, width // 2 :]
    turned = halves * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], 1)


def cached_key(file: Path, position: int, heads: int, width: int) -> Array:
    """Return the key of the first layer that a file gives for a token at a position: (heads, width)."""
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    inputs = {item.name: item for item in session.get_inputs()}
    explicit = any("position" in name for name in inputs)
    # a file without an input for positions counts what the cache holds
    past = 0 if explicit else position
    given: dict[str, Any] = {
        "input_ids": np.array([[TOKEN]]),
        "attention_mask": np.ones((1, past + 1), np.int64),
        "position_ids": np.array([[position]]),
    }
    feeds: dict[str, Array] = {}
    for name, item in inputs.items():
        word = next((word for word in given if word in name), None)
        if word is not None:
            kind = np.int32 if item.type == "tensor(int32)" else np.int64
            feeds[name] = given[word].astype(kind)
        else:
            feeds[name] = np.zeros((1, heads, past, width), np.float32)
    output = next(item.name for item in session.get_outputs() if "0" in item.name and "key" in item.name)
    (keys,) = session.run([output], feeds)
    return np.asarray(keys[0, :, -1])


def measured(file: Path, model: Path, width: int) -> list[str]:
    """Return the error at each position, as a share of the largest number of the key."""
    found = []
    for position in POSITIONS:
        try:
            expected = reference(model, position, width)
            found.append(
                f"{np.abs(cached_key(file, position, *expected.shape) - expected).max() / np.abs(expected).max():.1e}"
            )
        except Exception as error:  # a stranger's file: what it says is what the table has
            found.append(f"fails: {str(error).splitlines()[0][:90]}")
    return found


def versions(others: Others) -> str:
    """Return the packages that wrote the files, with their versions."""
    ours = f"transformers {version('transformers')}; each file ran in onnxruntime {version('onnxruntime-gpu')}"
    return f"{others.versions('optimum-onnx', 'mobius-onnx')}, {ours}"


def summary(rows: Mapping[str, list[str]], others: Others) -> str:
    """Return the text between the markers of the page."""
    head = ("written by", *(f"position {position:,}" for position in POSITIONS))
    return (
        f"Measured on {datetime.date.today().isoformat()} with {versions(others)}.\n\n"
        f"{table(head, [(name, *row) for name, row in rows.items()])}\n"
    )


def main() -> None:
    """Write, measure, print, and put the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_pythons(parser)
    parser.add_argument("--write", action="store_true", help="put the table into docs/reference/measured/models.md")
    options = parser.parse_args()
    rows, others = {}, Others(options.python, options.genai)
    with tempfile.TemporaryDirectory() as place:
        model = Path(place) / "model"
        width = save(model, layers=2, size=64, heads=4, kv_heads=2, positions=131_072)
        for name, write in PEERS.items():
            folder = Path(place) / name.partition(" ")[0]
            why = write(others, model, folder)
            failed = [f"is not written: {why}"] * len(POSITIONS)
            rows[name] = failed if why else measured(file_in(folder), model, width)
            print(name, *rows[name], sep=" | ", flush=True)
    if options.write:
        put_part(PAGE, "far", summary(rows, others))


if __name__ == "__main__":
    main()
