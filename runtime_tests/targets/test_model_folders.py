"""Whole models: a folder that save_pretrained wrote becomes one graph with the names that runtimes know."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
import transformers
from safetensors.numpy import save_file

import posenc_export
from helpers.model_folders import CAUSAL, MODELS, REFUSED
from helpers.shared import Cli, Once, one_of_each
from posenc.ports import Array
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.manifest import Generation
from posenc_export.proof.generation import differences
from posenc_export.write.inputs.ports import parse_ports
from posenc_models import ModelFolder

CERTIFIED = ("llama", "gemma3_text", "bloom", "vit", "deepseek_v3")
"""Models that tests export, one of each kind; a script exports the whole list, for docs/whole-models.md."""


def saved(once: Once, kind: str) -> Path:
    """A folder with a small model of a type, its weights at random."""
    return once(f"model-{kind}", MODELS[kind].save)


# ---- what a folder is ------------------------------------------------------------------------------------------------

CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32}


def folder_of(place: Path, config: object, *, weights: bool = True) -> Path:
    place.mkdir(exist_ok=True)
    (place / "config.json").write_text(json.dumps(config))
    if weights:
        save_file({"lm_head.weight": np.zeros((2, 2), np.float32)}, place / "model.safetensors")
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
        ({**CONFIG, "is_encoder_decoder": True}, "feature-extraction", "which are two graphs: --model takes models of"),
        ({**CONFIG, "text_config": {}, "vision_config": {}}, None, r"is several models in one \(text_config, vision_"),
    ],
)
def test_what_is_no_such_folder_is_said_in_a_line(tmp_path: Path, config: object, task: str, text: str) -> None:
    place = folder_of(tmp_path, config) if config else tmp_path
    with pytest.raises(ValueError, match=text):
        ModelFolder.load(place, task)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no weights: expected model\.safetensors or"):
        ModelFolder.load(folder_of(tmp_path, CONFIG, weights=False))


@pytest.mark.parametrize("kind", one_of_each(MODELS, lambda kind: MODELS[kind].task))
def test_the_task_is_that_of_the_architecture(once: Once, kind: str) -> None:
    assert ModelFolder.load(saved(once, kind)).task.name == MODELS[kind].task


def test_weights_of_another_head_are_refused(once: Once) -> None:
    folder = replace(ModelFolder.load(saved(once, "bert")), task=ModelFolder.load(saved(once, "roberta")).task)
    with pytest.raises(ValueError, match=r"has no weights for bert\.pooler.* more: is it a model for text-cl"):
        folder.build()


def changed(once: Once, place: Path, kind: str, **values: object) -> Path:
    """A model's folder whose config says something else than its weights."""
    shutil.copytree(saved(once, kind), place)
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**config, **values}))
    return place


@pytest.mark.parametrize(
    ("values", "task", "text"),
    [
        (
            {"hidden_size": 24},
            None,
            r"is not that of its weights: lm_head.weight has the shape \[32, 16\], not",
        ),
        ({"num_hidden_layers": 1}, None, r"it leaves out their model.layers.1.input_layernorm.weight and 8 more"),
        ({"num_hidden_layers": 3}, None, r"has no weights for model.layers.2.input_layernorm.weight and 8 more"),
        (
            {"hidden_size": "wide"},
            None,
            "Validation error for field 'hidden_size': TypeError: .* expected int",
        ),
        (
            {"num_attention_heads": 3},
            None,
            r"The hidden size \(16\) is not a multiple of the number of att",
        ),
        ({"model_type": "nonesuch"}, None, "has model type `nonesuch` but Transformers does not recognize this"),
        ({"model_type": "own", "auto_map": {"AutoConfig": "own.A"}}, None, "'own' is code .* which is never run"),
        ({}, "fill-mask", r"it has no model for fill-mask \(AutoModelForMaskedLM\) of model type 'llama'"),
        ({}, "image-classification", "it has no model for image-classification"),
    ],
)
def test_what_is_not_the_model_of_the_weights_is_refused(
    once: Once, cli: Cli, values: dict[str, object], task: str | None, text: str
) -> None:
    """One line before anything is exported: transformers would draw what is missing at random."""
    folder = changed(once, Path("model"), "llama", **values)
    result = cli("export", "--model", str(folder), *(("--task", task) if task else ()), "-o", "whole")
    assert result.exit_code == 2
    (line,) = [line for line in result.output.splitlines() if line.strip()]
    assert line.startswith("Error: ")
    assert re.search(text, line), line
    assert not Path("whole").exists()


def test_code_beside_weights_is_not_run(once: Once, tmp_path: Path) -> None:
    """Where transformers has the model type itself, its own class is exported, and a line says so."""
    folder = changed(once, tmp_path / "model", "llama", auto_map={"AutoModelForCausalLM": "own.Own"})
    (folder / "own.py").write_text("raise SystemExit('this code was run')")
    notes = ModelFolder.load(folder).build().notes
    assert notes[0] == "the folder's own code (auto_map) was not run: the model is transformers' LlamaForCausalLM"


