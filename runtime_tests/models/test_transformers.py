"""Whole transformers models with our rotary modules: the logits they gave; what cannot be replaced is left alone."""

import copy
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel
from transformers.models.gptj import modeling_gptj
from transformers.models.qwen2_vl import configuration_qwen2_vl, modeling_qwen2_vl

from helpers.models.transformers_models import MODELS, SIZES, SWITCH, Whole, model_of, parity, run, tokens
from posenc import Spec
from posenc.encoding import eps
from posenc_models import replace_rotary
from posenc_models.replacing.modules import KeepDtype, PatchCosSin

pytestmark = pytest.mark.filterwarnings("ignore")


def moved_by(model: nn.Module, shift: float, args: tuple[Tensor, ...]) -> float:
    """By how much logits move where what our modules return moves at random, by `shift` of its largest value."""
    still, generator = run(Whole(model), *args), torch.Generator().manual_seed(0)

    def move(_module: nn.Module, _args: Any, outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        signs = [torch.randint(0, 2, out.shape, generator=generator) * 2 - 1 for out in outputs]
        return tuple(out + shift * sign * out.abs().max() for out, sign in zip(outputs, signs, strict=True))

    hooks = [module.register_forward_hook(move) for module in model.modules() if isinstance(module, KeepDtype)]
    largest = max(float(np.abs(run(Whole(model), *args) - still).max()) for _ in range(3))
    for hook in hooks:
        hook.remove()
    return largest


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


@pytest.mark.parametrize("spec", [Spec(max_len=64), Spec(mode="dynamic", method="trig", dtype="fp16")])
def test_other_specs_serve_too(spec: Spec) -> None:
    before, after = model_of("gemma3"), model_of("gemma3")
    replace_rotary(after, spec)
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
    assert isinstance(tower.get_submodule("rotary_pos_emb"), PatchCosSin)
    torch.testing.assert_close(run_first(tower, patches, grid), before)


def run_first(tower: Any, patches: Tensor, grid: Tensor) -> Tensor:
    with torch.no_grad():
        first: Tensor = tower(patches, grid_thw=grid).last_hidden_state
    return first


class StrangeRotaryEmbedding(nn.Module):
    """A rotary module that halves its frequencies, and says nothing of it."""

    inv_freq: Tensor

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
    ("kind", "text"),
    [
        (StrangeRotaryEmbedding, r"cosines and sines differ from those of its config by .* at positions up to 6"),
        (OddRotaryEmbedding, r"expected forward\(x, position_ids\).*it has forward\(x, seq_len\)"),
        (ComplexRotaryEmbedding, "cosines and sines differ from those of its config by"),
    ],
)
def test_an_unknown_rotary_module_is_refused_and_the_model_left_alone(kind: Any, text: str) -> None:
    model = model_of("llama")
    model.other = kind(model.config)  # it comes after the one that could be replaced
    modules = dict(model.named_modules())
    with pytest.raises(ValueError, match=rf"^other \({kind.__name__}\) cannot be replaced: .*{text}") as caught:
        replace_rotary(model)
    assert "\n" not in str(caught.value)
    assert {name: id(module) for name, module in model.named_modules()} == {k: id(m) for k, m in modules.items()}


def test_what_cannot_be_replaced_is_one_line() -> None:
    sizes = {key: value for key, value in SIZES.items() if key not in ("bos_token_id", "eos_token_id")}
    with pytest.raises(ValueError, match=r"^BertModel has no rotary module: expected a transformers model"):
        replace_rotary(BertModel(BertConfig(**sizes)))
    with pytest.raises(ValueError, match="LlamaRotaryEmbedding is itself a rotary module"):
        replace_rotary(model_of("llama").get_submodule("model.rotary_emb"))
    with pytest.raises(ValueError, match="rope_type longrope depends on a call's length: give mode='dynamic'"):
        replace_rotary(model_of("phi3-longrope"), Spec(max_len=64))
    with pytest.raises(ValueError, match="positions=offset was given"):
        replace_rotary(model_of("llama"), Spec(mode="dynamic", positions="offset"))
    model = model_of("gptj")
    model.get_submodule("transformer.h.1").attn = modeling_gptj.GPTJFlashAttention2(model.config, 1)
    with pytest.raises(ValueError, match=r"h\.1\.attn \(GPTJFlashAttention2\) .* attn_implementation='eager'"):
        replace_rotary(model)
    assert type(model.get_submodule("transformer.h.0.attn")) is modeling_gptj.GPTJAttention
    model = model_of("llama")
    replace_rotary(model)
    with pytest.raises(ValueError, match="LlamaForCausalLM has no rotary module"):
        replace_rotary(model)


@pytest.mark.parametrize(
    ("module", "absent"), [("posenc_models.replacing.replace", ["transformers"]), ("posenc_models", ["torch"])]
)
def test_what_is_heavy_is_not_imported(module: str, absent: list[str]) -> None:
    code = f"import sys, {module}; print([name for name in {absent} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
