"""Models with an encoder and a decoder that answer in one call: they classify texts, tokens and answers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from helpers.model_folders import READ, T5, Small
from helpers.shared import Cli, Once, one_of_each
from posenc_models import ModelFolder

SEQUENCES, ANSWERS = "AutoModelForSequenceClassification", "AutoModelForQuestionAnswering"
CLASSIFIES: Mapping[str, Small] = {
    small.title: small
    for small in (
        Small("BART", "bart", SEQUENCES, READ),
        Small("T5", "t5", SEQUENCES, {**T5, "eos_token_id": 1, "decoder_start_token_id": 0}),
        Small("mBART", "mbart", SEQUENCES, READ),
        Small("BART's answers", "bart", ANSWERS, READ),
        Small("MVP's answers", "mvp", ANSWERS, READ),
        Small("T5's answers", "t5", ANSWERS, {**T5, "decoder_start_token_id": 0}),
        Small("T5's tokens", "t5", "AutoModelForTokenClassification", T5),
    )
}
READ_AT_ITS_END = ("BART", "T5", "mBART")


def saved_classifier(once: Once, title: str) -> Path:
    """A folder with a small model, its weights at random."""
    return once(f"model-{title.lower().replace(' ', '-')}-classifies", CLASSIFIES[title].save)


def texts_of(end: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two texts that end, as often as each other, and the mask of the one that is shorter; one of them ends twice."""
    ids = torch.tensor([[5, 9, 7, end, 4, end], [8, end, 3, end, 0, 0]])
    return ids, torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])


@pytest.mark.parametrize("title", READ_AT_ITS_END)
def test_each_text_is_read_at_its_last_end(once: Once, title: str) -> None:
    """Logits are those of transformers, and those of a text alone where transformers takes no such batch."""
    whole = ModelFolder.load(saved_classifier(once, title)).build()
    module: Any = whole.module
    model = module.call.model
    ids, mask = texts_of(model.config.eos_token_id)
    with torch.no_grad():
        (logits,) = whole.module(ids, mask)
        torch.testing.assert_close(logits, model(input_ids=ids, attention_mask=mask).logits)
        unlike = ids.clone()
        unlike[0, 3] = 6
        (logits,) = whole.module(unlike, mask)
        for row in range(2):
            alone = model(input_ids=unlike[row : row + 1], attention_mask=mask[row : row + 1]).logits
            torch.testing.assert_close(logits[row : row + 1], alone, atol=1e-5, rtol=1e-5)
        with pytest.raises(ValueError, match="same number of <eos> tokens"):
            model(input_ids=unlike, attention_mask=mask)
    assert f"each text is read at its last token {model.config.eos_token_id}, which ends it" in "\n".join(whole.notes)


def test_a_config_without_a_token_that_ends_texts_is_refused(tmp_path: Path) -> None:
    Small("BART", "bart", SEQUENCES, {**READ, "eos_token_id": None}).save(tmp_path)
    with pytest.raises(ValueError, match=r"; give eos_token_id in config\.json$"):
        ModelFolder.load(tmp_path).build()


def test_a_head_that_is_asked_at_the_ends_of_no_text_has_no_note(once: Once) -> None:
    notes = ModelFolder.load(saved_classifier(once, "BART's answers")).build().notes
    assert not any("which ends it" in line for line in notes)


@pytest.mark.exhaustive  # each is exported
@pytest.mark.parametrize("title", one_of_each([title for title in CLASSIFIES if title != "mBART"], str))
def test_it_is_certified_and_answers_as_transformers_does(once: Once, cli: Cli, title: str) -> None:
    folder = saved_classifier(once, title)
    result = cli("export", "--model", str(folder), "--runtime", "ort-cpu", "--max-len", "32", "-o", "whole")
    assert result.exit_code == 0, result.output
    whole = ModelFolder.load(folder).build()
    module: Any = whole.module
    model = getattr(module, "call", module).model  # T5's tokens are its encoder's alone
    ids, mask = texts_of(model.config.eos_token_id)
    with torch.no_grad():
        expected = model(input_ids=ids, attention_mask=mask)
    outputs = onnxruntime.InferenceSession("whole/model.onnx").run(
        whole.outputs, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}
    )
    for name, array in zip(whole.outputs, outputs, strict=True):
        np.testing.assert_allclose(array, expected[name], atol=2e-5)