def test_what_a_config_leaves_out_has_its_default(once: Once, tmp_path: Path) -> None:
    """Older files leave out what is the default of the class: 3 channels, two types of tokens."""
    place = tmp_path / "vit"
    shutil.copytree(saved(once, "vit"), place)
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({key: config[key] for key in config if key != "num_channels"}))
    assert ModelFolder.load(place).build().inputs == ("pixel_values: float32[batch_size, 3, 16, 16]",)
    folder = changed(once, tmp_path / "bert", "bert")
    config = json.loads((folder / "config.json").read_text())
    del config["type_vocab_size"]
    (folder / "config.json").write_text(json.dumps(config))
    assert ModelFolder.load(folder).build().inputs[2] == "token_type_ids: int64[batch_size, seq] < 2"


def test_an_input_of_which_there_are_none_is_left_out(once: Once) -> None:
    """DeBERTa's `forward` takes types of tokens, and its config says that there are 0 of them."""
    names = [text.partition(":")[0] for text in ModelFolder.load(saved(once, "deberta-v2")).build().inputs]
    assert names == ["input_ids", "attention_mask"]


def cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def text_for_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1")


def one_of_two(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    files = {"lm_head.weight": "model-00001-of-00002.safetensors", "norm": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))


def outside(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"norm": "../model.safetensors"}}))


def no_json(folder: Path) -> None:
    (folder / "config.json").write_text("{'model_type'")


FAULTY: Mapping[str, Callable[[Path], None]] = {
    r"model\.safetensors cannot be read: it is cut off, or no safetensors \(.*not fully covered": cut,
    r"model\.safetensors cannot be read: it is cut off, or no safetensors": text_for_weights,
    r"model-00002-of-00002\.safetensors cannot be read: there is no such file": one_of_two,
    r"index\.json must hold weight_map, an object of file names of its folder": outside,
    r"config\.json cannot be read: Expecting property name": no_json,
}


@pytest.mark.parametrize("text", FAULTY)
def test_faulty_files_are_said_before_torch_loads(tmp_path: Path, text: str) -> None:
    folder = folder_of(tmp_path / "model", CONFIG)
    FAULTY[text](folder)
    assert re.search(text, refused_without_torch("--model", str(folder)))


def refused_without_torch(*words: str) -> str:
    """Return the line with which a command ends in a process of its own, with status 2, and without torch."""
    program = (
        "import atexit, os, sys; from posenc_export.__main__ import main; "
        "atexit.register(lambda: 'torch' in sys.modules and os._exit(99)); main()"
    )
    command = [sys.executable, "-c", program, "export", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    return line


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    path = folder_of(tmp_path / "model", CONFIG) / "model.safetensors"
    assert "is a file: expected a folder that save_pretrained wrote" in refused_without_torch("--model", str(path))


def test_an_output_that_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "model", CONFIG)
    (tmp_path / "file").touch()
    assert "file" in refused_without_torch("--model", str(folder), "-o", str(tmp_path / "file" / "whole"))


REASONS = {
    "T5": "has an encoder and a decoder, which are two graphs",
    "BART": "has an encoder and a decoder, which are two graphs",
    "Whisper": "has an encoder and a decoder, which are two graphs",
    "Mamba": "MambaForCausalLM caches no keys and values: --model takes models whose layers all do",
    "CLIP": "CLIPModel is several models in one (text_config, vision_config)",
    "wav2vec2": "Wav2Vec2Model takes input_values, not input_ids: it is no model for feature-extraction",
    "Qwen2-VL": "is several models in one (text_config, vision_config)",
    "Llama with code of its own": "'own_llama' is code beside the weights (auto_map), which is never run",
    "Llama without weights": "has no weights: expected model.safetensors or",
}


@pytest.mark.parametrize("title", one_of_each(REFUSED, lambda title: REASONS[title].partition(" ")[2]))
def test_models_that_are_none_of_one_graph_are_refused(once: Once, cli: Cli, title: str) -> None:
    folder = once(f"refused-{title.replace(' ', '-')}", REFUSED[title].save)
    result = cli("export", "--model", str(folder), "-o", "whole")
    assert result.exit_code == 2
    (line,) = [line for line in result.output.splitlines() if line.strip()]
    assert REASONS[title] in line
    assert not Path("whole").exists()


def test_longrope_says_where_a_text_is_given_again(once: Once) -> None:
    assert any(
        "beyond 64 tokens by other frequencies" in note for note in ModelFolder.load(saved(once, "phi3")).build().notes
    )


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
    assert session.get_inputs()[3].shape == ["batch_size", 2, "past", 8]

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
    inputs = parse_ports(("input_ids: int64[batch_size, seq] < 32",))
    found = differences(told(one.tokens[0], apart), inputs, one)
    assert tuple(map(len, found)) == (wrong, near)
    assert all(text.startswith("token 2 is 8, expected 7 (logits ") for texts in found for text in texts)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", CERTIFIED)
def test_a_model_is_certified(once: Once, cli: Cli, kind: str) -> None:
    """One command: every check passes, and a bundle that is validated elsewhere says the same."""
    result = cli("export", "--model", str(saved(once, kind)), "--runtime", "ort-cpu", "--json", "-o", "whole")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    names = {(verdict["subject"], verdict["check"]) for verdict in report["verdicts"] if verdict["status"] == "pass"}
    assert ("ort-cpu", "agrees") in names
    assert (("ort-cpu", "generation") in names) is (MODELS[kind].auto == CAUSAL)
    assert cli("validate", "whole", "--runtime", "ort-cpu").exit_code == 0
