"""Every rotary class of transformers replaced: what the page's table says, a sample of it, and whole models' logits."""

import copy
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from transformers import DynamicCache, Llama4ForCausalLM, Llama4TextConfig

from helpers.hf.rotary_classes import answers, classes, made
from helpers.models.transformers_models import VOCAB, Whole, model_of, run, tokens
from helpers.shared import EPS, ROOT, one_of_each
from posenc_models import replace_rotary
from posenc_models.replacing.modules import OrderedPatches, OrderedText
from scripts.rotary_survey import arguments

pytestmark = pytest.mark.filterwarnings("ignore")

PAGE = (ROOT / "docs" / "reference" / "measured" / "rotary-modules.md").read_text(encoding="utf-8")
LEAST = 212
"""Rotary classes of transformers that are replaced."""
NOT_REPLACED = re.findall(r"^\* (\w+(?:, \w+)*): ", PAGE.partition("<!-- counted -->")[2], re.MULTILINE)
SAMPLE = {
    "Llama4TextRotaryEmbedding": "default, complex",
    "Sam2VideoVisionRotaryEmbedding": "axial",
    "Gemma4VisionRotaryEmbedding": "axial",
    "NeoMMERotaryEmbedding": "full_attention default, mrope, sliding_attention default, mrope",
    "Ernie4_5_VLMoeTextRotaryEmbedding": "default, mrope",
    "EsmRotaryEmbedding": "default",
}


def counts() -> list[int]:
    """Return the numbers of the table: how many there are, replaced, refused, not built."""
    cells = re.search(r"^\| rotary module classes \| (.*) \|$", PAGE, re.MULTILINE)
    assert cells is not None
    return [int(cell) for cell in cells[1].split(" | ")]


def test_the_table_counts_every_class() -> None:
    total, replaced, refused, unbuilt = counts()
    assert total == replaced + refused + unbuilt == len(classes())
    assert replaced >= LEAST
    assert sum(len(names.split(", ")) for names in NOT_REPLACED) == refused + unbuilt
    assert f"transformers {version('transformers')}" in PAGE


@pytest.mark.parametrize("name", one_of_each(SAMPLE, lambda _: ""))
def test_a_sample_is_what_the_table_says(name: str) -> None:
    assert next(answers([name]))[1:] == ("replaced", SAMPLE[name])
    assert not any(name in names.split(", ") for names in NOT_REPLACED)


def test_the_survey_says_what_it_takes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for words, text in (
        (["nosuch"], "no rotary module class of transformers or diffusers: nosuch"),
        (["LlamaRotaryEmbedding", "--write"], "--write counts every class: give no NAME with it"),
    ):
        monkeypatch.setattr("sys.argv", ["rotary_survey.py", *words])
        with pytest.raises(SystemExit):
            arguments()
        assert text in capsys.readouterr().err


def llama4() -> nn.Module:
    torch.manual_seed(0)
    config = Llama4TextConfig(
        hidden_size=32,
        intermediate_size=48,
        intermediate_size_mlp=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        vocab_size=VOCAB,
        num_local_experts=2,
        initializer_range=0.3,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    model: nn.Module = Llama4ForCausalLM(config).eval()
    return model


def continued(model: Any, args: tuple[Tensor, ...], past: int) -> Tensor:
    """Return the logits of what comes after `past` tokens, which a cache has."""
    ids, positions, mask = args
    cache: Any = DynamicCache(config=model.config)
    with torch.no_grad():
        for part in (slice(0, past), slice(past, None)):
            out = model(
                input_ids=ids[:, part],
                position_ids=positions[:, part],
                attention_mask=mask[:, : part.stop],
                past_key_values=cache,
            )
    logits: Tensor = out.logits
    return logits


@pytest.mark.parametrize("make", [lambda: model_of("llama"), llama4], ids=["llama", "llama4"])
def test_logits_agree_with_left_padding_and_with_a_cache(make: Any) -> None:
    before = make()
    after = copy.deepcopy(before)
    assert replace_rotary(after)
    ids, _, _ = tokens("llama", 2, 24, least=24)
    mask = torch.ones_like(ids)
    mask[0, :7] = 0  # the first sequence is shorter, and padded on the left
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    args, real = (ids, positions, mask), mask.bool().numpy()
    theirs = run(Whole(before), *args)[real]
    scale = np.abs(theirs).max()
    assert np.abs(run(Whole(after), *args)[real] - theirs).max() <= 1e-4 * scale
    theirs, ours = (continued(model, args, 13).numpy() for model in (before, after))
    assert np.abs(ours - theirs).max() <= 1e-4 * scale
    elsewhere = run(Whole(after), ids, positions * 2, mask)[real]
    assert np.abs(elsewhere - run(Whole(before), *args)[real]).max() > 1e-3 * scale, "wrong angles would not be seen"


class Called(nn.Module):
    """A rotary module alone, as a model calls it."""

    def __init__(self, rotary: nn.Module) -> None:
        super().__init__()
        self.rotary = rotary

    def forward(self, position_ids: Tensor) -> Any:
        return self.rotary(torch.zeros(1, 1, 1), position_ids)


ORDERED = {
    "HunYuanVLRotaryEmbedding": (OrderedText, (4, 1, 5), 2, (4, 1, 40)),
    "Gemma4VisionRotaryEmbedding": (OrderedPatches, (1, 5, 2), 1, (1, 40, 2)),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ORDERED)
def test_ordered_columns_export_to_onnx_at_any_length(name: str, tmp_path: Path) -> None:
    kind, shape, axis, longer = ORDERED[name]
    holder: Any = nn.Module()
    before = holder.rotary = made(name, classes()[name])
    replace_rotary(holder)
    assert any(isinstance(module, kind) for module in holder.modules())
    example = torch.arange(int(np.prod(shape))).view(shape)
    dynamic = [{axis: torch.export.Dim("n")}]
    module = Called(holder.rotary)
    exported = torch.onnx.export(module, (example,), dynamo=True, dynamic_shapes=dynamic, verbose=False)
    assert exported is not None
    exported.save(tmp_path / "rotary.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "rotary.onnx")
    positions = torch.arange(int(np.prod(longer))).view(longer)
    outputs = session.run(None, {session.get_inputs()[0].name: positions.numpy()})
    for output, value in zip(outputs, Called(before)(positions), strict=True):
        assert np.abs(output - value.numpy()).max() <= 4 * EPS * int(positions.max())


def test_what_a_checkpoint_holds_is_refused() -> None:
    name = "MistralLarge4TextRotaryEmbedding"
    assert next(answers([name])) == (
        name,
        "refused",
        "a checkpoint holds its alpha, which ours have not; replace it by hand",
    )


@pytest.mark.exhaustive
def test_complex_numbers_export_but_not_to_onnx() -> None:
    model = llama4()
    replace_rotary(model)
    ids, positions, mask = tokens("llama", 2, 9, least=9)
    dynamic = [{0: torch.export.Dim("batch"), 1: torch.export.Dim("n", min=2)}] * 3
    program = torch.export.export(Whole(model), (ids, positions, mask), dynamic_shapes=dynamic)
    assert program.module()(ids, positions, mask).shape[:2] == (2, 9)
    with pytest.raises(Exception, match=r"aten\.unsqueeze"):
        torch.onnx.export(program, dynamo=True, verbose=False)
