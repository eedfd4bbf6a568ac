"""Whole transformers models with our rotary modules: the logits they gave, exported once, right at every length."""

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import transformers
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertModel,
    DynamicCache,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPTJConfig,
    GPTJForCausalLM,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    Qwen2VLTextConfig,
    Qwen2VLTextModel,
    Qwen3VLTextConfig,
    Qwen3VLTextModel,
)
from transformers.models.gptj import modeling_gptj
from transformers.models.qwen2_vl import configuration_qwen2_vl, modeling_qwen2_vl

from posenc import Form
from posenc.hf.modules import Kept, PatchTurns
from posenc.hf.replace import replace_rotary
from posenc.scheme import Encoding, Port, Tolerance, eps
from posenc_export.exporter import OWN_EPS, OWN_ERRORS, Order, export
from posenc_export.formats import Request
from posenc_export.formats.onnx import write_onnx
from posenc_export.targets.module import resolve

transformers.logging.set_verbosity(50)
transformers.logging.disable_progress_bar()
pytestmark = pytest.mark.filterwarnings("ignore")

VOCAB, LONGEST = 50, 70
LENGTHS = (1, 2, 7, 33, LONGEST)
"""None is the traced one."""
SWITCH = 16
"""The context after which longrope and dynamic models turn by other frequencies."""
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}

# Weights are large, so that what a token attends to, and with it every logit, depends on the positions.
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": VOCAB,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED: dict[str, Any] = {**SIZES, "num_key_value_heads": 2}


def llama(max_position_embeddings: int = 2048, **rope: Any) -> nn.Module:
    rope = {"rope_type": "default", "rope_theta": 1e4, **rope}
    return LlamaForCausalLM(
        LlamaConfig(**GROUPED, max_position_embeddings=max_position_embeddings, rope_parameters=rope)
    )


def gptj() -> nn.Module:
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "n_positions": 128, "vocab_size": VOCAB}
    return GPTJForCausalLM(GPTJConfig(**sizes, initializer_range=0.3, bos_token_id=1, eos_token_id=2))


def phi3() -> nn.Module:
    short, long = [1.0, 1.1, 1.2, 1.3], [1.5, 2.0, 3.0, 4.0]
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": short, "long_factor": long}
    contexts = {"max_position_embeddings": 64, "original_max_position_embeddings": SWITCH}
    return Phi3ForCausalLM(Phi3Config(**GROUPED, **contexts, rope_parameters=rope))


def gemma3() -> nn.Module:
    layers = ["sliding_attention", "full_attention"]
    return Gemma3ForCausalLM(Gemma3TextConfig(**GROUPED, head_dim=8, layer_types=layers, sliding_window=16))


def qwen2_vl() -> nn.Module:
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
    return Qwen2VLTextModel(Qwen2VLTextConfig(**{**GROUPED, "hidden_size": 64}, rope_parameters=rope))


def qwen3_vl() -> nn.Module:
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2], "mrope_interleaved": True}
    sizes = {**GROUPED, "hidden_size": 64, "head_dim": 16}
    return Qwen3VLTextModel(Qwen3VLTextConfig(**sizes, rope_parameters=rope))


MODELS: dict[str, tuple[Callable[[], nn.Module], dict[str, str]]] = {
    "llama": (llama, {"model.rotary_emb": "LlamaRotaryEmbedding (default)"}),
    "llama3": (
        lambda: llama(rope_type="llama3", **LLAMA3),
        {"model.rotary_emb": "LlamaRotaryEmbedding (llama3)"},
    ),
    "llama-dynamic": (
        lambda: llama(SWITCH, rope_type="dynamic", factor=4.0),
        {"model.rotary_emb": "LlamaRotaryEmbedding (dynamic)"},
    ),
    "gpt-neox": (
        lambda: GPTNeoXForCausalLM(GPTNeoXConfig(**{**SIZES, "hidden_size": 64})),
        {"gpt_neox.rotary_emb": "GPTNeoXRotaryEmbedding (default)"},
    ),
    "gptj": (gptj, {f"transformer.h.{i}.attn": "GPTJAttention (default)" for i in range(2)}),
    "phi3-longrope": (phi3, {"model.rotary_emb": "Phi3RotaryEmbedding (longrope)"}),
    "gemma3": (
        gemma3,
        {"model.rotary_emb": "Gemma3RotaryEmbedding (full_attention default, sliding_attention default)"},
    ),
    "qwen2-vl": (qwen2_vl, {"rotary_emb": "Qwen2VLRotaryEmbedding (default, mrope)"}),
    "qwen3-vl": (qwen3_vl, {"rotary_emb": "Qwen3VLTextRotaryEmbedding (default, mrope)"}),
}
AXES = {"qwen2-vl": (3,), "qwen3-vl": (3,)}
"""The positions that a token has, where it has several."""


