"""A whole model that was exported writes text from Python, without torch."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import posenc_export
from helpers import toy_decoder
from helpers.model_folders import saved
from helpers.shared import DATA, Once
from helpers.toy_decoder import POSITIONS, VOCABULARY, written
from posenc.ports import Array
from posenc_export.common.errors import BadInput
from posenc_export.proof.generation import padded
from posenc_export.proof.loaded_model import Text
from posenc_export.proof.runtimes import RunFailed
from posenc_models import ModelFolder

PROMPTS = ([3, 4, 9], [1], [7, 7, 7, 2, 10])
LOADED = """
import sys
import posenc_export
model = posenc_export.load(sys.argv[1])
print(model.generate([3, 4, 9], max_new_tokens=5))
print(sorted({"torch", "transformers"} & set(sys.modules)))
"""


@pytest.fixture
def bundle(once: Once) -> Path:
    return once("toy decoder", toy_decoder.save)


def test_it_writes_what_the_mathematics_say(bundle: Path) -> None:
    model = posenc_export.load(bundle)
    texts = [written(prompt, 12) for prompt in PROMPTS]
    assert len({token for text in texts for token in text}) > 3
    for prompt, text in zip(PROMPTS, texts, strict=True):
        assert model.generate(prompt, max_new_tokens=12) == text
        assert model.generate(np.array(prompt), max_new_tokens=12) == text
    # in one batch, shorter prompts are padded on the left
    assert model.generate(PROMPTS, max_new_tokens=12) == texts
    assert model.generate(np.array([PROMPTS[0]]), max_new_tokens=12) == texts[:1]


def test_a_token_that_ends_a_text_is_its_last(bundle: Path) -> None:
    model = posenc_export.load(bundle)
    texts = [written(prompt, 12) for prompt in PROMPTS]
    end = texts[0][3]
    cut = [text[: text.index(end) + 1] if end in text else text for text in texts]
    assert len(cut[0]) <= 4
    assert model.generate(PROMPTS[0], 12, eos_token_id=end) == cut[0]
    assert model.generate(PROMPTS, 12, eos_token_id=[end]) == cut


def continued(text: Text, logits: Array, count: int) -> list[int]:
    """What a text goes on with: the likeliest token each time."""
    tokens: list[int] = []
    for _ in range(count):
        tokens.append(int(logits[-1].argmax()))
        logits = text.read(tokens[-1:])
    return tokens


def test_a_text_is_continued_rewound_and_copied(bundle: Path) -> None:
    model, (prompt, *_) = posenc_export.load(bundle), PROMPTS
    text = model.begin()
    assert len(text) == 0
    assert continued(text, text.read(prompt), 6) == written(prompt, 6)
    assert len(text) == len(prompt) + 6
    other = text.copy()
    text.rewind(2)
    assert continued(text, text.read([5, 1]), 6) == written([*prompt[:2], 5, 1], 6)
    # the copy goes on where it was
    longer = [*prompt, *written(prompt, 6), 8]
    assert continued(other, other.read([8]), 6) == written(longer, 6)
    text.rewind(0)
    assert continued(text, text.read(np.array(prompt)), 6) == written(prompt, 6)


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([], "ids must be a list of tokens, or a list of such lists, got []"),
        ([1, VOCABULARY], "ids must be whole numbers in 0..10, got 11"),
        ([[1], [2]], "a text is read alone: give a list of tokens, got 2 lists"),
        ([1] * POSITIONS, "idx=32 must be within"),
    ],
)
def test_a_text_that_refuses_a_call_is_what_it_was(bundle: Path, ids: Any, text: str) -> None:
    model, (prompt, *_) = posenc_export.load(bundle), PROMPTS
    read = model.begin()
    logits = read.read(prompt)
    with pytest.raises((ValueError, RunFailed), match=re.escape(text)):
        read.read(ids)
    assert len(read) == len(prompt)
    assert continued(read, logits, 6) == written(prompt, 6)


@pytest.mark.parametrize("length", [-1, 4])
def test_a_text_is_rewound_to_tokens_that_it_has(bundle: Path, length: int) -> None:
    text = posenc_export.load(bundle).begin()
    text.read(PROMPTS[0])
    with pytest.raises(ValueError, match=f"^length must be from 0 to 3, the tokens that were read, got {length}$"):
        text.rewind(length)


def test_neither_torch_nor_transformers_is_loaded(bundle: Path) -> None:
    command = [sys.executable, "-c", LOADED, str(bundle)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == f"{written(PROMPTS[0], 5)}\n[]\n", done.stderr


@pytest.mark.parametrize(
    ("ids", "settings", "text"),
    [
        ([], {}, "ids must be a list of tokens, or a list of such lists, got []"),
        ("abc", {}, "ids must be a list of tokens, or a list of such lists, got 'abc'"),
        ([[1], []], {}, "a text has no token: give each at least one"),
        ([1, VOCABULARY], {}, "ids must be whole numbers in 0..10, got 11"),
        ([1, -1], {}, "ids must be whole numbers in 0..10, got -1"),
        (np.array([0.5]), {}, "ids must be whole numbers in 0..10, got 0.5"),
        ([[1], 2], {}, "ids must be a list of tokens, or a list of such lists, got [[1], 2]"),
        ([1], {"max_new_tokens": 0}, "max_new_tokens must be at least 1, got 0"),
    ],
)
def test_what_is_no_prompt_is_said_in_a_line(bundle: Path, ids: Any, settings: dict[str, int], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        posenc_export.load(bundle).generate(ids, **settings)


@pytest.mark.parametrize(
    ("folder", "text"),
    [
        (lambda: DATA / "bundle_of_0_1", "holds swin_bias, which writes no text: expected a bundle that posenc export"),
        (lambda: DATA, "is not a bundle: it has no manifest.json"),
    ],
)
def test_what_writes_no_text_is_refused(folder: Callable[[], Path], text: str) -> None:
    with pytest.raises(BadInput) as refused:
        posenc_export.load(folder())
    assert text in str(refused.value)


def test_a_bundle_without_recorded_texts_writes_them_too(once: Once, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    folder = saved(once, "llama")
    posenc_export.export(ModelFolder.load(folder), to=tmp_path / "b", formats=("onnx",), validate=False)
    written_by_file = posenc_export.load(tmp_path / "b").generate([3, 4, 9], 8)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokens = model.generate(torch.tensor([[3, 4, 9]]), max_new_tokens=8, do_sample=False, eos_token_id=None)
    assert written_by_file == tokens[0, 3:].tolist()


@pytest.mark.exhaustive  # a model with an encoder is exported
def test_a_decoder_behind_an_encoder_needs_a_recorded_text(once: Once, tmp_path: Path) -> None:
    folder = saved(once, "t5")
    posenc_export.export(ModelFolder.load(folder), to=tmp_path / "b", formats=("onnx",), validate=False)
    with pytest.raises(BadInput, match="has no recorded texts, and they say with which token its decoder begins"):
        posenc_export.load(tmp_path / "b")


# ---- an encoder and a decoder ----------------------------------------------------------------------------------------


@pytest.mark.exhaustive  # a model is exported
@pytest.mark.parametrize("kind", ["t5", "whisper"])
def test_behind_an_encoder_it_writes_what_transformers_writes(once: Once, tmp_path: Path, kind: str) -> None:
    from transformers import AutoModelForSeq2SeqLM, WhisperForConditionalGeneration

    folder = saved(once, kind)
    settings: Any = {"max_len": 16, "formats": ["onnx"], "validate": False, "proof": "quick"}
    posenc_export.export(ModelFolder.load(folder), to=tmp_path / "out", **settings)
    model = posenc_export.load(tmp_path / "out")
    made_by: Any = WhisperForConditionalGeneration if kind == "whisper" else AutoModelForSeq2SeqLM
    eager = made_by.from_pretrained(folder).eval()
    if kind == "whisper":
        bins, frames = (eager.config.num_mel_bins, 2 * eager.config.max_source_positions)
        prompts: Any = np.random.default_rng(2).normal(size=(2, bins, frames)).astype(np.float32)
        given = {"input_features": torch.from_numpy(prompts)}
        wrong: Any = prompts[:, :, 1:]
        text = rf"input_features must be \({bins}, {frames}\), or a batch of these, got the shape"
    else:
        prompts = [[7, 2, 9, 4], [5, 3]]
        ids, mask = padded(prompts, left=False)
        given = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
        wrong, text = [[1], []], "a text has no token"
    tokens = eager.generate(**given, max_new_tokens=6, min_new_tokens=6, do_sample=False)
    expected = tokens[:, -6:].tolist()
    assert model.generate(prompts, max_new_tokens=6) == expected
    assert model.generate(prompts[1], max_new_tokens=6) == expected[1]
    with pytest.raises(ValueError, match=text):
        model.generate(wrong)
    with pytest.raises(ValueError, match="has an encoder, which reads a text at once: generate writes behind it"):
        model.begin()
