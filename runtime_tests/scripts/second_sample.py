"""A second sample of files that nobody had read before, of other models and other exporters: run by hand.

python runtime_tests/scripts/second_sample.py make FOLDER [SECONDS]     # export, each in a process; go on later
python runtime_tests/scripts/second_sample.py count FOLDER NAME [WORD..]  # read, write FOLDER/NAME/ and its .counted

Beside it, `python -m helpers.unseen.other_frameworks FOLDER` makes the files of frameworks that do not run on PyTorch,
in an environment of their own. What each environment needs stands in `helpers/unseen/__init__.py`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from torch import Tensor

from helpers.foreign.exporters import without_traces
from helpers.foreign.packaged import mobius
from helpers.foreign.truth import Held
from helpers.unseen import other_frameworks, torch_packages, transformers_types
from helpers.unseen.torch_packages import Network
from scripts.unseen_files import Called, Feeds, Job, Model, called_of, export, judge, main, ones, optimized

BY_MOBIUS = ("flex_olmo", "doge", "granitemoeshared", "openai-gpt", "ernie", "data2vec-text")
"""Types of transformers that mobius builds, too."""
OPTIMIZED = {
    "gte.old-14": "onnxsim",
    "timm.beit.old-17": "onnxsim",
    "litgpt.llama3.old-17": "onnxsim",
    "xlm.old-17": "onnxsim",
    "cwm.old-17": "ORT all",
    "torchvision.swin.old-17": "ORT all",
    "diffusers.UNet2DConditionModel.new": "ORT extended",
    "timm.vit.new": "common float16",
    "moshi.rope.old-17": "common float16",
    "qwen2_vl_text.old-17": "ORT float16",
    "donut-swin.old-17": "ORT float16",
    "jais2.old-20": "quantize_dynamic",
}
"""Files, and what then optimizes them."""
Making = Callable[[], Called]


Source = tuple[str, Callable[[str], Called], tuple[Held, ...], tuple[str, ...]]
"""A network: its name, what makes it for a way to export, what it holds, and its ways."""


def sources(models: Sequence[Model], networks: Sequence[Network]) -> Iterator[Source]:
    """Yield networks of transformers and of packages."""
    for model in models:
        yield model.model_type, partial(called_of, model), model.held, model.ways
    for network in networks:
        yield network.name, partial(torch_packages.made, network), network.held, network.ways


def slug(text: str) -> str:
    """Return words as a part of a file's name."""
    return text.replace(" ", "-")


def exported(given: Sequence[Source]) -> Iterator[Job]:
    """Yield the files of networks: each by its first way to export, then by its second."""
    for round_ in range(2):
        for name, making, held, ways in given:
            if round_ < len(ways):
                way = ways[round_]
                yield Job(f"{name}.{slug(way)}.onnx", held, partial(export, partial(making, way), way))


def jobs() -> Iterator[Job]:
    """Yield the files: those of both exporters of PyTorch, and then those that others make."""
    given = list(sources(transformers_types.MODELS, torch_packages.NETWORKS))
    yield from exported(given)
    by_way = {f"{name}.{slug(way)}": (partial(making, way), held) for name, making, held, ways in given for way in ways}
    for name, how in OPTIMIZED.items():
        make, held = by_way[name]
        yield Job(f"{name}.{slug(how)}.onnx", held, partial(optimized, make, f"{name}.onnx", how))
    for name, making, held, ways in given:
        if name in BY_MOBIUS:
            yield Job(f"{name}.mobius.onnx", held, partial(built, partial(making, ways[0])))
    for foreign in other_frameworks.FOREIGN:
        yield Job(f"{foreign.name}.onnx", foreign.held, None)


def built(making: Making, path: Path) -> None:
    """Write what mobius builds of a model of transformers."""
    called = making()
    with tempfile.TemporaryDirectory() as scratch:
        without_traces(mobius(SimpleNamespace(bare=called.bare), Path(scratch)), path)  # type: ignore[arg-type]
    config: Any = called.bare.config
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads

    def feeds(length: int) -> Feeds:
        """Return ids and a mask, the positions, segments and an empty cache."""
        tokens = called.feeds(length)
        batch = tokens["input_ids"].shape[0]
        cache = {
            f"past_key_values.{layer}.{what}": torch.zeros(batch, heads, 0, size)
            for layer in (0, 1)
            for what in ("key", "value")
        }
        places = torch.arange(length).expand(batch, -1).contiguous()
        return {**tokens, "position_ids": places, "token_type_ids": 0 * ones(length), **cache}

    def alone(*values: Tensor) -> Tensor:
        """Return what the model makes of the first two inputs, as the rest is what it adds itself."""
        given: Tensor = called.alone(*values[:2])
        return given

    judge(Called(alone, called.bare, feeds, {}), path)  # type: ignore[arg-type]


if __name__ == "__main__":
    torch_packages.operators_of_torchvision()
    main(jobs())