def model_of(name: str) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[name][0]().eval()


class Whole(nn.Module):
    """A model from tokens, positions and a mask of what is no padding, all (batch, seq), to logits or hidden states."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, positions: Tensor, mask: Tensor | None = None) -> Tensor:
        mask = torch.ones_like(ids) if mask is None else mask
        out = self.model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False)
        first: Tensor = out[0]
        return first


class Step(nn.Module):
    """A model that goes on from a cache: past keys and values are (layers, 2, batch, heads, past, dim)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, positions: Tensor, mask: Tensor, past: Tensor) -> Tensor:
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(past):
            cache.update(keys, values, layer)
        out = self.model(input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache)
        logits: Tensor = out.logits
        return logits


def tiny_llama() -> nn.Module:
    """What `posenc-export test_transformers:tiny_llama` exports."""
    model = model_of("llama")
    replace_rotary(model)
    return Whole(model).eval()


def tokens(name: str, batch: int, length: int, least: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens, positions and mask: sequence b padded on its left by 3 b, but for the last `least` tokens."""
    ids = torch.randint(0, VOCAB, (batch, length), generator=torch.Generator().manual_seed(length))
    padding = (3 * torch.arange(batch)).clamp(max=length - least)
    mask = (torch.arange(length) >= padding[:, None]).long()
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    if name in AXES:  # height and width run apart from time, as in an image
        positions = torch.stack([positions, positions // 2, positions % 5])
    return ids, positions, mask


def run(module: nn.Module, *args: Tensor) -> np.ndarray[Any, np.dtype[Any]]:
    with torch.no_grad():
        return np.asarray(module(*args).numpy())


def moved_by(model: nn.Module, shift: float, args: tuple[Tensor, ...]) -> float:
    """By how much logits move where what our modules return moves at random, by `shift` of its largest value."""
    still, generator = run(Whole(model), *args), torch.Generator().manual_seed(0)

    def move(_module: nn.Module, _args: Any, outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        signs = [torch.randint(0, 2, out.shape, generator=generator) * 2 - 1 for out in outputs]
        return tuple(out + shift * sign * out.abs().max() for out, sign in zip(outputs, signs, strict=True))

    hooks = [module.register_forward_hook(move) for module in model.modules() if isinstance(module, Kept)]
    moved = max(float(np.abs(run(Whole(model), *args) - still).max()) for _ in range(3))
    for hook in hooks:
        hook.remove()
    return moved


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("length", [SWITCH - 5, 2 * SWITCH + 9])
def test_a_model_gives_what_it_gave(name: str, length: int) -> None:
    """Both run in float64, where angles alone differ: theirs are in float32, 4 roundings of the largest, ours exact.

    A rotated query or key is off by twice that, |a| + |b|; its effect on the logits is measured by moving what our
    modules return by as much at random, and may be 4 times larger where no sign cancels.
    """
    before = model_of(name).double()
    after = copy.deepcopy(before)
    names = [key for key, _ in after.named_parameters()]
    assert replace_rotary(after) == MODELS[name][1]
    assert [key for key, _ in after.named_parameters()] == names
    assert list(after.state_dict()) == list(before.state_dict())
    args = tokens(name, 1, length)
    allowed = 4 * moved_by(after, 2 * (4 * eps("float32") * length + 3e-7), args)
    off = np.abs(run(Whole(after), *args) - run(Whole(before), *args)).max()
    assert off <= allowed
    elsewhere = run(Whole(after), args[0], args[1] * 2, args[2])
    assert np.abs(elsewhere - run(Whole(before), *args)).max() > 100 * allowed, "wrong angles would not be seen"


def parity(exact: np.ndarray[Any, Any], eager: np.ndarray[Any, Any]) -> float:
    """What a graph may be off by: the exporter's own rule for modules without an oracle."""
    own, peak = float(np.abs(eager - exact).max()), float(np.abs(eager).max())
    return OWN_ERRORS * own + OWN_EPS * eps("float32") * peak


def write(module: nn.Module, ports: tuple[Port, ...], trace: tuple[Tensor, ...], path: Path) -> Any:
    """Export once, every named axis dynamic, and load; axes that went static are refused while exporting and here."""
    width = run(module, *trace).shape[-1]
    outputs = (Port("y", ("batch", "seq", width), "float32"),)
    encoding = Encoding(module, ports, outputs, lambda *_: {}, lambda _: Tolerance(), lambda _: Tolerance())
    write_onnx(encoding, Request(tuple(one.contiguous() for one in trace), LONGEST), path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [(i.name, tuple(i.shape)) for i in session.get_inputs()] == [(p.name, p.axes) for p in ports]
    assert [tuple(o.shape) for o in session.get_outputs()] == [("batch", "seq", width)]
    return session


@pytest.mark.parametrize("name", MODELS)
def test_a_model_exports_once_and_holds_at_every_length(name: str, tmp_path: Path) -> None:
    model = model_of(name)
    replace_rotary(model)
    module, exact = Whole(model), Whole(copy.deepcopy(model).double())
    axes = ("batch", "seq")
    ports = (
        Port("ids", axes, "int64", VOCAB),
        Port("positions", (*AXES.get(name, ()), *axes), "int64", LONGEST),
        Port("mask", axes, "int64", 2),
    )
    session = write(module, ports, tokens(name, 2, 11), tmp_path / "model.onnx")
    for batch in (1, 3):
        for length in LENGTHS:
            args = tokens(name, batch, length)
            real = args[2].bool().numpy()  # what padding attends to is nobody's
            (graph,) = session.run(None, {p.name: a.numpy() for p, a in zip(ports, args, strict=True)})
            eager, told = run(module, *args)[real], run(exact, *args)[real]
            assert np.abs(graph[real] - eager).max() <= parity(told, eager), (batch, length)


@pytest.mark.parametrize(("name", "heads"), [("llama", 2), ("gptj", 4)])
def test_a_step_with_a_cache_is_the_whole_sequence(name: str, heads: int, tmp_path: Path) -> None:
    model = model_of(name)
    replace_rotary(model)
    ports = (
        Port("ids", ("batch", "seq"), "int64", VOCAB),
        Port("positions", ("batch", "seq"), "int64", LONGEST),
        Port("mask", ("batch", "seq_k"), "int64", 2),
        Port("past", (2, 2, "batch", heads, "seq_past", 8), "float32"),
    )
    traced = tokens(name, 3, 24, least=24)
    trace = (traced[0][:, 13:], traced[1][:, 13:], traced[2], torch.randn(2, 2, 3, heads, 13, 8))
    session = write(Step(model), ports, trace, tmp_path / "step.onnx")
    whole, exact = Whole(model), Whole(copy.deepcopy(model).double())
    for batch in (1, 3):
        for past, length in ((1, 1), (2, 7), (33, 1), (40, 30)):
            ids, positions, mask = tokens(name, batch, past + length, least=length + 1)
            cache = DynamicCache()
            with torch.no_grad():
                start = {"attention_mask": mask[:, :past], "position_ids": positions[:, :past]}
                model(input_ids=ids[:, :past], past_key_values=cache, **start)
            kept = torch.stack([torch.stack([layer.keys, layer.values]) for layer in cache.layers])
            args = (ids[:, past:], positions[:, past:], mask, kept)
            (graph,) = session.run(None, {p.name: a.numpy() for p, a in zip(ports, args, strict=True)})
            eager, told = (run(one, ids, positions, mask)[:, past:] for one in (whole, exact))
            assert np.abs(graph - eager).max() <= parity(told, eager), (batch, past, length)


def test_every_check_of_the_exporter_holds_for_a_whole_model(tmp_path: Path) -> None:
    inputs = ("ids: int64[batch, seq] < 50", "positions: int64[batch, seq]")
    form = Form(mode="dynamic", max_len=LONGEST)
    outcome = export(
        lambda: resolve("test_transformers:tiny_llama", form, (), inputs, 0),
        Order(formats=("onnx",)),
        tmp_path / "llama",
    )
    assert not outcome.failed, [v for v in outcome.verdicts if v.status == "fail"]


def test_angles_stay_accurate_in_half_precision_and_far_out() -> None:
    model = model_of("llama")
    replace_rotary(model)
    model.half()
    rotary = model.get_submodule("model.rotary_emb")
    position = 16_000_003
    with torch.no_grad():
        cos, sin = rotary(torch.zeros(1, dtype=torch.float16), torch.tensor([[position]]))
        wide, _ = rotary(torch.zeros(1), torch.tensor([[position]]))
    assert cos.dtype == sin.dtype == torch.float16
    inv_freq = 1e4 ** -(np.arange(4) / 4)
    expected = np.cos(position * np.concatenate([inv_freq, inv_freq]))
    assert np.abs(wide[0, 0].numpy() - expected).max() <= 3e-7 + 4 * eps("float64") * position
    assert torch.equal(cos, wide.half()), "one rounding, at the end"


@pytest.mark.parametrize("form", [Form(max_len=64), Form(mode="dynamic", method="trig", dtype="fp16")])
def test_other_forms_serve_too(form: Form) -> None:
    before, after = model_of("gemma3"), model_of("gemma3")
    replace_rotary(after, form)
    args = tokens("gemma3", 1, 30)
    exact = run(Whole(copy.deepcopy(after).double()), *args)
    assert np.abs(run(Whole(after), *args) - run(Whole(before), *args)).max() <= 2 * parity(
        exact, run(Whole(after), *args)
    )


def test_a_vision_tower_is_replaced() -> None:
    config = configuration_qwen2_vl.Qwen2VLVisionConfig(
        depth=1, embed_dim=32, hidden_size=32, num_heads=2, patch_size=2, spatial_merge_size=1
    )
    tower = modeling_qwen2_vl.Qwen2VisionTransformerPretrainedModel(config).eval()
    patches, grid = torch.randn(2 * 12, 3 * 2 * 2 * 2), torch.tensor([[1, 4, 6]])
    before = run_first(tower, patches, grid)
    assert replace_rotary(tower) == {"rotary_pos_emb": "Qwen2VLVisionRotaryEmbedding (axial)"}
    assert isinstance(tower.get_submodule("rotary_pos_emb"), PatchTurns)
    torch.testing.assert_close(run_first(tower, patches, grid), before)


def run_first(tower: Any, patches: Tensor, grid: Tensor) -> Tensor:
    with torch.no_grad():
        first: Tensor = tower(patches, grid_thw=grid).last_hidden_state
    return first


class StrangeRotaryEmbedding(nn.Module):
    """A rotary module that halves its frequencies, and says nothing of it."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config, self.rope_type = config, "default"
        self.register_buffer("inv_freq", 0.5 / 1e4 ** (torch.arange(4) / 4), persistent=False)

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angles = position_ids[..., None].float() * self.inv_freq
        angles = torch.cat([angles, angles], -1)
        return angles.cos(), angles.sin()


class OddRotaryEmbedding(StrangeRotaryEmbedding):
    """One that is called otherwise."""

    def forward(self, x: Tensor, seq_len: int) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return super().forward(x, torch.arange(seq_len)[None])


class ComplexRotaryEmbedding(StrangeRotaryEmbedding):
    """One that returns complex numbers."""

    def forward(self, x: Tensor, position_ids: Tensor) -> Tensor:  # type: ignore[override]
        cos, sin = super().forward(x, position_ids)
        return torch.complex(cos, sin)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (StrangeRotaryEmbedding, r"cosines and sines differ from those of its config by .* at positions up to 6"),
        (OddRotaryEmbedding, r"expected forward\(x, position_ids\).*it has forward\(x, seq_len\)"),
        (ComplexRotaryEmbedding, "asked for cos and sin it raised"),
    ],
)
def test_an_unknown_rotary_module_is_refused_and_the_model_left_alone(kind: Any, told: str) -> None:
    model = model_of("llama")
    model.other = kind(model.config)  # found after the one that could be replaced
    modules = dict(model.named_modules())
    with pytest.raises(ValueError, match=rf"^other \({kind.__name__}\) cannot be replaced: .*{told}") as caught:
        replace_rotary(model)
    assert "\n" not in str(caught.value)
    assert {name: id(module) for name, module in model.named_modules()} == {k: id(m) for k, m in modules.items()}


def test_what_cannot_be_replaced_is_told_in_one_line() -> None:
    sizes = {key: value for key, value in SIZES.items() if key not in ("bos_token_id", "eos_token_id")}
    with pytest.raises(ValueError, match=r"^BertModel has no rotary module: expected a transformers model"):
        replace_rotary(BertModel(BertConfig(**sizes)))
    with pytest.raises(ValueError, match="LlamaRotaryEmbedding is itself a rotary module"):
        replace_rotary(model_of("llama").get_submodule("model.rotary_emb"))
    with pytest.raises(ValueError, match="rope_type longrope depends on a call's length: give mode='dynamic'"):
        replace_rotary(model_of("phi3-longrope"), Form(max_len=64))
    with pytest.raises(ValueError, match="positions=offset was given"):
        replace_rotary(model_of("llama"), Form(mode="dynamic", positions="offset"))
    model = model_of("gptj")
    model.transformer.h[1].attn = modeling_gptj.GPTJFlashAttention2(model.config, 1)
    with pytest.raises(ValueError, match=r"h\.1\.attn \(GPTJFlashAttention2\) .* attn_implementation='eager'"):
        replace_rotary(model)
    assert type(model.transformer.h[0].attn) is modeling_gptj.GPTJAttention
    model = model_of("llama")
    replace_rotary(model)
    with pytest.raises(ValueError, match="LlamaForCausalLM has no rotary module"):
        replace_rotary(model)


def test_transformers_is_not_imported() -> None:
    code = "import sys, posenc.hf.replace; print('transformers' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"
