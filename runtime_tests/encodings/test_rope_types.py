"""Every rope type against transformers' own modules, baked and dynamic, in both formats."""

import json
import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.llama import modeling_llama
from transformers.models.phi3 import modeling_phi3
from transformers.models.qwen2 import modeling_qwen2

import posenc
from helpers.shared import DATA, EPS, EXPLICIT, one_of_each
from posenc.rope_types import ROPE_TYPES, Rope, RopeType
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.proof.judging.verdict import ValidateOptions
from posenc_export.proof.running.run import validate_bundle
from posenc_export.proof.runtimes import RUNTIMES
from posenc_export.write.targets.hf_config import config_target
from posenc_models import ModelConfig, load_config, read_config

MAX_LEN = 96
MODULES = {
    "llama": modeling_llama.LlamaRotaryEmbedding,
    "qwen2": modeling_qwen2.Qwen2RotaryEmbedding,
    "gpt_neox": modeling_gpt_neox.GPTNeoXRotaryEmbedding,
    "phi3": modeling_phi3.Phi3RotaryEmbedding,
}


def llama(head_dim: int, **rope: Any) -> dict[str, Any]:
    heads = {"hidden_size": 4 * head_dim, "num_attention_heads": 4, "head_dim": head_dim}
    return {"model_type": "llama", **heads, "max_position_embeddings": 128, **rope}


def scaled(head_dim: int, rope_theta: float, rope_type: str, **scaling: Any) -> dict[str, Any]:
    return llama(head_dim, rope_theta=rope_theta, rope_scaling={"rope_type": rope_type, **scaling})


def longrope(pairs: int, **rest: Any) -> dict[str, Any]:
    short, long = [1 + 0.01 * i for i in range(pairs)], [1 + 0.3 * i**1.5 for i in range(pairs)]
    parameters = {"short_factor": short, "long_factor": long, "original_max_position_embeddings": 40, **rest}
    return scaled(2 * pairs, 10000.0, "longrope", **parameters)


def published(name: str, **changes: Any) -> dict[str, Any]:
    return {**load_config(DATA / "configs" / f"{name}.json"), **changes}


NEW = {"rope_type": "linear", "factor": 2.5, "rope_theta": 5e5}
CONFIGS: list[Any] = [
    ("default", llama(64, rope_theta=500000.0)),
    ("default", llama(32, rope_theta=1000000.0, rope_scaling=None)),
    ("default", published("gpt-neox-20b")),
    ("linear", published("llama-linear")),
    ("linear", llama(64, rope_theta=10000.0, rope_scaling={"type": "linear", "factor": 4})),
    ("linear", llama(16, rope_parameters=NEW)),
    ("dynamic", published("llama-dynamic-ntk", max_position_embeddings=40)),
    ("dynamic", scaled(64, 5e5, "dynamic", factor=4.0) | {"max_position_embeddings": 64}),
    ("dynamic", scaled(16, 1e4, "dynamic", factor=8) | {"max_position_embeddings": 20}),
    ("yarn", published("qwen2.5-7b-yarn")),
    ("yarn", scaled(64, 150000.0, "yarn", factor=8.0, original_max_position_embeddings=16)),
    ("yarn", scaled(32, 1e4, "yarn", factor=32.0, truncate=False, beta_fast=8.0, beta_slow=2.0)),
    ("yarn", scaled(32, 1e4, "yarn", factor=40.0, mscale=0.707, mscale_all_dim=1.0)),
    ("yarn", scaled(32, 1e4, "yarn", factor=4.0, attention_factor=1.25, beta_fast=1.0, beta_slow=1.0)),
    ("yarn", scaled(32, 1e4, "yarn", factor=4.0, truncate=False, beta_fast=2.0, beta_slow=2.0)),
    ("longrope", published("longrope-small", original_max_position_embeddings=40)),
    ("longrope", longrope(16)),
    ("longrope", longrope(8, factor=4.0, attention_factor=1.5)),
    ("llama3", published("llama-3.1-8b")),
    ("llama3", scaled(64, 5e5, "llama3", factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0)),
    ("llama3", scaled(16, 1e4, "llama3", factor=2.0, low_freq_factor=0.5, high_freq_factor=9.0)),
    ("proportional", scaled(64, 1e6, "proportional", partial_rotary_factor=0.25)),
    ("proportional", scaled(32, 1e4, "proportional", factor=8.0)),
    ("proportional", scaled(16, 1e5, "proportional", factor=2.0, partial_rotary_factor=0.5)),
]


