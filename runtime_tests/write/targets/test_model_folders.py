"""Whole models: a folder that save_pretrained wrote becomes one graph with the names that runtimes know."""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import transformers

import posenc_export
from helpers.model_folders import CONFIG, MODELS, REFUSED, WRITING, folder_of, refused_without_torch, saved
from helpers.shared import Cli, Once, one_of_each
from helpers.whole_models import Run, writer_of
from posenc.ports import Array
from posenc.spec import DType, Spec
from posenc_export.bundle.case import Case
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.manifest import Generation
from posenc_export.bundle.place import first_foreign
from posenc_export.common.errors import BadInput
from posenc_export.proof.callees import Callee, numbers_from
from posenc_export.proof.exporter.generating import _callee
from posenc_export.proof.exporter.options import ExportOptions
from posenc_export.proof.exporter.request import dims_of
from posenc_export.proof.exporter.settings import split
from posenc_export.proof.generation import TokenWriter, differences, prompt_batch, recorded, steps
from posenc_export.proof.judging.verdict import ValidateOptions, failed
from posenc_export.proof.running.run import validate_bundle
from posenc_export.write.inputs.ports import parse_ports
from posenc_export.write.targets import room_for_models
from posenc_export.write.targets.feeds import feeds_for
from posenc_export.write.targets.sizes import trace_sizes
from posenc_export.write.targets.whole import whole_target
from posenc_models import ModelFolder

CERTIFIED = ("llama", "gemma3", "bloom", "vit", "deepseek_v3")
"""Models that tests export, one of each kind; a script exports them all, for docs/reference/measured/models.md."""


# ---- what a folder is ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "task", "text"),
    [
        (None, None, "has no config.json: expected a folder that save_pretrained wrote"),
        ({"hidden_size": 3}, None, "has no model_type: expected that of a model of transformers"),
        (CONFIG, "translation", "unknown task 'translation': expected one of text-generation, image-text-to-text, "),
        ({"model_type": "llama"}, None, "has no architectures: give --task, one of text-generation"),
        (
            {**CONFIG, "architectures": ["LlamaForRewards"]},
            None,
            "no task is known for LlamaForRewards: give --task, one",
        ),
        (
            {**CONFIG, "is_encoder_decoder": True},
            None,
            "LlamaForCausalLM is not exported: of models with an encoder, a decoder and vocab_size in conf",
        ),
        (
            {"model_type": "bart", "architectures": ["BartForCausalLM"], "is_encoder_decoder": True},
            None,
            "BartForCausalLM is not exported: its config.json is of an encoder and a decoder, and ",
        ),
        (
            {"model_type": "speech-encoder-decoder", "architectures": ["SpeechEncoderDecoderModel"]},
            None,
            "SpeechEncoderDecoderModel is not exported: its encoder and its decoder are models of two types",
        ),
        ({**CONFIG, "is_encoder_decoder": True}, "feature-extraction", "has an encoder and a decoder: it is no model"),
        (CONFIG, "text2text-generation", "has no encoder with a decoder behind it: it is no model for text2text-gen"),
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
    with pytest.raises(ValueError, match=r"has no weights for bert\.pooler.* more: is its config.json that of"):
        folder.build()


def test_a_pooler_that_no_output_needs_may_be_missing(once: Once, tmp_path: Path) -> None:
    """Sentence encoders are saved without it; transformers draws one at random, and says so in a warning."""
    config = transformers.BertConfig.from_pretrained(saved(once, "bert"))
    transformers.BertModel(config, add_pooling_layer=False).save_pretrained(tmp_path)
    module: Any = ModelFolder.load(tmp_path).build().module
    assert module.model.pooler is None


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
        (
            {"num_hidden_layers": 1},
            None,
            r"nothing in LlamaForCausalLM reads model.layers.1.input_layernorm.weight and 8 more; --allow-",
        ),
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
        ({}, "fill-mask", r"transformers has no model for fill-mask \(AutoModelForMaskedLM\) of model type 'llama'"),
        ({}, "image-classification", "transformers has no model for image-classification"),
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


@pytest.mark.parametrize(
    ("kind", "sections", "notes"),
    [
        (
            "qwen2_vl",
            "3, ",
            (
                "rotary angles are exact: model.language_model.rotary_emb was Qwen2VLRotaryEmbedding (default, mrope)",
                "the graph reads text alone, whose tokens have three positions each: images and sounds are left out; "
                "--task image-text-to-text takes them",
            ),
        ),
        (
            "llava",
            "",
            (
                "rotary angles are exact: model.language_model.rotary_emb was LlamaRotaryEmbedding (default)",
                "the graph reads text alone: images and sounds are left out; --task image-text-to-text takes them",
            ),
        ),
    ],
)
def test_of_a_model_of_texts_and_images_the_text_is_left(
    once: Once, kind: str, sections: str, notes: tuple[str, ...]
) -> None:
    """Qwen2-VL turns heads by three positions of each token; what reads images is no part of the graph."""
    folder = ModelFolder.load(saved(once, kind))
    whole = folder.build()
    assert folder.task.name == "text-generation"
    assert whole.inputs[2] == f"position_ids: int64[{sections}batch_size, seq] positions < 256"
    assert whole.notes == notes
    assert not [name for name, _ in whole.module.named_parameters() if "visual" in name or "vision" in name]


def test_positions_of_a_text_go_in_as_many_rows_as_a_decoder_takes() -> None:
    seen: list[Array] = []

    def call(feeds: Mapping[str, Array]) -> dict[str, Array]:
        seen.append(feeds["position_ids"])
        return {"logits": np.zeros((*feeds["input_ids"].shape, 32), np.float32)}

    texts = "input_ids: int64[batch, seq] < 32", "position_ids: int64[3, batch, seq] positions"
    differences(TokenWriter(Callee(call, parse_ports(texts))), Generation(((3, 4, 5), (6,)), ((0, 0), (0, 0))))
    assert [array.tolist() for array in seen] == [[[[0, 1, 2], [0, 0, 0]]] * 3, [[[3], [1]]] * 3]


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
    r"model\.safetensors cannot be read: it is cut off, or no safetensors \(lm_head.weight does not fit": cut,
    r"model\.safetensors cannot be read: it is cut off, or no safetensors": text_for_weights,
    r"model-00002-of-00002\.safetensors cannot be read: No such file": one_of_two,
    r"index\.json must hold weight_map, an object of file names of its folder": outside,
    r"config\.json cannot be read: Expecting property name": no_json,
}


