"""`replace_rotary(model, logits=True)`: logits of a model before and after, with padding on the left and a cache."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from helpers.models.transformers_models import llama, model_of
from helpers.shared import one_of_each
from posenc_models import replace_rotary
from posenc_models.replacing import replace
from posenc_models.replacing.called import Replacement
from posenc_models.replacing.logits import logits_of, text_for

pytestmark = pytest.mark.filterwarnings("ignore")
MODELS = ("llama", "llama3", "gpt-neox", "gptj", "phi3-longrope", "gemma3")


@pytest.mark.parametrize("name", one_of_each(MODELS, lambda _: 0))
def test_logits_are_those_of_before(name: str) -> None:
    model = model_of(name).train()
    said = replace_rotary(model, logits=True)
    assert said["logits"].endswith("padded on the left, and behind 1 and 13 tokens in a cache")
    assert model.training, "dropout is as it was"
    assert {key: words for key, words in said.items() if key != "logits"} == replace_rotary(model_of(name))


def test_a_cache_and_padding_are_read() -> None:
    model = model_of("llama")
    read = text_for(model)
    assert read.mask.sum(1).tolist() == [17, 24]
    assert [len(part) for part in logits_of(model, read)] == [41, 40, 22]


class Twice(nn.Module):
    """A module of ours at twice the positions: a wrong one that was taken for right."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor, position_ids: Tensor) -> Any:
        return self.module(x, 2 * position_ids)


def test_logits_that_move_put_the_model_back(monkeypatch: pytest.MonkeyPatch) -> None:
    right = replace._replacement

    def wrong(*args: Any) -> Replacement:
        made = right(*args)
        return made._replace(module=Twice(made.module))

    monkeypatch.setattr(replace, "_replacement", wrong)
    model = model_of("llama")
    before = dict(model.named_modules())
    with pytest.raises(
        ValueError, match=r"^its logits are off by \S+ with rotary modules of ours, where \S+ is allowed$"
    ):
        replace_rotary(model, logits=True)
    assert dict(model.named_modules()) == before


def test_what_has_no_logits_is_refused() -> None:
    words = "^logits=True is for causal language models, and Qwen2VLTextModel is none: leave it out$"
    with pytest.raises(ValueError, match=words):
        replace_rotary(model_of("qwen2-vl"), logits=True)


def test_logits_that_do_not_depend_on_positions_prove_nothing() -> None:
    model = model_of("llama")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1e-3)
    before = dict(model.named_modules())
    with pytest.raises(ValueError, match="hardly depend on positions, so that they prove nothing"):
        replace_rotary(model, logits=True)
    assert dict(model.named_modules()) == before


class EndingRotaryEmbedding(LlamaRotaryEmbedding):
    """That of a Llama up to position 5000; those beyond have its cosines and sines."""

    def forward(self, x: Tensor, position_ids: Tensor) -> Any:
        return super().forward(x, position_ids.clamp(max=5000))


def test_a_module_is_held_up_to_the_context_of_its_model() -> None:
    for context, refused in ((4096, False), (131072, True)):
        model: Any = llama(context)
        model.model.rotary_emb = EndingRotaryEmbedding(model.config)
        if not refused:
            assert list(replace_rotary(model)) == ["model.rotary_emb"]
            continue
        with pytest.raises(ValueError, match=r"differ from those of its config by .* at positions up to 131071"):
            replace_rotary(model)
