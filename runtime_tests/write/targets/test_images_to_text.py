"""Models that write text about an image, of an encoder of images and a decoder behind it: two files, one bundle."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import posenc_export
from helpers.image_writers import IMAGE_WRITERS, saved_writer
from helpers.model_folders import folder_of
from helpers.shared import Cli, Once, need, one_of_each
from posenc_models import ModelFolder

WRITTEN = 12


def pixels_of(model: Any, count: int) -> np.ndarray:
    """Random images of the size that a model's encoder takes."""
    size = model.config.encoder.image_size
    sides = (size, size) if isinstance(size, int) else size
    values: np.ndarray = np.random.default_rng(0).normal(size=(count, 3, *sides)).astype(np.float32)
    return values


def test_both_files_say_what_they_take(once: Once) -> None:
    folder = ModelFolder.load(saved_writer(once, "Donut"))
    (encoder,) = folder.others
    assert (folder.task.name, folder.file, encoder.file) == ("image-to-text", "decoder_model_merged", "encoder_model")
    assert encoder.build().inputs == ("pixel_values: float32[batch_size, 3, 32, 48]",)
    whole = folder.build()
    # the states are those of the encoder, whose width is its own
    assert whole.inputs[:2] == (
        "input_ids: int64[batch_size, seq] < 32",
        "encoder_hidden_states: float32[batch_size, cached+fresh, 16]",
    )
    assert whole.begins == (1,)


@pytest.mark.parametrize("title", IMAGE_WRITERS)
def test_the_decoder_serves_the_first_call_and_each_after_it(once: Once, title: str) -> None:
    """States may lie in the cache all, in part, or not at all: logits are those of transformers."""
    whole = ModelFolder.load(saved_writer(once, title)).build()
    model: Any = whole.module.model
    torch.manual_seed(0)
    states, ids = torch.randn(2, 9, 16), torch.tensor([[1, 5, 9, 4], [1, 7, 7, 3]])
    empty = [torch.zeros(2, 2, 0, int(name.split(", ")[-1][:-1])) for name in whole.inputs if name.startswith("past")]
    with torch.no_grad():
        expected = model(encoder_outputs=(states,), decoder_input_ids=ids).logits
        logits, *cache = whole.module(ids[:, :3], states, *empty)
        part = [tensor[:, :, :4] if index % 4 > 1 else tensor for index, tensor in enumerate(cache)]
        steps = [whole.module(ids[:, 3:], states, *past)[0] for past in (cache, part)]
    torch.testing.assert_close(logits, expected[:, :3], atol=1e-5, rtol=1e-5)
    for step in steps:
        torch.testing.assert_close(step, expected[:, 3:], atol=1e-5, rtol=1e-5)


@pytest.mark.exhaustive  # each is exported
@pytest.mark.parametrize("title", one_of_each(IMAGE_WRITERS, str))
def test_it_is_certified_and_writes_what_transformers_writes(once: Once, cli: Cli, title: str) -> None:
    folder = saved_writer(once, title)
    result = cli("export", "--model", str(folder), "--runtime", "ort-cpu", "--json", "-o", "whole")
    assert result.exit_code == 0, result.output
    rows = {
        (row.get("part", ""), row["subject"], row["check"]): row["status"]
        for row in json.loads(result.stdout)["verdicts"]
    }
    assert rows["", "ort-cpu", "agrees"] == rows["encoder_model", "ort-cpu", "agrees"] == "pass"
    assert rows["", "ort-cpu", "generation"] == "pass"
    loaded, model = (
        posenc_export.load("whole"),
        transformers.AutoModelForImageTextToText.from_pretrained(folder).eval(),
    )
    pixels = pixels_of(model, 3)
    settings: Any = {"max_new_tokens": WRITTEN, "min_new_tokens": WRITTEN, "do_sample": False}
    expected = model.generate(torch.from_numpy(pixels), **settings)[:, -WRITTEN:].tolist()
    assert len({token for row in expected for token in row}) > 1
    assert loaded.generate(pixels, WRITTEN) == expected
    assert loaded.generate(pixels[1], WRITTEN) == expected[1]
    with pytest.raises(ValueError, match=r"pixel_values must be \(3, \d+, \d+\), or a batch of these, got the shape"):
        loaded.generate(pixels[:, :, 1:])


@pytest.mark.exhaustive  # C++ is compiled
def test_the_classes_in_cpp_look_at_images_and_write(once: Once, cli: Cli) -> None:
    """One of the three tests beside the class writes the tokens of the module, behind the class of the encoder."""
    need("ort-cpp")
    words = ("--cpp", "--max-len", "16", "--proof", "quick", "--runtime", "ort-cpu", "-o", "whole")
    result = cli("export", "--model", str(saved_writer(once, "TrOCR")), *words)
    assert result.exit_code == 0, result.output
    commands = "cmake -B build && cmake --build build && ctest --test-dir build"
    done = subprocess.run(["bash", "-c", commands], cwd="whole/cpp", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"generation \.+ +Passed", done.stdout), done.stdout


def test_a_pooler_that_no_state_needs_may_be_missing(once: Once, tmp_path: Path) -> None:
    """Published folders of TrOCR are saved without it."""
    model = transformers.AutoModelForImageTextToText.from_pretrained(saved_writer(once, "ViT and GPT-2"))
    weights = {name: value for name, value in model.state_dict().items() if "encoder.pooler." not in name}
    model.save_pretrained(tmp_path, state_dict=weights)
    (encoder,) = ModelFolder.load(tmp_path).others
    assert encoder.build().outputs == ("last_hidden_state",)


def test_pairs_of_other_models_are_refused_by_their_config(tmp_path: Path) -> None:
    config = {"model_type": "encoder-decoder", "architectures": ["EncoderDecoderModel"], "is_encoder_decoder": True}
    with pytest.raises(ValueError, match=r"^EncoderDecoderModel is not exported: its encoder and its decoder are mod"):
        ModelFolder.load(folder_of(tmp_path, config))