@pytest.mark.parametrize("text", FAULTY)
def test_faulty_files_are_said_before_torch_loads(tmp_path: Path, text: str) -> None:
    folder = folder_of(tmp_path / "model", CONFIG)
    FAULTY[text](folder)
    assert re.search(text, refused_without_torch("--model", str(folder)))


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    path = folder_of(tmp_path / "model", CONFIG) / "model.safetensors"
    assert "is a file: expected a folder that save_pretrained wrote" in refused_without_torch("--model", str(path))


@pytest.mark.parametrize("other", [("--model",), ("--from-hf",), ("--against", "rope")])
def test_a_file_that_is_not_there_is_said_before_torch_loads(tmp_path: Path, other: tuple[str, ...]) -> None:
    folder = folder_of(tmp_path / "model", CONFIG)
    words = [*other, *([str(folder)] if len(other) == 1 else [])]
    line = refused_without_torch(str(tmp_path / "none.onnx"), *words, command="prove")
    assert line.endswith("none.onnx does not exist: give an ONNX file")
    line = refused_without_torch(str(folder), *words, command="prove")
    assert "model is a folder: give the ONNX file in it" in line


def test_an_output_that_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "model", CONFIG)
    (tmp_path / "file").touch()
    assert "file" in refused_without_torch("--model", str(folder), "-o", str(tmp_path / "file" / "whole"))


def large(place: Path, count: int) -> Path:
    """A folder whose ten weights say that they have so many numbers in half precision; it holds none of them."""
    folder = folder_of(place, CONFIG, weights=False)
    part = count // 10
    ends = [(2 * part * number, 2 * part * (number + 1)) for number in range(10)]
    parts = {f"w{number}": {"dtype": "F16", "shape": [part], "data_offsets": end} for number, end in enumerate(ends)}
    head = json.dumps(parts).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        file.truncate(8 + len(head) + 2 * count)  # zeros that take no room
    return folder


def test_a_model_that_memory_does_not_hold_is_said_before_torch_loads(tmp_path: Path) -> None:
    line = refused_without_torch("--model", str(large(tmp_path / "model", 10**11)))
    assert re.search(r"model: 400\.0 GB of weights; needs 50[12] GB of memory, and [\d.]+ GB are free$", line), line


