"""Vectors of sentence-transformers itself for the folders of the tests: run by hand, where that package is installed.

python runtime_tests/scripts/sentence_vectors.py         prints how far the modules of this project are from them
python runtime_tests/scripts/sentence_vectors.py --write puts them into runtime_tests/data/sentence_vectors.npz

The tests are held against that file: the package brings scikit-learn and scipy, which nothing else here takes. Torch
and transformers stay as they are:

pip install --no-deps --target FOLDER sentence-transformers scikit-learn scipy joblib threadpoolctl narwhals cloudpickle
PYTHONPATH=FOLDER python runtime_tests/scripts/sentence_vectors.py
"""

import datetime
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.sentence_folders import ENCODERS, VECTORS, Texts, texts_of
from posenc_models import ModelFolder

CLASSES = {"SparseEncoder": "SparseEncoder", "CrossEncoder": "CrossEncoder"}
"""Classes of the package, by the model_type of config_sentence_transformers.json."""


def theirs(folder: Path, name: str) -> Any:
    """Return a model of the package."""
    import sentence_transformers

    encoder = ENCODERS[name]
    of_pairs = "CrossEncoder" if encoder.task == "text-classification" else "SentenceTransformer"
    kind = str(encoder.prompts.get("model_type", of_pairs))
    return getattr(sentence_transformers, kind)(str(folder), device="cpu", local_files_only=True).eval()


def given(model: Any, texts: Texts, has_types: bool) -> dict[str, torch.Tensor]:
    """Return what a model of the package takes of some texts: of static vectors, all tokens in a row."""
    ids, mask = torch.from_numpy(texts.ids), torch.from_numpy(texts.mask)
    if type(model[0]).__name__ == "StaticEmbedding":
        ends = mask.sum(1).cumsum(0)
        return {"input_ids": ids[mask == 1], "offsets": torch.cat([torch.zeros(1, dtype=torch.int64), ends[:-1]])}
    types = {"token_type_ids": torch.zeros_like(ids)} if has_types else {}
    return {"input_ids": ids, "attention_mask": mask, **types}


def vectors(folder: Path, name: str) -> tuple[list[dict[str, np.ndarray[Any, Any]]], float]:
    """Return what the package gives for each batch of texts, and how far our module is from it."""
    model, whole = theirs(folder, name), ModelFolder.load(folder).build()
    has_types = any(text.startswith("token_type_ids") for text in whole.inputs)
    found, worst = [], 0.0
    for texts in texts_of(name):
        with torch.no_grad():
            features = model.forward(given(model, texts, has_types))
            types = [torch.from_numpy(texts.ids * 0)] if has_types else []
            ours = whole.module(torch.from_numpy(texts.ids), torch.from_numpy(texts.mask), *types)
        features["logits"] = features.get("scores")
        if getattr(model, "truncate_dim", None):
            features["sentence_embedding"] = features["sentence_embedding"][:, : model.truncate_dim]
        one = {output: features[output].numpy() for output in whole.outputs}
        for output, tensor in zip(whole.outputs, ours, strict=True):
            worst = max(worst, texts.error(output, tensor.numpy(), one[output]))
        found.append(one)
    return found, worst


def main() -> None:
    """Print how far our modules are from the package, and write its vectors where that is asked for."""
    stored: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        for name, encoder in ENCODERS.items():
            encoder.save(Path(place) / name)
            found, worst = vectors(Path(place) / name, name)
            print(f"{name}: {worst:.1e}", flush=True)
            stored |= {f"{name}/{i}/{output}": array for i, one in enumerate(found) for output, array in one.items()}
    packages = ("sentence-transformers", "transformers", "torch")
    said = ", ".join(f"{package} {version(package)}" for package in packages)
    stored["made"] = np.array(f"{datetime.date.today().isoformat()} with {said}")
    if "--write" in sys.argv:
        np.savez_compressed(VECTORS, **stored)


if __name__ == "__main__":
    main()
