"""A tiny Llama whose cache goes in and comes out, and the files that three exporters make of it."""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim
from transformers import Cache, DynamicCache, LlamaConfig, LlamaForCausalLM

LAYERS, WORDS, WIDTH = 2, 50, 8
ROPE = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}
BATCH, SEQ, PAST = 2, 3, 5
"""Sizes that files are traced at."""


def llama(attention_factor: float | None = None) -> LlamaForCausalLM:
    """Return the model; its attention factor is that of YaRN, unless it is given."""
    torch.manual_seed(0)
    rope = ROPE if attention_factor is None else {**ROPE, "attention_factor": attention_factor}
    config = LlamaConfig(
        vocab_size=WORDS,
        hidden_size=2 * WIDTH,
        intermediate_size=32,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=128,
        rope_parameters=rope,
    )
    model: LlamaForCausalLM = LlamaForCausalLM(config).eval()
    return model


def cache_of(past: tuple[Tensor, ...]) -> DynamicCache:
    cache = DynamicCache()
    for layer in range(LAYERS):
        cache.update(past[2 * layer], past[2 * layer + 1], layer)
    return cache


class Step(nn.Module):
    """A step that goes on from keys and values of each layer."""

    def __init__(self, attention_factor: float | None = None) -> None:
        super().__init__()
        self.model = llama(attention_factor)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        out = self.model(
            input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache_of(past), use_cache=True
        )
        return (out.logits, *(part for layer in out.past_key_values.layers for part in (layer.keys, layer.values)))


def example() -> tuple[Tensor, ...]:
    past = [torch.randn(BATCH, 1, PAST, WIDTH) for _ in range(2 * LAYERS)]
    return torch.randint(0, WORDS, (BATCH, SEQ)), torch.ones(BATCH, PAST + SEQ, dtype=torch.int64), *past


def inputs_of(pattern: str, parts: tuple[str, str]) -> tuple[str, ...]:
    """Return the ports of a step; `pattern` is the name of a part of the cache, with the layer and the part in it."""
    names = [pattern.format(layer=layer, part=part) for layer in range(LAYERS) for part in parts]
    past = (f"{name}: float32[batch, 1, past, {WIDTH}]" for name in names)
    return (f"input_ids: int64[batch, seq] < {WORDS}", "attention_mask: int64[batch, past+seq]", *past)


NAMES = ["input_ids", "attention_mask", *(f"past.{layer}.{part}" for layer in range(LAYERS) for part in ("k", "v"))]
OUTPUTS = ["logits", *(name.replace("past", "present") for name in NAMES[2:])]


def by_old_exporter(path: Path) -> None:
    axes: dict[str, Mapping[int, str]] = {"input_ids": {0: "b", 1: "s"}, "attention_mask": {0: "b", 1: "total"}}
    axes |= {name: {0: "b", 2: "p"} for name in NAMES[2:]} | {"logits": {0: "b", 1: "s"}}
    axes |= {name: {0: "b", 2: "total"} for name in OUTPUTS[1:]}
    how = {"input_names": NAMES, "output_names": OUTPUTS, "dynamic_axes": axes, "dynamo": False}
    torch.onnx.export(Step().eval(), example(), str(path), **how)  # type: ignore[arg-type]


def by_new_exporter(path: Path) -> None:
    tokens = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    shapes = (tokens, tokens, tuple({0: Dim.DYNAMIC, 2: Dim.DYNAMIC} for _ in NAMES[2:]))
    _by_new_exporter(path, shapes)


def at_one_length(path: Path) -> None:
    """Export by the new exporter with no axis declared dynamic."""
    _by_new_exporter(path, None)


def _by_new_exporter(path: Path, shapes: object) -> None:
    how = {"input_names": NAMES, "output_names": OUTPUTS, "dynamic_shapes": shapes, "dynamo": True, "verbose": False}
    torch.onnx.export(Step().eval(), example(), str(path), **how)  # type: ignore[arg-type]


def by_transformers(path: Path) -> None:
    import onnx_ir
    from transformers.exporters.configs import OnnxConfig
    from transformers.exporters.exporter_onnx import OnnxExporter

    ids, mask, *past = example()
    inputs: dict[str, Tensor | Cache] = {
        "input_ids": ids,
        "attention_mask": mask,
        "past_key_values": cache_of(tuple(past)),
    }
    exported = OnnxExporter().export(llama(), inputs, config=OnnxConfig(dynamic=True))
    onnx_ir.save(exported.program, path)


PLAIN = inputs_of("past_{layer}_{part}", ("k", "v"))
EXPORTERS: Mapping[str, tuple[Callable[[Path], None], tuple[str, ...]]] = {
    "old": (by_old_exporter, PLAIN),
    "new": (by_new_exporter, PLAIN),
    "transformers": (by_transformers, inputs_of("input_past_key_values_layers_{layer}_{part}", ("keys", "values"))),
}
"""By name: what writes the file, and its inputs as `-i` has them."""