def test_a_disk_that_is_too_small_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ModelFolder.load(large(tmp_path / "model", 10**9), dtype="fp16")
    monkeypatch.setattr(room_for_models, "free_memory", lambda: 10**12)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: shutil._ntuple_diskusage(10**10, 0, 10**9))
    with pytest.raises(BadInput, match=r"model: 2\.0 GB of weights, and 1\.0 GB are free in"):
        room_for_models.check_disk(folder, tmp_path / "whole")


@pytest.mark.parametrize(
    ("count", "dtype", "is_copied", "free", "lines", "by_weight"),
    [
        (10**9, "fp32", True, 20, ["4.0 GB of weights; needs 6 GB of memory"], True),
        (10**9, "bf16", True, 20, ["2.0 GB of weights; needs 8 GB of memory"], True),
        (10**9, "fp16", False, 20, ["2.0 GB of weights; needs 4 GB of memory"], False),
        (2 * 10**9, "fp32", True, 20, ["8.0 GB of weights; needs 12 GB of memory"], True),
        (2 * 10**8, "fp32", True, 20, [], False),
        (2 * 10**8, "fp32", True, 3, [], True),
    ],
)
def test_what_a_large_model_takes_is_said_first(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    count: int,
    dtype: DType,
    is_copied: bool,
    free: int,
    lines: list[str],
    by_weight: bool,
) -> None:
    monkeypatch.setattr(room_for_models, "free_memory", lambda: free * 10**9)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: shutil._ntuple_diskusage(10**12, 0, 10**12))
    said: list[str] = []
    folder = ModelFolder.load(large(tmp_path / "model", count), dtype=dtype)
    fitted = room_for_models.fit_memory(folder, said.append, is_copied=is_copied)
    assert said == lines
    assert fitted.by_weight is by_weight
    assert all(other.by_weight == fitted.by_weight for other in fitted.others)


@pytest.mark.parametrize(
    "kind", one_of_each(("vit", "llama", "mixtral", "gemma3_text", "swin", "wav2vec2", "whisper", "t5"), lambda _: "")
)
def test_weights_that_are_widened_one_by_one_give_the_numbers_of_a_copy(once: Once, kind: str) -> None:
    """Code of convolutions and recurrent layers compares dtypes before it comes to an operator."""
    folder = ModelFolder.load(saved(once, kind))
    for graph in (folder, *folder.others):
        one, other = (whole_target(replace(graph, by_weight=by), Spec(max_len=24), 0).encoding for by in (False, True))
        sizes = trace_sizes(one.inputs, dims_of(one.module), 24)
        feeds = feeds_for(one.inputs, Case("a", sizes), 0)
        expected, actual = one.reference(feeds, None), other.reference(feeds, None)
        assert {name: array.tobytes() for name, array in actual.items()} == {
            name: array.tobytes() for name, array in expected.items()
        }


def test_experts_of_a_layer_count_as_one_weight(once: Once) -> None:
    """A file has each expert alone, or all in one: the module has them in one."""
    folder = ModelFolder.load(saved(once, "mixtral"))
    experts = [weight.numel() for name, weight in folder.build().module.named_parameters() if ".experts." in name]
    assert max(experts) <= folder.contents.largest_experts < 2 * max(experts)
    assert ModelFolder.load(saved(once, "llama")).contents.largest_experts == 0


def test_a_whole_model_is_onnx_unless_somebody_says_otherwise(tmp_path: Path) -> None:
    """In Python as on the command line: --quantize was refused for TorchScript that nobody had asked for."""
    folder = ModelFolder.load(large(tmp_path / "model", 10**6))
    assert split({}, None, ExportOptions(), folder).options.formats == ("onnx",)
    assert split({"formats": ["pt2"]}, None, ExportOptions(), folder).options.formats == ("pt2",)
    assert split({}, None, ExportOptions(("torchscript",)), folder).options.formats == ("torchscript",)


def test_a_budget_that_leaves_no_call_is_refused(once: Once, cli: Cli) -> None:
    for proof in ("one", "quick", "full"):
        words = ("--model", str(saved(once, "llama")), "--budget", "1", "--proof", proof, "--runtime", "ort-cpu")
        result = cli("export", *words)
        assert (result.exit_code, "--budget 1 leaves no call that could be tried" in result.output) == (2, True), result