def theirs(config: dict[str, Any], positions: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Run a fresh module of transformers: its dynamic types remember earlier calls."""
    settings = AutoConfig.for_model(**json.loads(json.dumps(config)))
    module = MODULES[config["model_type"]](settings)
    cos, sin = module(torch.zeros(1), positions)
    return cos.numpy(), sin.numpy()


def test_each_rope_type_of_transformers_has_three_configurations() -> None:
    names, known = [name for name, _ in CONFIGS], {"default", *ROPE_INIT_FUNCTIONS}
    assert known <= set(ROPE_TYPES), "transformers has a rope type that we have not"
    assert min(map(names.count, known)) >= 3


@pytest.mark.parametrize("kind", ROPE_TYPES.values(), ids=lambda kind: kind.name)
def test_each_sample_of_a_rope_type_gives_finite_frequencies(kind: RopeType) -> None:
    assert kind.samples
    for sample in kind.samples:
        rope = Rope(kind.name, 16, 1e4, sample)
        for length in (1, *rope.edges, 2**24):
            frequencies = rope.at(length)
            assert frequencies.inv_freq.shape == (8,)
            assert frequencies.inv_freq.dtype == np.float64
            assert np.isfinite(frequencies.inv_freq).all()
            assert np.isfinite(frequencies.attention_factor)
        for mode in ("baked", "dynamic"):
            spec = posenc.Spec(mode, "exact", "explicit", MAX_LEN)
            parameters = {"rope_type": kind.name, "head_dim": 16, "output": "cos_sin", **sample}
            cos, sin = posenc.build("rope", spec, **parameters).module(torch.arange(MAX_LEN)[None])
            assert cos.shape == sin.shape == (1, MAX_LEN, 8)
            assert torch.isfinite(cos).all()
            assert torch.isfinite(sin).all()


def in_modes() -> Iterator[tuple[Any, str]]:
    """Every configuration for any length, and the first of each type stored: frequencies are the same in both."""
    first = {one[0]: one for one in reversed(CONFIGS)}
    yield from product(CONFIGS, ["dynamic"])
    yield from product(first.values(), ["baked"])


@pytest.mark.parametrize(
    ("name", "config", "mode"),
    one_of_each(((*one, mode) for one, mode in in_modes()), lambda _: ""),
)
def test_graphs_match_transformers(tmp_path: Path, name: str, config: dict[str, Any], mode: Any) -> None:
    spec = posenc.Spec(mode, "exact", "explicit", MAX_LEN)
    source = ModelConfig.of(config, path=tmp_path / "config.json")
    parameters = {"output": "cos_sin", "width": "full"}
    options = ExportOptions(validate=False)
    result = export_target(lambda: config_target(source, spec, parameters, 0), options, tmp_path / "bundle")
    verdicts = validate_bundle(Bundle.open(result.folder, trusted=True), ValidateOptions())
    assert [(v.subject, v.check, v.detail) for v in verdicts if v.status == "fail"] == []
    manifest = result.manifest
    assert manifest.params["rope_type"] == name
    assert manifest.origin["rope_type"]
    lengths = (MAX_LEN,) if mode == "baked" else (7, 40, 41, MAX_LEN)
    for runtime, file in (("ort-cpu", "model.onnx"), ("torchscript-cpu", "model.pt")):
        runner = RUNTIMES[runtime].open(result.folder / file, manifest, trusted=True)
        for length in lengths:
            positions = np.arange(length)[None]
            ours = runner.run({"positions": positions})
            factor = max(1.0, float(np.abs(ours["cos"]).max()))
            for key, reference in zip(("cos", "sin"), theirs(config, torch.from_numpy(positions)), strict=True):
                # What float32 costs the module of transformers: its angles, and the rounding of the product.
                bound = (4 * EPS * length + EPS) * factor
                np.testing.assert_allclose(ours[key], reference, rtol=0, atol=bound, err_msg=f"{runtime} {length}")


@pytest.mark.parametrize(("name", "config"), CONFIGS)
@pytest.mark.parametrize("length", [7, 40, 41, 300])
def test_references_are_the_frequencies_of_transformers(name: str, config: dict[str, Any], length: int) -> None:
    settings = AutoConfig.for_model(**json.loads(json.dumps(config)))
    module: Any = MODULES[config["model_type"]](settings)
    module(torch.zeros(1), torch.arange(length)[None])  # its dynamic types compute the frequencies of a call
    read = read_config(ModelConfig.of(config)).parameters
    scaling = {key: read[key] for key in ROPE_TYPES[name].parameters if key in read}
    dim = read.get("rotary_dim", read["head_dim"])
    exact = ROPE_TYPES[name].reference(dim, read["rope_theta"], length, **scaling)
    # A power of a float32 base by a float32 exponent: as many roundings as its logarithm is large.
    relative = 2 * EPS * (2 + math.log(read["rope_theta"]))
    np.testing.assert_allclose(module.inv_freq.numpy(), exact.inv_freq, rtol=relative, atol=0)
    assert module.attention_scaling == pytest.approx(exact.attention_factor, rel=1e-12)


def test_dynamic_ntk_has_no_memory_and_longrope_switches() -> None:
    ntk = posenc.build("rope", EXPLICIT, head_dim=16, rope_type="dynamic", factor=2.0, max_position_embeddings=40,
                       output="cos_sin").module  # fmt: skip
    short = torch.arange(40)[None]
    before = ntk(short)[0]
    ntk(torch.arange(200)[None])
    assert torch.equal(ntk(short)[0], before)
    factors = {"short_factor": (1.0,) * 8, "long_factor": (2.0,) * 8, "original_max_position_embeddings": 40}
    both = posenc.build("rope", EXPLICIT, head_dim=16, rope_type="longrope", factor=1.0, **factors,
                        output="cos_sin").module  # fmt: skip
    assert not torch.equal(both(torch.arange(41)[None])[0][:, :40], both(short)[0])
    for max_len, divisor in ((40, 1.0), (41, 2.0)):
        module = posenc.build("rope", posenc.Spec(max_len=max_len), head_dim=16, rope_type="longrope", factor=1.0,
                             **factors, output="cos_sin").module  # fmt: skip
        assert float(module(torch.tensor([[1]]))[0][0, 0, 0]) == pytest.approx(math.cos(1 / divisor), abs=1e-6)


def test_frequencies_are_pure() -> None:
    rope = Rope("linear", 8, 1e4, {"factor": 2.0})
    np.testing.assert_array_equal(rope.at(5).inv_freq, rope.at(50000).inv_freq)
    assert rope.at(5).inv_freq.dtype == np.float64
