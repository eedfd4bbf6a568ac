"""A tiny model made again, with the inputs of a file of it: what `posenc prove` holds the file against."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import cast

import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn
from transformers import DynamicCache

from helpers.foreign.built import make
from helpers.foreign.towers import TINY

PAST = re.compile(r"past_key_values_(\d+)_(key|value)")

OLDER = (
    ("layers.", "encoder.layer."),
    ("attention.q_proj", "attention.attention.query"),
    ("attention.k_proj", "attention.attention.key"),
    ("attention.v_proj", "attention.attention.value"),
    ("attention.o_proj", "attention.output.dense"),
    ("mlp.fc1", "intermediate.dense"),
    ("mlp.fc2", "output.dense"),
)
"""Names of parts of a ViT, and those that transformers 4 has for them."""


class Rebuilt(nn.Module):
    """A model under the input names of a file.

    Args:
        model: a name of the table of models.
        takes: the names of the file's inputs, separated by blanks.
        gives: the names of its outputs in the model, where it gives more than the first; caches apart.
        vocabulary: its size, where the exporter wanted another than the table's.
        weights: the file, where the exporter's version of transformers drew other weights from the same seed.
    """

    def __init__(self, model: str, takes: str, gives: str = "", vocabulary: int = 0, weights: str = "") -> None:
        super().__init__()
        tiny = TINY[model]
        config = {**tiny.config, "vocab_size": vocabulary} if vocabulary else tiny.config
        self.bare, self.takes, self.gives = make(replace(tiny, config=config)).bare, tuple(takes.split()), gives.split()
        # a cache would come out of a model that is called without one, too
        self.cached = "use_cache" in inspect.signature(self.bare.forward).parameters
        if weights:
            self.bare.load_state_dict(weights_in(Path(weights), self.bare.state_dict()))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return the first output, or those that are named; keys and values layer by layer where a cache goes in."""
        named = dict(zip(self.takes, inputs, strict=True))
        past = {match.groups(): named.pop(name) for name in self.takes if (match := PAST.fullmatch(name))}
        if not past:
            out = self.bare(**named, **({"use_cache": False} if self.cached else {}))
            return tuple(out[name] for name in self.gives) or (cast(Tensor, out[0]),)
        cache = DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[str(layer), "key"], past[str(layer), "value"], layer)
        out = self.bare(**named, past_key_values=cache, use_cache=True)
        return (out[0], *(part for layer in out.past_key_values.layers for part in (layer.keys, layer.values)))


def weights_in(path: Path, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of a model as a traced file stores them: under their names, or in the module's product.

    Those that the file does not have, such as a head that it leaves out, stay what they are.
    """
    graph = onnx.load(path).graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    # a trace writes x W^T, and calls the node by the module: /encoder/layer.0/output/dense/MatMul
    products = {
        node.name.strip("/").replace("/", "."): node.input[1] for node in graph.node if node.op_type == "MatMul"
    }
    found = dict(like)
    for name, value in like.items():
        old = reduce(lambda text, pair: text.replace(*pair), OLDER, name)
        own = next((known for known in (name, old) if known in stored), "")
        product = next((products[known] for known in _products(name, old) if known in products), "")
        if own or product:
            array = torch.from_numpy(numpy_helper.to_array(stored[own or product]).copy())
            found[name] = array if own else array.T
            if found[name].shape != value.shape:
                raise ValueError(f"{path.name}: {name} is {tuple(found[name].shape)}, not {tuple(value.shape)}")
    return found


def _products(*names: str) -> list[str]:
    return [f"{name.removesuffix('.weight')}.MatMul" for name in names if name.endswith(".weight")]