REASONS = {
    "RecurrentGemma": "caches no keys and values: --model takes models whose layers have a cache of transformers",
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


def test_layers_that_share_keys_and_values_have_none_of_their_own(once: Once) -> None:
    """Gemma 4 has four layers here, the last two of which use what the first two cache."""
    inputs = ModelFolder.load(saved(once, "gemma4_text")).build().inputs
    assert len([text for text in inputs if text.startswith("past_key_values.")]) == 4


def test_a_cache_of_more_than_keys_and_values_is_refused(once: Once, monkeypatch: pytest.MonkeyPatch) -> None:
    """DeepSeek-V3.2 caches the keys of an index, too: a graph without them would choose by the new tokens alone."""
    real = transformers.cache_utils.DynamicLayer.update

    def update(self: Any, keys: torch.Tensor, values: torch.Tensor, *rest: Any, **more: Any) -> Any:
        self.indexer_keys = keys[..., :1]
        return real(self, keys, values, *rest, **more)

    monkeypatch.setattr(transformers.cache_utils.DynamicLayer, "update", update)
    with pytest.raises(ValueError, match="layer 0 caches indexer_keys beside keys and values: --model takes models"):
        ModelFolder.load(saved(once, "llama")).build()


# ---- an encoder and a decoder ----------------------------------------------------------------------------------------


def states_of(model: Any) -> torch.Tensor:
    """States of two texts, of nine tokens each."""
    torch.manual_seed(0)
    return torch.randn(2, 9, model.config.hidden_size)


@pytest.mark.parametrize("kind", ["t5", "bart", "whisper"])
def test_one_decoder_serves_the_first_call_and_each_after_it(once: Once, kind: str) -> None:
    """Keys and values of states may lie in the cache all, in part, or not at all: logits are those of transformers."""
    folder = saved(once, kind)
    whole = ModelFolder.load(folder).build()
    model = whole.module.model
    assert isinstance(model, torch.nn.Module)
    states, ids = states_of(model), torch.tensor([[1, 5, 9, 4], [1, 7, 7, 3]])
    mask = torch.ones(2, 9, dtype=torch.int64)
    given: tuple[torch.Tensor, ...] = (states,)
    if kind != "whisper":  # its sounds have one length
        mask[1, 6:] = 0
        given = (mask, states)
    empty = [torch.zeros(2, 2, 0, 8) for name in whole.inputs if name.startswith("past")]
    with torch.no_grad():
        expected = model(encoder_outputs=(states,), attention_mask=mask, decoder_input_ids=ids).logits
        logits, *cache = whole.module(ids[:, :3], *given, *empty)
        part = [tensor[:, :, :4] if index % 4 > 1 else tensor for index, tensor in enumerate(cache)]
        steps = [whole.module(ids[:, 3:], *given, *past)[0] for past in (cache, part)]
    torch.testing.assert_close(logits, expected[:, :3], atol=1e-5, rtol=1e-5)
    for step in steps:
        torch.testing.assert_close(step, expected[:, 3:], atol=1e-5, rtol=1e-5)


def test_names_are_those_that_loaders_look_for(once: Once) -> None:
    """transformers.js and optimum look for two files, and give optimum's inputs to them in this order."""
    folder = ModelFolder.load(saved(once, "t5"))
    (encoder,) = folder.others
    assert (folder.file, encoder.file) == ("decoder_model_merged", "encoder_model")
    decoder, reader = (one.build() for one in (folder, encoder))
    names = [text.partition(":")[0] for text in decoder.inputs]
    pairs = [f"{stack}.{part}" for stack in ("decoder", "encoder") for part in ("key", "value")]
    assert names[:3] == ["input_ids", "encoder_attention_mask", "encoder_hidden_states"]
    assert names[3:] == [f"past_key_values.{layer}.{pair}" for layer in range(2) for pair in pairs]
    assert decoder.outputs == ("logits", *(f"present.{layer}.{pair}" for layer in range(2) for pair in pairs))
    assert [text.partition(":")[0] for text in reader.inputs] == ["input_ids", "attention_mask"]
    assert reader.outputs == ("last_hidden_state",)
    assert decoder.begins == (1,)  # what begins a text, as `generate` takes it where nothing else is said
    assert folder.graph("encoder_model") == encoder
    assert folder.graph("model") == folder


def test_an_encoder_reads_prompts_and_a_decoder_begins_with_its_own_tokens() -> None:
    """Prompts are padded on the right in the encoder; the decoder gets its states, and the mask, in each step."""
    seen: list[Mapping[str, Array]] = []

    def encode(feeds: Mapping[str, Array]) -> dict[str, Array]:
        return {"last_hidden_state": (feeds["input_ids"] * feeds["attention_mask"])[..., None].astype(np.float32)}

    def decode(feeds: Mapping[str, Array]) -> dict[str, Array]:
        seen.append(feeds)
        logits = np.zeros((2, feeds["input_ids"].shape[1], 32), np.float32)
        logits[[0, 1], -1, np.int64(feeds["encoder_hidden_states"].sum((1, 2)) + len(seen))] = 1.0
        return {"logits": logits}

    texts = "input_ids: int64[batch, seq] < 32", "attention_mask: int64[batch, seq] mask"
    encoder = Callee(encode, parse_ports(texts))
    inputs = ("input_ids: int64[batch, seq] < 32", "encoder_attention_mask: int64[batch, n] mask")
    decoder = Callee(decode, parse_ports((*inputs, "encoder_hidden_states: float32[batch, n, 1]")))
    generation = Generation(((3, 4, 5), (6,)), ((13, 14, 15), (7, 8, 9)), (1, 2))
    assert differences(TokenWriter(decoder, encoder), generation) == ([], [])
    assert [feeds["input_ids"].tolist() for feeds in seen] == [[[1, 2], [1, 2]], [[13], [7]], [[14], [8]]]
    assert all(feeds["encoder_attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]] for feeds in seen)


@pytest.mark.parametrize("kind", ["llama", "t5"])
def test_prompts_alone_are_recorded_by_one_call_each(once: Once, kind: str) -> None:
    """They are continued as in the batch, and as a step at a time continues them."""
    target = whole_target(ModelFolder.load(saved(once, kind)), Spec(max_len=24), 0)
    callees = [_callee(one) for one in (target.encoding, *(make().encoding for make in target.others))]
    sizes: list[int] = []

    def call(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        sizes.append(feeds["input_ids"].size)
        return callees[0].call(feeds)

    writer = TokenWriter(replace(callees[0], call=call), next(iter(callees[1:]), None))
    begins = target.begins
    first, second, both = recorded(writer, prompt_batch([(3, 4, 5), (6,)], begins), 5)
    read = [len(begins) or length for length in (3, 1)]
    assert sizes == [2 * read[0], 2, 2, 2, 2, *(length + 4 for length in read)]
    assert both.tokens == (*first.tokens, *second.tokens)
    for one in (first, second):
        rows: list[list[int]] = [[]]
        for logits in steps(writer, one, rows, 5):
            rows[0].append(int(logits.argmax()))
        assert (tuple(rows[0]),) == one.tokens


def test_a_module_whose_padding_changes_tokens_is_recorded_step_by_step() -> None:
    def call(feeds: Mapping[str, Array]) -> dict[str, Array]:
        ids, mask = feeds["input_ids"], feeds["attention_mask"]
        logits = np.zeros((*ids.shape, 32), np.float32)
        logits[np.arange(len(ids)), :, 7 + (mask == 0).any(1)] = 1.0
        return {"logits": logits}

    texts = "input_ids: int64[batch, seq] < 32", "attention_mask: int64[batch, past+seq] mask"
    first, second, both = recorded(TokenWriter(Callee(call, parse_ports(texts))), prompt_batch([(3, 4, 5), (6,)]), 2)
    assert (first.tokens, second.tokens, both.tokens) == (((7, 7),), ((7, 7),), ((7, 7), (8, 8)))


def test_sounds_follow_from_a_number_alone() -> None:
    """A manifest keeps a number in the place of features: they must be the same on every machine."""
    (port,) = parse_ports(("input_features: float32[batch, 2, 3]",))
    one, other = numbers_from(port, np.array([1, 2]))
    assert one.dtype == np.float32
    places = [[(place * 3 * 40503) % 65536 / 32768 - 1 for place in row] for row in ((1, 2, 3), (4, 5, 6))]
    assert one.tolist() == places
    assert not np.array_equal(one, other)


# ---- half precision --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "name"), [("fp16", "float16"), ("bf16", "bfloat16")])
def test_numbers_of_a_model_in_half_are_half(once: Once, dtype: DType, name: str) -> None:
    """Positions stay integers, and angles float32: rows at 200 are off by no more than their last digit."""
    whole = ModelFolder.load(saved(once, "llama"), dtype=dtype).build()
    kinds = {text.partition(": ")[2].partition("[")[0] for text in whole.inputs}
    assert kinds == {"int64", name}
    model: Any = whole.module.model
    assert {str(weight.dtype) for weight in model.parameters()} == {f"torch.{name}"}
    assert {str(buffer.dtype) for buffer in model.buffers() if buffer.is_floating_point()} == {"torch.float32"}
    places = torch.arange(200, 203)[None]
    cos, _ = model.model.rotary_emb(torch.zeros(1, 3, 16, dtype=model.dtype), places)
    angles = places[0, :, None].double() * 10000.0 ** (-torch.arange(0, 8, 2).double() / 8)
    torch.testing.assert_close(cos[0, :, :4], angles.cos().to(cos.dtype), atol=0, rtol=torch.finfo(cos.dtype).eps)


def test_a_dtype_that_no_model_has_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "model", CONFIG)
    line = refused_without_torch("--model", str(folder), "--dtype", "fp64")
    assert line == "Error: a whole model has no dtype fp64: expected one of fp32, fp16, bf16"


@pytest.mark.parametrize(("dtype", "wrong", "near"), [("float32", 1, 0), ("float16", 0, 1)])
def test_a_tie_is_one_of_the_dtype(dtype: str, wrong: int, near: int) -> None:
    """Two logits that half precision does not tell apart are as good as equal in half, and not in float32."""
    one = Generation(((3, 4),), ((5, 9, 7),))
    run = told(one.tokens[0], 1e-2)
    inputs = parse_ports(("input_ids: int64[batch, seq] < 32",))
    call = Callee(lambda feeds: {name: array.astype(dtype) for name, array in run(feeds).items()}, inputs)
    assert tuple(map(len, differences(TokenWriter(call), one))) == (wrong, near)


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
            posenc_export.export(
                source, to=folder / "bundle", formats=["onnx"], validate=False, proof="full", max_len=24
            )

        return once(f"written-{kind}", export) / "bundle"

    return of


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
    (note,) = [note for note in manifest.notes if "answers out of range" in note]
    assert "-i" not in note, "a whole model has its own inputs"
    assert [len(one.prompts) for one in manifest.generations] == [1, 1, 2]
    assert len({token for one in manifest.generations for row in one.tokens for token in row}) > 3
    for one in manifest.generations[:2]:
        prompt = torch.tensor(one.prompts)
        count = len(one.tokens[0])
        tokens = model.generate(prompt, max_new_tokens=count, do_sample=False, attention_mask=torch.ones_like(prompt))
        assert tokens[0, prompt.shape[1] :].tolist() == list(one.tokens[0])
    assert manifest.generations[2].tokens == tuple(one.tokens[0] for one in manifest.generations[:2])
    for one in manifest.generations:
        assert differences(writer_of(bundle), one) == ([], [])


@dataclass
class Begun:
    """A progress that keeps what begins."""

    calls: list[tuple[str, str]] = field(default_factory=list)

    def __call__(self, text: str) -> None:
        """Take a text."""

    def begin(self, check: str, call: str) -> None:
        self.calls.append((check, call))


@pytest.mark.exhaustive  # an export takes half a minute
def test_each_text_has_the_time_of_a_call(written: Callable[[str], Path]) -> None:
    """On a slow runtime all texts together took longer than one check may, and a right file failed."""
    begun = Begun()
    options = ValidateOptions(runtimes=("ort-cpu",), progress=begun)
    assert not failed(validate_bundle(Bundle.open(written("llama")), options))
    assert [call for check, call in begun.calls if check == "generation"][1:] == [
        f"generation {number} of 3" for number in (1, 2, 3)
    ]


@pytest.mark.exhaustive  # two exports
def test_an_encoder_is_a_part_of_the_bundle_of_its_decoder(
    once: Once, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both graphs are proved, some of their calls are kept, and a bundle whose encoder is another is refused."""
    monkeypatch.setattr("posenc_export.proof.exporter.keeping.LARGEST", 100_000)
    folder = str(saved(once, "whisper"))
    words = ("--max-len", "24", "--runtime", "ort-cpu", "--json", "-o", "whole")
    result = cli("export", "--model", folder, *words)
    assert result.exit_code == 0, result.output
    rows = {
        (row.get("part", ""), row["subject"], row["check"]): row["status"]
        for row in json.loads(result.stdout)["verdicts"]
    }
    for part in ("", "encoder_model"):
        assert rows[part, "ort-cpu", "agrees"] == rows[part, "onnx", "integrity"] == "pass"
    assert rows["", "ort-cpu", "generation"] == "pass"

    bundle = Path("whole")
    assert posenc_export.validate(bundle, runtimes=["ort-cpu"]).passed
    for golden in (bundle / "golden.npz", bundle / "encoder_model" / "golden.npz"):
        assert golden.stat().st_size < 200_000
    files = {path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file()}
    assert {"decoder_model_merged.onnx", "encoder_model.onnx", "encoder_model/golden.npz"} <= files
    assert not {file for file in files if "/" in file and file.endswith(".onnx")}
    assert first_foreign(bundle) == ""
    manifest = Bundle.open(bundle).manifest
    assert [len(one.prompts) for one in manifest.generations] == [1, 1, 2]
    for one in manifest.generations:
        assert differences(writer_of(bundle), one) == ([], [])
    with pytest.raises(BadInput, match=r"encoder_model is a part of whole: validate that"):
        posenc_export.validate(bundle / "encoder_model")

    model = onnx.load(bundle / "encoder_model.onnx")
    for tensor in model.graph.initializer:
        if list(tensor.dims) == [24, 16]:  # a row of positions for each state
            tensor.CopyFrom(onnx.numpy_helper.from_array(-onnx.numpy_helper.to_array(tensor), tensor.name))
    onnx.save(model, bundle / "encoder_model.onnx")
    assert all(differences(writer_of(bundle), one)[0] for one in manifest.generations)
    checked = posenc_export.validate(bundle, runtimes=["ort-cpu"])
    wrong = {(row.part, row.subject) for row in checked.verdicts if row.status == "fail"}
    assert {("encoder_model", "onnx"), ("", "ort-cpu"), ("", "other files")} <= wrong
    assert not checked.passed
    assert first_foreign(bundle) == "encoder_model.onnx, which was changed after posenc-export wrote it"


@pytest.mark.exhaustive
def test_a_model_in_half_precision_keeps_exact_positions(once: Once, cli: Cli) -> None:
    """Weights, caches and logits are half; the report says how many tokens of float32 it writes."""
    words = ("--dtype", "fp16", "--max-len", "24", "--runtime", "ort-cpu", "-o", "half")
    result = cli("export", "--model", str(saved(once, "llama")), *words)
    assert result.exit_code == 0, result.output
    session = onnxruntime.InferenceSession("half/model.onnx", providers=["CPUExecutionProvider"])
    types = {item.name: item.type for item in (*session.get_inputs(), *session.get_outputs())}
    assert {types[name] for name in types if "key" in name or name == "logits"} == {"tensor(float16)"}
    assert types["position_ids"] == "tensor(int64)"
    stored = {tensor.name: tensor.data_type for tensor in onnx.load("half/model.onnx").graph.initializer}
    assert {kind for name, kind in stored.items() if "mlp" in name} <= {onnx.TensorProto.FLOAT16}
    assert {kind for name, kind in stored.items() if "sincos" in name} == {onnx.TensorProto.FLOAT}
    found = re.search(r"of 800 tokens that the model writes in float32, it writes (\d+) in fp16", result.output)
    assert found is not None
    assert int(found[1]) > 780


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
    manifest = Bundle.open(bundle).manifest

    def wrong(run: Run) -> Run:
        def call(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
            changed = dict(feeds)
            FAULTS[fault](changed)
            return run(changed)

        return call

    found = [differences(writer_of(bundle, wrong), one)[0] for one in manifest.generations]
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
    found = differences(TokenWriter(Callee(told(one.tokens[0], apart), inputs)), one)
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
    assert (("ort-cpu", "generation") in names) is (MODELS[kind].auto in WRITING)
    assert cli("validate", "whole", "--runtime", "ort-cpu").exit_code == 0
