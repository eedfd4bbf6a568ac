"""Whole models: a folder that save_pretrained wrote becomes one graph with the names that runtimes know."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import transformers
from transformers import AutoConfig

import posenc_export
from helpers.shared import Cli, Once
from posenc.ports import Array
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.manifest import Generation
from posenc_export.proof.generation import differences
from posenc_export.write.inputs.ports import parse_ports
from posenc_models import ModelFolder

SMALL: Mapping[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
}
GROUPED = {**SMALL, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
MODELS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "llama": ("AutoModelForCausalLM", GROUPED),
    "qwen3": ("AutoModelForCausalLM", {**GROUPED, "sliding_window": 16}),
    "gemma3_text": ("AutoModelForCausalLM", {**GROUPED, "sliding_window": 16, "query_pre_attn_scalar": 8}),
    "gpt2": ("AutoModelForCausalLM", {**SMALL, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 256}),
    "bloom": ("AutoModelForCausalLM", {**SMALL, "n_layer": 2, "n_head": 2}),
    "bert": ("AutoModelForMaskedLM", SMALL),
    "roberta": ("AutoModelForSequenceClassification", SMALL),
    "vit": ("AutoModelForImageClassification", {**SMALL, "image_size": 16, "patch_size": 4}),
}
TASK = {
    "AutoModelForCausalLM": "text-generation",
    "AutoModelForMaskedLM": "fill-mask",
    "AutoModelForSequenceClassification": "text-classification",
    "AutoModelForImageClassification": "image-classification",
}


def saved(once: Once, kind: str) -> Path:
    """A folder with a small model of a type, its weights at random."""
    auto, config = MODELS[kind]

    def save(folder: Path) -> None:
        torch.manual_seed(0)
        model = getattr(transformers, auto).from_config(AutoConfig.for_model(kind, **config))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(std=0.3)
        model.save_pretrained(folder)

    return once(f"model-{kind}", save)


# ---- what a folder is ------------------------------------------------------------------------------------------------

CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32}


def folder_of(place: Path, config: object, *, weights: bool = True) -> Path:
    place.mkdir(exist_ok=True)
    (place / "config.json").write_text(json.dumps(config))
    if weights:
        (place / "model.safetensors").touch()
    return place


@pytest.mark.parametrize(
    ("config", "task", "text"),
    [
        (None, None, "has no config.json: expected a folder that save_pretrained wrote"),
        ({"hidden_size": 3}, None, "has no model_type: expected that of a model of transformers"),
        (CONFIG, "translation", "unknown task 'translation': expected one of text-generation, fill-mask"),
        ({"model_type": "llama"}, None, "has no architectures: give --task, one of text-generation"),
        ({**CONFIG, "architectures": ["LlamaForRewards"]}, None, "no task is known for LlamaForRewards: give --task"),
        ({**CONFIG, "is_encoder_decoder": True}, None, "has an encoder and a decoder, which are two graphs"),
    ],
)
def test_what_is_no_such_folder_is_said_in_a_line(tmp_path: Path, config: object, task: str, text: str) -> None:
    place = folder_of(tmp_path, config) if config else tmp_path
    with pytest.raises(ValueError, match=text):
        ModelFolder.load(place, task)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no weights: expected model\.safetensors or"):
        ModelFolder.load(folder_of(tmp_path, CONFIG, weights=False))


@pytest.mark.parametrize("kind", MODELS)
def test_the_task_is_that_of_the_architecture(once: Once, kind: str) -> None:
    assert ModelFolder.load(saved(once, kind)).task.name == TASK[MODELS[kind][0]]


def test_weights_of_another_head_are_refused(once: Once) -> None:
    folder = replace(ModelFolder.load(saved(once, "bert")), task=ModelFolder.load(saved(once, "roberta")).task)
    with pytest.raises(ValueError, match=r"has no weights for bert\.pooler.* more: is it a model for text-cl"):
        folder.build()


def test_options_of_other_sources_are_refused(once: Once, cli: Cli) -> None:
    folder = str(saved(once, "llama"))
    for words, text in (
        (("--model", folder, "rope"), "SCHEME is not for whole models"),
        (("--model", folder, "-p", "a=1"), "-p is not for whole models"),
        (("--model", folder, "--baked"), "--baked is for schemes"),
        (("--task", "fill-mask"), "--task says what a whole model is for: give --model with it"),
    ):
        result = cli("export", *words)
        assert (result.exit_code, text in result.output) == (2, True), result.output


# ---- what is written -------------------------------------------------------------------------------------------------


@pytest.fixture
def written(once: Once) -> Callable[[str], Path]:
    """Return a function that gives the bundle of a model, which nothing has validated."""

    def of(kind: str) -> Path:
        def export(folder: Path) -> None:
            source = ModelFolder.load(saved(once, kind))
            posenc_export.export(source, to=folder / "bundle", formats=["onnx"], validate=False, max_len=24)

        return once(f"written-{kind}", export) / "bundle"

    return of


def run_of(session: onnxruntime.InferenceSession) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
    names = [output.name for output in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(None, dict(feeds)), strict=True))


@pytest.mark.exhaustive  # an export takes half a minute
def test_a_decoder_writes_what_transformers_writes(once: Once, written: Callable[[str], Path]) -> None:
    """Names are those of optimum's files, and greedy tokens those of the untouched model's own `generate`."""
    bundle = written("llama")
    session = onnxruntime.InferenceSession(bundle / "model.onnx", providers=["CPUExecutionProvider"])
    pairs = [f"{layer}.{part}" for layer in range(2) for part in ("key", "value")]
    past = [f"past_key_values.{pair}" for pair in pairs]
    assert [item.name for item in session.get_inputs()] == ["input_ids", "attention_mask", "position_ids", *past]
    assert [item.name for item in session.get_outputs()] == ["logits", *(f"present.{pair}" for pair in pairs)]
    assert session.get_inputs()[3].shape == ["batch", 2, "past", 8]

    model = transformers.AutoModelForCausalLM.from_pretrained(saved(once, "llama")).eval()
    manifest = Bundle.open(bundle).manifest
    assert [len(one.prompts) for one in manifest.generations] == [1, 1, 2]
    assert len({token for one in manifest.generations for row in one.tokens for token in row}) > 3
    for one in manifest.generations[:2]:
        prompt = torch.tensor(one.prompts)
        count = len(one.tokens[0])
        tokens = model.generate(prompt, max_new_tokens=count, do_sample=False, attention_mask=torch.ones_like(prompt))
        assert tokens[0, prompt.shape[1] :].tolist() == list(one.tokens[0])
    assert manifest.generations[2].tokens == tuple(one.tokens[0] for one in manifest.generations[:2])
    for one in manifest.generations:
        assert differences(run_of(session), manifest.inputs, one) == ([], [])


FAULTS: Mapping[str, Callable[[dict[str, Array]], None]] = {
    "a mask that does not count": lambda feeds: feeds.update(attention_mask=np.ones_like(feeds["attention_mask"])),
    "positions that begin again": lambda feeds: feeds.update(position_ids=np.zeros_like(feeds["position_ids"])),
    "a cache that is not read": lambda feeds: feeds.update(
        {name: np.zeros_like(array) for name, array in feeds.items() if name.startswith("past")}
    ),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_graph_writes_other_tokens(written: Callable[[str], Path], fault: str) -> None:
    bundle = written("llama")
    run = run_of(onnxruntime.InferenceSession(bundle / "model.onnx", providers=["CPUExecutionProvider"]))
    manifest = Bundle.open(bundle).manifest

    def wrong(feeds: Mapping[str, Array]) -> dict[str, Array]:
        changed = dict(feeds)
        FAULTS[fault](changed)
        return run(changed)

    found = [differences(wrong, manifest.inputs, one)[0] for one in manifest.generations]
    assert any(found)
    padded_alone = fault == "a mask that does not count"
    assert bool(found[0]) is not padded_alone
    assert "in a padded batch" in found[2][0]


def told(tokens: tuple[int, ...], apart: float) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
    """Return a call that gives tokens, and beside the last of them another whose logit is larger by a little."""
    steps = iter(range(len(tokens)))

    def call(feeds: Mapping[str, Array]) -> dict[str, Array]:
        step = next(steps)
        logits = np.zeros((1, feeds["input_ids"].shape[1], 32), np.float32)
        logits[..., tokens[step]] = 1.0
        if step == len(tokens) - 1:
            logits[..., tokens[step] + 1] = np.float32(1.0 + apart)
        return {"logits": logits}

    return call


@pytest.mark.parametrize(("apart", "wrong", "near"), [(0.0, 0, 0), (3e-6, 0, 1), (1e-2, 1, 0)])
def test_logits_that_are_as_good_as_equal_are_no_fault(apart: float, wrong: int, near: int) -> None:
    """A graph that writes the module's tokens but for a tie is right, and the tie is said."""
    one = Generation(((3, 4),), ((5, 9, 7),))
    inputs = parse_ports(("input_ids: int64[batch, seq] < 32",))
    found = differences(told(one.tokens[0], apart), inputs, one)
    assert tuple(map(len, found)) == (wrong, near)
    assert all(text.startswith("token 2 is 8, expected 7 (logits ") for texts in found for text in texts)


@pytest.mark.exhaustive  # scripts/model_folders.py does it for a list of models
@pytest.mark.parametrize("kind", ["bloom", "gemma3_text", "vit"])
def test_a_model_is_certified(once: Once, cli: Cli, kind: str) -> None:
    """One command: every check passes, and a bundle that is validated elsewhere says the same."""
    result = cli("export", "--model", str(saved(once, kind)), "--runtime", "ort-cpu", "--json", "-o", "whole")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    names = {(verdict["subject"], verdict["check"]) for verdict in report["verdicts"] if verdict["status"] == "pass"}
    assert ("ort-cpu", "agrees") in names
    assert (("ort-cpu", "generation") in names) is (MODELS[kind][0] == "AutoModelForCausalLM")
    assert cli("validate", "whole", "--runtime", "ort-cpu").exit_code == 0
