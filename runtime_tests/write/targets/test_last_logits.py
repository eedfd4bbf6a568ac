"""`--last-logits`: a decoder gives the logits of the last token of each call alone, and its head reads no other."""

from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor

import posenc_export
from helpers.model_folders import saved
from helpers.shared import Cli, Once
from posenc_models import ModelFolder


@pytest.mark.parametrize("kind", ["llama", "llava"])
def test_its_logits_are_the_last_of_all_and_the_head_reads_one_token(once: Once, kind: str) -> None:
    every, last = (ModelFolder.load(saved(once, kind), last_token=last_token).build() for last_token in (False, True))
    read: list[tuple[int, ...]] = []

    def note(_: object, inputs: tuple[Tensor, ...]) -> None:
        read.append(tuple(inputs[0].shape[:2]))

    module: Any = last.module
    module.model.get_output_embeddings().register_forward_pre_hook(note)
    past = [torch.randn(2, *shape[1:]) for shape in _cached(last.inputs)]
    ids, mask = torch.tensor([[5, 9, 2], [7, 3, 1]]), torch.ones(2, 7, dtype=torch.int64)
    positions = torch.arange(4, 7).expand(2, 3)
    with torch.no_grad():
        logits, *caches = module(ids, mask, positions, *past)
        all_logits, *all_caches = every.module(ids, mask, positions, *past)
    assert read == [(2, 1)]
    assert torch.allclose(logits, all_logits[:, -1:], rtol=0, atol=1e-6 * float(all_logits.abs().max()))
    assert all(map(torch.equal, caches, all_caches))


def _cached(inputs: tuple[str, ...]) -> list[tuple[int, ...]]:
    """Return the shapes of keys and values of four tokens: "name: float32[batch_size, 2, past, 8]" has two heads."""
    sizes = [text.partition("[")[2].rstrip("]").split(", ") for text in inputs if text.startswith("past_key_values")]
    return [(1, int(heads), 4, int(features)) for _, heads, _, features in sizes]


@pytest.mark.parametrize(("kind", "task"), [("bert", "fill-mask"), ("t5", "text2text-generation")])
def test_models_that_read_no_prompt_are_refused(once: Once, kind: str, task: str) -> None:
    with pytest.raises(ValueError, match=f"--last-logits is for decoders that read a prompt, and {task} has none"):
        ModelFolder.load(saved(once, kind), task, last_token=True)


def test_it_is_for_whole_models(cli: Cli) -> None:
    result = cli("export", "sinusoidal", "--last-logits", "-o", "out")
    assert (result.exit_code, "--last-logits is for a whole model" in result.output) == (2, True)


@pytest.mark.exhaustive  # a proof
def test_its_file_is_proved_and_writes_what_the_model_writes(once: Once, cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("--last-logits", "--proof", "quick", "--max-len", "24", "--runtime", "ort-cpu", "-f", "onnx")
    result = cli("export", "--model", str(saved(once, "llama")), *words, "-o", str(out))
    assert result.exit_code == 0, result.output
    assert "note: logits are those of the last token alone" in result.output
    (logits, *_) = onnx.load(out / "model.onnx").graph.output
    dims = [dim.dim_param or dim.dim_value for dim in logits.type.tensor_type.shape.dim]
    assert dims == ["batch_size", 1, 32]
    model = posenc_export.load(out)
    generation = posenc_export.validate(out).manifest.generations[-1]
    assert model.generate(generation.prompts, max_new_tokens=50) == [list(row[:50]) for row in generation.tokens]
